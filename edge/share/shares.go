package share

// Rule says how much there is and how it is shared: see the package comment.
type Rule struct {
	// Most is how much there is. A negative number is no limit.
	Most int
	// Half is how much an asker must have had to be refused when half of Most is
	// taken. By default 1.
	Half int
	// Step is how much one piece of work needs. What an asker has had counts in whole
	// steps, so that it is not refused in the middle of its first. By default 1.
	Step int
	// Past has what askers cost before, which counts in addition to what they have. A
	// refused asker is charged there. nil: nothing but what they have counts.
	Past *Past
}

// Shares counts what askers have taken of one resource. It is not safe for concurrent
// use.
type Shares struct {
	rule  Rule
	taken int // in all
	had   tally
}

// NewShares gives shares of a resource of which nothing is taken.
func NewShares(r Rule) *Shares {
	r.Half, r.Step = max(r.Half, 1), max(r.Step, 1)
	return &Shares{rule: r}
}

// Room reports whether a may have another.
func (s *Shares) Room(a Asker) bool {
	if s.rule.Most < 0 {
		return true
	}
	half := s.rule.Half * Piece
	return s.taken*(half+s.Weight(a)) < s.rule.Most*half
}

// Full reports whether all is taken.
func (s *Shares) Full() bool { return s.rule.Most >= 0 && s.taken >= s.rule.Most }

// Weight is what counts against a: a [Piece] for each that it has, and its past.
func (s *Shares) Weight(a Asker) int {
	had := 0
	for level := range a.levels() {
		had = max(had, s.had.of(a, level))
	}
	had -= had % s.rule.Step
	return had*Piece + s.rule.Past.of(a, s.rule.Half)
}

// Take gives a another one, and reports whether it could.
func (s *Shares) Take(a Asker) bool {
	if !s.Room(a) {
		s.rule.Past.Charge(a, refusal)
		return false
	}
	s.taken++
	s.had.add(a, 1, s.taken)
	return true
}

// Return gives back what a took.
func (s *Shares) Return(a Asker) {
	s.taken--
	s.had.add(a, -1, s.taken+1)
}

// Taken is how much is taken in all.
func (s *Shares) Taken() int { return s.taken }

// Had is how much a has taken and not returned.
func (s *Shares) Had(a Asker) int { return s.had.of(a, 0) }

// Clear makes all of it free again.
func (s *Shares) Clear() {
	s.taken = 0
	s.had.clear()
}
