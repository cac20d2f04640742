package snap

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"webring/core"
)

// ErrSnapshot is wrapped by every error about bytes that are not the snapshot
// of any state.
var ErrSnapshot = errors.New("snap: malformed snapshot")

// magic begins every snapshot and names its version, that of the rows and of their digest.
const magic = "webring snapshot 3\n"

// maxBlock is longer than any base or row can be.
const maxBlock = 64 << 10

// Append appends the snapshot of st: everything that events determine, and
// nothing else. States with equal rows have equal snapshots.
//
//	snapshot = "webring snapshot 3\n" digest(16 bytes) block(base)
//	           count(4 bytes, big endian) block(row)…
//	block(x) = length(4 bytes, big endian) x
//
// Base and rows are those of [core.AppendBase] and [core.State.AppendRow], in
// join order, the digest that of [core.State.Digest]. st must not be in use.
func Append(dst []byte, st *core.State) []byte {
	// Growing by doubling would take up to three times the memory, and a guest
	// never gives memory back.
	dst = slices.Grow(dst, 64<<10+st.RowsSize()+4*st.Rows())
	dst = appendHeader(dst, st)
	for o := range st.Rows() {
		dst = appendRow(dst, st, core.Ordinal(o))
	}
	return dst
}

func appendHeader(dst []byte, st *core.State) []byte {
	digest := st.Digest()
	dst = append(append(dst, magic...), digest[:]...)
	dst = appendBlock(dst, core.AppendBase(nil, st.Base()))
	return binary.BigEndian.AppendUint32(dst, uint32(st.Rows()))
}

func appendRow(dst []byte, st *core.State, o core.Ordinal) []byte {
	at := len(dst)
	dst = st.AppendRow(append(dst, 0, 0, 0, 0), o)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// Open makes the state that a snapshot is of, at the instant of its last event,
// and checks it against the digest that the snapshot carries. Whether that
// digest is the right one is for a signature to say.
//
// Nothing in the state aliases b. Ranks are to be read after the next
// [core.State.Advance]; secret is that of [core.NewState], means are those of
// [core.Restore]. Errors wrap [ErrSnapshot], and [core.ErrCapacity] when more members
// have joined than capacity.
func Open(capacity int, secret uint64, b []byte, means core.Means) (*core.State, error) {
	h, err := open(b)
	if err != nil {
		return nil, err
	}
	st, err := core.Restore(capacity, secret, h.base, h.count, h.rows, means)
	switch {
	case err == core.ErrRows:
		return nil, &flaw{sentinel: ErrSnapshot, detail: "length"}
	case err != nil:
		return nil, &flaw{sentinel: ErrSnapshot, cause: err}
	case st.Digest() != h.digest:
		return nil, &flaw{sentinel: ErrSnapshot, detail: "the rows are not those of its digest"}
	}
	return st, nil
}

// WriteFile gives write the file that brings a state to those who follow, before
// it is compressed with zstd (RFC 8878): the snapshot of st, and behind it the
// right edge of the tree over its events ([Tree.Append]), from which further
// events can be checked.
//
//	file = snapshot hash(32 bytes)…
//
// The tree must have as many events as the state. The file comes piece by piece: a
// large one takes as much memory as a state. Pieces are valid during the call only.
// An error of write ends it and is returned.
func WriteFile(write func(piece []byte) (int, error), st *core.State, tree *Tree) error {
	const piece = 64 << 10
	b := appendHeader(make([]byte, 0, piece+maxBlock), st)
	for o := range st.Rows() {
		if len(b) >= piece {
			if _, err := write(b); err != nil {
				return err
			}
			b = b[:0]
		}
		b = appendRow(b, st, core.Ordinal(o))
	}
	_, err := write(tree.Append(b))
	return err
}

// CutFile takes a file of [WriteFile] apart. The snapshot aliases b and has
// yet to be opened; the tree's root is to be held against a signed one, or the
// file against a signed hash of it. Errors wrap [ErrSnapshot].
func CutFile(b []byte) (snapshot []byte, tree Tree, err error) {
	h, err := open(b)
	if err != nil {
		return nil, Tree{}, err
	}
	at := len(b) - 32*bits.OnesCount64(h.base.Seq)
	if at < len(b)-len(h.rows) {
		return nil, Tree{}, &flaw{sentinel: ErrSnapshot, detail: "length"}
	}
	tree, _ = OpenTree(h.base.Seq, b[at:])
	return b[:at:at], tree, nil
}

// HeadSize is longer than what stands before the rows of any snapshot, in bytes.
const HeadSize = 128 + maxBlock

// Seq gives the position of the state whose snapshot begins with b, which is whole
// or has [HeadSize] bytes. Errors wrap [ErrSnapshot].
func Seq(b []byte) (uint64, error) {
	h, err := open(b)
	return h.base.Seq, err
}

// header is what stands before the rows.
type header struct {
	digest [16]byte
	base   core.Base
	count  uint32
	rows   []byte // the rest
}

func open(b []byte) (h header, err error) {
	if len(b) < len(magic)+len(h.digest) || string(b[:len(magic)]) != magic {
		return header{}, &flaw{sentinel: ErrSnapshot, detail: "version"}
	}
	b = b[len(magic):]
	b = b[copy(h.digest[:], b):]
	base, b, ok := takeBlock(b, maxBlock)
	if !ok || len(b) < 4 {
		return header{}, &flaw{sentinel: ErrSnapshot, detail: "length"}
	}
	if h.base, err = core.DecodeBase(base); err != nil {
		return header{}, &flaw{sentinel: ErrSnapshot, cause: err}
	}
	h.count, h.rows = binary.BigEndian.Uint32(b), b[4:]
	return h, nil
}
