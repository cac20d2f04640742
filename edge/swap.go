package edge

import (
	"sync"
	"sync/atomic"

	"webring/core/api"
	"webring/edge/cache"
	"webring/edge/uri"
)

// Swappable is a core that can be replaced by another while it is read. The
// zero value is not usable. Its functions may be called concurrently.
type Swappable struct {
	current atomic.Pointer[tenure]
	cache   *cache.Cache // the answers of all its cores
}

// tenure is one core's time of being read.
type tenure struct {
	core  Core
	build string // first part of validators
	of    *Swappable
	// state counts the readers; over is added to it when the tenure ends. One
	// word, because a reader that leaves must know both at the same instant.
	state   atomic.Int64
	left    chan struct{} // closed when it is over and nobody reads any more
	closing sync.Once     // late comers make the count reach zero again
}

const over = 1 << 62

// NewSwappable begins with a core; digest names its build as
// [Config.CoreDigest] says.
func NewSwappable(c Core, digest string) *Swappable {
	s := &Swappable{cache: cache.New(cacheBytes)}
	s.current.Store(s.newTenure(c, digest))
	return s
}

func (s *Swappable) newTenure(c Core, digest string) *tenure {
	return &tenure{core: c, build: buildTag(digest), of: s, left: make(chan struct{})}
}

func (t *tenure) cache() *cache.Cache { return t.of.cache }

// Swap puts another core in place and returns when nobody reads the one before
// any more. A request reads one core from its beginning to its end.
func (s *Swappable) Swap(c Core, digest string) {
	before := s.current.Swap(s.newTenure(c, digest))
	before.count(over)
	<-before.left
}

// enter gives the present core, which stays usable until leave is called.
func (s *Swappable) enter() *tenure {
	for {
		t := s.current.Load()
		if t.count(1) < over {
			return t
		}
		// It ended in between: whoever ends it may be waiting for this one.
		t.leave()
	}
}

// ask has the core answer a GET for target. Whatever the shell asks of a core goes
// through here and askAll.
func (t *tenure) ask(target []byte, r *api.Response) { t.core.Serve(uri.ASCIIHosts(target), r) }

// askAll has the core answer several targets at one head.
func (t *tenure) askAll(targets [][]byte, all []api.Response) {
	for i, target := range targets {
		targets[i] = uri.ASCIIHosts(target)
	}
	t.core.ServeAll(targets, all)
}

func (t *tenure) leave() { t.count(-1) }

// count adds to the state, and ends the tenure when it is over and nobody reads.
func (t *tenure) count(n int64) int64 {
	state := t.state.Add(n)
	if state == over {
		t.closing.Do(func() { close(t.left) })
	}
	return state
}

// Serve answers from the present core.
func (s *Swappable) Serve(target []byte, r *api.Response) {
	t := s.enter()
	defer t.leave()
	t.ask(target, r)
}

// ServeAll answers from the present core.
func (s *Swappable) ServeAll(targets [][]byte, all []api.Response) {
	t := s.enter()
	defer t.leave()
	t.askAll(targets, all)
}

// Head is the present core's.
func (s *Swappable) Head() (seq uint64, second int64) {
	t := s.enter()
	defer t.leave()
	return t.core.Head()
}

// BaseURL is the present core's.
func (s *Swappable) BaseURL() string {
	t := s.enter()
	defer t.leave()
	return t.core.BaseURL()
}
