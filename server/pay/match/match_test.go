package match_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/server/pay/match"
	"webring/server/pay/mpp"
)

var now = time.Unix(1_800_000_000, 0)

// says is a node that has searched until an instant and knows these transfers.
func says(until time.Time, transfers ...mpp.Transfer) match.Node {
	return func(_ context.Context, payee string, since time.Time, found func(mpp.Transfer) error) (time.Time, error) {
		for _, t := range transfers {
			if payee == "a" && !t.At.Before(since) {
				if err := found(t); err != nil {
					return until, err
				}
			}
		}
		return until, nil
	}
}

func paid(reference string, cents int64, ago time.Duration) mpp.Transfer {
	return mpp.Transfer{Reference: reference, Cents: cents, At: now.Add(-ago)}
}

func event(index uint64, payee, transaction string, cents int64, ago time.Duration) match.Event {
	return match.Event{Index: index, At: now.Add(-ago), Cents: cents, Payment: core.Payment{Transaction: transaction, Payee: payee}}
}

func TestCompare(t *testing.T) {
	const long = 5 * time.Hour
	one, two := event(1, "a", "0x1", 100, long), event(2, "a", "0x2", 250, long)
	first, second := paid("0x1", 100, long), paid("0x2", 250, long)
	silent := func(context.Context, string, time.Time, func(mpp.Transfer) error) (time.Time, error) {
		return time.Time{}, errors.New("no answer")
	}
	for name, c := range map[string]struct {
		nodes   []match.Node
		events  []match.Event
		matched int
		young   int
		unnamed int
		wrong   string
		unknown string
	}{
		"all match":          {[]match.Node{says(now, first, second)}, []match.Event{one, two}, 2, 0, 0, "", ""},
		"two nodes agree":    {[]match.Node{says(now, first, second), says(now, second, first)}, []match.Event{one, two}, 2, 0, 0, "", ""},
		"a node omits one":   {[]match.Node{says(now, first, second), says(now, first)}, []match.Event{one, two}, 1, 0, 0, "", "disagree about transaction 0x2"},
		"a node invents one": {[]match.Node{says(now, first), says(now, first, paid("0x9", 5, long))}, []match.Event{one}, 1, 0, 0, "", "disagree about transaction 0x9"},
		"a node lags":        {[]match.Node{says(now, first, second), says(now.Add(-6*time.Hour), first)}, []match.Event{one, two}, 0, 2, 0, "", "is behind"},
		"a node is silent":   {[]match.Node{says(now, first, second), silent}, []match.Event{one, two}, 0, 0, 0, "", "no answer"},
		"no transfer":        {[]match.Node{says(now, first)}, []match.Event{one, two}, 1, 0, 0, "event 2 gave 250 cents for transaction 0x2, which brought 0", ""},
		"less than it gave":  {[]match.Node{says(now, paid("0x1", 99, long))}, []match.Event{one}, 0, 0, 0, "brought 99", ""},
		"more than it gave":  {[]match.Node{says(now, paid("0x1", 101, long))}, []match.Event{one}, 0, 0, 0, "brought 101 cents", ""},
		"no event":           {[]match.Node{says(now, first, second)}, []match.Event{one}, 1, 0, 0, "0x2 paid 250 cents", ""},
		"an event will come": {[]match.Node{says(now, first, paid("0x2", 250, time.Minute))}, []match.Event{one}, 1, 1, 0, "", ""},
		"not final yet":      {[]match.Node{says(now.Add(-time.Minute), first)}, []match.Event{one, event(2, "a", "0x2", 250, time.Second)}, 1, 1, 0, "", ""},
		"an earlier version": {[]match.Node{says(now, first)}, []match.Event{one, event(2, "", "0x2", 250, long), event(3, "", "0x1", 0, long)}, 2, 0, 1, "", ""},
		"taken back":         {[]match.Node{says(now, first)}, []match.Event{one, two, event(3, "a", "0x2", -250, long)}, 3, 0, 0, "", ""},
		"spelled otherwise":  {[]match.Node{says(now, paid("0xAB", 1, long))}, []match.Event{event(1, "a", "0xab", 1, long)}, 1, 0, 0, "", ""},
		"before the first":   {[]match.Node{says(now, first, paid("0x0", 7, 90*time.Hour))}, []match.Event{one}, 1, 0, 0, "", ""},
		"one for two events": {[]match.Node{says(now, paid("0x1", 200, long))}, []match.Event{one, event(2, "a", "0x1", 100, long)}, 2, 0, 0, "", ""},
		"no events at all":   {[]match.Node{silent}, nil, 0, 0, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := match.Compare(t.Context(), "tempo:1", c.nodes, c.events, now)
			if r.Matched != c.matched || r.Young != c.young || r.Unnamed != c.unnamed {
				t.Errorf("%+v", r)
			}
			for _, of := range []struct {
				found []string
				want  string
			}{{r.Wrong, c.wrong}, {r.Unknown, c.unknown}} {
				if text := fmt.Sprint(of.found); (of.want == "") != (len(of.found) == 0) || !strings.Contains(text, of.want) {
					t.Errorf("%s, not %q", text, of.want)
				}
			}
		})
	}
}

func TestDial(t *testing.T) {
	for _, c := range [][2]string{{"tempo", "http://127.0.0.1:1"}, {"tempo:x", "http://127.0.0.1:1"}, {"tempo:1", "ftp://x"}} {
		if _, err := match.Dial(c[0], c[1]); err == nil {
			t.Errorf("%v is taken", c)
		}
	}
}
