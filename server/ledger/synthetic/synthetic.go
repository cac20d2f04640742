// Package synthetic writes ledgers of made-up members and bids, for development and
// measurement. A history depends on a number and on the time of its end alone.
//
//   - synthetic.go: the history, and how its ledger comes to a data folder
//   - members.go: the members
package synthetic

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"webring/core"
	"webring/edge/durable"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// The span of a history, and how many of its events are written as one.
const (
	span = 2 * 365 * 24 * time.Hour
	turn = 1000
)

// Config says which history to write.
type Config struct {
	Dir     string // an empty folder, which gets ledger and head
	Members int
	Number  uint64    // decides everything but the times
	End     time.Time // of the history
	Hard    bool      // names that pages have to bear
	Rules   core.Rules
	Room    func() error // fails when the disk is too full to go on
	Log     *slog.Logger
}

// Vacant refuses a folder that holds a ledger. It may hold the head of an empty one: see
// [Install].
func Vacant(data string) error {
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

// Install moves the ledger that was made to the data folder. If that is cut short, there is
// at most the head of an empty ledger, with which serve and seed begin as without one.
func Install(work, data string) error {
	err := ledger.BeginHead(filepath.Join(data, "head"))
	if err == nil {
		err = os.Rename(filepath.Join(work, "ledger"), filepath.Join(data, "ledger"))
	}
	if err == nil {
		err = durable.SyncFolder(data)
	}
	return err
}

// seeder writes one history.
type seeder struct {
	Config
	*rand.Rand
	store *badgerstore.Store
	books *ledger.Ledger
	now   time.Time // in the history; the ledger's clock
	used  map[string]int
	slugs []string // of the members so far

	turn   []written
	events int
}

// written is an event of a turn.
type written struct {
	core.Event
	texts *core.Texts
}

// Write writes a history to a new ledger, and gives the number of its events.
func Write(c Config) (events int, err error) {
	s, err := open(c)
	if err != nil {
		return 0, err
	}
	err = s.write()
	return s.events, errors.Join(err, s.close())
}

// open opens a new ledger.
func open(c Config) (*seeder, error) {
	store, err := badgerstore.Open(filepath.Join(c.Dir, "ledger"), c.Log)
	if err != nil {
		return nil, err
	}
	var salts [32]byte
	copy(salts[:], strconv.FormatUint(c.Number, 10))
	c.End = c.End.Truncate(time.Millisecond)
	s := &seeder{Config: c, Rand: rand.New(rand.NewPCG(c.Number, 0x72696e67)), store: store, now: c.End.Add(-span), used: map[string]int{}}
	s.books, err = ledger.Open(ledger.Config{Store: store, HeadPath: filepath.Join(c.Dir, "head"), Capacity: c.Members, Room: c.Room,
		Now: func() time.Time { return s.now }, Random: rand.NewChaCha8(salts)})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return s, nil
}

// close closes the ledger. The store of one that broke stays open: what failed would fail again.
func (s *seeder) close() error {
	err := s.books.Close()
	if errors.Is(s.books.Err(), ledger.ErrBroken) {
		return err
	}
	return errors.Join(err, s.store.Close())
}

// write makes the history: rules, then members and bids by the times that they
// came at, more and more of them towards the end.
func (s *seeder) write() error {
	rules := s.Rules
	rules.Synthetic = true
	// Standings do not decay while the history is written; the windows come into force at
	// its end. Otherwise the writer would reorder the ranks with each second.
	rules.Grace = core.MaxWindow
	s.found(rules)

	// A state that grows member by member copies its rows again and again.
	const texts = 256 // bytes, on average
	room := func(tx *ledger.Tx) error { tx.State().Expect(s.Members, s.Members*texts); return nil }
	if err := s.books.Do(context.Background(), room); err != nil {
		return err
	}
	bids := s.Members * 3 / 5
	start := s.now
	for left, times := s.Members, s.times(s.Members+bids); len(times) > 0; times = times[1:] {
		s.now = start.Add(time.Duration(times[0]) * time.Millisecond)
		if len(s.slugs) == 0 || s.IntN(len(times)) < left {
			left--
			s.join()
		} else {
			s.bid()
		}
		if len(s.turn) == turn {
			if err := s.flush(); err != nil {
				return err
			}
		}
	}
	s.now = s.End
	rules.Grace = s.Rules.Grace
	s.found(rules)
	return s.flush()
}

// times gives n instants of the history in order, in milliseconds since its
// beginning.
func (s *seeder) times(n int) []int64 {
	ms := make([]int64, n)
	for i := range ms {
		ms[i] = max(s.Int64N(span.Milliseconds()), s.Int64N(span.Milliseconds()))
	}
	slices.Sort(ms)
	return ms
}

func (s *seeder) add(e core.Event, t *core.Texts) { s.turn = append(s.turn, written{e, t}) }

// flush writes the events of this turn as one.
func (s *seeder) flush() error {
	err := s.books.Do(context.Background(), func(tx *ledger.Tx) error {
		for _, e := range s.turn {
			if _, err := tx.Append(e.Event, e.texts); err != nil {
				return err
			}
		}
		return nil
	})
	s.events += len(s.turn)
	s.turn = s.turn[:0]
	return err
}

func (s *seeder) found(r core.Rules) {
	r.Stamp = s.now.UnixMilli()
	s.add(&r, nil)
}

func (s *seeder) join() {
	m := s.member()
	e := &core.Joined{Stamp: s.now.UnixMilli(), Slug: m.slug, Kind: m.kind, Category: m.category, Fee: 100, Payment: s.payment()}
	if s.IntN(100) < 35 {
		e.Bid = s.cents()
	}
	if s.IntN(100) < 92 {
		e.Score = core.Score{Given: true, Value: s.Rules.RequiredScore + uint8(s.IntN(101-int(s.Rules.RequiredScore))), Provider: "synthetic", Version: "1",
			ScannedAt: e.Stamp - 1000}
	}
	s.slugs = append(s.slugs, m.slug)
	s.add(e, &m.texts)
}

// bid funds a member, rather one of the early ones.
func (s *seeder) bid() {
	n := len(s.slugs)
	s.add(&core.Bid{Stamp: s.now.UnixMilli(), Member: s.slugs[min(s.IntN(n), s.IntN(n))], Amount: s.cents(), Payment: s.payment()}, nil)
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
