package hops

import (
	"encoding/binary"
	"errors"
)

const (
	// MaxCounts is how many members one report counts for at most.
	MaxCounts = 1000
	// MaxReport is no shorter than any report, in bytes.
	MaxReport = 16 << 10
	// maxRow and maxHops bound the numbers of a count, which takes 16 bytes at most.
	maxRow  = 1 << 26
	maxHops = 1 << 40
	// maxDay is the last day of the year 9999.
	maxDay = 2932896
)

// SenderID is what a process calls itself in its reports.
type SenderID [16]byte

// Count is what one member's part in the hops of a day was.
type Count struct {
	Row      uint32 // of the member, from 0 on
	From, To uint64 // hops from its site, and to its site
}

// Report has the hops of one day that a sender has not reported before.
type Report struct {
	Sender SenderID
	Number uint64 // 1 for the sender's first report, and 1 more for each further one
	Day    uint32 // since 1970-01-01, UTC
	Hops   uint64 // redirects in all, also those from no member
	Counts []Count
}

// ErrReport says that bytes are no report.
var ErrReport = errors.New("hops: malformed report")

// version begins each report.
const version = 1

// Append appends the report, which has at most MaxCounts counts, in the order of their rows.
// Numbers are varints:
//
//	report = 1(byte) sender(16 bytes) number day hops n count...
//	count  = row from to
//
// where n is the number of counts, and row the distance from the row of the count before,
// or from -1.
func (r *Report) Append(dst []byte) []byte {
	dst = append(append(dst, version), r.Sender[:]...)
	for _, x := range [...]uint64{r.Number, uint64(r.Day), r.Hops, uint64(len(r.Counts))} {
		dst = binary.AppendUvarint(dst, x)
	}
	before := int64(-1)
	for _, c := range r.Counts {
		dst = binary.AppendUvarint(dst, uint64(int64(c.Row)-before))
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, c.From), c.To)
		before = int64(c.Row)
	}
	return dst
}

// Decode reads all of b.
func Decode(b []byte) (r Report, err error) {
	if len(b) > MaxReport || len(b) < 1+len(r.Sender) || b[0] != version {
		return r, ErrReport
	}
	b = b[1+copy(r.Sender[:], b[1:]):]
	ok := true
	next := func(most uint64) uint64 {
		x, n := binary.Uvarint(b)
		if n <= 0 || x > most {
			ok = false
			return 0
		}
		b = b[n:]
		return x
	}
	r.Number = next(1<<63 - 1)
	r.Day = uint32(next(maxDay))
	r.Hops = next(maxHops)
	n := next(MaxCounts)
	if ok && r.Number > 0 {
		r.Counts = make([]Count, 0, n)
	}
	for before := int64(-1); ok && n > 0; n-- {
		row := before + int64(next(maxRow))
		c := Count{Row: uint32(row), From: next(maxHops), To: next(maxHops)}
		ok = ok && row > before && row < maxRow
		r.Counts = append(r.Counts, c)
		before = row
	}
	if !ok || len(b) > 0 || r.Number == 0 {
		return Report{}, ErrReport
	}
	return r, nil
}
