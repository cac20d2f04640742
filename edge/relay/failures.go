package relay

import (
	"hash/maphash"
	"sync"
	"time"
)

const (
	// askAgain is how long after a failure the same question is asked again.
	askAgain = refusedAge * time.Second
	// failingFor is how long a failure is remembered. The next reader after that waits as
	// if there had been none.
	failingFor = time.Minute
)

// failures remembers which questions failed last, in a table of fixed size. A question takes
// the slot of its hash, from the one that had it before: that one costs its next reader a
// wait.
type failures struct {
	seed  maphash.Seed // secret: strangers cannot choose questions that share a slot
	mu    sync.Mutex
	slots [1 << 12]failure
}

type failure struct {
	question uint64    // its hash
	at       time.Time // when it was asked last or failed, the zero time if it has not failed
}

func (f *failures) slot(target string) (s *failure, question uint64) {
	question = maphash.String(f.seed, target)
	return &f.slots[question%uint64(len(f.slots))], question
}

// ended notes how a question ended.
func (f *failures) ended(target string, now time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, question := f.slot(target)
	switch {
	case err != nil:
		*s = failure{question, now}
	case s.question == question:
		*s = failure{}
	}
}

// turn says whether a question failed when it was asked last, and whether it is the caller
// who asks it again.
func (f *failures) turn(target string, now time.Time) (failing, ask bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, question := f.slot(target)
	since := now.Sub(s.at)
	if s.question != question || s.at.IsZero() || since >= failingFor {
		return false, true
	}
	if ask = since >= askAgain; ask {
		s.at = now
	}
	return true, ask
}
