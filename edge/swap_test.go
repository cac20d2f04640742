package edge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/edge/describe"
	"webring/edge/edgetest"
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

// Nodes of one position that have looked at different seconds give what is the same the same
// entity tag, and what is not another: so a client that a balancer sends to another of them
// has its 304. Here the standing of the last member falls every five seconds.
func TestAValidatorIsThatOfWhatIsShown(t *testing.T) {
	looked := []int64{epoch + 503, epoch + 504, epoch + 506, epoch + 509}
	var sites []*site
	for _, second := range looked {
		n := openedRing(t)
		for i, slug := range []string{"first", "plain", "fading"} {
			join(t, n, 1000+int64(i), slug, core.Joined{Slug: slug, Bid: []int64{0, 0, 100}[i]})
		}
		edgetest.Apply(t, n, &core.Bid{Stamp: (epoch + 500) * 1000, Member: "first", Amount: 5000}, nil)
		n.Tick(time.Unix(second, 0))
		sites = append(sites, serve(t, Config{Core: n, CoreDigest: "one build", Contact: "mailto:x@ring.example", Now: func() time.Time { return time.Unix(second, 0) }}))
	}
	var targets []string
	for _, path := range api.Paths() {
		if !strings.HasSuffix(path, "random") {
			targets = append(targets, strings.Replace(path, "{slug}", "fading", 1))
		}
	}
	for _, d := range describe.Documents() {
		targets = append(targets, d.Path)
	}
	targets = append(targets, "/", "/leaderboard", "/ring", "/members/first", "/members/fading", "/join", "/embed", "/docs", "/verify", "/categories/general", "/problems/not_found", "/widget.js")

	same := []string{"/api/ring/first", "/api/leaderboard?limit=1", "/api/widget?from=fading", "/api/ring?limit=2"}
	differed := 0
	for _, target := range append(targets, same...) {
		for _, fields := range [][]string{nil, {"Accept", "text/markdown"}, {"Accept-Encoding", "zstd"}} {
			bodies, tags := map[string]string{}, map[string]string{}
			for range 3 { // as it is made, and as it is cached
				for i, s := range sites {
					r := s.Get(target, fields...)
					tag := r.Header.Get("ETag")
					if seen, is := bodies[r.Body]; is && seen != tag || tag != "" && tags[tag] != "" && tags[tag] != r.Body {
						t.Errorf("%s with %s at %d: the tag %s, and elsewhere %s", target, fields, looked[i], tag, seen)
					}
					if bodies[r.Body], tags[tag] = tag, r.Body; tag == "" {
						continue
					}
					if again := s.Get(target, append(fields, "If-None-Match", tag)...); again.Status != http.StatusNotModified {
						t.Errorf("%s with %s: %d for its tag", target, fields, again.Status)
					}
				}
			}
			if differed += len(bodies) - 1; len(bodies) > 1 && slices.Contains(same, target) {
				t.Errorf("%s with %s: the nodes show something else", target, fields)
			}
		}
	}
	if differed == 0 {
		t.Error("nothing has changed from second to second")
	}
}
