package fair

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
}

// neighbours is the number of clients of one network that weigh as one.
const neighbours = 2

// maxKnown bounds how many clients and networks have a count at a time. One that is
// forgotten begins anew; what it took still counts in all.
const maxKnown = 8192

// Shares counts what askers have taken of one resource. It is not safe for concurrent
// use.
type Shares struct {
	rule  Rule
	taken int            // in all
	had   map[string]int // by client, and by network
}

// NewShares gives shares of a resource of which nothing is taken.
func NewShares(r Rule) *Shares {
	r.Half, r.Step = max(r.Half, 1), max(r.Step, 1)
	return &Shares{rule: r, had: map[string]int{}}
}

// Room reports whether a may have another.
func (s *Shares) Room(a Asker) bool {
	if s.rule.Most < 0 {
		return true
	}
	had := s.had[a.client]
	if a.network != a.client {
		had = max(had, s.had[a.network]/neighbours)
	}
	had -= had % s.rule.Step
	return s.taken*(s.rule.Half+had) < s.rule.Most*s.rule.Half
}

// Take gives a another one, and reports whether it could.
func (s *Shares) Take(a Asker) bool {
	if !s.Room(a) {
		return false
	}
	s.taken++
	s.count(a.client)
	if a.network != a.client {
		s.count(a.network)
	}
	return true
}

func (s *Shares) count(name string) {
	if _, known := s.had[name]; !known && len(s.had) >= maxKnown {
		for other := range s.had {
			delete(s.had, other)
			break
		}
	}
	s.had[name]++
}

// Return gives back what a took.
func (s *Shares) Return(a Asker) {
	s.taken--
	s.uncount(a.client)
	if a.network != a.client {
		s.uncount(a.network)
	}
}

func (s *Shares) uncount(name string) {
	if s.had[name]--; s.had[name] <= 0 {
		delete(s.had, name)
	}
}

// Taken is how much is taken in all.
func (s *Shares) Taken() int { return s.taken }

// Had is how much a has taken and not returned.
func (s *Shares) Had(a Asker) int { return s.had[a.client] }

// Clear makes all of it free again.
func (s *Shares) Clear() {
	s.taken = 0
	clear(s.had)
}
