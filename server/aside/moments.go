package aside

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
)

const (
	// mostMoments is how many moments are told of. Of a longer history each second one is left out,
	// then each second of these, and so on.
	mostMoments = 192
	// shownRanks is how many members a moment has, as the picture of the ring does.
	shownRanks = 40
	// momentsAge is for how many seconds moments may be kept. They are made once in that time.
	momentsAge = 60
)

// Moments replays the ring from its first event, for readers who want to see how it grew. Its
// functions may be called concurrently.
type Moments struct {
	books  Books
	most   uint64
	now    func() time.Time
	making sync.Mutex
	made   time.Time
	all    []moment
	told   api.Document // of all, at toldAt events
	toldAt uint64
}

// NewMoments replays a ledger of at most so many events. now is its clock.
func NewMoments(books Books, most uint64, now func() time.Time) *Moments {
	return &Moments{books: books, most: most, now: now}
}

// moment is the ring after an event.
type moment struct {
	seq     uint64
	at      int64 // milliseconds
	members int
	marks   []rayAt
}

// rayAt is one member at a moment. Amounts are in cents.
type rayAt struct {
	member       core.Ordinal
	position     int
	paid, counts int64
}

// momentsDocument names each member once. Moments are in order, and so are the marks of one, the
// highest standing first: [place among members, position in the ring, cents paid, cents that count].
type momentsDocument struct {
	Members  []momentMember   `json:"members"`
	Moments  []momentDocument `json:"moments"`
	Complete bool             `json:"complete"` // from the first event on
}

type momentMember struct {
	Slug string `json:"slug"`
	Name string `json:"name"`
	URL  string `json:"url"`
	Kind string `json:"kind"`
}

type momentDocument struct {
	Seq     uint64     `json:"seq"`
	At      string     `json:"at"`
	Members int        `json:"members"`
	Marks   [][4]int64 `json:"marks"`
}

// Document answers with the moments of the ring. Words are those of the present ring: of members of
// which nothing may be said any more there are none. Those whose words were deleted with them are in no
// moment that is made afterwards.
func (s *Moments) Document() (d api.Document) {
	s.making.Lock()
	defer s.making.Unlock()
	all, complete, err := s.replay()
	var doc *momentsDocument
	var seq uint64
	s.books.View(func(v *ledger.View) {
		st := v.State()
		if err != nil {
			d = refuse(st, api.Internal, "The ring cannot be replayed.")
			return
		}
		if seq = st.Seq(); s.toldAt == seq && s.told.Status != 0 {
			d = s.told
			return
		}
		doc = &momentsDocument{Members: []momentMember{}, Moments: []momentDocument{}, Complete: complete}
		places := map[core.Ordinal]int64{}
		for _, m := range all {
			one := momentDocument{Seq: m.seq, At: instant(m.at), Members: m.members, Marks: make([][4]int64, 0, len(m.marks))}
			for _, r := range m.marks {
				place, known := places[r.member]
				if !known {
					place = int64(len(doc.Members))
					places[r.member] = place
					named := momentMember{Name: "A former member", Kind: st.Member(r.member).Kind.String()}
					if _, some := shown(st, r.member); some {
						is := st.Member(r.member)
						named.Slug, named.Name, named.URL = is.Slug, is.Name, is.URL
					}
					doc.Members = append(doc.Members, named)
				}
				one.Marks = append(one.Marks, [4]int64{place, int64(r.position), r.paid, r.counts})
			}
			doc.Moments = append(doc.Moments, one)
		}
	})
	if doc != nil { // it is spelled outside of the view, which keeps writers waiting
		d = answer(doc, momentsAge, seq)
		s.told, s.toldAt = d, seq
	}
	return d
}

// replay gives the moments, which it makes again when they are old. Of a ring with a longer history
// than it replays there are none. The caller holds making.
func (s *Moments) replay() (all []moment, complete bool, err error) {
	var size uint64
	var rows int
	s.books.View(func(v *ledger.View) { size, rows = v.State().Seq(), v.State().Rows() })
	if size > s.most {
		return nil, false, nil
	}
	if s.all != nil && s.now().Sub(s.made) < momentsAge*time.Second {
		return s.all, true, nil
	}
	const page = 1024
	st := core.NewState(rows, rand.Uint64())
	some := []moment{}
	number, step, newer := 0, 1, false
	for from := uint64(0); from < size; from += page {
		records, err := s.books.Records(from, int(min(page, size-from)))
		if err != nil {
			return nil, false, err
		}
		if len(records) == 0 {
			break // the rest is not durable yet
		}
		for i, r := range records {
			e, err := core.DecodeEvent(r.Event)
			if err != nil {
				return nil, false, fmt.Errorf("aside: event %d: %w", from+uint64(i), err)
			}
			before := factsOf(st, e)
			if err := st.Apply(r.Event, r.Texts); err != nil {
				return nil, false, fmt.Errorf("aside: event %d: %w", from+uint64(i), err)
			}
			if !before.differ(factsOf(st, e)) {
				continue
			}
			if newer = number%step > 0; !newer {
				if some = append(some, momentOf(st, e.When())); len(some) > mostMoments {
					step *= 2
					for k := range (len(some) + 1) / 2 {
						some[k] = some[2*k]
					}
					some = some[:(len(some)+1)/2]
				}
			}
			number++
		}
	}
	if newer { // events after the last moment are in none: the newest takes its place
		some = append(some[:min(len(some), mostMoments-1)], momentOf(st, st.LastStamp()))
	}
	s.all, s.made, s.told = some, s.now(), api.Document{}
	return some, true, nil
}

// facts are what a picture of the ring follows from. Whatever an event is, it changes the picture if
// and only if it changes one of them. Words are those of the present ring.
type facts struct {
	members      int   // in the ring
	paid         int64 // for the member that the event is about, if it is in the ring
	grace, decay int64
	clock        int64
}

func factsOf(st *core.State, e core.Event) (f facts) {
	f.members, f.clock = st.Len(), st.Clock()
	if o, known := st.BySlug([]byte(core.MemberOf(e))); known && st.Stands(o) {
		f.paid, _ = st.Paid(o)
	}
	if rules := st.Rules(); rules != nil {
		f.grace, f.decay = rules.Grace, rules.Decay
	}
	return f
}

// differ says whether the picture differs after an event. It does not because time went on.
func (f facts) differ(now facts) bool {
	f.clock = max(0, f.clock-now.clock) // set back
	now.clock = 0
	return f.members+now.members > 0 && f != now
}

func momentOf(st *core.State, at int64) moment {
	st.Advance(max(st.Clock(), at/1000))
	m := moment{seq: st.Seq(), at: at, members: st.Len()}
	for _, o := range st.AppendRanked(nil, 0, shownRanks) {
		paid, _ := st.Paid(o)
		m.marks = append(m.marks, rayAt{o, st.Position(o), paid, st.Standing(o)})
	}
	return m
}
