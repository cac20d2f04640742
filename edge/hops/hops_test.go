package hops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"webring/edge/front"
)

// client gives some client.
func client(n uint32) front.Client {
	return front.ClientOf(netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}))
}

// Concurrent counts are counted once, even while the counter is drained.
func TestEveryHopIsTakenOnce(t *testing.T) {
	c := NewCounter()
	const callers, each = 4, 2000
	var counting, taking sync.WaitGroup
	total, from, to := uint64(0), map[uint32]uint64{}, map[uint32]uint64{}
	take := func() {
		before := int64(-1)
		total += c.Take(func(row uint32, f, t uint64) {
			from[row] += f
			to[row] += t
			if int64(row) <= before {
				panic("rows are out of order")
			}
			before = int64(row)
		})
	}
	stop := make(chan struct{})
	taking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				take()
			}
		}
	})
	now := time.Now()
	for caller := range uint32(callers) {
		counting.Go(func() {
			for i := range uint32(each) {
				c.Count(i%3, 1+i%2*(maxRows-1), client(caller*each+i), []byte("Mozilla/5.0"), now)
				c.Count(1, 0, client(i), nil, now) // no redirect
				c.Count(1, 1, client(i), []byte("a Bot"), now)
			}
		})
	}
	counting.Wait()
	close(stop)
	taking.Wait()
	take()
	sum := func(m map[uint32]uint64) (n uint64) {
		for _, x := range m {
			n += x
		}
		return n
	}
	if total != callers*each || to[0] != callers*each/2 || to[maxRows-1] != callers*each/2 || from[0] != callers*667 || from[1] != callers*666 || sum(from) != callers*(667+666) {
		t.Errorf("%d hops, from %v, to %v", total, from, to)
	}
	var none *Counter
	none.Count(1, 1, client(1), nil, now)
}

// Many requests of one client at once count once for each member and hour; so do those of a
// whole /64. The next hour, and another client, count anew.
func TestAClientCountsOnceAMemberAndHour(t *testing.T) {
	c := NewCounter()
	tell := func() string {
		var s strings.Builder
		total := c.Take(func(row uint32, from, to uint64) { fmt.Fprintf(&s, " %d:%d/%d", row, from, to) })
		return fmt.Sprint(total) + s.String()
	}
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	hop := func(from, to uint32, address string, after time.Duration) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 75 {
					c.Count(from, to, front.ClientOf(netip.MustParseAddr(address)), nil, noon.Add(after))
				}
			})
		}
		all.Wait()
	}
	hop(1, 2, "192.0.2.1", 0)
	if got, want := tell(), "1 0:1/0 1:0/1"; got != want {
		t.Errorf("one client: %s, want %s", got, want)
	}
	hop(1, 3, "192.0.2.1", time.Minute)
	hop(2, 3, "192.0.2.1", 59*time.Minute)
	hop(0, 3, "192.0.2.1", 59*time.Minute)
	if got, want := tell(), "1 1:1/0 2:0/1"; got != want {
		t.Errorf("the same client at other members: %s, want %s", got, want)
	}
	hop(1, 2, "2001:db8::1", 0)
	hop(1, 2, "2001:db8::ffff:1", 0)
	hop(1, 2, "2001:db8:0:1::1", 0)
	hop(1, 2, "192.0.2.2", 0)
	if got, want := tell(), "3 0:3/0 1:0/3"; got != want {
		t.Errorf("three others: %s, want %s", got, want)
	}
	hop(1, 2, "192.0.2.1", time.Hour)
	hop(1, 2, "192.0.2.1", time.Hour-time.Millisecond) // which arrived before, and is counted late
	hop(1, 2, "192.0.2.1", time.Hour)
	if got, want := tell(), "1 0:1/0 1:0/1"; got != want {
		t.Errorf("the next hour: %s, want %s", got, want)
	}
}

// More clients than there is room for are counted, each at least once, and the last hour's
// take no room.
func TestMoreClientsThanThereIsRoomForCount(t *testing.T) {
	c := NewCounter()
	const clients = 1 << 18
	for h := range 3 {
		now := time.Unix(int64(h)*3600, 0)
		for range 2 {
			for n := range uint32(clients) {
				c.Count(0, 1, client(n), nil, now)
			}
		}
		if total := c.Take(func(uint32, uint64, uint64) {}); total < clients || total > 2*clients {
			t.Errorf("hour %d: %d counted of %d", h, total, clients)
		}
		for range 2 {
			for n := range uint32(1000) {
				c.Count(0, 2, client(n), nil, now)
			}
		}
		if total := c.Take(func(uint32, uint64, uint64) {}); total < 1000 || total > 1010 {
			t.Errorf("hour %d: %d counted of 1000", h, total)
		}
	}
}

// BenchmarkCount measures the counting of a hop in a ring of some and of many members, with
// counts that are in no cache.
func BenchmarkCount(b *testing.B) {
	agent := []byte("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36")
	for _, members := range []uint32{1000, 1_000_000} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			c, now := NewCounter(), time.Now()
			for row := range members {
				c.Count(row+1, 1, client(row), agent, now)
			}
			for b.Loop() {
				const times = 5_000_000
				began := time.Now()
				row := uint32(1)
				for range times {
					row = row*1664525 + 1013904223 // some other each time
					c.Count(row%members+1, (row+1)%members+1, client(row>>16), agent, now)
				}
				b.ReportMetric(float64(time.Since(began).Nanoseconds())/times, "ns/hop")
			}
		})
	}
}

func TestCrawlersAreTold(t *testing.T) {
	for agent, want := range map[string]bool{
		"": false,
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                                  false,
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36 Edg/141.0.0.0":           false,
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Mobile/15E148 Safari/604.1": false,
		"Mozilla/5.0 (Linux; Android 12; CUBOT P50) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36":                 false,
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/138.0.0.0 YaBrowser/25.8.0.0 Safari/537.36":      false,
		"Opera/9.80 (Windows NT 6.1) Presto/2.12.388 Version/12.18":                                                                               false,
		"Lynx/2.9.0dev.12 libwww-FM/2.14": false, "curl/8.14.1": false, "python-httpx/0.28.1": false, "my-agent/1.0": false,
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ChatGPT-User/1.0; +https://openai.com/bot)":                                                        false,
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)":                                                                                         true,
		"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X Build/MMB29P) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Mobile Safari/537.36 (compatible; GoogleOther)": true,
		"Mozilla/5.0 (compatible; YandexImages/3.0; +http://yandex.com/bots)":                                                                                              true,
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)":                                                           true,
		"facebookexternalhit/1.1": true, "ia_archiver": true, "Scrapy/2.13.3 (+https://scrapy.org)": true, "WhatsApp/2.23.20.0": true, "Pingdom.com_bot_version_1.4": true, "SEMRUSH": true,
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/141.0.0.0 Safari/537.36": true,
	} {
		if got := IsCrawler([]byte(agent)); got != want {
			t.Errorf("%q: %t", agent, got)
		}
	}
}

// receiver is an origin that keeps the last number of its sender.
type receiver struct {
	last uint64
	hops map[uint32]uint64 // by day
	from map[string]uint64 // by day and row
	fail func(again bool) (before, after error)
}

func (r *receiver) receive(_ context.Context, b []byte) error {
	report, err := Decode(b)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	var before, after error
	if r.fail != nil {
		before, after = r.fail(report.Number == r.last)
	}
	if before != nil {
		return before
	}
	if report.Number > r.last {
		if report.Number != r.last+1 {
			return fmt.Errorf("report %d comes after %d", report.Number, r.last)
		}
		r.last = report.Number
		r.hops[report.Day] += report.Hops
		for _, c := range report.Counts {
			r.from[fmt.Sprint(report.Day, " ", c.Row)] += c.From
		}
	}
	return after
}

// Through failures before and after a report is stored, midnight, and more members than a
// report has room for, all hops are received once, on the days on which they were counted.
func TestReportsAreReceivedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &receiver{hops: map[uint32]uint64{}, from: map[string]uint64{}}
		n := 0
		r.fail = func(bool) (before, after error) {
			switch n++; n % 5 {
			case 1:
				return errors.New("not reached"), nil
			case 3:
				return nil, errors.New("the answer is lost")
			}
			return nil, nil
		}
		c := NewCounter()
		s := NewSender(Config{Counter: c, Send: r.receive, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			s.Run(ctx)
			close(ended)
		}()
		const members = 2*MaxCounts + 7
		for round := range uint32(60 * 4) {
			for row := range uint32(members) {
				c.Count(row+1, row/2+1, client(round*members+row), nil, time.Now())
			}
			time.Sleep(15 * time.Minute)
		}
		r.fail = nil
		cancel()
		<-ended
		total := uint64(0)
		for _, x := range r.hops {
			total += x
		}
		if len(r.hops) < 3 || total != 60*4*members {
			t.Errorf("%v hops by day, %d in all", r.hops, total)
		}
		for _, day := range slices.Sorted(maps.Keys(r.hops)) {
			for _, row := range []int{0, 1, MaxCounts, members - 1} {
				if got := r.from[fmt.Sprint(day, " ", row)]; got != r.hops[day]/members {
					t.Errorf("day %d, row %d: %d", day, row, got)
				}
			}
		}
	})
}

// The longest reports are as short as a report must be, and come back as they were.
func TestReportsComeBack(t *testing.T) {
	for _, n := range []int{0, 1, MaxCounts} {
		want := Report{Sender: SenderID{1, 2, 3}, Number: 7, Day: 20781, Hops: 1 << 40, Counts: []Count{}}
		for i := range n {
			row := (1<<26 - 1) / MaxCounts * (i + 1)
			want.Counts = append(want.Counts, Count{Row: uint32(row), From: 1<<40 - rand.Uint64N(3), To: 1 << 40})
		}
		b := want.Append([]byte("before"))[len("before"):]
		if got, err := Decode(b); err != nil || !reflect.DeepEqual(got, want) || len(b) > MaxReport {
			t.Errorf("%d bytes: %+v comes back as %+v, %v", len(b), want, got, err)
		}
	}
}

// What is read is a report, and no longer than what would be written of it.
func FuzzDecode(f *testing.F) {
	r := Report{Number: 1, Day: 2, Hops: 3, Counts: []Count{{Row: 4, From: 5, To: 6}, {Row: 7, From: 8, To: 900}}}
	b := r.Append(nil)
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrReport) {
				t.Error(err)
			}
			return
		}
		again := r.Append(nil)
		if back, err := Decode(again); err != nil || !reflect.DeepEqual(back, r) || len(r.Counts) > MaxCounts || len(again) > len(b) {
			t.Errorf("%+v comes back as %+v, %v", r, back, err)
		}
	})
}
