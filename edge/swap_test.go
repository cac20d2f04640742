package edge

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"webring/core/api"
)

// A core that is read after it was given up fails the test.
func TestACoreIsReplacedWhenNobodyReadsItAnyMore(t *testing.T) {
	type counted struct {
		*fakeCore
		closed *atomic.Bool
	}
	newCore := func(n int) counted {
		c := counted{closed: new(atomic.Bool)}
		c.fakeCore = &fakeCore{serve: func(_ []byte, r *api.Response) {
			body := fmt.Sprint(n)
			*r = api.Response{Status: 200, Body: append(r.Body[:0], body...)}
			if c.closed.Load() {
				t.Error("a core was read after its end")
			}
		}}
		return c
	}
	present := newCore(0)
	s := NewSwappable(present, "0")
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for r := new(api.Response); ; {
				select {
				case <-stop:
					return
				default:
				}
				s.Serve([]byte("/api"), r)
				s.Head()
				s.BaseURL()
			}
		})
	}
	for n := range 300 {
		next := newCore(n + 1)
		s.Swap(next, fmt.Sprint(n+1))
		present.closed.Store(true)
		present = next
	}
	close(stop)
	readers.Wait()
	var r api.Response
	if s.Serve(nil, &r); string(r.Body) != "300" {
		t.Errorf("the core that answers is %s", r.Body)
	}
}

func TestValidatorsNameTheBuildThatAnswered(t *testing.T) {
	core := NewSwappable(documentCore(api.Position, 0, 0, epoch, "{}"), "one")
	s := serve(t, Config{Core: core})
	before := s.Get("/api").Header.Get("ETag")
	core.Swap(documentCore(api.Position, 0, 0, epoch, `{"more":1}`), "two")
	r := s.Get("/api", "If-None-Match", before)
	if r.Status != 200 || r.Body != `{"more":1}` || r.Header.Get("ETag") == before {
		t.Errorf("after the swap: %d %s %s", r.Status, r.Header.Get("ETag"), r.Body)
	}
}

// A core may be replaced by one of the same build at the same position because its state
// had gone bad: nothing of that is kept.
func TestAnswersOfAReplacedCoreAreDropped(t *testing.T) {
	core := NewSwappable(documentCore(api.Position, 0, 0, epoch, `{"state":"bad"}`), "one")
	s := serve(t, Config{Core: core})
	for range 3 {
		s.Get("/api")
	}
	core.Swap(documentCore(api.Position, 0, 0, epoch, `{"state":"good"}`), "one")
	if r := s.Get("/api"); r.Body != `{"state":"good"}` {
		t.Errorf("after the swap: %s", r.Body)
	}
}
