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
	current atomic.Pointer[generation]
	keeps   int // how many bytes of answers each core's cache takes
}

// generation is a core while it is read.
type generation struct {
	core  Core
	build string // first part of validators
	// cache has the answers of this core alone: one of the same build at the same
	// position may take its place because its state had gone bad.
	cache *cache.Cache
	// state counts the readers; over is added to it when the generation ends. One
	// word, because a reader that leaves must know both at the same instant.
	state   atomic.Int64
	left    chan struct{} // closed when it is over and nobody reads any more
	closing sync.Once     // late comers make the count reach zero again
}

const over = 1 << 62

// NewSwappable begins with a core; digest names its build as
// [Config.CoreDigest] says.
func NewSwappable(c Core, digest string) *Swappable {
	s := &Swappable{keeps: cacheBytes}
	s.current.Store(s.newGeneration(c, digest))
	return s
}

// keepNothing has no answers kept. It is called before the first request.
func (s *Swappable) keepNothing() {
	s.keeps = 0
	s.current.Load().cache = cache.New(0)
}

func (s *Swappable) newGeneration(c Core, digest string) *generation {
	return &generation{core: c, build: buildTag(digest), cache: cache.New(s.keeps), left: make(chan struct{})}
}

// Cache, Build, Head and BaseURL are for [pages.Core], as Ask and AskAll are.
func (g *generation) Cache() *cache.Cache              { return g.cache }
func (g *generation) Build() string                    { return g.build }
func (g *generation) Head() (seq uint64, second int64) { return g.core.Head() }
func (g *generation) BaseURL() string                  { return g.core.BaseURL() }

// Swap puts another core in place and returns when nobody reads the one before
// any more. A request reads one core from its beginning to its end.
func (s *Swappable) Swap(c Core, digest string) {
	before := s.current.Swap(s.newGeneration(c, digest))
	before.count(over)
	<-before.left
}

// enter gives the present core, which stays usable until leave is called.
func (s *Swappable) enter() *generation {
	for {
		g := s.current.Load()
		if g.count(1) < over {
			return g
		}
		// It ended in between: whoever ends it may be waiting for this one.
		g.leave()
	}
}

// Ask has the core answer a GET for target. Whatever the shell asks of a core goes
// through here and AskAll.
func (g *generation) Ask(target []byte, r *api.Response) { g.core.Serve(uri.ASCIIHosts(target), r) }

// AskAll has the core answer several targets at one head.
func (g *generation) AskAll(targets [][]byte, all []api.Response) {
	for i, target := range targets {
		targets[i] = uri.ASCIIHosts(target)
	}
	g.core.ServeAll(targets, all)
}

func (g *generation) leave() { g.count(-1) }

// count adds to the state, and ends the generation when it is over and nobody reads.
func (g *generation) count(n int64) int64 {
	state := g.state.Add(n)
	if state == over {
		g.closing.Do(func() { close(g.left) })
	}
	return state
}

// Serve answers from the present core.
func (s *Swappable) Serve(target []byte, r *api.Response) {
	g := s.enter()
	defer g.leave()
	g.Ask(target, r)
}

// ServeAll answers from the present core.
func (s *Swappable) ServeAll(targets [][]byte, all []api.Response) {
	g := s.enter()
	defer g.leave()
	g.AskAll(targets, all)
}

// Head is the present core's.
func (s *Swappable) Head() (seq uint64, second int64) {
	g := s.enter()
	defer g.leave()
	return g.core.Head()
}

// BaseURL is the present core's.
func (s *Swappable) BaseURL() string {
	g := s.enter()
	defer g.leave()
	return g.core.BaseURL()
}
