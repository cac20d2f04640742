package edge

import (
	"bufio"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/core/api"
)

func ip(s string) client { return clientOf(plain(netip.MustParseAddr(s))) }

func TestAWindowIsOpenedByTheFirstRequest(t *testing.T) {
	clock := newClock()
	l := newLimiter(3, clock.Now)
	c := ip("192.0.2.1")
	for i, step := range []struct {
		after     time.Duration
		remaining uint32
		exceeded  bool
		reset     int64
	}{
		{0, 2, false, 60}, {time.Second, 1, false, 59}, {1500 * time.Millisecond, 0, false, 58}, {0, 0, true, 58},
		{57 * time.Second, 0, true, 1}, {499 * time.Millisecond, 0, true, 1}, {time.Millisecond, 2, false, 60},
		{200 * time.Second, 2, false, 60}, {0, 1, false, 60},
	} {
		clock.Move(step.after)
		w := l.take(c, l.now())
		remaining, reset := l.reset(w, l.now())
		if remaining != step.remaining || w.exceeded != step.exceeded || reset != step.reset {
			t.Errorf("step %d: remaining %d, exceeded %v, reset %d, want %+v", i, remaining, w.exceeded, reset, step)
		}
	}
}

func TestClientsDoNotShareALimit(t *testing.T) {
	l := newLimiter(1, newClock().Now)
	for _, a := range []string{"192.0.2.1", "192.0.2.2", "2001:db8:0:1::1", "2001:db8:0:2::1", "::192.0.2.1"} {
		if l.take(ip(a), l.now()).exceeded {
			t.Errorf("%s was counted with another", a)
		}
	}
	if l.take(client{}, l.now()).exceeded {
		t.Error("local peers were counted with another")
	}
	for _, a := range []string{"::ffff:192.0.2.1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::9%eth0"} {
		if !l.take(ip(a), l.now()).exceeded {
			t.Errorf("%s was not counted with its own", a)
		}
	}
}

func TestLookingDoesNotCount(t *testing.T) {
	l := newLimiter(2, newClock().Now)
	c := ip("192.0.2.1")
	for range 5 {
		if w := l.look(c, l.now()); w.exceeded || w.remaining != 2 {
			t.Fatalf("%+v", w)
		}
	}
	l.take(c, l.now())
	for range 5 {
		if w := l.look(c, l.now()); w.exceeded || w.remaining != 1 {
			t.Fatalf("%+v", w)
		}
	}
}

func TestARequestHeldBeyondItsWindowSeesTheNext(t *testing.T) {
	clock := newClock()
	l := newLimiter(3, clock.Now)
	w := l.take(ip("192.0.2.1"), l.now())
	clock.Move(100 * time.Second)
	if remaining, reset := l.reset(w, l.now()); remaining != 3 || reset != 60 {
		t.Errorf("remaining %d, reset %d", remaining, reset)
	}
}

func TestAClockThatGoesBackHoldsNoWindowOpen(t *testing.T) {
	clock := newClock()
	l := newLimiter(1, clock.Now)
	c := ip("192.0.2.1")
	clock.Move(time.Hour)
	l.take(c, l.now())
	clock.Move(-time.Hour)
	if w := l.take(c, l.now()); w.exceeded {
		t.Error("exceeded by a request of the future")
	} else if _, reset := l.reset(w, l.now()); reset != 60 {
		t.Errorf("reset %d", reset)
	}
}

// fewRows is a table that fills quickly.
const fewRows = 256

func TestAFloodDoesNotResetACount(t *testing.T) {
	l := newLimiter(120, newClock().Now)
	l.rows = l.rows[:fewRows]
	c := ip("2001:db8::1")
	for range 121 {
		l.take(c, l.now())
	}
	// Four times as many clients as there are slots, each with a few requests.
	for i := range uint64(4 * fewRows * limiterWays) {
		flood := client{0x20010db9_00000000 + i, ipv6}
		for range i%3 + 1 {
			l.take(flood, l.now())
		}
	}
	if !l.take(c, l.now()).exceeded {
		t.Error("the count was forgotten")
	}
}

func TestCountsAreNeverTooLow(t *testing.T) {
	l := newLimiter(1<<20, newClock().Now)
	l.rows = l.rows[:fewRows]
	// Seventeen times the ways, all in few rows: every row overflows.
	const clients, requests = 17 * limiterWays * fewRows / 16, 8
	for range requests {
		for i := range uint64(clients) {
			l.take(client{i, ipv4}, l.now())
		}
	}
	short := 0
	for i := range uint64(clients) {
		if w := l.take(client{i, ipv4}, l.now()); w.limit-w.remaining < requests+1 {
			short++
		}
	}
	// Only clients that were crowded out by lower counts may restart, and they
	// restart from the lowest of their row, which grew with every crowding out.
	if short > 0 {
		t.Errorf("%d of %d clients are counted too low", short, clients)
	}
}

func TestConcurrentRequestsAreCountedExactly(t *testing.T) {
	l := newLimiter(500, newClock().Now)
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if !l.take(ip("192.0.2.1"), l.now()).exceeded {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 500 {
		t.Errorf("%d requests passed", passed.Load())
	}
}

// An answer may take longer than a window is open. What was sent with its request is
// counted when its turn comes: in a window of the past it would open that again, and
// another after it.
func TestEachOfManyRequestsIsCountedWhenItIsAnswered(t *testing.T) {
	clock := newClock()
	var s *site
	another := func() int { return s.raw("GET /api/ring HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").status }
	core := &fakeCore{serve: func(target []byte, r *api.Response) {
		if string(target) == "/next" {
			clock.Move(61 * time.Second)
			if status := another(); status != 200 {
				t.Errorf("in the next window: status %d", status)
			}
		}
		*r = api.Response{Status: 200, Validity: api.Position, Body: append(r.Body[:0], "{}"...)}
	}}
	s = serve(t, Config{Core: core, RateLimit: 1, Now: clock.Now})
	c := dial(t, s)
	if _, err := io.WriteString(c, "GET /next HTTP/1.1\r\nHost: x\r\n\r\nGET /prev HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	for _, want := range []int{200, 429} {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != want {
			t.Errorf("status %d, want %d, %v", resp.StatusCode, want, err)
		}
	}
	if status := another(); status != 429 {
		t.Errorf("one more than the limit: status %d", status)
	}
}
