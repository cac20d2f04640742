package share

import (
	"context"
	"sync"
	"time"

	"webring/edge/front"
)

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

// levels is how many networks an asker is in: itself, and three around it, each wider than
// the one before.
const levels = front.Widths

// weights says for each level as how many clients all of its askers together weigh.
var weights = [levels]int{1, 2, 4, 8}

// Asker is the client that uses up a resource, or a network around it. The zero value is this
// process itself.
type Asker struct {
	client front.Client
	name   string // of one that is no address: it has no networks
}

// AskerOf gives the asker for a client as [front.Client.String] names it, or for any other
// name.
func AskerOf(client string) Asker {
	if c, ok := front.ParseClient(client); ok && c.IsOne() {
		return Asker{client: c}
	}
	return Asker{name: client}
}

// Client is the name that [AskerOf] was given.
func (a Asker) Client() string {
	if a.client.IsOne() {
		return a.client.String()
	}
	return a.name
}

// Network is the /24 or /48 around the client, or the client if it is no address.
func (a Asker) Network() Asker { return a.at(1) }

// Wide is the /16 or /32 around the client, or the client if it is no address.
func (a Asker) Wide() Asker { return a.at(levels - 1) }

func (a Asker) at(level int) Asker { return Asker{a.client.Within(level), a.name} }

// levels is how many networks there are.
func (a Asker) levels() int {
	if a.client.IsOne() {
		return levels
	}
	return 1
}

type contextKey struct{}

// NewContext gives a context for work that is done for an asker.
func NewContext(ctx context.Context, a Asker) context.Context {
	return context.WithValue(ctx, contextKey{}, a)
}

// FromContext gives the asker of [NewContext], or the zero value.
func FromContext(ctx context.Context) Asker {
	a, _ := ctx.Value(contextKey{}).(Asker)
	return a
}

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

// maxKnown bounds how many askers of each level have a count at a time. One that is
// forgotten begins anew; what it took still counts in all. Levels have bounds of their own:
// many clients of one network do not have the network forgotten.
const maxKnown = 4096

// tally counts by askers, at each level.
type tally [levels]map[Asker]int

// add adds n, which may be negative, to the count of an asker at each level, up to most for
// one client. A count that falls to 0 is forgotten.
func (t *tally) add(a Asker, n, most int) {
	for level := range a.levels() {
		if t[level] == nil {
			t[level] = map[Asker]int{}
		}
		counts, at := t[level], a.at(level)
		count, known := counts[at]
		if !known && len(counts) >= maxKnown {
			for some := range counts {
				delete(counts, some)
				break
			}
		}
		if count = min(count+n, most*weights[level]); count > 0 {
			counts[at] = count
		} else {
			delete(counts, at)
		}
	}
}

// of is what an asker counts for at a level: what the network has, by its weight.
func (t *tally) of(a Asker, level int) int { return t[level][a.at(level)] / weights[level] }

// halve halves all counts so many times.
func (t *tally) halve(times int) {
	for _, counts := range t {
		for a, count := range counts {
			if count >>= times; count > 0 {
				counts[a] = count
			} else {
				delete(counts, a)
			}
		}
	}
}

func (t *tally) clear() {
	for _, counts := range t {
		clear(counts)
	}
}
