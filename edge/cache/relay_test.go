package cache

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// origin answers the n-th question with the target and n, after so long.
type origin struct {
	mu        sync.Mutex
	asked     int
	status    int
	away      error
	took      time.Duration
	seq       uint64 // position of its answers, 0 for answers without one
	withdrawn uint64 // what the edge knows
}

func (o *origin) ask(ctx context.Context, target string) (int, http.Header, []byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	n, took := o.asked, o.took
	o.mu.Unlock()
	var late error
	select {
	case <-time.After(took):
	case <-ctx.Done():
		late = ctx.Err()
	}
	o.mu.Lock()
	h := http.Header{"Content-Type": {"application/json"}, "Cache-Control": {"public, max-age=60, stale-if-error=86400"}}
	if o.seq > 0 {
		h.Set("Webring-Seq", strconv.FormatUint(o.seq, 10))
	}
	return o.status, h, fmt.Appendf(nil, "%s %d", target, n), errors.Join(late, o.away)
}

func (o *origin) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// reader reads one document of a relay, and says what it got and after how long.
func (o *origin) reader(t *testing.T) (want func(within time.Duration, want string, after time.Duration)) {
	r := NewRelay(o.ask, func() string { return "https://ring.example" }, func() uint64 {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.withdrawn
	}, time.Now)
	return func(within time.Duration, want string, after time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		began := time.Now()
		d := r.Document(ctx, "/api/hops", "days=1")
		got := fmt.Sprint(d.Status)
		if d.Status == 200 {
			got = fmt.Sprint(string(d.Body), " ", d.MaxAge)
		}
		if took := time.Since(began); got != want || took != after {
			t.Errorf("%s after %s, want %s after %s", got, took, want, after)
		}
	}
}

// The origin is asked once for what several want at once, again when the answer is too old,
// and not at all while it holds; while it cannot be reached the last answer is shown, marked
// as one that holds briefly, for a day.
func TestDocumentsAreAskedForOnceAndShownWhileTheOriginIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{status: 200, took: 200 * time.Millisecond}
		want := o.reader(t)
		var readers sync.WaitGroup
		for range 5 {
			readers.Go(func() { want(time.Minute, "/api/hops?days=1 1 60", o.took) })
		}
		readers.Wait()
		time.Sleep(50 * time.Second)
		want(time.Minute, "/api/hops?days=1 1 10", 0)
		time.Sleep(20 * time.Second)
		want(time.Millisecond, "/api/hops?days=1 1 5", time.Millisecond) // the last one, since nobody waits for the next
		time.Sleep(2 * time.Second)
		want(time.Minute, "/api/hops?days=1 2 59", 0)
		if o.asked != 2 {
			t.Errorf("asked %d times", o.asked)
		}
		o.set(func() { o.away = errors.New("away") })
		time.Sleep(time.Hour)
		want(time.Minute, "/api/hops?days=1 2 5", o.took)
		o.set(func() { o.away, o.status = nil, 503 })
		time.Sleep(22 * time.Hour)
		want(time.Minute, "/api/hops?days=1 2 5", o.took)
		time.Sleep(2 * time.Hour)
		want(time.Minute, "503", o.took)
		time.Sleep(2 * failingFor)
		o.set(func() { o.status = 404 })
		want(time.Minute, "404", o.took)
		want(time.Minute, "404", 0) // a refusal is cached, too
		time.Sleep(refusedAge * time.Second)
		want(time.Minute, "404", o.took)
	})
}

// While the origin is away one reader in a while asks it and waits briefly. Other readers do
// not wait, whether there is something to show or not. The first that asks once it is back
// has the answer.
func TestReadersDoNotWaitForAnOriginThatIsAway(t *testing.T) {
	for _, shown := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := &origin{status: 200, took: 50 * time.Millisecond}
			want, without := o.reader(t), "503"
			if shown {
				want(time.Minute, "/api/hops?days=1 1 60", o.took)
				time.Sleep(time.Hour)
				without = "/api/hops?days=1 1 5"
			}
			before := 0
			o.set(func() { before, o.took = o.asked, time.Hour }) // it takes the connection, and says nothing
			want(time.Minute, without, askTime)
			for range 3 {
				for range 10 {
					want(time.Minute, without, 0)
				}
				time.Sleep(askAgain)
				var readers sync.WaitGroup
				want(time.Minute, without, askAgainTime)
				for range 10 {
					readers.Go(func() { want(time.Minute, without, 0) })
				}
				readers.Wait()
				time.Sleep(askTime)
			}
			o.set(func() {
				if asked := o.asked - before; asked != 4 {
					t.Errorf("asked %d times", asked)
				}
				o.took = 50 * time.Millisecond
			})
			want(time.Minute, without, 0)
			time.Sleep(askAgain)
			want(time.Minute, fmt.Sprintf("/api/hops?days=1 %d 60", before+5), o.took)
			time.Sleep(time.Hour)
			o.set(func() { o.took = time.Second }) // slow, but it answers: that is no failure any more
			want(time.Minute, fmt.Sprintf("/api/hops?days=1 %d 60", before+6), o.took)
		})
	}
}

// Failures of many questions take a bounded room. One that is forgotten is asked again.
func TestFailuresAreBounded(t *testing.T) {
	now, away := time.Now(), errors.New("away")
	r := NewRelay(nil, nil, nil, func() time.Time { return now })
	const questions = 100_000
	for i := range questions {
		r.ended(fmt.Sprint(i), away)
	}
	remembered := 0
	for i := range questions {
		if failing, ask := r.failing(fmt.Sprint(i), now); failing {
			remembered++
		} else if !ask {
			t.Fatal("a question that has not failed is not asked")
		}
	}
	if n := failureBytes / overhead; remembered > n || remembered < n/2 {
		t.Errorf("%d failures are remembered, room is for %d", remembered, n)
	}
	r.ended(fmt.Sprint(questions-1), nil)
	if failing, _ := r.failing(fmt.Sprint(questions-1), now); failing {
		t.Error("it has succeeded since")
	}
}

// A document of an earlier position than the last one at which words were withdrawn is not
// shown, be it fresh, stale or just answered by a node that is behind. Other positions and
// documents without one do not matter.
func TestWithdrawnWordsAreNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &origin{status: 200, seq: 7, withdrawn: 6}
		want := o.reader(t)
		want(time.Minute, "/api/hops?days=1 1 60", 0)
		o.set(func() { o.withdrawn = 7 })
		want(time.Minute, "/api/hops?days=1 1 60", 0)
		o.set(func() { o.withdrawn, o.seq = 8, 9 })
		want(time.Minute, "/api/hops?days=1 2 60", 0)
		o.set(func() { o.withdrawn = 10 })
		want(time.Minute, "503", 0) // asked once more, and what answers is behind
		o.set(func() { o.away = errors.New("away") })
		time.Sleep(time.Hour)
		want(time.Minute, "503", 0)
		o.set(func() { o.away, o.seq = nil, 0 })
		time.Sleep(time.Hour)
		want(time.Minute, "/api/hops?days=1 5 60", 0)
		o.set(func() { o.withdrawn = 11 })
		want(time.Minute, "/api/hops?days=1 5 60", 0)
	})
}
