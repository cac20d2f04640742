package match_test

import (
	"context"
	"errors"
	"slices"
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

func paid(reference string, cents int64, ago time.Duration, by ...mpp.Bound) mpp.Transfer {
	return mpp.Transfer{Reference: reference, Cents: cents, At: now.Add(-ago), Bound: by}
}

const network = "evm:1"

// event is an event about a payment. A payee of "" is one of an earlier version.
func event(payee, transaction string, cents int64, ago time.Duration, by ...mpp.Bound) core.Event {
	e := &core.Bid{Stamp: now.Add(-ago).UnixMilli(), Amount: cents, Payment: core.Payment{Network: network, Transaction: transaction, Payee: payee}}
	if len(by) > 0 {
		e.Payment.Payer, e.Payment.Binding = by[0].Payer, by[0].Binding
	}
	return e
}

func voided(payee, transaction string, cents int64, ago time.Duration, by ...mpp.Bound) core.Event {
	e := event(payee, transaction, cents, ago, by...).(*core.Bid)
	return &core.Adjusted{Stamp: e.Stamp, Adjustment: core.Void, Amount: cents, Payment: e.Payment}
}

func payees(ago time.Duration, accounts ...string) core.Event {
	e := &core.Payees{Stamp: now.Add(-ago).UnixMilli()}
	for _, a := range accounts {
		e.List = append(e.List, core.Payee{Network: network, Account: a})
	}
	return e
}

func TestCompare(t *testing.T) {
	const long = 5 * time.Hour
	one, two := event("a", "0x1", 100, long), event("a", "0x2", 250, long)
	first, second := paid("0x1", 100, long), paid("0x2", 250, long)
	mine, other := mpp.Bound{Payer: "did:1", Binding: "0x5a"}, mpp.Bound{Payer: "did:2", Binding: "0x5a"}
	bound := event("a", "0x1", 100, long, mine)
	silent := func(context.Context, string, time.Time, func(mpp.Transfer) error) (time.Time, error) {
		return time.Time{}, errors.New("no answer")
	}
	node := func(transfers ...mpp.Transfer) match.Node { return says(now, transfers...) }
	type (
		nodes  = []match.Node
		events = []core.Event
		result = match.Result
	)
	for name, c := range map[string]struct {
		nodes  nodes
		events events
		want   result // of Wrong and Unknown, a part of the one line
	}{
		"all match":       {nodes{node(first, second)}, events{one, two}, result{Matched: 2}},
		"two nodes agree": {nodes{node(first, second), node(second, first)}, events{one, two}, result{Matched: 2}},
		"no events":       {nodes{node()}, events{payees(long, "a")}, result{}},

		"one of two nodes omits one":   {nodes{node(first, second), node(first)}, events{one, two}, result{Matched: 1, Unknown: []string{"disagree about transaction 0x2"}}},
		"one of two nodes invents one": {nodes{node(first), node(first, paid("0x9", 5, long))}, events{one}, result{Matched: 1, Unknown: []string{"disagree about transaction 0x9"}}},
		"two nodes and two amounts":    {nodes{node(first), node(paid("0x1", 101, long))}, events{one}, result{Unknown: []string{"disagree about transaction 0x1"}}},
		"a node lags":                  {nodes{node(first, second), says(now.Add(-6*time.Hour), first)}, events{one, two}, result{Young: 2, Unknown: []string{"is behind"}}},
		"the one node lags":            {nodes{says(now.Add(-6 * time.Hour))}, events{one}, result{Young: 1, Unknown: []string{"is behind"}}},
		"a node is silent":             {nodes{node(first, second), silent}, events{one, two}, result{Unknown: []string{"no answer"}}},
		"the one node omits one":       {nodes{node(first)}, events{one, two}, result{Matched: 1, Wrong: []string{"event 1 gave 250 cents for transaction 0x2, which brought 0"}}},
		"the one node omits all":       {nodes{node()}, events{one}, result{Wrong: []string{"brought 0"}}},
		"the one node invents one":     {nodes{node(first, second)}, events{one}, result{Matched: 1, Stray: []string{"0x2 paid 250 cents"}}},
		"invented, without any event":  {nodes{node(first)}, events{payees(long, "a")}, result{Stray: []string{"0x1 paid 100 cents"}}},
		"left out":                     {nodes{node(first, paid("0x9", 5, long, other))}, events{one}, result{Matched: 1, Unknown: []string{"0x9 paid 5 cents"}}},
		"a stranger's cent, twice":     {nodes{node(first, paid("0x8", 1, long), paid("0x9", 1, long)), node(first, paid("0x8", 1, long), paid("0x9", 1, long))}, events{one}, result{Matched: 1, Stray: []string{"0x8 paid 1 cents", "0x9 paid 1 cents"}}},
		"settled with a cent more":     {nodes{node(paid("0x9", 101, long, mine))}, events{bound}, result{Moved: 1, Unknown: []string{"0x9 brought 101 cents"}}},

		"less than it gave":  {nodes{node(paid("0x1", 99, long))}, events{one}, result{Wrong: []string{"brought 99"}}},
		"more than it gave":  {nodes{node(paid("0x1", 101, long))}, events{one}, result{Unknown: []string{"brought 101 cents"}}},
		"an event will come": {nodes{node(first, paid("0x2", 250, time.Minute))}, events{one}, result{Matched: 1, Young: 1}},
		"not final yet":      {nodes{says(now.Add(-time.Minute), first)}, events{one, event("a", "0x2", 250, time.Second)}, result{Matched: 1, Young: 1}},
		"taken back":         {nodes{node(first)}, events{one, two, voided("a", "0x2", 250, long)}, result{Matched: 3}},
		"spelled otherwise":  {nodes{node(paid("0xAB", 1, long))}, events{event("a", "0xab", 1, long)}, result{Matched: 1}},
		"one for two events": {nodes{node(paid("0x1", 200, long))}, events{one, event("a", "0x1", 100, long)}, result{Matched: 2}},

		"an earlier version": {nodes{node(first)}, events{one, event("", "0x2", 250, long), event("", "0x1", 0, long)}, result{Matched: 2, Unnamed: 1}},
		"upgraded":           {nodes{node(first, second)}, events{event("", "0x1", 100, long), payees(time.Hour, "a"), two}, result{Matched: 2}},
		"lost before that":   {nodes{node(first, second)}, events{event("", "0x1", 100, long), payees(time.Hour, "a")}, result{Matched: 1, Stray: []string{"0x2 paid 250 cents"}}},
		"before the ring":    {nodes{node(paid("0x0", 7, 90*time.Hour), paid("0x7", 7, long+time.Second), first)}, events{one}, result{Matched: 1}},
		"before its time":    {nodes{node(first)}, events{payees(long+time.Hour, "b"), payees(time.Hour, "a")}, result{}},

		"bound":                        {nodes{node(paid("0x1", 100, long, mine))}, events{bound}, result{Matched: 1}},
		"settled by a stranger":        {nodes{node(paid("0x9", 100, long, mine))}, events{bound}, result{Matched: 1, Moved: 1}},
		"of two nodes, one knows that": {nodes{node(paid("0x9", 100, long, mine)), node(paid("0x9", 100, long))}, events{bound}, result{Moved: 1, Unknown: []string{"disagree about transaction 0x9"}}},
		"with a payment of another":    {nodes{node(paid("0x9", 350, long, mine, other))}, events{bound, event("a", "0x9", 250, long, other)}, result{Matched: 2, Moved: 1}},
		"twice by one transfer":        {nodes{node(paid("0x9", 100, long, mine))}, events{bound, event("a", "0x9", 100, long, mine)}, result{Moved: 1, Wrong: []string{"event 0, 1 gave 200 cents"}}},
		"by somebody else":             {nodes{node(paid("0x9", 100, long, other))}, events{bound}, result{Wrong: []string{"event 0 gave 100 cents for transaction 0x1, which brought 0"}, Unknown: []string{"0x9 paid 100"}}},
		"the nonce of another":         {nodes{node(paid("0x1", 100, long, other))}, events{bound}, result{Wrong: []string{"event 0 names a memo or nonce that transaction 0x1 does not have"}}},
		"undone and taken back":        {nodes{node()}, events{bound, voided("a", "0x1", 100, long, mine), payees(long, "a")}, result{Matched: 2}},
		"undone and mined again":       {nodes{node(paid("0x9", 100, long, mine))}, events{bound, voided("a", "0x1", 100, long, mine), event("a", "0x9", 100, long, mine)}, result{Matched: 3, Moved: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			logs := match.Logs{}
			for i, e := range c.events {
				logs.Add(uint64(i), e)
			}
			r := logs[network].Compare(t.Context(), c.nodes, now)
			if r.Matched != c.want.Matched || r.Moved != c.want.Moved || r.Young != c.want.Young || r.Unnamed != c.want.Unnamed {
				t.Errorf("%+v", r)
			}
			for _, of := range [][2][]string{{r.Wrong, c.want.Wrong}, {r.Unknown, c.want.Unknown}, {r.Stray, c.want.Stray}} {
				if !slices.EqualFunc(of[0], of[1], strings.Contains) {
					t.Errorf("%q, not %q", of[0], of[1])
				}
			}
		})
	}
}

// Of transfers without an event, those with a memo for the ring's realm may have been left out.
// Those with another memo, or none, are anybody's.
func TestStrayMemos(t *testing.T) {
	by := func(realm, rest string) mpp.Bound {
		return mpp.Bound{Payer: "did:1", Binding: "0xef1ed71201" + strings.Repeat(realm, 10) + strings.Repeat(rest, 17)}
	}
	known := &core.Bid{Stamp: now.Add(-5 * time.Hour).UnixMilli(), Amount: 100, Payment: core.Payment{
		Network: "tempo:1", Transaction: "0x1", Payee: "a", Payer: "did:1", Binding: by("aa", "01").Binding}}
	list := &core.Payees{Stamp: known.Stamp, List: []core.Payee{{Network: "tempo:1", Account: "a"}}}
	for name, c := range map[string]struct {
		event          core.Event
		with           []mpp.Bound
		stray, unknown int
	}{
		"none":                    {known, nil, 1, 0},
		"of another realm":        {known, []mpp.Bound{by("bb", "01")}, 1, 0},
		"of the realm":            {known, []mpp.Bound{by("aa", "02")}, 0, 1},
		"where no event has one":  {list, []mpp.Bound{by("aa", "02")}, 0, 1},
		"none, as all the events": {list, nil, 1, 0},
		"shorter than a memo":     {known, []mpp.Bound{{Payer: "did:1", Binding: "0x"}}, 1, 0},
	} {
		logs := match.Logs{}
		logs.Add(0, c.event)
		transfers := []mpp.Transfer{paid("0x9", 1, 5*time.Hour, c.with...)}
		if c.event == known {
			transfers = append(transfers, paid("0x1", 100, 5*time.Hour, by("aa", "01")))
		}
		r := logs["tempo:1"].Compare(t.Context(), []match.Node{says(now, transfers...)}, now)
		if len(r.Stray) != c.stray || r.StrayCents != int64(c.stray) || len(r.Unknown) != c.unknown || len(r.Wrong) > 0 {
			t.Errorf("a memo %s: %+v", name, r)
		}
	}
}

func TestDial(t *testing.T) {
	for _, c := range [][2]string{{"tempo", "http://127.0.0.1:1"}, {"tempo:x", "http://127.0.0.1:1"}, {"tempo:1", "ftp://x"}} {
		if _, err := match.Dial(c[0], c[1]); err == nil {
			t.Errorf("%v is taken", c)
		}
	}
}
