package edge

import (
	"sync/atomic"

	"webring/core/api"
)

// Swappable is a core that can be replaced by another while it is read. The
// zero value is not usable. Its functions may be called concurrently.
type Swappable struct{ current atomic.Pointer[tenure] }

// tenure is one core's time of being read.
type tenure struct {
	core    Core
	build   string // first part of validators
	readers atomic.Int64
	over    atomic.Bool
	left    chan struct{} // closed when it is over and nobody reads any more
	closing atomic.Bool
}

// NewSwappable begins with a core; digest names its build as
// [Config.CoreDigest] says.
func NewSwappable(c Core, digest string) *Swappable {
	s := new(Swappable)
	s.current.Store(newTenure(c, digest))
	return s
}

func newTenure(c Core, digest string) *tenure {
	return &tenure{core: c, build: buildTag(digest), left: make(chan struct{})}
}

// Swap puts another core in place and returns when nobody reads the one before
// any more. A request reads one core from its beginning to its end.
func (s *Swappable) Swap(c Core, digest string) {
	before := s.current.Swap(newTenure(c, digest))
	before.readers.Add(1)
	before.over.Store(true)
	before.leave()
	<-before.left
}

// enter gives the present core, which stays usable until leave is called.
func (s *Swappable) enter() *tenure {
	for {
		t := s.current.Load()
		t.readers.Add(1)
		if !t.over.Load() {
			return t
		}
		// It ended in between: whoever ends it may be waiting for this one.
		t.leave()
	}
}

func (t *tenure) leave() {
	if t.readers.Add(-1) == 0 && t.over.Load() && t.closing.CompareAndSwap(false, true) {
		close(t.left)
	}
}

// Serve answers from the present core.
func (s *Swappable) Serve(target []byte, r *api.Response) {
	t := s.enter()
	defer t.leave()
	t.core.Serve(target, r)
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
