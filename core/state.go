package core

import (
	"errors"

	"webring/core/flat"
)

// Ordinal numbers members in join order, from 0, counting every member that
// ever joined. It never changes and is never reused.
type Ordinal uint32

// maxRows is the most members of any state: an ordinal shares a 64-bit word with
// a standing or a second.
const maxRows = 1 << flat.HeapBits

// Member is one row of the state. It holds what events determine; rank and
// standing are functions of the state ([State.Rank], [State.Standing]). The texts
// of a redacted member are empty.
//
// Strings of a Member lie in the state's memory and are valid until the state's
// next change. A caller that keeps one clones it.
type Member struct {
	Slug        string
	Name        string
	URL         string
	Description string
	Category    string
	Report      string
	Kind        Kind
	Score       Score
	Owner       Account
	Joined      int64 // milliseconds
	LastBid     int64 // milliseconds; means nothing while Bids is 0
	Fee, Bids   int64 // cents
	Removed     bool
	Redacted    bool // by a removal
	Hidden      bool // and not removed since
	Departed    bool // its owner took it out and can take that back; then it is Removed, too
	Claimed     bool // the site has named the owner
	Asleep      bool
	HealthSince int64 // milliseconds since which it is asleep or awake; 0 means Joined
	Proof       Proof // of the site, 0 when it is not verified
	Verified    int64 // milliseconds; when it proved itself
	Changed     int64 // milliseconds of the owner's last change, move, departure or return; 0 for none
}

// Total is the full total in cents: the fee and every bid. It never shrinks.
func (m Member) Total() int64 { return m.Fee + m.Bids }

// State is what a prefix of the ledger and an instant determine. It has one
// owner; reading functions may run concurrently with each other, but not with
// [State.Apply], [State.Advance] or [State.Rewind].
//
// Rows, indexes and ranking lie in one region of memory, in columns: see store.go.
type State struct {
	capacity int
	rules    *Rules
	seq      uint64
	stamp    int64 // of the last event, milliseconds
	clock    int64 // whole seconds
	paid     int64 // cents, sum of all fees, bids and credits
	voided   int64 // cents, sum of all voids

	secret uint64 // of the seed
	store
	categories categories
	ranking    ranking

	digest  sum      // of the hashes of all rows
	owners  sum      // of the hashes of what the digest does not cover of owners
	reading reused   // the event that is being applied
	touched [3]uint8 // written so that the compiler does not drop reads that prefetch
	scratch []byte   // for hashing, and for keys while the state changes
}

// NewState gives the state of an empty ledger. No more than capacity members can ever
// join, removed ones included. secret, 64 secret bits, seeds the indexes, so that names
// cannot be chosen to collide. Nothing that the state shows depends on it.
func NewState(capacity int, secret uint64) *State {
	s := &State{capacity: min(capacity, maxRows), categories: newCategories()}
	s.secret, s.seed = secret, flat.NewSeed(secret)
	s.reserve(0, 0)
	return s
}

// Expect reserves room for a number of rows, with encodings of size bytes together. It has
// an effect only in a state without rows, and changes no answer. Without it, the state's
// memory moves to a bigger region whenever it is full, which takes twice the memory
// meanwhile.
func (s *State) Expect(rows, size int) {
	if s.rows > 0 || rows > s.capacity {
		return
	}
	for _, x := range s.indexes() {
		x.Presize(rows)
	}
	// In memory a row has no tail, but what is before its head.
	s.reserve(rows, max(0, size-rows*(tail-rowHead-3)))
}

// Secret is what the indexes are seeded with; see [NewState].
func (s *State) Secret() uint64 { return s.secret }

// Seq is the number of events applied.
func (s *State) Seq() uint64 { return s.seq }

// Clock is the state's own instant in whole seconds since 1970, UTC: the
// latest of all advances and stamps since it was last set back. All functions that read
// answer for it.
func (s *State) Clock() int64 { return s.clock }

// LastStamp is the stamp of the last event in milliseconds.
func (s *State) LastStamp() int64 { return s.stamp }

// Rules are the rules in force, nil before the first event. The caller must
// not change them.
func (s *State) Rules() *Rules { return s.rules }

// Rows is how many members ever joined, removed ones included.
func (s *State) Rows() int { return s.rows }

// Capacity is the bound on [State.Rows] that [NewState] was given.
func (s *State) Capacity() int { return s.capacity }

// Books gives the sum of all payments credited and of all that were voided,
// in cents. Their difference is what the operator has received.
func (s *State) Books() (paid, voided int64) { return s.paid, s.voided }

// Len is the number of members in the ring.
func (s *State) Len() int { return s.marks[0].Len }

// Categories are the categories in use, sorted. The caller must not change the slice.
func (s *State) Categories() []string { return s.categories.names }

// Errors of [State.Apply]. On any of them the state is unchanged.
var (
	ErrNotOpened  = errors.New("core: the first event of a ledger must be rules")
	ErrStampOrder = errors.New("core: stamp before the previous event's")
	ErrAhead      = errors.New("core: a snapshot of events to come")
	ErrCapacity   = errors.New("core: the ring is at its capacity")
	ErrCategories = errors.New("core: too many categories")
	ErrSlugTaken  = errors.New("core: slug was given before")
	ErrURLTaken   = errors.New("core: URL is registered")
	ErrUnknown    = errors.New("core: no such member")
	ErrRemoved    = errors.New("core: member was removed")
	ErrHidden     = errors.New("core: member is hidden")
	ErrShown      = errors.New("core: member is not hidden")
	ErrTotal      = errors.New("core: total beyond its limit")
	ErrVerified   = errors.New("core: member is verified by this proof")
	ErrUnverified = errors.New("core: member is not verified")
	ErrAsleep     = errors.New("core: member is asleep")
	ErrAwake      = errors.New("core: member is awake")

	ErrNotDeparted = errors.New("core: member has not departed")
)
