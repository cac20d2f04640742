package score

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"webring/server/fair"
)

const (
	passFor = 10 * time.Minute
	failFor = time.Minute

	// crowded is when a client may come back if too much is under way.
	crowded = 5 * time.Second

	maxCached = 4096 // answers, of a few hundred bytes each
)

// MaxUnderWay is how many questions of all clients may be under way: fewer than the
// requests for challenges, and than the payments, that an edge has on the way here at a
// time, as a test in server/cmd/webring has it. Each question holds one of these, also
// if it waits for the answer to another.
const MaxUnderWay = 48

// Limits bound what a [Guard] lets through and remembers. A zero field but Pass
// stands for its default.
type Limits struct {
	// Pass is the least passing score.
	Pass int
	// InAll is questions a minute, shared between the clients as package fair says.
	// By default 100: is-agentic allows 120 requests, and the rest is for second
	// tries. A negative number stands for no limit, also of what is under way.
	InAll int
	// Ask is the longest that one question may take; by default 15 s.
	Ask time.Duration
}

// Guard stands before a [Scorer]. It remembers scores (passing ones for ten
// minutes, others for one, errors never), lets all who ask about one site at
// the same time share one answer, limits the questions of all together, in a
// minute and at the same time, so that each client has its share, and leaves a
// service alone for half a minute when five questions in a row found it
// unavailable, but for those who had no part in that. It is safe for concurrent
// use.
//
// Time is that of package time, so testing/synctest governs it.
type Guard struct {
	*shared
	own *window
}

// shared is what guards of one scorer have in common.
type shared struct {
	scorer  Scorer
	limits  Limits
	answers *memory[Result]
	window  *window
	flight  singleflight.Group
	breaker *breaker

	mu       sync.Mutex
	underWay *fair.Shares // questions
}

// NewGuard guards scorer.
func NewGuard(scorer Scorer, limits Limits) *Guard {
	if limits.InAll == 0 {
		limits.InAll = 100
	}
	if limits.Ask == 0 {
		limits.Ask = 15 * time.Second
	}
	atOnce := MaxUnderWay
	if limits.InAll < 0 {
		atOnce = -1
	}
	s := &shared{
		scorer:   scorer,
		limits:   limits,
		answers:  newMemory[Result](maxCached),
		window:   newWindow(limits.InAll),
		breaker:  newBreaker(),
		underWay: fair.NewShares(fair.Rule{Most: atOnce}),
	}
	return &Guard{s, s.window}
}

// Beside gives a guard of the same scorer with a limit of its own before the
// common one: who asks through it shares memory and answers, and can use up no
// more than that. It is as in [Limits].
func (g *Guard) Beside(inAll int) *Guard {
	return &Guard{g.shared, newWindow(inAll)}
}

// failure reports whether err is the service's: the other outcomes are a service
// at work.
func failure(err error) bool {
	down, ok := errors.AsType[*Unavailable](err)
	return ok && !down.Busy
}

func isBusy(err error) bool {
	down, ok := errors.AsType[*Unavailable](err)
	return ok && down.Busy
}

// unreached reports whether err says that nothing was sent to the site.
func unreached(err error) bool {
	not, ok := errors.AsType[*NotScorable](err)
	return ok && not.Unreached
}

// Score answers client about the site at a canonical URL, with the errors of
// [Scorer]. When ctx ends first it returns ctx's error, and the question goes
// on for the others who wait for it and for the memory.
func (g *Guard) Score(ctx context.Context, client, url string) (Result, error) {
	began, asker := time.Now(), fair.AskerOf(client)
	if result, ok := g.answers.get(url, began); ok {
		return result, nil
	}
	if wait := g.breaker.rest(asker, began); wait > 0 {
		return Result{}, refused(wait, "the client's questions failed several times in a row")
	}
	if g.own != g.window {
		if wait := g.own.take(asker, began); wait > 0 {
			return Result{}, refused(wait, "as many questions of this kind were put, of the client or of all, as may be in a minute")
		}
	}
	if !g.begin(asker) {
		return Result{}, refused(crowded, "as many questions are under way, of the client or of all, as may be")
	}
	result, err := g.share(ctx, asker, url)
	if unreached(err) && g.own != g.window {
		g.own.waive(asker, began)
	}
	return result, err
}

// answer is what a question brought that was put for an asker.
type answer struct {
	Result
	asker fair.Asker
}

// share has the question put, or shares the answer if it is being put for another.
// It holds a place, which it gives back.
func (g *Guard) share(ctx context.Context, asker fair.Asker, url string) (Result, error) {
	for {
		asked := g.flight.DoChan(url, func() (any, error) {
			result, err := g.ask(asker, url)
			return answer{result, asker}, err
		})
		select {
		case shared := <-asked:
			got := shared.Val.(answer)
			if isBusy(shared.Err) && got.asker != asker && ctx.Err() == nil {
				continue // what limits another does not limit this one
			}
			g.end(asker)
			return got.Result, shared.Err
		case <-ctx.Done():
			// Going away does not free the place that the question holds.
			go func() {
				<-asked
				g.end(asker)
			}()
			return Result{}, fmt.Errorf("score: %w", context.Cause(ctx))
		}
	}
}

// begin counts a question that is under way, if it may be.
func (g *shared) begin(asker fair.Asker) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.underWay.Take(asker)
}

func (g *shared) end(asker fair.Asker) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.underWay.Return(asker)
}

// ask puts the question for everybody who waits, detached from all of them. It
// counts for the asker, who asked first.
func (g *shared) ask(asker fair.Asker, url string) (Result, error) {
	began := time.Now()
	// A shared call may have ended between the look above and this one.
	if result, ok := g.answers.get(url, began); ok {
		return result, nil
	}
	probe, wait := g.breaker.admit(asker, began)
	if wait > 0 {
		return Result{}, refused(wait, "the service was unavailable several times in a row")
	}
	if wait := g.window.take(asker, began); wait > 0 {
		g.breaker.done(asker, probe, false, false, began)
		return Result{}, refused(wait, "as many questions were put, of the client or of all, as may be in a minute")
	}
	ctx, cancel := context.WithTimeout(fair.NewContext(context.Background(), asker), g.limits.Ask)
	defer cancel()
	result, err := g.scoreSafely(ctx, url)
	g.breaker.done(asker, probe, !isBusy(err), failure(err), time.Now())
	if err != nil {
		if unreached(err) {
			g.window.waive(asker, began)
		}
		return Result{}, err
	}
	g.answers.put(url, result, time.Now().Add(KeptFor(result.Score, g.limits.Pass)))
	return result, nil
}

// refused is the answer to a question that a limit keeps from being put.
func refused(wait time.Duration, why string) error {
	err := unavailable(wait, errors.New(why))
	err.Busy = true
	return err
}

// KeptFor is how long a score is remembered, where pass is the least that passes.
func KeptFor(points, pass int) time.Duration {
	if points >= pass {
		return passFor
	}
	return failFor
}

// scoreSafely holds the scorer to its contract: a panic, an unknown error, or a
// score that is none, is an unavailable service. A scorer reads what strangers
// wrote, and the process holds payments.
func (g *shared) scoreSafely(ctx context.Context, url string) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			result, err = Result{}, unavailable(time.Minute, fmt.Errorf("the scorer panicked: %v", p))
		}
	}()
	result, err = g.scorer.Score(ctx, url)
	switch {
	case err == nil && (result.Score < 0 || result.Score > 100):
		return Result{}, unavailable(time.Minute, fmt.Errorf("the scorer answered %d", result.Score))
	case err == nil, errors.Is(err, ErrBadTarget), errors.As(err, new(*NotScorable)), errors.As(err, new(*Pending)), errors.As(err, new(*Unavailable)):
		return result, err
	}
	return Result{}, unavailable(0, err)
}
