package visits

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"webring/server/ledger"
	"webring/server/sites/siteproof"
)

const (
	// atOnce is how many sites are visited at a time on schedule, and askedAtOnce for
	// owners.
	atOnce, askedAtOnce = 16, 4
	// maxAsked is how many visits wait that owners have asked for.
	maxAsked = 256
	// visitTime bounds one visit.
	visitTime = 40 * time.Second
	// behindPace is the time between the starts of two visits when the schedule is behind.
	behindPace = 100 * time.Millisecond
)

// Ledger is what visits change.
type Ledger interface {
	Do(ctx context.Context, fn func(*ledger.Tx) error) error
	View(fn func(*ledger.View))
}

// Config says what a [Visitor] works with.
type Config struct {
	Ledger Ledger
	Fetch  siteproof.Client
	// Now is the clock, [time.Now] when nil.
	Now func() time.Time
	// Visited is told the outcome of each visit. It must be quick. It may be nil.
	Visited func(Outcome)
	// Log receives what operators should see, [slog.Default] when nil.
	Log *slog.Logger
}

// Visitor visits members. Its functions may be called concurrently.
type Visitor struct {
	cfg    Config
	log    *slog.Logger
	sites  *turns
	asked  chan string
	behind atomic.Int64 // minutes that are due and not looked through
}

// New prepares a visitor.
func New(c Config) *Visitor {
	v := &Visitor{cfg: c, log: c.Log, sites: newTurns(), asked: make(chan string, maxAsked)}
	if v.cfg.Now == nil {
		v.cfg.Now = time.Now
	}
	if v.cfg.Visited == nil {
		v.cfg.Visited = func(Outcome) {}
	}
	if v.log == nil {
		v.log = slog.Default()
	}
	return v
}

// Behind is how far the visits are behind their schedule.
func (v *Visitor) Behind() time.Duration { return time.Duration(v.behind.Load()) * time.Minute }

// Ask has a member visited soon, in the order of such visits. An answer wakes it, and a link or
// a token verifies it; a failure does not count. Ask does not wait.
func (v *Visitor) Ask(slug string) {
	select {
	case v.asked <- slug:
	default:
		v.log.Warn("visits: as many visits wait as may; this one is left to the schedule", "member", slug)
	}
}

// Run visits until ctx ends.
func (v *Visitor) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for range askedAtOnce {
		all.Go(func() { v.answerAsked(ctx) })
	}
	v.keepSchedule(ctx)
}

// answerAsked visits those that are asked for.
func (v *Visitor) answerAsked(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case slug := <-v.asked:
			if m, ok := v.member(slug); ok {
				v.record(ctx, []sight{v.visit(ctx, m)}, nothingDue, true)
			}
		}
	}
}

// visit looks at a member, when no other visit to its site is under way.
func (v *Visitor) visit(ctx context.Context, m target) sight {
	leave, ok := v.sites.enter(ctx, m.site)
	if !ok {
		return sight{target: m, outcome: PutOff}
	}
	defer leave()
	within, cancel := context.WithTimeout(ctx, visitTime)
	defer cancel()
	s := v.look(within, m)
	if ctx.Err() != nil {
		s.outcome = PutOff
	}
	s.at = v.cfg.Now()
	v.cfg.Visited(s.outcome)
	return s
}

// turns lets one visit at a time through for each site. Sites that share a place by chance
// wait for one another, too.
type turns struct {
	seed   maphash.Seed
	places [256]chan struct{}
}

func newTurns() *turns {
	t := &turns{seed: maphash.MakeSeed()}
	for i := range t.places {
		t.places[i] = make(chan struct{}, 1)
	}
	return t
}

// enter waits for the turn, and is not ok when ctx ends before.
func (t *turns) enter(ctx context.Context, site string) (leave func(), ok bool) {
	place := t.places[maphash.String(t.seed, site)%uint64(len(t.places))]
	select {
	case place <- struct{}{}:
		return func() { <-place }, true
	case <-ctx.Done():
		return nil, false
	}
}
