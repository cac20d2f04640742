package templates

import (
	"fmt"
	"strings"
	"time"
)

// Hops are the visitors that the ring has sent to a member and on from it.
type Hops struct {
	From, To uint64
	Days     []HopsDay // the oldest first
}

// HopsDay is one day of them.
type HopsDay struct {
	Day      time.Time
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

func (h *Hops) viewBox() string {
	return fmt.Sprintf("0 -2 %d %d", hopsStep*max(len(h.Days), 1), hopsHeight+4)
}

// height is that of a number of hops.
func (h *Hops) height(n uint64) int {
	return hopsHeight - int(n*hopsHeight/max(h.most(), 1))
}

// bars has a bar for the hops to it of each day.
func (h *Hops) bars() string {
	var b strings.Builder
	for i, d := range h.Days {
		if d.To > 0 {
			fmt.Fprintf(&b, "M%d %dV%d", i*hopsStep+hopsStep/2, hopsHeight, min(h.height(d.To), hopsHeight-1))
		}
	}
	return b.String()
}

// line leads through the hops from it.
func (h *Hops) line() string {
	var b strings.Builder
	for i, d := range h.Days {
		fmt.Fprintf(&b, "%s%d %d", map[bool]string{true: "M", false: "L"}[i == 0], i*hopsStep+hopsStep/2, h.height(d.From))
	}
	return b.String()
}

// words say which day was the best, with a space behind them, or are "".
func (h *Hops) words() string {
	best := HopsDay{}
	for _, d := range h.Days {
		if d.To > best.To {
			best = d
		}
	}
	if best.To == 0 {
		return ""
	}
	return "Best day: " + best.Day.UTC().Format("2 January") + ": " + groupedAll(best.To) + ". "
}

// groupedAll is grouped for numbers of any length.
func groupedAll(n uint64) string { return grouped(int(min(n, 1<<62))) }
