package edge

import (
	"runtime"
	"sync"
	"sync/atomic"

	"webring/core/api"
	"webring/edge/cache"
	"webring/edge/front"
)

// Swappable is a core that can be replaced by another while it is read. The
// zero value is not usable. Its functions may be called concurrently.
type Swappable struct {
	current atomic.Pointer[generation]
	metrics *metrics
	lists   chan *api.Response
}

// generation is a core while it is read.
type generation struct {
	core    Core
	metrics *metrics
	build   string // first part of validators
	// cache has the answers of this core alone. The next core may have the same build and
	// position, and replace this one because its memory went bad.
	cache *cache.Cache
	lists chan *api.Response // turns to make a list, with room for it
	// state counts the requests that read the core. When the generation ends, over is
	// added. Both are in one word, so that a request that leaves sees both at once.
	state   atomic.Int64
	drained chan struct{} // closed when the generation is over and no request reads
	closing sync.Once     // a late enter can make the count reach zero again
}

const over = 1 << 62

// NewSwappable begins with a core; digest names its build as
// [Config.CoreDigest] says.
func NewSwappable(c Core, digest string) *Swappable {
	s := &Swappable{lists: newTurns(runtime.GOMAXPROCS(0))}
	s.current.Store(s.newGeneration(c, digest))
	return s
}

// countIn has the questions to the caches counted. It is called before the first request.
func (s *Swappable) countIn(m *metrics) {
	s.metrics = m
	s.current.Load().metrics = m
}

func (s *Swappable) newGeneration(c Core, digest string) *generation {
	return &generation{core: c, metrics: s.metrics, build: buildTag(digest), cache: cache.New(cacheBytes), lists: s.lists, drained: make(chan struct{})}
}

// Cache, Cached, Build, Head and BaseURL are for [pages.Core], as Ask and AskAll are.
func (g *generation) Cache() *cache.Cache              { return g.cache }
func (g *generation) Cached(found bool)                { g.metrics.cached(found) }
func (g *generation) Build() string                    { return g.build }
func (g *generation) Head() (seq uint64, second int64) { return g.core.Head() }
func (g *generation) BaseURL() string                  { return g.core.BaseURL() }

// Swap replaces the core and returns when no request reads the one before any more. A
// request reads one core from its beginning to its end.
func (s *Swappable) Swap(c Core, digest string) {
	before := s.current.Swap(s.newGeneration(c, digest))
	before.count(over)
	<-before.drained
}

// enter gives the present core, which stays usable until leave is called.
func (s *Swappable) enter() *generation {
	for {
		g := s.current.Load()
		if g.count(1) < over {
			return g
		}
		// It ended in between, and Swap may be waiting for this count.
		g.leave()
	}
}

// Ask has the core answer a GET for target. All reads of the shell go through here and
// AskAll.
func (g *generation) Ask(target []byte, r *api.Response) { g.core.Serve(front.ASCIIHosts(target), r) }

// AskAll has the core answer several targets at one head.
func (g *generation) AskAll(targets [][]byte, all []api.Response) {
	for i, target := range targets {
		targets[i] = front.ASCIIHosts(target)
	}
	g.core.ServeAll(targets, all)
}

func (g *generation) leave() { g.count(-1) }

// count adds to the state, and closes drained when the generation is over and no request
// reads.
func (g *generation) count(n int64) int64 {
	state := g.state.Add(n)
	if state == over {
		g.closing.Do(func() { close(g.drained) })
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
