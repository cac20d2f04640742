package ledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// What is believed, and what is not: each case sets this machine's clock ahead, and tells the
// other clocks something.
func TestWhichClocksAreBelieved(t *testing.T) {
	const hour, day = time.Hour, 24 * time.Hour
	type given struct {
		clock *ledger.Clock
		start time.Time // the true time at the beginning
		ahead *time.Duration
		vouch func()
	}
	for name, c := range map[string]struct {
		alone    bool
		ahead    time.Duration // of this machine's clock from the beginning
		agrees   bool          // of which no more than others agree to is told
		tell     func(g given)
		believed bool
	}{
		"a new ring, of which nothing is known":       {ahead: 9 * day, tell: func(given) {}, believed: true},
		"right, after a year without an event":        {tell: func(g given) { g.clock.Kept(g.start.Add(-365 * day)); g.clock.Told("chain", g.start) }, believed: true},
		"a year ahead, after a year without an event": {ahead: 365 * day, tell: func(g given) { g.clock.Kept(g.start.Add(-365 * day)); g.clock.Told("chain", g.start) }},
		"two days ahead":                           {ahead: 2 * day, tell: func(g given) { g.clock.Told("chain", g.start) }},
		"a minute ahead":                           {ahead: time.Minute, tell: func(g given) { g.clock.Told("chain", g.start) }, believed: true, agrees: true},
		"half a minute ahead for long":             {ahead: 30 * time.Second, tell: func(g given) { g.clock.Told("chain", g.start); time.Sleep(day) }, believed: true, agrees: true},
		"half a minute ahead, and nobody tells":    {ahead: 30 * time.Second, tell: func(g given) { g.clock.Kept(g.start) }, believed: true},
		"five seconds ahead":                       {ahead: 5 * time.Second, tell: func(g given) { g.clock.Told("chain", g.start) }, believed: true},
		"half a minute behind":                     {ahead: -30 * time.Second, tell: func(g given) { g.clock.Told("chain", g.start) }, believed: true},
		"a minute and two seconds ahead":           {ahead: 62 * time.Second, tell: func(g given) { g.clock.Told("chain", g.start) }},
		"a year behind":                            {ahead: -365 * day, tell: func(g given) { g.clock.Told("chain", g.start) }, believed: true},
		"right, and the chain is silent for long":  {tell: func(g given) { g.clock.Told("chain", g.start); time.Sleep(90 * day) }, believed: true},
		"goes ahead while the chain is silent":     {tell: func(g given) { g.clock.Told("chain", g.start); time.Sleep(day); *g.ahead = 2 * hour }},
		"goes ahead, and comes back":               {tell: func(g given) { g.clock.Told("chain", g.start); *g.ahead = 2 * hour; _ = g.clock.Check(0); *g.ahead = 0 }, believed: true},
		"right, and one chain of two stands still": {tell: func(g given) { g.clock.Told("still", g.start.Add(-day)); g.clock.Told("chain", g.start) }, believed: true},
		"right, and a chain is told to be ahead":   {tell: func(g given) { g.clock.Told("chain", g.start.Add(day)) }, believed: true},
		"goes ahead, after a chain was told to be ahead and came back": {tell: func(g given) {
			g.clock.Told("chain", g.start.Add(9*day))
			g.clock.Told("chain", g.start)
			*g.ahead = 2 * day
		}},
		"goes ahead, after one chain of two was told to be ahead and came back": {tell: func(g given) {
			g.clock.Told("other", g.start)
			g.clock.Told("chain", g.start.Add(9*day))
			g.clock.Told("other", g.start)
			g.clock.Told("chain", g.start)
			*g.ahead = 2 * day
		}},
		"right, and a node of the chain lags for once": {tell: func(g given) { g.clock.Told("chain", g.start); g.clock.Told("chain", g.start.Add(-hour)) }, believed: true},
		"ahead, and the only chain stands far behind":  {ahead: day, tell: func(g given) { g.clock.Told("still", time.Unix(1, 0)) }},
		"right, but the only chain stands far behind":  {tell: func(g given) { g.clock.Told("still", time.Unix(1, 0)) }},
		"a restart, and the chain stands still": {tell: func(g given) {
			g.clock.Kept(g.start.Add(-30 * time.Second))
			g.clock.Told("still", g.start.Add(-day))
			time.Sleep(day)
			g.clock.Told("still", g.start.Add(-day))
		}, believed: true},
		"a restart two days ahead of a chain that stands still": {ahead: 2 * day, tell: func(g given) { g.clock.Kept(g.start.Add(-30 * time.Second)); g.clock.Told("still", g.start.Add(-day)) }},
		"ahead as what is kept, and the chain goes on": {ahead: day, tell: func(g given) {
			g.clock.Kept(g.start.Add(day))
			g.clock.Told("chain", g.start.Add(-time.Second))
			g.clock.Told("chain", g.start)
		}},
		"a restart, and the chain has stood still for a moment": {tell: func(g given) {
			g.clock.Kept(g.start.Add(-time.Second))
			g.clock.Told("still", g.start.Add(-40*time.Second))
		}, believed: true},
		"half a minute ahead, and what is kept is older than what the chain tells": {ahead: 30 * time.Second, tell: func(g given) {
			g.clock.Kept(g.start.Add(-time.Minute))
			g.clock.Told("chain", g.start)
		}, believed: true, agrees: true},
		"half a minute ahead as what is kept, and the chain goes on": {ahead: 30 * time.Second, tell: func(g given) {
			g.clock.Kept(g.start.Add(29 * time.Second))
			g.clock.Told("chain", g.start.Add(-time.Second))
			g.clock.Told("chain", g.start)
		}, believed: true, agrees: true},
		"the operator vouches, and the chain is half a minute behind": {tell: func(g given) { g.clock.Told("still", g.start.Add(-30*time.Second)); g.vouch() }, believed: true},
		"right, and what is kept is ahead":                            {tell: func(g given) { g.clock.Kept(g.start.Add(365 * day)); g.clock.Told("chain", g.start) }, believed: true},
		"the operator vouches, and the chain is behind":               {tell: func(g given) { g.clock.Told("still", time.Unix(1, 0)); g.vouch() }, believed: true},
		"the operator has vouched two hours ago":                      {tell: func(g given) { g.clock.Told("still", time.Unix(1, 0)); g.vouch(); time.Sleep(2 * hour) }},
		"the operator has vouched before it went ahead":               {ahead: 9 * day, tell: func(g given) { g.clock.Told("chain", g.start); g.vouch() }},
		"a restart, and the chain is silent":                          {tell: func(g given) { g.clock.Kept(g.start.Add(-30 * time.Second)) }, believed: true},
		"a start after an hour, and the chain is silent":              {tell: func(g given) { g.clock.Kept(g.start.Add(-hour)) }},
		"a start after an hour, alone":                                {alone: true, tell: func(g given) { g.clock.Kept(g.start.Add(-hour)) }, believed: true},
		"a start after an hour, alone for long":                       {alone: true, tell: func(g given) { g.clock.Kept(g.start.Add(-hour)); time.Sleep(90 * day) }, believed: true},
		"a start after 31 days, alone":                                {alone: true, tell: func(g given) { g.clock.Kept(g.start.Add(-31 * day)) }},
		"a start after 31 days, alone, vouched for":                   {alone: true, tell: func(g given) { g.clock.Kept(g.start.Add(-31 * day)); g.vouch() }, believed: true},
		"goes ahead alone":                                            {alone: true, tell: func(g given) { g.clock.Kept(g.start); *g.ahead = hour }},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "clock")
			synctest.Test(t, func(t *testing.T) { // time.Now is the true time
				g := given{start: time.Now(), ahead: &c.ahead, vouch: func() {
					if err := ledger.Vouch(path); err != nil {
						t.Fatal(err)
					}
				}}
				wall := func() time.Time { return time.Now().Add(c.ahead) }
				g.clock = ledger.NewClock(wall, path, c.alone)
				c.tell(g)
				time.Sleep(2 * time.Second) // a file is looked at once a second
				err := g.clock.Check(g.start.Add(-365 * day).UnixMilli())
				if c.believed != (err == nil) || err != nil && !errors.Is(err, ledger.ErrClock) {
					t.Errorf("%v", err)
				}
				if c.believed != (g.clock.Now().Equal(wall()) || c.agrees && wall().Sub(g.clock.Now()) == c.ahead-5*time.Second) {
					t.Errorf("now it is %s, and this machine says %s", g.clock.Now(), wall())
				}
			})
		})
	}
}

// Every change of every kind is refused while the clock is ahead, in the state it is as it was,
// and reading goes on.
func TestNothingIsWrittenByAClockThatIsAhead(t *testing.T) {
	ahead := time.Duration(0)
	clock := ledger.NewClock(func() time.Time { return time.Now().Add(ahead) }, "", false)
	clock.Told("chain", time.Now())
	l, err := ledger.Open(ledger.Config{Store: ledgertest.NewStore(), HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: 10, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	founded := func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) }
	if err := l.Do(t.Context(), founded); err != nil {
		t.Fatal(err)
	}
	ahead = 365 * 24 * time.Hour
	for what, change := range map[string]func(tx *ledger.Tx) error{
		"rules":         founded,
		"a row":         func(tx *ledger.Tx) error { return tx.Put(ledger.News, "k", nil) },
		"a payee":       func(tx *ledger.Tx) error { return tx.AnnouncePayees(core.Payee{Network: "n", Account: "p"}) },
		"an entry":      func(tx *ledger.Tx) error { return tx.Block(&ledger.Block{Kind: ledger.BlockHost, Value: "a.example"}) },
		"the set-back":  func(tx *ledger.Tx) error { _, err := tx.SetBack(""); return err },
		"a reservation": func(tx *ledger.Tx) error { return tx.Reserve(registration("ada", "payer")) },
	} {
		if err := l.Do(t.Context(), change); !errors.Is(err, ledger.ErrClock) || !errors.Is(err, ledger.ErrNotNow) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := l.Do(t.Context(), func(tx *ledger.Tx) error {
		if now := tx.State().Clock(); now > time.Now().Unix()+1 {
			t.Errorf("standings are those of %s", time.Unix(now, 0))
		}
		return nil
	}); err != nil {
		t.Errorf("a turn that changes nothing: %v", err)
	}
	ahead = 0
	if err := l.Do(t.Context(), founded); err != nil || l.Size() != 2 {
		t.Errorf("with the clock right again: %v, %d events", err, l.Size())
	}
}

// A ledger that has a stamp of a clock that was ahead takes nothing until it is set back. Then
// it goes on, and what a later start reads is the same.
func TestALedgerIsSetBackAfterAClockThatWasAhead(t *testing.T) {
	store, head := ledgertest.NewStore(), filepath.Join(t.TempDir(), "head")
	open := func(clock *ledger.Clock, now func() time.Time) *ledger.Ledger {
		l, err := ledger.Open(ledger.Config{Store: store, HeadPath: head, Capacity: 10, Clock: clock, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := open(nil, nil)
	must(t, l.Do(t.Context(), func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) }))
	must(t, l.Do(t.Context(), func(tx *ledger.Tx) error { return joinMember(tx, "ada") }))
	must(t, l.Do(t.Context(), func(tx *ledger.Tx) error { return appendEvent(tx, bid(tx, "ada", 500)) }))
	must(t, l.Close())
	l = open(nil, func() time.Time { return time.Now().Add(365 * 24 * time.Hour) }) // without the rule
	must(t, l.Do(t.Context(), func(tx *ledger.Tx) error {
		return appendEvent(tx, &core.Verified{Stamp: tx.Stamp(), Member: "ada", Proof: core.ByLink})
	}))
	must(t, l.Close())

	clock := ledger.NewClock(nil, "", false)
	clock.Told("chain", time.Now())
	l = open(clock, nil)
	standing := func() (cents int64) {
		l.View(func(v *ledger.View) { cents = v.State().Standing(0) })
		return cents
	}
	if err := l.CheckClock(); !errors.Is(err, ledger.ErrClock) || !strings.Contains(err.Error(), "webring clock back") {
		t.Errorf("the ledger is fit to be written: %v", err)
	}
	raise := func(tx *ledger.Tx) error { return appendEvent(tx, bid(tx, "ada", 100)) }
	if err := l.Do(t.Context(), raise); !errors.Is(err, ledger.ErrClock) || standing() != 0 {
		t.Errorf("%v, and the standing is %d", err, standing())
	}
	must(t, l.Do(t.Context(), func(tx *ledger.Tx) error {
		if _, err := tx.SetBack("a test"); err != nil {
			return err
		}
		return appendEvent(tx, bid(tx, "ada", 100)) // in the same turn
	}))
	if err := l.CheckClock(); err != nil || standing() != 700 {
		t.Errorf("%v, and the standing is %d", err, standing())
	}
	must(t, l.Do(t.Context(), raise))
	var digest [16]byte
	l.View(func(v *ledger.View) { digest = v.State().Digest() })
	must(t, l.Close())
	l = open(clock, nil)
	defer l.Close()
	l.View(func(v *ledger.View) {
		if v.State().Digest() != digest || v.State().LastStamp() > time.Now().UnixMilli() {
			t.Error("a restart reads another ring")
		}
	})
	if _, err := l.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// Where nothing else tells the time, a stamp ahead of this machine's clock stops the ring, too, and
// the operator can set it back.
func TestALedgerDoesNotVouchForItself(t *testing.T) {
	year := time.Now().Add(365 * 24 * time.Hour)
	for _, alone := range []bool{false, true} {
		clock := ledger.NewClock(nil, "", alone)
		clock.Kept(year)
		if err := clock.Check(year.UnixMilli()); !errors.Is(err, ledger.ErrClock) || !strings.Contains(err.Error(), "webring clock back") {
			t.Errorf("alone %v: %v", alone, err)
		}
		if err := clock.Check(0); err != nil {
			t.Errorf("alone %v, it cannot be set back: %v", alone, err)
		}
	}
}

// A file that is no instant vouches for nothing.
func TestAnUnreadableFileVouchesForNothing(t *testing.T) {
	for _, text := range []string{"", "yes", "2026-13-01T00:00:00Z", strings.Repeat("2026", 1000)} {
		path := filepath.Join(t.TempDir(), "clock")
		must(t, os.WriteFile(path, []byte(text), 0o600))
		clock := ledger.NewClock(nil, path, false)
		clock.Kept(time.Now().Add(-time.Hour))
		if err := clock.Check(0); !errors.Is(err, ledger.ErrClock) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
