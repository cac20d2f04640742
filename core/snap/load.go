package snap

import (
	"webring/core"
)

// A Loader makes the state of a snapshot that comes in pieces, at the instant of its last
// event, and checks it against the digest in the snapshot. Only a signature can say whether
// that digest is the right one.
//
// It keeps no piece, so a host needs no memory for a whole snapshot. Errors wrap
// [ErrSnapshot], and also [core.ErrCapacity] if more members have joined than capacity. All
// that follows an error fails with it.
type Loader struct {
	capacity int
	secret   uint64
	means    core.Means

	left   int    // bytes that are to come
	head   []byte // the beginning, until the header is known
	digest [16]byte
	rows   *core.Restorer // nil until the header is known
	err    error
}

// NewLoader begins to load a snapshot of size bytes. For secret see [core.NewState], for means
// [core.Restorer]. The room that it makes is in proportion to size, which the caller bounds.
func NewLoader(capacity int, secret uint64, size int, means core.Means) *Loader {
	return &Loader{capacity: capacity, secret: secret, means: means, left: size}
}

// Add takes the next bytes of the snapshot, as many as the caller has.
func (l *Loader) Add(piece []byte) error {
	if l.err == nil {
		l.err = l.add(piece)
	}
	return l.err
}

func (l *Loader) add(piece []byte) error {
	if len(piece) > l.left {
		return &flaw{sentinel: ErrSnapshot, detail: "length"}
	}
	l.left -= len(piece)
	if l.rows == nil {
		n := min(HeadSize-len(l.head), len(piece))
		l.head, piece = append(l.head, piece[:n]...), piece[n:]
		if len(l.head) < HeadSize && l.left > 0 {
			return nil
		}
		h, err := open(l.head)
		if err != nil {
			return err
		}
		l.digest, l.head = h.digest, nil
		size := len(h.rows) + len(piece) + l.left
		if l.rows, err = core.NewRestorer(l.capacity, l.secret, h.base, h.count, size, l.means); err == nil {
			err = l.rows.Add(h.rows)
		}
		if err != nil {
			return wrong(err)
		}
	}
	if err := l.rows.Add(piece); err != nil {
		return wrong(err)
	}
	return nil
}

// State gives the state when the whole snapshot has been added. Ranks may only be read after
// the next [core.State.Advance].
func (l *Loader) State() (*core.State, error) {
	switch {
	case l.err != nil:
		return nil, l.err
	case l.rows == nil || l.left > 0:
		return nil, &flaw{sentinel: ErrSnapshot, detail: "length"}
	}
	st, err := l.rows.State()
	switch {
	case err != nil:
		return nil, wrong(err)
	case st.SnapshotDigest() != l.digest:
		return nil, &flaw{sentinel: ErrSnapshot, detail: "the rows are not those of its digest"}
	}
	return st, nil
}

// wrong is an error about rows as one about a snapshot.
func wrong(err error) error {
	if err == core.ErrRows {
		return &flaw{sentinel: ErrSnapshot, detail: "length"}
	}
	return &flaw{sentinel: ErrSnapshot, cause: err}
}

// Open makes the state of a whole snapshot; see [Loader]. The state does not alias b.
func Open(capacity int, secret uint64, b []byte, means core.Means) (*core.State, error) {
	l := NewLoader(capacity, secret, len(b), means)
	if err := l.Add(b); err != nil {
		return nil, err
	}
	return l.State()
}
