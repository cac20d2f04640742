package aside

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"time"

	"webring/edge/hops"
	"webring/server/ledger"
)

const (
	// HopsKept is for how many days hops are kept.
	HopsKept = 400
	// blockDays is how many days one row has.
	blockDays = 32
	// senderDays is for how many days the number of a sender's last report is kept after it.
	senderDays = 30
	// swept is how many rows are deleted in one transaction.
	swept = 500
	// wholeRing takes the place of a row in the counts of the whole ring.
	wholeRing = 1<<32 - 1

	dayPrefix    = "d"
	senderPrefix = "s"
)

// Ledger is where the table lies: the ledger, or what follows one.
type Ledger interface {
	Do(ctx context.Context, fn func(*ledger.Tx) error) error
	View(fn func(*ledger.View))
}

// Hops is the table of hops. Its functions may be called concurrently.
type Hops struct {
	ledger Ledger
	now    func() time.Time
	log    *slog.Logger
}

// NewHops gives the table in a ledger. now is its clock.
func NewHops(l Ledger, now func() time.Time, log *slog.Logger) *Hops {
	return &Hops{ledger: l, now: now, log: log}
}

func (s *Hops) today() uint32 { return uint32(s.now().Unix() / (24 * 60 * 60)) }

// Receive adds a report, unless it was added before, and returns when that is durable. An
// error that wraps [hops.ErrReport] says that it is none. A day that is not over anywhere
// yet counts as the present one, since a node's clock may be wrong, and one that is no longer
// kept is dropped.
func (s *Hops) Receive(ctx context.Context, report []byte) error {
	r, err := hops.Decode(report)
	if err != nil {
		return err
	}
	today := s.today()
	if r.Day > today+1 {
		r.Day = today
	}
	return s.ledger.Do(ctx, func(tx *ledger.Tx) error {
		v := tx.View()
		key := senderPrefix + string(r.Sender[:])
		last, err := v.Value(ledger.Hops, key)
		if f, _ := numbers(last); err != nil || len(f) > 0 && r.Number <= f[0] {
			return err
		}
		if err := tx.Put(ledger.Hops, key, appendNumbers(nil, r.Number, uint64(today))); err != nil {
			return err
		}
		if r.Day+HopsKept <= today {
			return nil
		}
		if err := add(tx, r.Day, wholeRing, r.Hops, 0); err != nil {
			return err
		}
		rows := uint32(v.State().Rows())
		for _, c := range r.Counts {
			if c.Row >= rows {
				break // rows are in order, and this node does not have them
			}
			if err := add(tx, r.Day, c.Row, c.From, c.To); err != nil {
				return err
			}
		}
		return nil
	})
}

// add adds to one day of a row.
func add(tx *ledger.Tx, day, row uint32, from, to uint64) error {
	if from == 0 && to == 0 {
		return nil
	}
	key := blockKey(day/blockDays, row)
	b, err := readBlock(tx.View(), key)
	if err != nil {
		return err
	}
	b[day%blockDays].From += from
	b[day%blockDays].To += to
	return tx.Put(ledger.Hops, key, b.encode())
}

func blockKey(block, row uint32) string {
	key := binary.BigEndian.AppendUint16([]byte(dayPrefix), uint16(block))
	return string(binary.BigEndian.AppendUint32(key, row))
}

// day is what was counted on one day.
type day struct{ From, To uint64 }

type block [blockDays]day

// readBlock gives the days of a row, which are all zero if there is none.
func readBlock(v *ledger.View, key string) (b block, err error) {
	value, err := v.Value(ledger.Hops, key)
	if err != nil {
		return b, err
	}
	f, whole := numbers(value)
	if !whole || len(f) > 2*blockDays || len(f)%2 != 0 {
		return b, errBlock
	}
	for i := range len(f) / 2 {
		b[i] = day{f[2*i], f[2*i+1]}
	}
	return b, nil
}

var errBlock = errors.New("hops: a row of days is malformed")

func (b *block) encode() []byte {
	last := blockDays - 1
	for last > 0 && b[last] == (day{}) {
		last--
	}
	value := make([]byte, 0, 3*(last+1))
	for _, d := range b[:last+1] {
		value = appendNumbers(value, d.From, d.To)
	}
	return value
}

// days gives what was counted of a row on the last n days, the present day last.
func days(v *ledger.View, row, today uint32, n int) ([]day, error) {
	list := make([]day, 0, n)
	var b block
	var err error
	for day := today + 1 - uint32(n); day <= today; day++ {
		if len(list) == 0 || day%blockDays == 0 {
			if b, err = readBlock(v, blockKey(day/blockDays, row)); err != nil {
				return nil, err
			}
		}
		list = append(list, b[day%blockDays])
	}
	return list, nil
}

// Run deletes what is no longer kept, at first and then once a day, until ctx ends.
func (s *Hops) Run(ctx context.Context) {
	each := time.NewTicker(24 * time.Hour)
	defer each.Stop()
	for {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("hops that are no longer kept are not deleted yet", "err", err)
		}
		select {
		case <-each.C:
		case <-ctx.Done():
			return
		}
	}
}

// sweep deletes days and senders that are no longer kept.
func (s *Hops) sweep(ctx context.Context) error {
	today := s.today()
	first := dayPrefix + string(binary.BigEndian.AppendUint16(nil, uint16((today-HopsKept)/blockDays)))
	over := func(r ledger.TableRow) (is, ends bool) { return r.Key < first, r.Key >= first }
	if err := s.remove(ctx, dayPrefix, over); err != nil {
		return err
	}
	return s.remove(ctx, senderPrefix, func(r ledger.TableRow) (is, ends bool) {
		f, _ := numbers(r.Value)
		return len(f) > 1 && uint32(f[1])+senderDays < today, false
	})
}

// remove deletes the rows with a prefix that over chooses, up to the one at which it ends.
func (s *Hops) remove(ctx context.Context, prefix string, over func(ledger.TableRow) (is, ends bool)) error {
	for from, ended := prefix, false; !ended; {
		var rows []ledger.TableRow
		var err error
		s.ledger.View(func(v *ledger.View) { rows, err = v.Scan(ledger.Hops, prefix, from, swept) })
		if err != nil {
			return err
		}
		ended = len(rows) < swept
		var keys []string
		for _, r := range rows {
			is, ends := over(r)
			if ends {
				ended = true
				break
			}
			if from = r.Key + "\x00"; is {
				keys = append(keys, r.Key)
			}
		}
		if len(keys) == 0 {
			continue
		}
		err = s.ledger.Do(ctx, func(tx *ledger.Tx) error {
			for _, key := range keys {
				if err := tx.Put(ledger.Hops, key, nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
