package share

import (
	"sync"
	"time"
)

const (
	// Piece is what one piece of work costs an asker that is charged for it.
	Piece = 64
	// refusal is what it costs to be refused: a crowd that goes on asking falls behind
	// clients that come back when they were told to.
	refusal = Piece / 8
	// fades is in what time half of a cost is forgotten.
	fades = 5 * time.Minute
	// mostPast bounds what is kept of a client: it is a newcomer again after so many halves.
	mostPast = 16 * Piece
)

// mostCounts is for each level by how many times its Half the past of an asker counts at most.
// A client or its /24 with a past has no room when a quarter of a resource is taken, and its
// neighbours in a /16, who may be others, when half is.
var mostCounts = [levels]int{3, 3, 2, 1}

// Past remembers what askers have cost for longer than a [Shares] counts it, and fades.
// Several of these may share it. It may be used concurrently.
type Past struct {
	mu    sync.Mutex
	costs tally
	faded time.Time
}

// NewPast gives a past in which there was nothing.
func NewPast() *Past { return &Past{faded: time.Now()} }

// Charge adds to what an asker has cost: so many times a [Piece], divided by that.
func (p *Past) Charge(a Asker, cost int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fade()
	p.costs.add(a, cost, mostPast)
}

// ChargeTime charges an asker a [Piece] for each time that a piece of work should take at
// most, and the part of it that is left.
func (p *Past) ChargeTime(a Asker, took, each time.Duration) {
	p.Charge(a, int(took*Piece/each))
}

// of is what an asker has cost lately, as in [Past.Charge], as far as it counts.
func (p *Past) of(a Asker, half int) int {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fade()
	cost := 0
	for level := range a.levels() {
		cost = max(cost, min(p.costs.of(a, level), mostCounts[level]*half*Piece))
	}
	return cost
}

// fade forgets what is over. The caller holds mu.
func (p *Past) fade() {
	times := time.Since(p.faded) / fades
	if times <= 0 {
		return
	}
	p.faded = p.faded.Add(times * fades)
	p.costs.halve(int(min(times, 62)))
}
