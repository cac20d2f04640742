package score

import (
	"sync"
	"time"

	"webring/edge/share"
)

const (
	// fewQuestions is the number of questions after which an asker is refused once
	// half of the minute's questions are put.
	fewQuestions = 4
	// attempts is by which factor more questions may be tried than put. A question
	// about a name without a site is not charged as put, and still costs something.
	attempts = 4
)

// window counts the questions of a minute. A negative limit stands for none.
type window struct {
	mu    sync.Mutex
	began time.Time
	tried *share.Shares
	put   *share.Shares
}

func newWindow(most int, past *share.Past) *window {
	return &window{
		tried: share.NewShares(share.Rule{Most: most * attempts, Half: fewQuestions, Past: past}),
		put:   share.NewShares(share.Rule{Most: most, Half: fewQuestions, Past: past}),
	}
}

// take counts a question that is about to be put. If there is no room for it, the
// result is the time until there may be; otherwise it is 0.
func (w *window) take(asker share.Asker, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.began) >= time.Minute {
		w.began = now
		w.tried.Clear()
		w.put.Clear()
	}
	if !w.put.Take(asker) {
		return w.began.Add(time.Minute).Sub(now)
	}
	if !w.tried.Take(asker) {
		w.put.Return(asker)
		return w.began.Add(time.Minute).Sub(now)
	}
	return 0
}

// waive gives back a question that was taken at that time and sent nothing.
func (w *window) waive(asker share.Asker, taken time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !taken.Before(w.began) {
		w.put.Return(asker)
	}
}
