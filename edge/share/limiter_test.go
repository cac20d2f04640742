package share

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/edge/front"
)

// epoch is where clocks begin.
var epoch = time.Unix(1_760_000_000, 0)

func ip(s string) front.Client {
	return front.ClientOf(netip.MustParseAddr(s).Unmap().WithZone(""))
}

// ipv4 and ipv6 give different clients for different numbers.
func ipv4(i uint32) front.Client {
	return front.ClientOf(netip.AddrFrom4([4]byte{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}))
}

func ipv6(i uint32) front.Client {
	return front.ClientOf(netip.AddrFrom16([16]byte{0x20, 1, 0xd, 0xb9, byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}))
}

func TestAWindowIsOpenedByTheFirstRequest(t *testing.T) {
	now := epoch
	l := NewLimiter(3, now)
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
		now = now.Add(step.after)
		w := l.Take(c, now)
		remaining, reset := w.reset(now)
		if remaining != step.remaining || w.exceeded != step.exceeded || reset != step.reset {
			t.Errorf("step %d: remaining %d, exceeded %v, reset %d, want %+v", i, remaining, w.exceeded, reset, step)
		}
	}
}

func TestClientsDoNotShareALimit(t *testing.T) {
	l := NewLimiter(1, epoch)
	for _, a := range []string{"192.0.2.1", "192.0.2.2", "2001:db8:0:1::1", "2001:db8:0:2::1", "::192.0.2.1"} {
		if l.Take(ip(a), epoch).exceeded {
			t.Errorf("%s was counted with another", a)
		}
	}
	if l.Take(front.Client{}, epoch).exceeded {
		t.Error("local peers were counted with another")
	}
	for _, a := range []string{"::ffff:192.0.2.1", "2001:db8:0:1:ffff::2", "2001:db8:0:2::9%eth0"} {
		if !l.Take(ip(a), epoch).exceeded {
			t.Errorf("%s was not counted with its own", a)
		}
	}
}

func TestLookingDoesNotCount(t *testing.T) {
	l := NewLimiter(2, epoch)
	c := ip("192.0.2.1")
	for range 5 {
		if w := l.Look(c, epoch); w.exceeded || w.remaining != 2 {
			t.Fatalf("%+v", w)
		}
	}
	l.Take(c, epoch)
	for range 5 {
		if w := l.Look(c, epoch); w.exceeded || w.remaining != 1 {
			t.Fatalf("%+v", w)
		}
	}
}

func TestARequestHeldBeyondItsWindowSeesTheNext(t *testing.T) {
	now := epoch
	l := NewLimiter(3, now)
	w := l.Take(ip("192.0.2.1"), now)
	now = now.Add(100 * time.Second)
	if remaining, reset := w.reset(now); remaining != 3 || reset != 60 {
		t.Errorf("remaining %d, reset %d", remaining, reset)
	}
}

func TestAClockThatGoesBackHoldsNoWindowOpen(t *testing.T) {
	now := epoch
	l := NewLimiter(1, now)
	c := ip("192.0.2.1")
	now = now.Add(time.Hour)
	l.Take(c, now)
	now = now.Add(-time.Hour)
	if w := l.Take(c, now); w.exceeded {
		t.Error("exceeded by a request of the future")
	} else if _, reset := w.reset(now); reset != 60 {
		t.Errorf("reset %d", reset)
	}
}

// fewRows is a table that fills quickly.
const fewRows = 256

func TestAFloodDoesNotResetACount(t *testing.T) {
	l := NewLimiter(120, epoch)
	l.rows = l.rows[:fewRows]
	c := ip("2001:db8::1")
	for range 121 {
		l.Take(c, epoch)
	}
	// Four times as many clients as there are slots, each with a few requests.
	for i := range uint32(4 * fewRows * rowSlots) {
		flood := ipv6(i)
		for range i%3 + 1 {
			l.Take(flood, epoch)
		}
	}
	if !l.Take(c, epoch).exceeded {
		t.Error("the count was forgotten")
	}
}

func TestCountsAreNeverTooLow(t *testing.T) {
	l := NewLimiter(1<<20, epoch)
	l.rows = l.rows[:fewRows]
	// Seventeen times the ways, all in few rows: every row overflows.
	const clients, requests = 17 * rowSlots * fewRows / 16, 8
	for range requests {
		for i := range uint32(clients) {
			l.Take(ipv4(i), epoch)
		}
	}
	short := 0
	for i := range uint32(clients) {
		if w := l.Take(ipv4(i), epoch); l.limit-w.remaining < requests+1 {
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
	l := NewLimiter(500, epoch)
	var passed atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if !l.Take(ip("192.0.2.1"), epoch).exceeded {
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

func TestFieldsSayWhatIsLeft(t *testing.T) {
	second := epoch.Add(time.Second)
	for _, c := range []struct {
		rule string
		w    func() Window
		want string
	}{
		{"within the limit", func() Window { return NewLimiter(2, epoch).Take(ip("192.0.2.1"), epoch) },
			"RateLimit-Limit: 2\r\nRateLimit-Policy: 2;w=60\r\nRateLimit-Remaining: 1\r\nRateLimit-Reset: 59\r\n"},
		{"beyond it", func() Window {
			l := NewLimiter(1, epoch)
			l.Take(ip("192.0.2.1"), epoch)
			return l.Take(ip("192.0.2.1"), epoch)
		}, "Retry-After: 59\r\nRateLimit-Limit: 1\r\nRateLimit-Policy: 1;w=60\r\nRateLimit-Remaining: 0\r\nRateLimit-Reset: 59\r\n"},
		{"silent", func() Window { return NewSilentLimiter(2, epoch).Take(ip("192.0.2.1"), epoch) }, ""},
		{"silent beyond it", func() Window {
			l := NewSilentLimiter(1, epoch)
			l.Take(ip("192.0.2.1"), epoch)
			return l.Take(ip("192.0.2.1"), epoch)
		}, "Retry-After: 59\r\n"},
		{"no limit", func() Window { return NewLimiter(0, epoch).Take(ip("192.0.2.1"), epoch) }, ""},
		{"no silent limit", func() Window { return NewSilentLimiter(0, epoch).Look(ip("192.0.2.1"), epoch) }, ""},
	} {
		w := c.w()
		if got := string(w.AppendFields(nil, second)); got != c.want {
			t.Errorf("%s: %q", c.rule, got)
		}
	}
}
