package core

import "errors"

// Ordinal numbers members in join order, from 0, counting every member that
// ever joined. It never changes and is never reused.
type Ordinal uint32

// Member is one row of the state. What events determine stands in it; rank
// and standing are functions of the state ([State.Rank], [State.Standing]).
// Strings of a removed and redacted member are empty.
type Member struct {
	Slug        string
	Name        string
	URL         string
	Description string
	Category    string
	Report      string
	Kind        Kind
	Score       Score
	Joined      int64 // milliseconds
	LastBid     int64 // milliseconds; means nothing while Bids is 0
	Fee, Bids   int64 // cents
	Removed     bool
	Redacted    bool // by a removal

	key string // identity key of URL
}

// Total is the full total in cents: the fee and every bid. It never shrinks.
func (m *Member) Total() int64 { return m.Fee + m.Bids }

// live says whether the member stands in the ring. A member whose texts have
// been redacted is known by its slug alone until the event that removes it.
func (m *Member) live() bool { return !m.Removed && m.key != "" }

// State is what a prefix of the ledger and an instant determine. It has one
// owner; reading functions may run concurrently with each other, but not with
// [State.Apply], [State.Advance] or [State.Rewind].
type State struct {
	capacity int
	rules    *Rules
	seq      uint64
	stamp    int64 // of the last event, milliseconds
	clock    int64 // whole seconds
	paid     int64 // cents, sum of all fees, bids and credits
	voided   int64 // cents, sum of all voids

	members    []Member
	slugs      map[string]Ordinal
	keys       map[string]Ordinal // live members by identity key
	hosts      map[string]List    // live members by host
	lists      map[Filter]List    // live members by what a filter can ask
	categories []string           // in use, sorted

	ranking ranking

	rows    sum    // of the hashes of all rows
	scratch []byte // for hashing
}

// NewState gives the state of an empty ledger. No more than capacity members
// can ever join, those that were removed included.
func NewState(capacity int) *State {
	s := &State{
		capacity: capacity,
		slugs:    map[string]Ordinal{},
		keys:     map[string]Ordinal{},
		hosts:    map[string]List{},
		lists:    map[Filter]List{},
	}
	s.ranking.next = never
	return s
}

// Seq is the number of events applied.
func (s *State) Seq() uint64 { return s.seq }

// Clock is the state's own instant in whole seconds since 1970, UTC: the
// latest of all advances and stamps. Every reading function speaks of it.
func (s *State) Clock() int64 { return s.clock }

// LastStamp is the stamp of the last event in milliseconds.
func (s *State) LastStamp() int64 { return s.stamp }

// Rules are the rules in force, nil before the first event. The caller must
// not change them.
func (s *State) Rules() *Rules { return s.rules }

// Rows is how many members ever joined, those that were removed included;
// Capacity is how many can.
func (s *State) Rows() int { return len(s.members) }

// Capacity is the bound on [State.Rows] given at the start.
func (s *State) Capacity() int { return s.capacity }

// Books gives the sum of all payments credited and of all that were voided,
// in cents. Their difference is what the operator has received.
func (s *State) Books() (paid, voided int64) { return s.paid, s.voided }

// Member gives a row, removed ones too. It stays the state's: callers must
// neither change it nor keep it past the next change of the state.
// An ordinal that was never given is a broken invariant and panics.
func (s *State) Member(o Ordinal) *Member { return &s.members[o] }

// Len is the number of members in the ring.
func (s *State) Len() int { return len(s.lists[Filter{}]) }

// Categories are the categories in use, sorted. The slice stays the state's.
func (s *State) Categories() []string { return s.categories }

// Errors of [State.Apply]. An event that meets one leaves the state as it was.
var (
	ErrNotOpened  = errors.New("core: the first event of a ledger must be rules")
	ErrStampOrder = errors.New("core: stamp before the previous event's")
	ErrCapacity   = errors.New("core: the ring is at its capacity")
	ErrCategories = errors.New("core: too many categories")
	ErrSlugTaken  = errors.New("core: slug was given before")
	ErrURLTaken   = errors.New("core: URL is registered")
	ErrUnknown    = errors.New("core: no such member")
	ErrRemoved    = errors.New("core: member was removed")
	ErrTotal      = errors.New("core: total beyond its limit")
)
