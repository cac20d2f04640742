package news

import (
	"encoding/binary"
	"errors"

	"webring/core"
	"webring/server/ledger"
)

// boardSize is among how many of the first each change of rank is news.
const boardSize = 100

// status is up to where everything is worked through.
type status struct {
	seq   uint64 // events
	batch uint64 // the last one written; the first one has the number 1
	// Standings that begin to fade are news from second since on, which the last pass has
	// reached with this period of grace. A pass that is not over has worked through the rows
	// before cursor, and goes on to second until, which is not part of it; otherwise until
	// is 0.
	since, until int64
	cursor       uint64
	grace        int64
	board        []core.Ordinal // the first [boardSize]
}

const statusKey = "s"

// readStatus gives nil when there is none yet.
func readStatus(v *ledger.View) (*status, error) {
	b, err := v.Value(ledger.News, statusKey)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var f []uint64
	for len(b) > 0 {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, nil
		}
		f, b = append(f, x), b[n:]
	}
	if len(f) < 6 {
		return nil, nil
	}
	s := &status{seq: f[0], batch: f[1], since: int64(f[2]), until: int64(f[3]), cursor: f[4], grace: int64(f[5])}
	for _, o := range f[6:] {
		s.board = append(s.board, core.Ordinal(o))
	}
	return s, nil
}

func (s *status) write(tx *ledger.Tx) error {
	var b []byte
	for _, x := range []uint64{s.seq, s.batch, uint64(s.since), uint64(s.until), s.cursor, uint64(s.grace)} {
		b = binary.AppendUvarint(b, x)
	}
	for _, o := range s.board {
		b = binary.AppendUvarint(b, uint64(o))
	}
	return tx.Put(ledger.News, statusKey, b)
}
