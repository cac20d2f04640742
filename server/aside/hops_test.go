package aside_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/edge/hops"
	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// books is a ledger with two members, and a store at a time that tests set.
type books struct {
	*ledger.Ledger
	*aside.Hops
	t   *testing.T
	now time.Time
}

func open(t *testing.T) *books {
	t.Helper()
	b := &books{t: t, now: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)}
	l, err := ledger.Open(ledger.Config{Store: ledgertest.NewStore(), HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: 10, Now: func() time.Time { return b.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	b.Ledger = l
	b.Hops = aside.NewHops(l, func() time.Time { return b.now }, slog.Default())
	b.append(&core.Rules{Stamp: 1, Name: "Test", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Grace: 10, Decay: 1000,
		Networks: []core.Network{{Name: "tempo:42431", Method: "tempo", Currency: "usd"}}, Scorer: "fixed", RequiredScore: 40}, nil)
	for _, slug := range []string{"ada", "bob"} {
		texts := &core.Texts{Name: core.Text{Value: slug}, URL: core.Text{Value: "https://" + slug + ".example/"}}
		b.append(&core.Joined{Stamp: 2, Slug: slug, Kind: core.Agent, Category: "general",
			Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL), Fee: 100}, texts)
	}
	return b
}

func (b *books) append(e core.Event, texts *core.Texts) {
	b.t.Helper()
	err := b.Do(context.Background(), func(tx *ledger.Tx) error {
		stamp(e, tx.Stamp())
		_, err := tx.Append(e, texts)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func stamp(e core.Event, ms int64) {
	switch e := e.(type) {
	case *core.Rules:
		e.Stamp = ms
	case *core.Joined:
		e.Stamp = ms
	case *core.Removed:
		e.Stamp = ms
	}
}

// report receives one, about the day so many days ago.
func (b *books) report(sender byte, number uint64, ago int, all uint64, counts ...hops.Count) {
	b.t.Helper()
	r := hops.Report{Sender: hops.SenderID{sender}, Number: number, Day: uint32(b.now.Unix()/86400) - uint32(ago), Hops: all, Counts: counts}
	if err := b.Receive(context.Background(), r.Append(nil)); err != nil {
		b.t.Error(err)
	}
}

// told gives what a document says: the total, and the days that have any.
func (b *books) told(path, query string) string {
	b.t.Helper()
	d := b.Document(path, query)
	var doc struct {
		Code   string
		Member string
		Total  struct{ From, To, Hops uint64 }
		Days   []struct {
			Day            string
			From, To, Hops uint64
		}
	}
	if err := json.Unmarshal(d.Body, &doc); err != nil {
		b.t.Fatalf("%s: %v", d.Body, err)
	}
	if d.Status != 200 {
		return fmt.Sprint(d.Status, " ", doc.Code)
	}
	said := fmt.Sprint(doc.Member, doc.Total, len(doc.Days))
	for _, day := range doc.Days {
		if day.From+day.To+day.Hops > 0 {
			said += fmt.Sprint(" ", day)
		}
	}
	return said
}

func (b *books) want(path, query, want string) {
	b.t.Helper()
	if got := b.told(path, query); got != want {
		b.t.Errorf("%s?%s: %s, want %s", path, query, got, want)
	}
}

func TestReportsAddUpAndCountOnce(t *testing.T) {
	b := open(t)
	b.want("/api/ring/ada/hops", "", "ada{0 0 0} 30")
	for range 2 {
		b.report(1, 1, 0, 5, hops.Count{Row: 0, From: 3, To: 1}, hops.Count{Row: 1, To: 4}, hops.Count{Row: 9, From: 7})
	}
	b.report(2, 4, 0, 1, hops.Count{Row: 0, From: 1})
	b.report(2, 3, 0, 100, hops.Count{Row: 0, From: 100}) // an earlier one, which was received before it
	b.report(1, 2, 1, 2, hops.Count{Row: 0, From: 0, To: 2})
	b.report(1, 3, 399, 8, hops.Count{Row: 0, From: 8})
	b.report(1, 4, 400, 9, hops.Count{Row: 0, From: 9}) // no longer kept
	b.report(1, 5, -40, 1, hops.Count{Row: 1, From: 1}) // from a clock that is ahead
	b.want("/api/ring/ada/hops", "", "ada{4 3 0} 30 {2026-11-24 4 1 0} {2026-11-23 0 2 0}")
	b.want("/api/ring/ada/hops", "days=1", "ada{4 1 0} 1 {2026-11-24 4 1 0}")
	b.want("/api/ring/ada/hops", "days=400", "ada{12 3 0} 400 {2026-11-24 4 1 0} {2026-11-23 0 2 0} {2025-10-21 8 0 0}")
	b.want("/api/ring/bob/hops", "", "bob{1 4 0} 30 {2026-11-24 1 4 0}")
	b.want("/api/hops", "days=400", "{0 0 17} 400 {2026-11-24 0 0 7} {2026-11-23 0 0 2} {2025-10-21 0 0 8}")
	for _, query := range []string{"days=0", "days=401", "days=x"} {
		b.want("/api/hops", query, "400 invalid_parameter")
	}
	b.want("/api/ring/nobody/hops", "", "404 unknown_member")
	b.append(&core.Removed{Member: "bob", Reason: "spam"}, nil)
	b.want("/api/ring/bob/hops", "", "410 member_removed")
	if err := b.Receive(context.Background(), []byte("x")); !errors.Is(err, hops.ErrReport) {
		t.Error(err)
	}
}

// What is no longer kept is deleted, and the days that are kept are not.
func TestOldDaysAreSwept(t *testing.T) {
	b := open(t)
	b.report(1, 1, 0, 1, hops.Count{Row: 0, From: 1})
	b.report(2, 1, 0, 2, hops.Count{Row: 0, From: 2})
	rows := func() (n int) {
		b.View(func(v *ledger.View) {
			all, err := v.Scan(ledger.Hops, "", "", 100)
			if err != nil {
				t.Fatal(err)
			}
			n = len(all)
		})
		return n
	}
	sweep := func(days int) {
		b.now = b.now.AddDate(0, 0, days)
		if err := b.Sweep(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	before := rows()
	sweep(29)
	b.report(2, 2, 0, 4, hops.Count{Row: 0, From: 4})
	if n := rows(); n < before {
		t.Errorf("%d rows of %d after 29 days", n, before)
	}
	sweep(10)
	b.want("/api/ring/ada/hops", "days=400", "ada{7 0 0} 400 {2026-12-23 4 0 0} {2026-11-24 3 0 0}")
	b.report(2, 2, 0, 4) // the number of this sender is still known
	sweep(400)
	b.want("/api/ring/ada/hops", "days=400", "ada{0 0 0} 400")
	sweep(blockDaysAndMore)
	if n := rows(); n != 0 {
		t.Errorf("%d rows after all is over", n)
	}
}

const blockDaysAndMore = 33
