package paid_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/sites/score"
)

const (
	realm = "ring.example"
	base  = "https://ring.example"
	ada   = `{"name":"Ada","url":"https://ada.dev","kind":"agent"}`
	bob   = `{"name":"Bob","url":"https://bob.dev","kind":"mcp"}`
	cyn   = `{"name":"Cyn","url":"https://cyn.dev","kind":"mcp"}`
	fund  = `{"member":"ada","amount":"1.50"}`
)

var challengeKey = bytes.Repeat([]byte("hmac-key"), 4)

// ring is a service on a ledger in memory, with everything around it that can
// go wrong. Tests run it in a bubble of package synctest, so hours pass at once.
type ring struct {
	t       *testing.T
	network *network // of the method "coin"
	second  *network // of the method "token", when it is configured
	scorer  *scorer
	log     *logText
	back    atomic.Int64 // how far the service's clock has been set back
	full    atomic.Bool  // the disk under the ledger

	capacity int
	methods  func(alive *atomic.Bool) []paid.Method
	starting func()             // called before a service starts on its ledger
	config   func(*paid.Config) // changes what a service starts with
	visit    func(slug string)  // has a site visited; nil for nobody does

	// elsewhere has each process but the first be another node, which has followed the one
	// before and leads now. It has none of its files.
	elsewhere bool
	batches   []ledger.Batch // that were stored since the first process began

	*process
	all     []*process
	clients sync.WaitGroup

	mu      sync.Mutex
	steps   func(step string) // called at the failpoints of service and ledger
	secrets []string
	salt    int
}

// process is one life of the service.
type process struct {
	store   *ledgertest.Store
	head    string
	books   *ledger.Ledger
	service *paid.Service
	dead    atomic.Bool
}

// replicated is the store of a process that replicates its batches to other nodes.
type replicated struct {
	*ledgertest.Store
	r *ring
}

// Commit implements [ledger.Store].
func (s replicated) Commit(b ledger.Batch) error {
	err := s.Store.Commit(b)
	stored := err == nil
	for key, value := range b {
		if got, absent := s.Get([]byte(key)); err != nil && value != nil {
			stored = absent == nil && bytes.Equal(got, value)
			break
		}
	}
	if stored {
		s.r.mu.Lock()
		defer s.r.mu.Unlock()
		s.r.batches = append(s.r.batches, maps.Clone(b))
	}
	return err
}

// lead opens the ledger of a node that has got all batches that were stored.
func (r *ring) lead(cfg ledger.Config, store *ledgertest.Store) (*ledger.Ledger, error) {
	r.mu.Lock()
	batches := slices.Clone(r.batches)
	r.mu.Unlock()
	cfg.Store = store
	f, err := ledger.Follow(cfg)
	if err != nil {
		return nil, err
	}
	for _, b := range batches {
		if err := f.Apply(maps.Clone(b)); err != nil {
			return nil, err
		}
	}
	return f.Lead(replicated{store, r})
}

// newRing opens a ring under rules with a fee and a least bid of 1.00. Changes
// come before the first service starts.
func newRing(t *testing.T, changes ...func(*ring)) *ring {
	t.Helper()
	r := &ring{t: t, network: newNetwork(), second: newNetwork(), log: &logText{}, capacity: 100,
		scorer: &scorer{results: map[string]score.Result{}}}
	r.methods = func(dead *atomic.Bool) []paid.Method {
		return []paid.Method{&method{node{r.network, dead}, "coin"}}
	}
	for _, change := range changes {
		change(r)
	}
	t.Cleanup(r.end)
	r.start(ledgertest.NewStore(), nil)
	return r
}

// two configures a second payment method.
func two(r *ring) {
	r.methods = func(dead *atomic.Bool) []paid.Method {
		return []paid.Method{&method{node{r.network, dead}, "coin"}, &method{node{r.second, dead}, "token"}}
	}
}

func (r *ring) now() time.Time { return time.Now().Add(-time.Duration(r.back.Load())) }

// start opens ledger and service on what a store and a head hold.
func (r *ring) start(store *ledgertest.Store, head []byte) {
	r.t.Helper()
	p := &process{store: store, head: filepath.Join(r.t.TempDir(), "head")}
	other := r.elsewhere && head != nil
	if head != nil && !other {
		if err := os.WriteFile(p.head, head, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	var err error
	step := func(at string) {
		r.mu.Lock()
		fn := r.steps
		r.mu.Unlock()
		if fn != nil {
			fn(at)
		}
	}
	clock := ledger.NewClock(r.now, "", false)
	books := ledger.Config{Store: replicated{store, r}, HeadPath: p.head, Capacity: r.capacity, Clock: clock, Failpoint: step, Observe: aside.ObserveOwners, Room: func() error {
		if r.full.Load() {
			return errors.New("the disk is full")
		}
		return nil
	}}
	if other {
		p.store = ledgertest.NewStore()
		p.books, err = r.lead(books, p.store)
	} else {
		p.books, err = ledger.Open(books)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.process = p
	r.all = append(r.all, p)
	if p.books.Size() == 0 {
		r.rules(func(*core.Rules) {})
	}
	if r.starting != nil {
		r.starting()
	}
	cfg := paid.Config{
		Ledger: p.books, Methods: r.methods(&p.dead), Scorer: r.scorer, Realm: realm, Keys: mpp.Keys{Current: challengeKey},
		Now: clock.Now, Told: clock.Told, Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})), Failpoint: step,
	}
	if r.config != nil {
		r.config(&cfg)
	}
	p.service, err = paid.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
}

// onStep has fn called at the failpoints; nil for nothing.
func (r *ring) onStep(fn func(step string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = fn
}

// hold has everything that comes to a failpoint wait there until open is called, from the turn on that
// a colon precedes. open fails the test if nothing waits.
func (r *ring) hold(step string) (open func()) {
	name, turn, _ := strings.Cut(step, ":")
	first, _ := strconv.Atoi(turn)
	var came, waiting atomic.Int32
	opened := make(chan struct{})
	r.onStep(func(at string) {
		if at == name && int(came.Add(1)) >= first {
			waiting.Add(1)
			<-opened
		}
	})
	return func() {
		r.t.Helper()
		synctest.Wait()
		if waiting.Load() == 0 {
			r.t.Errorf("nothing came to %s", step)
		}
		r.onStep(nil)
		close(opened)
	}
}

// rules changes the rules in force.
func (r *ring) rules(change func(*core.Rules)) {
	r.t.Helper()
	err := r.books.Do(context.Background(), func(tx *ledger.Tx) error {
		e := core.Rules{Name: "Test Ring", BaseURL: base, Fee: 100, MinBid: 100, Grace: 30 * 86400, Decay: 90 * 86400, RequiredScore: 40}
		if now := tx.State().Rules(); now != nil {
			e = *now
		}
		e.Stamp = tx.Stamp()
		change(&e)
		_, err := tx.Append(&e, nil)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// remove takes a member out of the ring.
func (r *ring) remove(slug string, redact bool) error {
	return r.books.Do(context.Background(), func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Removed{Stamp: tx.Stamp(), Member: slug, Reason: "test", Redacted: redact}, nil)
		return err
	})
}

// stop ends the process in good order.
func (r *ring) stop() {
	r.t.Helper()
	if err := r.service.Close(context.Background()); err != nil {
		r.t.Error(err)
	}
	if err := r.books.Close(); err != nil {
		r.t.Error(err)
	}
}

// restart ends the process and starts the next one on what it left.
func (r *ring) restart() {
	r.t.Helper()
	r.stop()
	r.start(r.store, r.headBytes(r.process))
}

func (r *ring) headBytes(p *process) []byte {
	r.t.Helper()
	b, err := os.ReadFile(p.head)
	if err != nil {
		r.t.Fatal(err)
	}
	return b
}

// end closes every process, dead ones too, and looks for secrets in the log.
func (r *ring) end() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, p := range r.all {
		p.service.Close(ended)
		p.books.Close()
	}
	r.clients.Wait()
	r.keepsSecrets("the log", r.log.String())
	if strings.Contains(r.log.String(), clientAddress) {
		r.t.Errorf("the log has the address of a client: %s", r.log)
	}
}

// keepsSecrets fails when text holds a credential, a transaction or the key in
// any of the spellings in which such things get printed.
func (r *ring) keepsSecrets(where, text string) {
	r.t.Helper()
	r.mu.Lock()
	secrets := append([]string{string(challengeKey)}, r.secrets...)
	r.mu.Unlock()
	for _, s := range secrets {
		for _, spelt := range []string{s, hex.EncodeToString([]byte(s)), base64.StdEncoding.EncodeToString([]byte(s)),
			base64.RawURLEncoding.EncodeToString([]byte(s)), strings.Trim(fmt.Sprint([]byte(s)), "[]")} {
			if strings.Contains(text, spelt) {
				r.t.Errorf("%s holds the secret %q: %s", where, s, text)
			}
		}
	}
}

// scorer gives every site 72 unless told otherwise, and counts.
type scorer struct {
	mu      sync.Mutex
	results map[string]score.Result // by URL
	err     error
	asked   int
	client  string // of the last question
}

func (s *scorer) Score(_ context.Context, client, url string) (score.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	s.client = client
	if s.err != nil {
		return score.Result{}, s.err
	}
	if result, ok := s.results[url]; ok {
		return result, nil
	}
	return score.Result{Score: 72, Provider: "test", Report: "https://score.example/report"}, nil
}

func (s *scorer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// logText is a log that can be read while it is written.
type logText struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// look reads the ledger.
func (r *ring) look(fn func(v *ledger.View)) { r.books.View(fn) }

// open gives the open reservations.
func (r *ring) open() (open []*ledger.Reservation) {
	r.look(func(v *ledger.View) { open = v.Open() })
	return open
}

// total is a member's full total in cents, 0 without such a member.
func (r *ring) total(slug string) (cents int64) {
	r.look(func(v *ledger.View) {
		if at, ok := v.State().BySlug([]byte(slug)); ok {
			cents = v.State().Member(at).Total()
		}
	})
	return cents
}

// amounts are cents by name: "ada" is what a member has, "bob paid" what an account was
// charged, "all" the sum of the books, and "open" the number of open payments.
type amounts map[string]int64

// has fails the test unless these are the amounts.
func (r *ring) has(want amounts) {
	r.t.Helper()
	got := amounts{}
	for name := range want {
		switch payer, paid := strings.CutSuffix(name, " paid"); {
		case paid:
			got[name] = r.network.charged(payer)
		case name == "all":
			got[name] = r.credited()
		case name == "open":
			got[name] = int64(len(r.open()))
		default:
			got[name] = r.total(name)
		}
	}
	if !maps.Equal(got, want) {
		r.t.Errorf("got %v, want %v", got, want)
	}
}

// credited is the sum of all payments in the books, in cents.
func (r *ring) credited() (cents int64) {
	r.look(func(v *ledger.View) { cents, _ = v.State().Books() })
	return cents
}

// stored gives the reservation made for a challenge.
func (r *ring) stored(c mpp.Challenge) (stored *ledger.Reservation) {
	r.look(func(v *ledger.View) {
		var err error
		if stored, err = v.Get(c.ID); err != nil && !errors.Is(err, ledger.ErrNoReservation) {
			r.t.Fatal(err)
		}
	})
	return stored
}

// size is what the ledger holds: events, and transactions of the store, once
// nobody is at work on it.
func (r *ring) size() string {
	synctest.Wait()
	return fmt.Sprintf("%d events in %d commits", r.books.Size(), r.store.Commits())
}

func (r *ring) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// fillCategories brings so many categories into use.
func (r *ring) fillCategories(most int) {
	r.t.Helper()
	r.must(r.books.Do(context.Background(), func(tx *ledger.Tx) error {
		for i := len(tx.State().Categories()); i < most; i++ {
			name := fmt.Sprintf("filler-%d", i)
			_, err := tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: name, Kind: core.Website, Category: name, Fee: 100},
				&core.Texts{Name: core.Text{Value: name}, URL: core.Text{Value: "https://" + name + ".dev"}})
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// credit adds to a member's total without a payment.
func (r *ring) credit(slug string, cents int64) {
	r.t.Helper()
	r.must(r.books.Do(context.Background(), func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Adjusted{Stamp: tx.Stamp(), Adjustment: core.Credit, Member: slug, Amount: cents, Reason: "test"}, nil)
		return err
	}))
}

// fill brings in members until there is room for no more.
func (r *ring) fill() {
	r.t.Helper()
	r.leave(0)
}

// leave brings in members until there is room for so many more.
func (r *ring) leave(n int) {
	r.t.Helper()
	r.must(r.books.Do(context.Background(), func(tx *ledger.Tx) error {
		for i := tx.State().Rows(); i < tx.State().Capacity()-n; i++ {
			name := fmt.Sprintf("filler-%d", i)
			_, err := tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: name, Kind: core.Website, Category: "general", Fee: 100},
				&core.Texts{Name: core.Text{Value: name}, URL: core.Text{Value: "https://" + name + ".dev"}})
			if err != nil {
				return err
			}
		}
		return nil
	}))
}
