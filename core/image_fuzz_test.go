package core

import (
	"encoding/binary"
	"testing"

	"webring/core/flat"
)

// Attach answers whatever the header of an image says. The test damages headers, and gives
// each the mark that belongs to it, so that Attach reads it.
func FuzzAttach(f *testing.F) {
	s := pair()
	header, lies := s.Image(nil)
	f.Add(header, 0, int64(0))
	f.Add(header[:40], 3, int64(-1))
	for at := 16; at < len(header); at += 8 {
		f.Add(header, at, int64(1)<<40)
	}
	// More categories than can be read, of as many rows.
	rows := 8 + 8 + 8*sections
	categories := rows + 8*len(s.counts()) + 32 + 5*8
	many := append([]byte(nil), header...)
	binary.BigEndian.PutUint64(many[rows:], 1<<60)
	f.Add(many, categories, int64(1)<<60)
	// No room ahead of the heap, which the rows have.
	moved := append([]byte(nil), header...)
	binary.BigEndian.PutUint64(moved[16+8*ofTexts:], uint64(s.region.Size(ofTexts)+s.region.Size(ofDue)))
	f.Add(moved, 16+8*ofDue, int64(0))
	f.Fuzz(func(t *testing.T, header []byte, at int, value int64) {
		memory := make([]byte, len(lies))
		copy(memory, lies)
		if at >= 0 && at+8 <= len(header) {
			header = append([]byte(nil), header...)
			binary.BigEndian.PutUint64(header[at:], uint64(value))
		}
		h := ended(flat.NewDigest().Bytes(header))
		binary.LittleEndian.PutUint64(memory, h.hi)
		binary.LittleEndian.PutUint64(memory[8:], h.lo)
		attached, err := Attach(100, header, memory)
		if err == nil && (attached.rows > 100 || attached.rows > len(attached.accounts) || attached.rows > len(attached.flags)) {
			t.Errorf("%d rows", attached.rows)
		}
	})
}

// pair is the state of a ring of two, a and b.
func pair() *State {
	s := NewState(100, 1)
	s.rules = &Rules{Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Decay: 1000, Scorer: "fixed"}
	s.seq = 1
	for _, slug := range []string{"a", "b"} {
		m := Member{Slug: slug, Kind: Agent, Category: "general", Name: slug, URL: "https://" + slug + ".example/", Fee: 100}
		var in place
		in.slug = s.seed.Hash(slug)
		in.of(s.seed, m.URL)
		s.add(&m, m.appendHead(nil), &in)
	}
	return s
}
