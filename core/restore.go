package core

import (
	"encoding/binary"

	"webring/core/flat"
)

// Means are what a host can lend to a [Restorer]: the core itself starts no
// goroutines. The zero value restores one step after another.
type Means struct {
	// Beside runs all steps, in any order or in parallel, and returns when they have
	// ended. No step writes what another reads.
	Beside func(steps ...func())
	// Memory gives zeroed memory for the state, at a multiple of 64 bytes, or nil. It
	// is called at most once. The state moves elsewhere when it grows: [State.Image]
	// shows where it lies. Without Memory the state lies in Go's own heap.
	Memory func(size int) []byte
}

func (m Means) beside(steps ...func()) {
	if m.Beside != nil {
		m.Beside(steps...)
		return
	}
	for _, step := range steps {
		step()
	}
}

const (
	// atOnce is how many rows are restored together, between which steps wait for
	// one another, and stepRows how many of them one step reads.
	atOnce   = 1 << 14
	stepRows = 1 << 10
	// warmed is how many rows have their buckets fetched together.
	warmed = 64
)

// A Restorer makes the state of a base and of rows that come in pieces. Each row is checked
// as an event is. Whether the rows are the right ones, only the comparison of [State.Digest]
// shows. Errors wrap [ErrRow], are [ErrRows], or are errors of [State.Apply] where two rows
// exclude each other. After one, the Restorer must not be used.
type Restorer struct {
	to    restoring
	means Means
	count int    // rows of the state
	left  int    // bytes of rows that are to come
	begun []byte // the beginning of a row that the last piece did not hold whole
}

// NewRestorer begins to restore a state with this base and count rows, which have the encodings
// of [Restorer.Add] and size bytes together. It makes room for as many rows as size bytes can
// hold, and no more.
func NewRestorer(capacity int, secret uint64, b Base, count uint32, size int, means Means) (*Restorer, error) {
	r := &Restorer{means: means, count: int(count), left: size}
	s := NewState(capacity, secret)
	switch {
	case r.count > s.capacity:
		return nil, ErrCapacity
	case r.count > size/(4+leastRow):
		return nil, ErrRows
	case b.Rules == nil && r.count > 0:
		return nil, ErrNotOpened
	}
	s.seq, s.stamp, s.paid, s.voided, s.rules = b.Seq, b.Stamp, b.Paid, b.Voided, b.Rules
	s.clock = b.Stamp / 1000
	s.ranking.stale = true
	s.lent = means.Memory
	s.Expect(r.count, size-4*r.count)
	s.lent = nil
	r.to = restoring{State: s, found: make([][3]uint64, min(r.count, atOnce))}
	return r, nil
}

// Add restores the next rows. rows holds their encodings in order, each behind its length in
// 4 bytes, big endian. It may begin and end anywhere in a row. The state does not alias it.
func (r *Restorer) Add(rows []byte) error {
	if len(rows) > r.left {
		return ErrRows
	}
	r.left -= len(rows)
	if len(r.begun) > 0 {
		rest, err := r.complete(rows)
		if err != nil {
			return err
		}
		if rows = rest; len(rows) == 0 {
			return nil // there may be more to come of the row
		}
	}
	rest, err := r.all(rows)
	r.begun = append(r.begun[:0], rest...)
	return err
}

// complete adds what it lacks to the row that was begun, as far as rows has it, and restores
// that row when it is whole.
func (r *Restorer) complete(rows []byte) (rest []byte, err error) {
	for {
		length, err := rowLength(r.begun)
		if err != nil {
			return nil, err
		}
		n := min(length-len(r.begun), len(rows))
		r.begun, rows = append(r.begun, rows[:n]...), rows[n:]
		switch {
		case len(r.begun) < length:
			return nil, nil
		case length > 4:
			_, err := r.all(r.begun)
			r.begun = r.begun[:0]
			return rows, err
		}
	}
}

// all restores all rows that are whole, and gives the rest: the beginning of another one.
func (r *Restorer) all(rows []byte) (rest []byte, err error) {
	to := &r.to
	for to.rest = rows; ; {
		if err := to.gather(min(r.count-to.rows, atOnce)); err != nil {
			return nil, err
		}
		switch {
		case to.n > 0:
			if err := to.together(r.means); err != nil {
				return nil, err
			}
		case to.rows == r.count && len(to.rest) > 0:
			return nil, ErrRows
		default:
			return to.rest, nil
		}
	}
}

// State gives the state when all rows have been added. The clock is at the last event, and
// ranks may only be read after the next [State.Advance].
func (r *Restorer) State() (*State, error) {
	if r.to.rows < r.count || r.left > 0 {
		return nil, ErrRows
	}
	r.to.list()
	return r.to.State, nil
}

// A row with a head of one byte has leastRow bytes, and none has more than mostRow.
const (
	leastRow = tail + 1
	mostRow  = tail + headLength
)

// restoring is a state and the rows that are about to be in it.
type restoring struct {
	*State
	rest  []byte      // all rows from the next on
	n     int         // how many are restored together
	parts [][]byte    // these, stepRows in each part but the last
	found [][3]uint64 // hashes of what they are found by, in the order of indexes
}

// gather finds up to n of the next rows that are whole, and places for them.
func (r *restoring) gather(n int) error {
	rest, ahead := r.rest, byte(0)
	r.n, r.parts = 0, r.parts[:0]
	for part := rest; r.n < n; {
		// Where a row ends is known when its length has come from memory. What comes
		// after it is asked for meanwhile.
		if len(rest) > 4096+192 {
			ahead |= rest[4096] | rest[4096+64] | rest[4096+128] | rest[4096+192]
		}
		length, err := rowLength(rest)
		if err != nil {
			return err
		}
		if length > len(rest) || length == 4 {
			n = r.n // all there are
		} else {
			r.at[r.rows+r.n] = uint32(r.used / 4)
			r.used += rowSize(length - 4 - tail)
			if r.used > len(r.texts) {
				return ErrRows // the rows to come would not fit into the size of all
			}
			rest = rest[length:]
			r.n++
		}
		if size := len(part) - len(rest); size > 0 && (r.n%stepRows == 0 || r.n == n) {
			r.parts, part = append(r.parts, part[:size]), rest
		}
	}
	r.rest, r.touched[0] = rest, ahead // a use, or the compiler would drop the reads
	return nil
}

// rowLength is the length of the first row with what is before it, or 4 if rows does not
// hold that whole.
func rowLength(rows []byte) (int, error) {
	if len(rows) < 4 {
		return 4, nil
	}
	n := binary.BigEndian.Uint32(rows)
	if n < leastRow || n > mostRow {
		return 0, &reason{ErrRow, "length"}
	}
	return 4 + int(n), nil
}

// together puts the rows that were gathered into the state: first the rows themselves, a
// part in each step, and then the indexes, one in each step.
func (r *restoring) together(means Means) error {
	n := len(r.parts)
	steps, sums, errs := make([]func(), n), make([][2]sum, n), make([]error, n)
	for i, part := range r.parts {
		steps[i] = func() { sums[i], errs[i] = r.put(i*stepRows, part) }
	}
	means.beside(steps...)
	for i, err := range errs {
		if err != nil {
			return err
		}
		r.digest.add(sums[i][0])
		r.owners.add(sums[i][1])
	}
	first := Ordinal(r.rows)
	r.rows += r.n
	var at [3]int
	errs = make([]error, len(at)+1)
	steps = []func(){func() { errs[len(at)] = r.enterAll(first) }}
	for {
		for i := range at {
			if at[i] < r.n {
				steps = append(steps, func() { at[i], errs[i] = r.index(i, first, at[i]) })
			}
		}
		if len(steps) == 0 {
			return nil
		}
		means.beside(steps...)
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		// Rows are left if an unlikely number shares a bucket, and an index was full.
		r.reserve(r.rows, r.used)
		steps = steps[:0]
	}
}

// put checks the rows of a part, writes them with what else is known by ordinal,
// and hashes what they are found by. It gives the sums of the hashes of all, and of their
// owners.
func (r *restoring) put(from int, part []byte) (all [2]sum, err error) {
	var k key
	var m Member
	for i := from; len(part) > 0; i++ {
		length := 4 + int(binary.BigEndian.Uint32(part))
		row := part[4:length:length]
		part = part[length:]
		if err := decodeRow(row, &m); err != nil {
			return all, err
		}
		o := Ordinal(r.rows + i)
		head := row[:len(row)-tail]
		r.store.write(o, head, &m)
		r.set(o, &m)
		r.found[i][0] = r.seed.Hash(m.Slug)
		if m.URL != "" && (!m.Removed || m.Departed) {
			if !m.Hidden && !m.Departed {
				r.flags[o] |= live
			}
			k.of(r.seed, m.URL)
			r.found[i][1], r.found[i][2] = k.hash, k.host
		}
		all[0].add(r.hashTail(hashHead(o, head), o, m.Fee))
		all[1].add(hashOwner(o, m.Owner[:ownerBegin]))
	}
	return all, nil
}

// index puts rows from a place on into one index, as far as that has room, and
// gives the place where it ended.
func (r *restoring) index(which int, first Ordinal, from int) (end int, err error) {
	x := r.indexes()[which]
	for i := from; i < r.n; i++ {
		if (i-from)%warmed == 0 {
			r.warm(x, which, i)
		}
		o := first + Ordinal(i)
		if which == byKey && !r.holdsURL(o) || which == byHost && !r.has(o, live) {
			continue
		}
		if buckets, extra := x.Room(); !buckets || !extra {
			return i, nil
		}
		hash := r.found[i][which]
		other, taken := r.alike(x, which, hash, o)
		switch {
		case !taken:
			x.Insert(hash, uint32(o))
			if which == byHost {
				r.hostNext[o] = uint32(o)
			}
		case which == bySlug:
			return i, ErrSlugTaken
		case which == byKey:
			return i, ErrURLTaken
		default:
			r.link(hash, other, o)
		}
	}
	return r.n, nil
}

// warm fetches the buckets of the next rows from memory. They lie all over it, and waiting
// for memory is much of the time that loading a large ring takes. Here the processor waits
// for many buckets at the same time.
func (r *restoring) warm(x *flat.Index, which, from int) {
	tags := uint8(0)
	for _, found := range r.found[from:min(from+warmed, r.n)] {
		tags |= x.Touch(found[which])
	}
	r.touched[which] = tags // a use, or the compiler would drop the reads
}

// alike finds the row in an index that has what o has.
func (r *restoring) alike(x *flat.Index, which int, hash uint64, o Ordinal) (other Ordinal, ok bool) {
	var a, b key
	for p := x.Probe(hash); ; {
		var entry uint32
		if p, entry, ok = x.Next(p); !ok {
			return 0, false
		}
		other = Ordinal(entry)
		if which == bySlug {
			if flat.Equal(r.Slug(o), r.Slug(other)) {
				return other, true
			}
			continue
		}
		a.spell(r.url(o))
		b.spell(r.url(other))
		if which == byKey && a.text() == b.text() || which == byHost && a.hostText() == b.hostText() {
			return other, true
		}
	}
}

// enterAll counts the rows that were gathered into the ring. In due.Places, which is not in
// use yet, it notes by ordinal to which list of a category a member in the ring belongs.
func (r *restoring) enterAll(first Ordinal) error {
	for i := range r.n {
		o := first + Ordinal(i)
		for k := range r.marks {
			r.marks[k].Reach(uint32(o))
			r.asleep[k].Reach(uint32(o))
		}
		if !r.has(o, live) {
			continue
		}
		_, fields := r.read(o).Skip(rowHead).Text()
		kind := Kind(fields.Byte())
		name, _ := fields.Skip(1).Text()
		r.marks[0].Add(uint32(o))
		r.marks[kind].Add(uint32(o))
		if r.has(o, sleeping) {
			r.asleep[0].Add(uint32(o))
			r.asleep[kind].Add(uint32(o))
		}
		r.due.Places[o] = uint32(r.categories.join(name.String(), kind)*kinds + int(kind))
		if len(r.categories.names) > maxCategoriesFold {
			return ErrCategories
		}
	}
	return nil
}

// list makes the lists of all categories of what enterAll noted. To make them at once takes
// a tenth of the time of single insertions. It overwrites due.
func (s *State) list() {
	s.lists.Used = flat.NodesFor(2*s.marks[0].Len + 2*s.asleep[0].Len)
	s.reserve(s.rows, s.used)
	ends := make([]int, len(s.categories.all))
	for c := 1; c < len(ends); c++ {
		ends[c] = ends[c-1] + s.categories.all[c-1].members[0]
	}
	sorted := s.due.Entries
	for o, id := range s.due.Places[:s.rows] {
		if id > 0 { // kinds of members begin at 1
			end := &ends[id/uint32(kinds)]
			sorted[*end] = uint64(id%uint32(kinds))<<32 | uint64(o)
			*end++
		}
	}
	b := s.lists.Rebuild()
	for _, asleep := range [...]bool{false, true} {
		for c, of := range s.categories.all {
			members := sorted[ends[c]-of.members[0] : ends[c]]
			if asleep && s.asleep[0].Len == 0 {
				break
			}
			for kind := range Kind(kinds) {
				for _, m := range members {
					o := Ordinal(uint32(m))
					switch {
					case kind != 0 && Kind(m>>32) != kind:
					case !asleep:
						b.Add(listKey(c, kind, o))
					case s.has(o, sleeping):
						b.Add(asleepKey(c, kind, o))
					}
				}
			}
		}
	}
	b.End()
	clear(s.due.Places[:s.rows])
}
