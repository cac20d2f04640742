package core

// Earlier makes rows of the form that [State.AppendRow] gives out of those in snapshots of
// version 3, in order. Of the owner those had the end of its account alone, and nothing
// behind redacted. The owners are not known then: [State.Owner] gives the zero account, and
// all else, with [State.Digest], is as it was.
type Earlier struct {
	next   Ordinal
	owners sum
}

// EarlierLacks is by how many bytes a row is longer than it was in version 3.
const EarlierLacks = tail - earlierTail

const earlierTail = 3*8 + 2

// lost stands in a row in place of the beginning of an owner's account that version 3 did
// not have. No account begins so, as far as anybody has found a key.
var lost = [ownerBegin]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// AppendRow appends the next row. Whether it is one, [Restorer] finds out.
func (e *Earlier) AppendRow(dst, row []byte) []byte {
	more := [EarlierLacks]byte{}
	if end := len(row) - earlierTail - 8; end >= ownerEnd && [ownerEnd]byte(row[end-ownerEnd:]) != [ownerEnd]byte{} {
		copy(more[:], lost[:])
	}
	e.owners.add(hashOwner(e.next, more[:ownerBegin]))
	e.next++
	return append(append(dst, row...), more[:]...)
}

// Digest gives the [State.SnapshotDigest] of the state with these rows and this
// [State.Digest].
func (e *Earlier) Digest(state [16]byte) [16]byte { return snapshotDigest(state, e.owners) }
