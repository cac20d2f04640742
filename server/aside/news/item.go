package news

import (
	"encoding/binary"

	"webring/core"
)

// kind says what happened. Its numbers are stored.
type kind uint8

const (
	joined kind = 1 + iota
	bid
	credited
	outbid
	ranked
	fading
	asleep
	awake
	changed
	moved
	claimed
	verified
	unverified
	left
	removed
	returned
)

var kindNames = [...]string{joined: "joined", bid: "bid", credited: "credited", outbid: "outbid", ranked: "rank", fading: "fading",
	asleep: "asleep", awake: "awake", changed: "changed", moved: "moved", claimed: "claimed", verified: "verified",
	unverified: "unverified", left: "left", removed: "removed", returned: "returned"}

// String gives the kind's name in documents, "" for one of a later version.
func (k kind) String() string {
	if int(k) >= len(kindNames) {
		return ""
	}
	return kindNames[k]
}

// item is one piece of news.
type item struct {
	id        uint64
	at        int64  // milliseconds
	event     uint64 // the ledger's number of the event, from 1; 0 when time alone did it
	kind      kind
	member    core.Ordinal
	by        core.Ordinal // who outbid it, for outbid
	was, rank int          // from 1; 0 for none
	cents     int64
	proof     core.Proof
}

// idBits is how many of the lowest bits of a number count within its batch.
const idBits = 9

func (i *item) fields() [10]uint64 {
	return [10]uint64{i.id, uint64(i.at), i.event, uint64(i.kind), uint64(i.member), uint64(i.by), uint64(i.was), uint64(i.rank), uint64(i.cents), uint64(i.proof)}
}

// appendItems appends the encoding of items: ten varints for each.
func appendItems(dst []byte, items []item) []byte {
	for i := range items {
		for _, x := range items[i].fields() {
			dst = binary.AppendUvarint(dst, x)
		}
	}
	return dst
}

// decodeItems reads items up to what is malformed.
func decodeItems(b []byte) (items []item) {
	for len(b) > 0 {
		var f [10]uint64
		for i := range f {
			x, n := binary.Uvarint(b)
			if n <= 0 {
				return items
			}
			f[i], b = x, b[n:]
		}
		items = append(items, item{f[0], int64(f[1]), f[2], kind(f[3]), core.Ordinal(f[4]), core.Ordinal(f[5]), int(f[6]), int(f[7]), int64(f[8]), core.Proof(f[9])})
	}
	return items
}
