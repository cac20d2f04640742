package pages

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"webring/edge/cache"
	"webring/templates"
)

// at is a reader with documents of one second that never expire.
func at(second int64) *reader { return &reader{second: second, until: cache.Forever} }

func TestTimesInWords(t *testing.T) {
	now := time.Unix(epoch, 0).UTC() // 2025-10-09 08:53:20
	for _, c := range []struct {
		from time.Duration
		say  func(*reader, time.Time) templates.When
		want string
	}{
		{-time.Second, (*reader).ago, "just now"},
		{3 * time.Second, (*reader).ago, "just now"}, // clocks differ
		{-5 * time.Minute, (*reader).ago, "5 min ago"},
		{-59 * time.Minute, (*reader).ago, "55 min ago"},
		{-time.Hour, (*reader).ago, "1 h ago"},
		{-2*day + time.Second, (*reader).ago, "47 h ago"},
		{-2 * day, (*reader).ago, "2 days ago"},
		{-longAgo + time.Second, (*reader).ago, "59 days ago"},
		{-longAgo, (*reader).ago, "on 10 August"},
		{-sameYear, (*reader).ago, "on 13 December 2024"},
		{7 * day, (*reader).left, "7 days"},
		{47*time.Hour + 31*time.Minute, (*reader).left, "2 days"},
		{47 * time.Hour, (*reader).left, "47 hours"},
		{time.Hour, (*reader).left, "1 hour"},
		{30 * time.Minute, (*reader).left, "less than an hour"},
		{time.Second, (*reader).left, "less than an hour"},
		{145 * day, (*reader).date, "3 March"},
		{sameYear + time.Second, (*reader).date, "5 August 2026"},
	} {
		if got := c.say(at(epoch), now.Add(c.from)); got.Words != c.want || !got.At.Equal(now.Add(c.from)) {
			t.Errorf("%v away is %q, want %q", c.from, got.Words, c.want)
		}
	}
	for d, want := range map[time.Duration]string{0: "less than a minute", time.Minute: "1 minute", 119 * time.Minute: "1 hour", 47 * time.Hour: "47 hours", 10 * time.Second: "less than a minute", 30 * day: "30 days"} {
		if got := lasted(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// Words hold exactly as long as the page that has them: they are the same in its first and
// its last second, and not the same before and after.
func TestAPageHoldsAsLongAsItsWords(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for name, say := range map[string]func(*reader, time.Time) string{
		"ago":     func(r *reader, at time.Time) string { return r.ago(at).Words },
		"lasting": func(r *reader, at time.Time) string { words, drawn := r.lasting(at); return words + drawn.String() },
		"date":    func(r *reader, at time.Time) string { return r.date(at).Words },
		"left":    func(r *reader, at time.Time) string { return r.left(at).Words },
		"in": func(r *reader, at time.Time) string {
			return r.in(time.Unix(epoch, 0).Sub(at).Truncate(time.Second)).Words
		},
	} {
		for range 2000 {
			// Around every size of time, and with parts of a second.
			away := time.Duration(random.Int64N(int64(time.Hour) << random.IntN(14)))
			instant := time.Unix(epoch, 0).Add(-away).Truncate(time.Millisecond)
			if name == "left" {
				instant = time.Unix(epoch+1, 0).Add(away).Truncate(time.Millisecond)
			}
			r := at(epoch)
			words := say(r, instant)
			if r.since > epoch || r.until <= epoch {
				t.Fatalf("%s %v: drawn at %d, and it holds from %d to %d", name, instant, epoch, r.since, r.until)
			}
			for _, c := range []struct {
				second int64
				same   bool
			}{{r.since, true}, {r.until - 1, true}, {r.since - 1, false}, {r.until, false}} {
				switch {
				case c.second <= 0 || c.second >= cache.Forever-1:
					continue
				case name == "left" && c.second >= instant.Unix():
					continue // nothing is left then
				case (name == "ago" || name == "lasting") && c.second < instant.Unix():
					continue
				}
				if got := say(at(c.second), instant); (got == words) != c.same {
					t.Fatalf("%s %v: %q at %d, and %q at %d, but it holds from %d to %d", name, instant, words, epoch, got, c.second, r.since, r.until)
				}
			}
		}
	}
}

func TestAmountsInAddresses(t *testing.T) {
	for s, want := range map[string]int64{"2.63": 263, "2": 200, "2.5": 250, "0.01": 1, "1000000.00": 100_000_000, "007": 700,
		"": -1, ".5": -1, "2.": -1, "2.634": -1, "-2": -1, "+2": -1, "1e3": -1, "1_0": -1, " 2": -1, "2.-1": -1, "2.+1": -1, "10000000": -1, "٣": -1, "2.5.1": -1} {
		got, ok := readUSD(s)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q is %d, %v", s, got, ok)
		}
	}
}

func TestPagesOfALeaderboard(t *testing.T) {
	rows := func(l templates.PageLink) [2]int { return [2]int{l.From, l.To} }
	for _, c := range []struct {
		offset, total           int
		first, prev, next, last [2]int
		near                    int
	}{
		{0, 0, [2]int{}, [2]int{}, [2]int{}, [2]int{}, 1},
		{0, 50, [2]int{}, [2]int{}, [2]int{}, [2]int{}, 1},
		{0, 51, [2]int{}, [2]int{}, [2]int{51, 51}, [2]int{51, 51}, 2},
		{200, 2000, [2]int{1, 50}, [2]int{151, 200}, [2]int{251, 300}, [2]int{1951, 2000}, 5},
		{1950, 2000, [2]int{1, 50}, [2]int{1901, 1950}, [2]int{}, [2]int{}, 3},
		{50, 3, [2]int{1, 3}, [2]int{1, 3}, [2]int{}, [2]int{}, 1},
		{1 << 53, 120, [2]int{1, 50}, [2]int{101, 120}, [2]int{}, [2]int{}, 3},
	} {
		p := pagesOf("/leaderboard", c.offset, c.total)
		if rows(p.First) != c.first || rows(p.Prev) != c.prev || rows(p.Next) != c.next || rows(p.Last) != c.last || len(p.Near) != c.near {
			t.Errorf("from %d of %d: %+v", c.offset, c.total, p)
		}
		for _, l := range append(p.Near, p.First, p.Prev, p.Next, p.Last) {
			if l.From == 1 && l.Address != "leaderboard" || l.From > 1 && l.Address != "leaderboard?page="+strconv.Itoa((l.From+49)/50) {
				t.Errorf("rows %d to %d are at %s", l.From, l.To, l.Address)
			}
		}
	}
}
