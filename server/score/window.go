package score

import (
	"sync"
	"time"

	"webring/server/fair"
)

const (
	// fewQuestions is how many an asker has put who is refused when half of what a
	// minute has room for is put.
	fewQuestions = 4
	// attempts is how many times as many questions may be tried as put: those about
	// names that lead nowhere are not charged to all, and still cost something.
	attempts = 4
)

// window counts the questions of a minute. A limit below zero is none.
type window struct {
	mu    sync.Mutex
	began time.Time
	tried *fair.Shares
	put   *fair.Shares
}

func newWindow(most int) *window {
	return &window{
		tried: fair.NewShares(fair.Rule{Most: most * attempts, Half: fewQuestions}),
		put:   fair.NewShares(fair.Rule{Most: most, Half: fewQuestions}),
	}
}

// take counts a question that is about to be put. It gives the time until there is
// room for it, or 0 when there is room now.
func (w *window) take(asker fair.Asker, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.began) >= time.Minute {
		w.began = now
		w.tried.Clear()
		w.put.Clear()
	}
	if !w.put.Room(asker) || !w.tried.Take(asker) {
		return w.began.Add(time.Minute).Sub(now)
	}
	w.put.Take(asker)
	return 0
}

// waive gives back a question that was taken at a time and cost nobody anything.
func (w *window) waive(asker fair.Asker, taken time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !taken.Before(w.began) {
		w.put.Return(asker)
	}
}
