package core

import (
	"encoding/binary"

	"webring/core/flat"
)

// kinds is how many kinds there are to filter by, 0 for all among them.
const kinds = int(Website) + 1

// The sections of the region. Those from ofAccounts on change with bids and with
// time; those before only when members join, leave or change.
const (
	ofImage    = 0                // a hash of the head of an image: see [State.Image]
	ofTexts    = ofImage + 1      // rows: what does not change of them, one after another
	ofRows     = ofTexts + 1      // by ordinal: place of the row in texts, in units of 4 bytes
	ofHostNext = ofRows + 1       // by ordinal: another member on the same host; see [State.link]
	ofMarks    = ofHostNext + 1   // by ordinal and kind: whether a member is in the ring
	ofBefore   = ofMarks + kinds  // the counts that go with marks
	ofSlugs    = ofBefore + kinds // buckets of an index, and its extra ones
	ofKeys     = ofSlugs + 2
	ofHosts    = ofKeys + 2
	ofAhead    = ofHosts + 2      // by ordinal: Index.Ahead of each index
	ofLists    = ofAhead + 3      // the members of each category and kind, a tree
	ofAccounts = ofLists + 1      // by ordinal: see account
	ofFlags    = ofAccounts + 1   // by ordinal
	ofPlaces   = ofFlags + 1      // by ordinal: place in due
	ofDue      = ofPlaces + 1     // when each standing changes next, a heap
	ofRanks    = ofDue + 1        // the ranked, a tree
	ofStatuses = ofRanks + 1      // by ordinal: see status
	ofAsleep   = ofStatuses + 1   // by ordinal and kind: whether a member in the ring is asleep
	ofSleepers = ofAsleep + kinds // the counts that go with these marks
	sections   = ofSleepers + kinds
)

// The flags of a row.
const (
	removed  = 1 << iota
	redacted // by a removal
	ranked   // is in the ranking
	live     // is in the ring
	funded   // has bids, and so decays
	hidden   // by the operator, and not removed since; together with removed: departed
	sleeping // does not answer
	claimed  // has an owner that its site has named

	// digested are the flags that events determine and digests cover.
	digested = removed | redacted | hidden | sleeping | claimed
)

// account is the part of a row that bids and time change. Its fields are used
// together, and so lie together: one load from memory brings them all.
type account struct {
	total    int64 // in cents, the fee included
	lastBid  int64 // in milliseconds
	standing int64 // in cents, as ranked
}

// status holds the fields of a row, other than its flags, that the events of an owner or a
// visit change. Most rows have a zero one. Instants are in milliseconds.
type status struct {
	since    int64 // when it fell asleep or woke; 0 means when it joined
	verified int64 // when its site proved itself, times 4, and the proof; 0 for never
	changed  int64 // the owner's last change, move, departure or return
}

// store is the memory of a state: its region, and views of it, which are taken
// anew when it moves.
type store struct {
	region flat.Region
	lent   func(size int) []byte // gives memory instead of the collector, if not nil
	seed   *flat.Seed
	rows   int // members that ever joined
	used   int // bytes of texts
	waste  int // of these, bytes of rows that lie elsewhere now

	texts              []byte
	at                 []uint32
	hostNext           []uint32
	marks              [kinds]flat.Marks
	slugs, keys, hosts flat.Index
	lists              flat.Tree
	accounts           []account
	flags              []byte
	due                flat.Heap
	ranks              flat.Tree
	statuses           []status
	asleep             [kinds]flat.Marks
}

// reserve makes room for rows rows and texts bytes of texts in all, and for what
// one event or step changes. When one section must grow, all get room to spare, so
// that the cost of moving is small for each row.
func (s *store) reserve(rows, texts int) {
	if texts > len(s.texts) && s.waste > s.used/4 {
		texts -= s.waste
		s.compact()
	}
	if rows <= len(s.accounts) && texts <= len(s.texts) && s.roomy() {
		return
	}
	var sizes [sections]int
	want := func(section, size int) {
		if s.region.Len() == 0 || s.region.Size(section) < size {
			sizes[section] = size + size/10
		}
	}
	room := len(s.accounts)
	if rows > room || room == 0 {
		// A multiple of 64, so that all columns fill their cache lines. Then no column has less
		// room than accounts, and the length of accounts is the room of all.
		room = (max(rows+rows/10, 1) + 63) &^ 63
	}
	for _, column := range [...]struct{ section, width int }{{ofRows, 4}, {ofHostNext, 4},
		{ofAhead, 2}, {ofAhead + 1, 2}, {ofAhead + 2, 2}, {ofAccounts, flat.RecordSize[account]()}, {ofFlags, 1}, {ofPlaces, 4}, {ofDue, 8}, {ofStatuses, flat.RecordSize[status]()}} {
		sizes[column.section] = column.width * room
	}
	sizes[ofDue] += 8 * flat.HeapAhead
	for k := range kinds {
		sizes[ofMarks+k] = 8 * (room/64 + 1)
		sizes[ofBefore+k] = 4 * (room/64 + 1)
		sizes[ofAsleep+k], sizes[ofSleepers+k] = sizes[ofMarks+k], sizes[ofBefore+k]
	}
	want(ofImage, 16)
	want(ofTexts, max(texts, 4<<10))
	const node = 8 * flat.NodeWords
	for i, x := range s.indexes() {
		x.Used = max(x.Used, flat.LeastBuckets)
		buckets := max(x.Used+1, flat.BucketsFor(rows)+1)
		want(ofSlugs+2*i, buckets*flat.BucketSize)
		want(ofSlugs+2*i+1, max(x.Spare+8, buckets/5)*flat.BucketSize)
	}
	// Nodes of lists are two thirds full when members join in many categories in
	// turn, and nodes of ranks are half full after many steps. Room that is not used
	// takes no memory; a region that has to move later is copied and no longer shared.
	want(ofLists, max(s.lists.Used+changedLists*(s.lists.Depth+3), flat.NodesFor(2*rows)*4/3)*node)
	want(ofRanks, max(s.ranks.Used+s.ranks.Depth+3, flat.NodesFor(room+64)*7/4)*node)
	s.region.Resize(sizes[:], s.lent)
	s.view()
}

// roomy says whether the indexes and trees have room for one more member.
func (s *store) roomy() bool {
	for _, x := range s.indexes() {
		if buckets, extra := x.Room(); !buckets || !extra {
			return false
		}
	}
	return len(s.lists.Nodes) >= (s.lists.Used+changedLists*(s.lists.Depth+3))*flat.NodeWords && s.ranks.Room()
}

// changedLists is to how many lists one event can add a member.
const changedLists = 4

// compact moves the rows together.
func (s *store) compact() {
	rows := make([]byte, 0, s.used-s.waste)
	for o := range Ordinal(s.rows) {
		_, head := s.row(o)
		row := s.texts[4*int(s.at[o]):][:rowSize(len(head))]
		s.at[o] = uint32(len(rows) / 4)
		rows = append(rows, row...)
	}
	clear(s.texts[copy(s.texts, rows):s.used])
	s.used, s.waste = len(rows), 0
}

// The places of the indexes in [store.indexes].
const (
	bySlug = iota
	byKey
	byHost
)

// indexes are in the order of their sections.
func (s *store) indexes() [3]*flat.Index { return [...]*flat.Index{&s.slugs, &s.keys, &s.hosts} }

// view takes the views of the region.
func (s *store) view() {
	r := &s.region
	s.texts, s.at = r.Bytes(ofTexts), r.Uint32s(ofRows)
	s.hostNext = r.Uint32s(ofHostNext)
	for k := range s.marks {
		s.marks[k].Bits, s.marks[k].Before = r.Uint64s(ofMarks+k), r.Uint32s(ofBefore+k)
		s.asleep[k].Bits, s.asleep[k].Before = r.Uint64s(ofAsleep+k), r.Uint32s(ofSleepers+k)
	}
	for i, x := range s.indexes() {
		x.Buckets, x.Extra = r.Bytes(ofSlugs+2*i), r.Bytes(ofSlugs+2*i+1)
		x.Ahead, x.Late = r.Uint16s(ofAhead+i), 3*i
	}
	s.lists.Nodes, s.ranks.Nodes = r.Uint64s(ofLists), r.Uint64s(ofRanks)
	s.accounts, s.flags = flat.Records[account](r.Bytes(ofAccounts)), r.Bytes(ofFlags)
	s.statuses = flat.Records[status](r.Bytes(ofStatuses))
	s.due.Places, s.due.Entries = r.Uint32s(ofPlaces), r.Uint64s(ofDue)[flat.HeapAhead:]
}

// What texts has for a row:
//
//	size(2 bytes) fee(4 bytes) beginning of the owner(8 bytes) head
//
// little-endian, at a multiple of 4 bytes. head is the encoding of the row as
// far as only its owner changes it: see [State.AppendRow]. size is its length, and two
// more bits, by which a writer of documents knows that nothing needs an escape.
const (
	ownerAt = 2 + 4
	rowHead = ownerAt + ownerBegin
)

const (
	headLength = 1<<14 - 1 // above what a head can be
	unescaped  = 1 << 14   // no text needs escapes in JSON
	verbatim   = 1 << 15   // neither name nor URL needs escapes in HTML
)

// The longest head, with 96 bytes for lengths, numbers and the owner, is shorter.
const _ = uint(headLength - (MaxSlug + MaxCategory + 4*MaxName + MaxURL + 4*MaxDescription + MaxReport + 2*MaxNote + 96))

// rowSize is what a row with a head of this length takes.
func rowSize(head int) int { return (rowHead + head + 3) &^ 3 }

// put writes the next row, for which room has been reserved.
func (s *store) put(head []byte, m *Member) Ordinal {
	o := Ordinal(s.rows)
	s.at[o] = uint32(s.used / 4)
	s.used += rowSize(len(head))
	s.write(o, head, m)
	s.rows++
	for k := range s.marks {
		s.marks[k].Reach(uint32(o))
		s.asleep[k].Reach(uint32(o))
	}
	return o
}

// write writes a row to its place.
func (s *store) write(o Ordinal, head []byte, m *Member) {
	size := len(head)
	if flat.PlainJSON(m.Name) == len(m.Name) && flat.PlainJSON(m.Description) == len(m.Description) && flat.PlainJSON(m.Report) == len(m.Report) {
		size |= unescaped
	}
	if flat.PlainHTML(m.Name) == len(m.Name) && flat.PlainHTML(m.URL) == len(m.URL) {
		size |= verbatim
	}
	b := s.texts[4*int(s.at[o]):]
	binary.LittleEndian.PutUint16(b, uint16(size))
	binary.LittleEndian.PutUint32(b[2:], uint32(m.Fee))
	copy(b[ownerAt:], m.Owner[:ownerBegin])
	copy(b[rowHead:], head)
}

// row gives the fee and the head of a row.
func (s *store) row(o Ordinal) (fee int64, head []byte) {
	b := s.texts[4*int(s.at[o]):]
	n := int(binary.LittleEndian.Uint16(b)) & headLength
	return int64(binary.LittleEndian.Uint32(b[2:])), b[rowHead : rowHead+n]
}

func (s *store) has(o Ordinal, flag byte) bool { return s.flags[o]&flag != 0 }

// read gives a reader of what texts has for a row.
func (s *store) read(o Ordinal) flat.Reader { return flat.Read(s.texts[4*int(s.at[o]):]) }

// Slug gives the slug of a row, its first field: see [State.Member] for how long
// it is valid.
func (s *store) Slug(o Ordinal) string {
	slug, _ := s.read(o).Skip(rowHead).Text()
	return slug.String()
}

func (s *store) url(o Ordinal) string {
	_, r := s.Row(o).Fields().Text()
	_, r = r.Skip(1).Text()
	_, r = r.Text()
	url, _ := r.Text()
	return url.String()
}

// Row is the part of a row that only its owner and a redaction change, as it lies in memory. It
// is for writing many rows out, where copying each into a [Member] would be half of
// the work.
type Row struct{ at flat.Reader }

// Row gives the row of o: see [State.Member] for how long it is valid.
func (s *store) Row(o Ordinal) Row { return Row{s.read(o)} }

// Size is the length of all fields together.
func (r Row) Size() int { return int(r.at.Uint16()) & headLength }

// Plain reports whether name, description and report need no escapes in JSON.
func (r Row) Plain() bool { return r.at.Uint16()&unescaped != 0 }

// Verbatim reports whether name and URL need no escapes in HTML.
func (r Row) Verbatim() bool { return r.at.Uint16()&verbatim != 0 }

// Fee is the fee in cents.
func (r Row) Fee() int64 { return int64(r.at.Skip(2).Uint32()) }

// Joined is when the member joined, in milliseconds.
func (r Row) Joined() int64 { return int64(r.at.Skip(rowHead + r.Size() - 8).Big64()) }

// Fields gives, in the terms of [State.AppendRow], slug kind category name url
// description report optional (value …).
func (r Row) Fields() flat.Reader { return r.at.Skip(rowHead) }

// Paid gives a member's full total in cents, and when it last got a bid, in
// milliseconds; that means nothing while the total is the fee.
func (s *store) Paid(o Ordinal) (total, lastBid int64) {
	a := &s.accounts[o]
	return a.total, a.lastBid
}

// Member gives a row, removed ones too.
// An ordinal that was never given is a broken invariant and panics.
func (s *State) Member(o Ordinal) (m Member) {
	s.Read(o, &m)
	return m
}

// Read is [State.Member], but writes into m instead of returning a copy.
func (s *State) Read(o Ordinal, m *Member) {
	row := s.Row(o)
	m.Fee, m.Joined = row.Fee(), row.Joined()
	r := row.Fields()
	next := func() string {
		t, behind := r.Text()
		r = behind
		return t.String()
	}
	m.Slug = next()
	m.Kind, r = Kind(r.Byte()), r.Skip(1)
	m.Category, m.Name, m.URL, m.Description, m.Report = next(), next(), next(), next(), next()
	m.Score = Score{}
	if m.Score.Given = r.Byte() != 0; m.Score.Given {
		m.Score.Value, r = r.Skip(1).Byte(), r.Skip(2)
		m.Score.Provider, m.Score.Version = next(), next()
		m.Score.ScannedAt = int64(r.Big64())
	}
	m.Owner = s.Owner(o)
	total, lastBid := s.Paid(o)
	m.LastBid, m.Bids = lastBid, total-m.Fee
	m.Removed, m.Redacted, m.Hidden, m.Departed = s.has(o, removed), s.has(o, redacted), s.Hidden(o), s.isDeparted(o)
	m.Claimed = s.has(o, claimed)
	m.Asleep, m.HealthSince = s.has(o, sleeping), s.statuses[o].since
	m.Verified, m.Proof = s.statuses[o].verification()
	m.Changed = s.statuses[o].changed
}

// appendHead appends the encoding of the row as far as only its owner changes it; see
// [State.AppendRow].
func (m *Member) appendHead(dst []byte) []byte {
	dst = appendString(dst, m.Slug)
	dst = append(dst, byte(m.Kind))
	for _, text := range [...]string{m.Category, m.Name, m.URL, m.Description, m.Report} {
		dst = appendString(dst, text)
	}
	dst = appendScore(dst, m.Score)
	dst = append(dst, m.Owner[ownerBegin:]...)
	return appendNumber(dst, m.Joined)
}

// RowsSize is at least the length of all rows together, as [State.AppendRow]
// writes them.
func (s *State) RowsSize() int { return s.used + s.rows*tail }
