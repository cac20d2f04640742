package templates

import (
	"fmt"
	"slices"
	"time"
)

// Hops are visitors that the ring has sent on in the last days: in all, or to a member and on
// from it.
type Hops struct {
	Total struct{ From, To, Hops uint64 }
	Days  []HopsDay // the newest first
}

// HopsDay is one day of them.
type HopsDay struct {
	Day      string // 2006-01-02
	From, To uint64
}

const (
	// hopsStep is the width of a day in the picture, hopsHeight the height of the fullest.
	hopsStep, hopsHeight = 10, 60
)

// most is the most hops to or from it on one day.
func (h *Hops) most() (n uint64) {
	for _, d := range h.Days {
		n = max(n, d.From, d.To)
	}
	return n
}

// picture has a bar for the hops to the member of each day, and a line through those from it.
func (h *Hops) picture() (viewBox, bars, line string) {
	height := func(n uint64) int { return hopsHeight - int(n*hopsHeight/max(h.most(), 1)) }
	x, to := hopsStep/2, "M"
	for _, d := range slices.Backward(h.Days) {
		if d.To > 0 {
			bars += fmt.Sprintf("M%d %dV%d", x, hopsHeight, min(height(d.To), hopsHeight-1))
		}
		line += fmt.Sprintf("%s%d %d", to, x, height(d.From))
		x, to = x+hopsStep, "L"
	}
	return fmt.Sprintf("0 -2 %d %d", hopsStep*max(len(h.Days), 1), hopsHeight+4), bars, line
}

// words say which day was the best, with a space behind them, or are "".
func (h *Hops) words() string {
	var best HopsDay
	for _, d := range h.Days {
		if d.To >= best.To {
			best = d // of several, the first
		}
	}
	day, err := time.Parse(time.DateOnly, best.Day)
	if best.To == 0 || err != nil {
		return ""
	}
	return "Best day: " + day.Format("2 January") + ": " + groupedAll(best.To) + ". "
}

// groupedAll is grouped for numbers of any length.
func groupedAll(n uint64) string { return grouped(int(min(n, 1<<62))) }
