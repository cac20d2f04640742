package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"webring/core"
	"webring/edge/durable"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// seedSpan is how long ago the history of a synthetic ring began, and seedTurn
// how many of its events are written as one.
const (
	seedSpan = 2 * 365 * 24 * time.Hour
	seedTurn = 1000
)

// seedOptions are the flags of `webring seed`.
type seedOptions struct {
	members int
	data    string
	number  uint64
	hard    bool
}

func (o *seedOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring seed", flag.ContinueOnError)
	fs.IntVar(&o.members, "members", 1000, "`number` of members")
	fs.StringVar(&o.data, "data", "./data", "`folder` of the ledger to be made; it must not hold one")
	fs.Uint64Var(&o.number, "seed", 1, "`number` that decides everything but the present time")
	fs.BoolVar(&o.hard, "hard-names", false, "names that pages have to bear: of 80 characters, right to left, with stacked marks, of markup")
	return fs
}

// seed writes a ledger of made-up members and bids, for development and
// measurement.
func seed(args []string, out io.Writer) error {
	var o options
	defaults := o.flags() // what serve takes for the rules unless told otherwise
	if err := parse(defaults, nil); err != nil {
		return err
	}
	var given seedOptions
	if err := parse(given.flags(), args); err != nil {
		return err
	}
	if given.members < 1 || given.members > 50_000_000 {
		return errors.New("--members must be from 1 to 50000000")
	}
	if err := vacant(given.data); err != nil {
		return err
	}
	if err := os.MkdirAll(given.data, 0o700); err != nil {
		return err
	}
	// Half a history is of no use.
	work, keep, end, err := workFolder(given.data, ".seeding-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	defer end()
	began := time.Now()
	w, err := makeLedger(work, given.number, given.members, began)
	if err != nil {
		return err
	}
	w.hard = given.hard
	err = w.write(&o, given.members)
	if err := errors.Join(err, w.close()); err != nil {
		return err
	}
	keep() // from here on a signal must not remove what was moved
	if err := install(work, given.data); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s holds a synthetic ring of %d members, %d events, made in %s\n", given.data, given.members, w.events, time.Since(began).Round(time.Millisecond))
	return nil
}

// vacant refuses a folder that holds a ledger. The head of an empty one may be there:
// see [install].
func vacant(data string) error {
	holds := fmt.Errorf("%s holds a ledger already; seed writes to a folder that has none", data)
	if _, err := os.Lstat(filepath.Join(data, "ledger")); err == nil {
		return holds
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	head := filepath.Join(data, "head")
	if _, err := os.Lstat(head); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	err := ledger.BeginHead(head)
	if errors.Is(err, ledger.ErrBehindHead) || errors.Is(err, ledger.ErrDamaged) {
		return holds
	}
	return err
}

// install moves the ledger that was made to the data folder. If that is cut short, there is
// at most the head of an empty ledger, with which serve and seed begin as without one.
func install(work, data string) error {
	err := ledger.BeginHead(filepath.Join(data, "head"))
	if err == nil {
		err = os.Rename(filepath.Join(work, "ledger"), filepath.Join(data, "ledger"))
	}
	if err == nil {
		err = durable.SyncFolder(data)
	}
	return err
}

// seeder writes one synthetic history.
type seeder struct {
	*rand.Rand
	books *ledger.Ledger
	close func() error
	end   time.Time
	now   time.Time // in the history; the ledger's clock
	used  map[string]int
	count int // members so far
	hard  bool

	turn   []func(*ledger.Tx) error
	events int
}

// makeLedger opens a new ledger under dir.
func makeLedger(dir string, number uint64, capacity int, end time.Time) (*seeder, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	store, err := badgerstore.Open(filepath.Join(dir, "ledger"), log)
	if err != nil {
		return nil, err
	}
	var salts [32]byte
	copy(salts[:], strconv.FormatUint(number, 10))
	s := &seeder{Rand: rand.New(rand.NewPCG(number, 0x72696e67)), end: end.Truncate(time.Millisecond), used: map[string]int{}}
	s.now = s.end.Add(-seedSpan)
	s.books, s.close, err = openBooks(store, ledger.Config{HeadPath: filepath.Join(dir, "head"), Capacity: capacity, Room: (&volume{dir: dir}).atLeast(startFloor),
		Now: func() time.Time { return s.now }, Random: rand.NewChaCha8(salts)})
	return s, err
}

// write makes the history: rules, then members and bids by the times that they
// came at, more and more of them towards the end.
func (s *seeder) write(o *options, members int) error {
	rules := core.Rules{Name: o.name, BaseURL: o.baseURL, Fee: int64(o.fee), MinBid: int64(o.minBid), Decay: seconds(o.decay),
		Scorer: o.score.spec, RequiredScore: requiredScore, Synthetic: true}
	// Standings do not decay while the history is written; the windows come into force at
	// its end. Otherwise the writer would reorder the ranks with each second.
	rules.Grace = core.MaxWindow
	s.add(s.rules(rules))

	// A state that grows member by member copies its rows again and again.
	const texts = 256 // bytes, on average
	room := func(tx *ledger.Tx) error { tx.State().Expect(members, members*texts); return nil }
	if err := s.books.Do(context.Background(), room); err != nil {
		return err
	}
	bids := members * 3 / 5
	start := s.end.Add(-seedSpan)
	for left, times := members, s.times(members+bids); len(times) > 0; times = times[1:] {
		s.now = start.Add(time.Duration(times[0]) * time.Millisecond)
		if s.count == 0 || s.IntN(len(times)) < left {
			left--
			s.add(s.join())
		} else {
			s.add(s.bid())
		}
		if len(s.turn) == seedTurn {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	s.now = s.end
	rules.Grace = seconds(o.grace)
	s.add(s.rules(rules))
	return s.flush()
}

// times gives n instants of the history in order, in milliseconds since its
// beginning.
func (s *seeder) times(n int) []int64 {
	ms := make([]int64, n)
	for i := range ms {
		span := seedSpan.Milliseconds()
		ms[i] = max(s.Int64N(span), s.Int64N(span))
	}
	slices.Sort(ms)
	return ms
}

func (s *seeder) add(event func(*ledger.Tx) error) { s.turn = append(s.turn, event) }

// flush writes the events of this turn as one.
func (s *seeder) flush() error {
	err := s.books.Do(context.Background(), func(tx *ledger.Tx) error {
		for _, event := range s.turn {
			if err := event(tx); err != nil {
				return err
			}
		}
		return nil
	})
	s.events += len(s.turn)
	s.turn = s.turn[:0]
	return err
}

func (s *seeder) rules(r core.Rules) func(*ledger.Tx) error {
	r.Stamp = s.now.UnixMilli()
	return event(&r, nil)
}

func (s *seeder) join() func(*ledger.Tx) error {
	m := s.member()
	e := &core.Joined{Stamp: s.now.UnixMilli(), Slug: m.slug, Kind: m.kind, Category: m.category, Fee: 100, Payment: s.payment()}
	if s.IntN(100) < 35 {
		e.Bid = s.cents()
	}
	if s.IntN(100) < 92 {
		e.Score = core.Score{Given: true, Value: uint8(requiredScore + s.IntN(101-requiredScore)), Provider: "synthetic", Version: "1",
			ScannedAt: e.Stamp - 1000}
	}
	s.count++
	return event(e, &m.texts)
}

// bid funds a member, rather one of the early ones.
func (s *seeder) bid() func(*ledger.Tx) error {
	o := core.Ordinal(min(s.IntN(s.count), s.IntN(s.count)))
	e := &core.Bid{Stamp: s.now.UnixMilli(), Amount: s.cents(), Payment: s.payment()}
	return func(tx *ledger.Tx) error {
		e.Member = strings.Clone(tx.State().Slug(o))
		_, err := tx.Append(e, nil)
		return err
	}
}

// cents are mostly a few dollars, and seldom a lot.
func (s *seeder) cents() int64 {
	amounts := [...]int64{100, 100, 100, 150, 200, 200, 250, 300, 500, 500, 750, 1000, 2000}
	cents := amounts[s.IntN(len(amounts))]
	if s.IntN(50) == 0 {
		cents *= 1 + s.Int64N(40)
	}
	if s.IntN(10) == 0 {
		cents += s.Int64N(100)
	}
	return cents
}

func (s *seeder) payment() core.Payment {
	return core.Payment{Method: "synthetic", Transaction: fmt.Sprintf("0x%016x%016x%016x%016x", s.Uint64(), s.Uint64(), s.Uint64(), s.Uint64()),
		Payer: fmt.Sprintf("0x%016x%016x%08x", s.Uint64(), s.Uint64(), s.Uint32())}
}

func event(e core.Event, t *core.Texts) func(*ledger.Tx) error {
	return func(tx *ledger.Tx) error {
		_, err := tx.Append(e, t)
		return err
	}
}
