package snap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"webring/core"
)

// ErrSnapshot is wrapped by every error about bytes that are not the snapshot
// of any state.
var ErrSnapshot = errors.New("snap: malformed snapshot")

// ErrVersion is wrapped, with [ErrSnapshot], by errors about snapshots of another version
// of the program: the same events give a snapshot of this version.
var ErrVersion = errors.New("version")

// magic begins every snapshot. The number in it is the version of the rows.
const (
	magic    = anyMagic + "4\n"
	anyMagic = "webring snapshot "
)

// maxBlock is longer than any base or row can be.
const maxBlock = 64 << 10

// Append appends the snapshot of st to dst: everything that events determine, and
// nothing else. States with equal rows have equal snapshots.
//
//	snapshot = "webring snapshot 4\n" digest(16 bytes) block(base)
//	           count(4 bytes, big endian) block(row)…
//	block(x) = length(4 bytes, big endian) x
//
// Base and rows are those of [core.AppendBase] and [core.State.AppendRow], in
// join order, the digest that of [core.State.SnapshotDigest]. Nothing else may use st
// during the call.
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
	digest := st.SnapshotDigest()
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

// WriteFile writes the file in which a state travels, before it is compressed with
// zstd (RFC 8878): the snapshot of st, and behind it the right edge of the tree over
// its events ([Tree.Append]), from which further events can be checked.
//
//	file = snapshot hash(32 bytes)…
//
// The tree must have as many events as the state. write is called with one piece of
// the file after another, since a whole file takes as much memory as a state. It must
// not keep a piece. Its first error ends WriteFile and is returned.
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

// CutFile splits a file of [WriteFile]. The snapshot aliases b and is not checked
// yet: that is for [Open]. The caller compares the root of the tree with a signed
// root, or the file with a signed hash. Errors wrap [ErrSnapshot].
func CutFile(b []byte) (snapshot []byte, tree Tree, err error) {
	h, err := open(b)
	if err != nil {
		return nil, Tree{}, err
	}
	length := len(h.rows) - 32*bits.OnesCount64(h.base.Seq)
	if length < 0 {
		return nil, Tree{}, &flaw{sentinel: ErrSnapshot, detail: "length"}
	}
	tree, _ = OpenTree(h.base.Seq, h.rows[length:])
	at := len(b) - len(h.rows) + length
	return b[:at:at], tree, nil
}

// HeadSize bytes of any snapshot hold all that comes before its rows.
const HeadSize = 128 + maxBlock

// Seq gives the number of events in a snapshot's state. b is the whole snapshot, or
// its first [HeadSize] bytes. Errors wrap [ErrSnapshot].
func Seq(b []byte) (uint64, error) {
	h, err := open(b)
	return h.base.Seq, err
}

// header is what is before the rows.
type header struct {
	digest [16]byte
	base   core.Base
	count  uint32
	rows   []byte // the rest
}

// open reads the header of a snapshot.
func open(b []byte) (h header, err error) {
	if !bytes.HasPrefix(b, []byte(magic)) && bytes.HasPrefix(b, []byte(anyMagic)) {
		return header{}, &flaw{sentinel: ErrSnapshot, cause: ErrVersion}
	}
	if len(b) < len(magic)+len(h.digest) || string(b[:len(magic)]) != magic {
		return header{}, &flaw{sentinel: ErrSnapshot, detail: "form"}
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
