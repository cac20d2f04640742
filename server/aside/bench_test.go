package aside_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// BenchmarkObserve is a bid in a turn of its own, in memory, without news and with them: of the
// last of a hundred, which others outbid again, and of one far below.
func BenchmarkObserve(b *testing.B) {
	const members = 10_000
	for _, c := range []struct {
		about   string
		observe func(*ledger.Tx, core.Event) func(uint64) error
		among   int // the members that bid by turns
	}{
		{"without", nil, 100}, {"first hundred", aside.ObserveNews, 100}, {"below", aside.ObserveNews, 5000},
	} {
		b.Run(c.about, func(b *testing.B) {
			now := int64(coretest.Start) * 1000
			l, err := ledger.Open(ledger.Config{Store: ledgertest.NewStore(), HeadPath: filepath.Join(b.TempDir(), "head"), Capacity: members, Observe: c.observe,
				Now: func() time.Time { return time.UnixMilli(now) }})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			do := func(fn func(tx *ledger.Tx) error) {
				if err := l.Do(context.Background(), fn); err != nil {
					b.Fatal(err)
				}
			}
			adopt := func(tx *ledger.Tx, e core.Event, texts *core.Texts) error {
				s := coretest.NewStep(e, texts)
				return tx.Adopt(ledger.Record{Event: s.EventBytes, Texts: s.TextBytes})
			}
			for first := 0; first < members; first += 500 {
				do(func(tx *ledger.Tx) error {
					if first == 0 {
						if err := adopt(tx, rules(now, 30*86400), nil); err != nil {
							return err
						}
					}
					for n := first; n < first+500; n++ {
						e, texts := joins(now, n, int64(members-n)*1000)
						if err := adopt(tx, e, texts); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := aside.CatchUpNews(context.Background(), l); err != nil {
				b.Fatal(err)
			}
			// A bid of 100 000 cents passes a hundred members.
			for n := 0; b.Loop(); n++ {
				now += 1000
				bid := &core.Bid{Stamp: now, Member: fmt.Sprint("m", c.among-1-n%(c.among/2)), Amount: 100_000}
				do(func(tx *ledger.Tx) error { return adopt(tx, bid, nil) })
			}
		})
	}
}
