package ledger_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// ring is a ledger under test with the little that it needs around it.
type ring struct {
	t     testing.TB
	dir   string
	store *ledgertest.Store
	over  func(ledger.Store) ledger.Store // what the ledger sees of store
	*ledger.Ledger

	mu        sync.Mutex
	time      time.Time
	published []ledger.Record
	failpoint func(string)
	onPublish func([]ledger.Record)
	zeroSalts bool
	committed []error // of each group that was written
}

const capacity = 50

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// newRing opens an empty ledger in memory.
func newRing(t *testing.T) *ring {
	r := &ring{t: t, dir: t.TempDir(), store: ledgertest.NewStore(), time: start}
	r.reopen()
	t.Cleanup(func() { r.Close() })
	return r
}

// openedRing has rules and the members that are named.
func openedRing(t *testing.T, slugs ...string) *ring {
	r := newRing(t)
	r.must(func(tx *ledger.Tx) error { return appendEvent(tx, rules(tx)) })
	for _, s := range slugs {
		r.join(s)
	}
	return r
}

func (r *ring) config() ledger.Config {
	var s ledger.Store = r.store
	if r.over != nil {
		s = r.over(s)
	}
	var salts io.Reader
	if r.zeroSalts {
		salts = zeros{}
	}
	return ledger.Config{Store: s, Random: salts, HeadPath: filepath.Join(r.dir, "head"), Capacity: capacity, Now: r.now,
		Publish: func(records []ledger.Record) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.published = append(r.published, records...)
			if r.onPublish != nil {
				r.onPublish(records)
			}
		},
		Committed: func(took time.Duration, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.committed = append(r.committed, err); took < 0 {
				r.t.Errorf("a commit took %s", took)
			}
		},
		Failpoint: func(name string) {
			if r.failpoint != nil {
				r.failpoint(name)
			}
		}}
}

// reopen opens what is stored, as the next process would.
func (r *ring) reopen() {
	r.t.Helper()
	if r.Ledger != nil {
		r.Close()
	}
	l, err := ledger.Open(r.config())
	if err != nil {
		r.t.Fatalf("Open: %v", err)
	}
	r.Ledger = l
}

func (r *ring) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.time
}

func (r *ring) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.time = r.time.Add(d)
}

func (r *ring) do(fn func(*ledger.Tx) error) error { return r.Do(context.Background(), fn) }

func (r *ring) must(fn func(*ledger.Tx) error) {
	r.t.Helper()
	if err := r.do(fn); err != nil {
		r.t.Fatal(err)
	}
}

func (r *ring) join(slug string) {
	r.t.Helper()
	r.must(func(tx *ledger.Tx) error { return joinMember(tx, slug) })
}

// register reserves a registration and applies it.
func (r *ring) register(slug string) *ledger.Reservation {
	r.t.Helper()
	v := registration(slug, "payer")
	r.must(func(tx *ledger.Tx) error { return tx.Reserve(v) })
	r.must(func(tx *ledger.Tx) error { return applyRegistration(tx, v, slug) })
	return v
}

func applyRegistration(tx *ledger.Tx, v *ledger.Reservation, slug string) (err error) {
	e, texts := member(tx, slug)
	if v.Seq, err = tx.Append(e, texts); err != nil {
		return err
	}
	v.State, v.Member = ledger.Applied, slug
	v.Response = &ledger.Response{Status: 201, Header: [][2]string{{"Location", "/" + slug}}, Body: []byte("welcome " + slug)}
	return tx.Update(v)
}

// digest sums up everything stored.
func (r *ring) digest() string { return digestOf(r.t, r.store) }

func digestOf(t testing.TB, s ledger.Store) string {
	t.Helper()
	h := sha256.New()
	err := s.Scan(nil, nil, func(key, value []byte) error {
		fmt.Fprintf(h, "%d %s %d %s", len(key), key, len(value), value)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

func rules(tx *ledger.Tx) *core.Rules {
	return &core.Rules{Stamp: tx.Stamp(), Name: "Ring", BaseURL: "http://ring.test", Fee: 100, MinBid: 100,
		Grace: 3600, Decay: 7200}
}

func member(tx *ledger.Tx, slug string) (*core.Joined, *core.Texts) {
	return &core.Joined{Stamp: tx.Stamp(), Slug: slug, Kind: core.Website, Category: "general", Fee: 100},
		&core.Texts{
			Name:        core.Text{Value: "Name of " + slug},
			URL:         core.Text{Value: "https://" + slug + ".org"},
			Description: core.Text{Value: "What " + slug + " does"},
		}
}

func joinMember(tx *ledger.Tx, slug string) error {
	e, texts := member(tx, slug)
	_, err := tx.Append(e, texts)
	return err
}

func appendEvent(tx *ledger.Tx, e core.Event) error {
	_, err := tx.Append(e, nil)
	return err
}

func bid(tx *ledger.Tx, slug string, cents int64) *core.Bid {
	return &core.Bid{Stamp: tx.Stamp(), Member: slug, Amount: cents}
}

func registration(slug, payer string) *ledger.Reservation {
	return &ledger.Reservation{ID: "reg-" + slug + "-" + payer, State: ledger.Reserved, Operation: ledger.OperationRegister,
		URLKey: slug + ".org", Cents: 100, Payer: payer, ReplayKeys: []string{"tx-" + slug + "-" + payer},
		Body: []byte("body of " + slug), Pinned: []byte(`{"url":"` + slug + `.org"}`), Payment: []byte(`{"raw":"00"}`)}
}

func bidReservation(id, slug string, cents int64) *ledger.Reservation {
	return &ledger.Reservation{ID: id, State: ledger.Reserved, Operation: ledger.OperationBid,
		Member: slug, Cents: cents, Payer: "payer", ReplayKeys: []string{"tx-" + id}, Body: []byte("bid on https://" + slug + ".org")}
}

// gated is a store with commits that wait until they are let through.
type gated struct {
	ledger.Store
	arrived, pass chan struct{}
}

func (r *ring) gate() *gated {
	g := &gated{Store: r.store, arrived: make(chan struct{}), pass: make(chan struct{})}
	r.over = func(ledger.Store) ledger.Store { return g }
	return g
}

func (g *gated) Commit(b ledger.Batch) error {
	g.arrived <- struct{}{}
	<-g.pass
	return g.Store.Commit(b)
}

// zeros is a source of salts that is always the same.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

var errRefused = errors.New("refused by the function")

// errReplayed stands for any [*ledger.ReplayedError].
var errReplayed = errors.New("replayed")

// waitQueued returns when n calls wait for their turn.
func (r *ring) waitQueued(n int) {
	for r.Queued() != n {
		runtime.Gosched()
	}
}

func base64ed(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
