package core

import (
	"encoding/binary"
	"math/bits"

	"webring/core/flat"
)

// Digest is 128 bits over everything in the state that events determine: the base, and the
// sum of the hashes of all rows with their ordinals, which each event updates. Two folds
// with the same digest give the same answers. The digest detects folds that differ. It does
// not stop forgers, which signatures do.
func (s *State) Digest() [16]byte {
	// Not in scratch: any number of readers may ask at once.
	var buffer [4 << 10]byte
	h := ended(flat.NewDigest().Bytes(AppendBase(buffer[:0], s.Base())))
	h.add(s.digest)
	var d [16]byte
	binary.BigEndian.PutUint64(d[:8], h.hi)
	binary.BigEndian.PutUint64(d[8:], h.lo)
	return d
}

// SnapshotDigest is [State.Digest] over the whole of all rows. What that leaves out is the
// beginnings of owners' accounts: see [State.Owner].
func (s *State) SnapshotDigest() [16]byte { return snapshotDigest(s.Digest(), s.owners) }

func snapshotDigest(state [16]byte, owners sum) (d [16]byte) {
	h := ended(flat.NewDigest().Bytes(state[:]).Word(owners.hi).Word(owners.lo))
	binary.BigEndian.PutUint64(d[:8], h.hi)
	binary.BigEndian.PutUint64(d[8:], h.lo)
	return d
}

// hashOwner hashes the beginning of an owner's account together with o.
func hashOwner(o Ordinal, beginning []byte) sum {
	return ended(flat.NewDigest().Word(uint64(o)).Bytes(beginning))
}

// hashRow hashes the row of o together with o.
func (s *State) hashRow(o Ordinal) sum {
	fee, head := s.row(o)
	return s.hashTail(hashHead(o, head), o, fee)
}

// hashHead begins the hash of a row with the part that does not change, and hashTail ends
// it with the rest.
func hashHead(o Ordinal, head []byte) flat.Digest {
	return flat.NewDigest().Word(uint64(o)).Bytes(head)
}

// hashTail is described at [hashHead].
func (s *State) hashTail(head flat.Digest, o Ordinal, fee int64) sum {
	total, lastBid := s.Paid(o)
	d := head.Word(uint64(fee)).Word(uint64(total)).Word(uint64(lastBid))
	d = d.Word(uint64(s.flags[o] & digested))
	// Ledgers without such a status keep the digests that they had before there was one.
	if told := &s.statuses[o]; s.flags[o]&(claimed|sleeping) != 0 || *told != (status{}) {
		d = d.Word(uint64(told.since)).Word(uint64(told.verified)).Word(uint64(told.changed))
	}
	return ended(d)
}

// sum is a number modulo 2^128.
type sum struct{ hi, lo uint64 }

// ended is the number that a digest ends with.
func ended(d flat.Digest) sum {
	d = d.End()
	return sum{d.High, d.Low}
}

func (a *sum) add(b sum) {
	var carry uint64
	a.lo, carry = bits.Add64(a.lo, b.lo, 0)
	a.hi, _ = bits.Add64(a.hi, b.hi, carry)
}

func (a *sum) sub(b sum) {
	var borrow uint64
	a.lo, borrow = bits.Sub64(a.lo, b.lo, 0)
	a.hi, _ = bits.Sub64(a.hi, b.hi, borrow)
}
