package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The origin is asked once for what several want at once, again when the answer is too old,
// and not at all while it holds; while it cannot be reached the last answer is shown, marked
// as one that holds briefly, for a day.
func TestDocumentsAreAskedForOnceAndShownWhileTheOriginIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked, status, away := 0, 200, error(nil)
		r := New(func(_ context.Context, target string) (int, http.Header, []byte, error) {
			mu.Lock()
			defer mu.Unlock()
			asked++
			n := asked
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			h := http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"public, max-age=60, stale-if-error=86400"}}
			return status, h, fmt.Appendf(nil, "%s %d", target, n), away
		}, func() string { return "https://ring.example" }, time.Now)
		said := func(within time.Duration) string {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			d := r.Document(ctx, "/api/hops", "days=1")
			if d.Status != 200 {
				return fmt.Sprint(d.Status)
			}
			return fmt.Sprint(string(d.Body), " ", d.MaxAge)
		}
		want := func(within time.Duration, want string) {
			t.Helper()
			if got := said(within); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		var readers sync.WaitGroup
		for range 5 {
			readers.Go(func() { want(time.Minute, "/api/hops?days=1 1 60") })
		}
		readers.Wait()
		time.Sleep(50 * time.Second)
		want(0, "/api/hops?days=1 1 10")
		time.Sleep(20 * time.Second)
		want(time.Millisecond, "/api/hops?days=1 1 5") // the last one, since nobody waits for the next
		time.Sleep(2 * time.Second)
		want(time.Millisecond, "/api/hops?days=1 2 59")
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
		away = errors.New("away")
		time.Sleep(time.Hour)
		want(time.Minute, "/api/hops?days=1 2 5")
		away, status = nil, 503
		time.Sleep(22 * time.Hour)
		want(time.Minute, "/api/hops?days=1 2 5")
		time.Sleep(2 * time.Hour)
		want(time.Minute, "503")
		status = 404
		want(time.Minute, "404")
		before := asked
		want(time.Minute, "404")
		if asked != before {
			t.Error("a refusal is not cached")
		}
		if d := r.Document(t.Context(), "/other", ""); d.Status != 404 || d.MaxAge != 0 {
			t.Errorf("%+v", d)
		}
	})
}
