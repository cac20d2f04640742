package score

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/sync/singleflight"
)

const (
	tripAfter = 5 // consecutive asks that found the service unavailable
	openFor   = 30 * time.Second

	passFor = 10 * time.Minute
	failFor = time.Minute

	// crowded is when a client may come back if too much is under way.
	crowded = 5 * time.Second

	// Each entry is a few hundred bytes.
	maxCached  = 4096
	maxClients = 4096
)

// MaxUnderWay is how many questions of all clients may be under way: fewer than the
// requests for challenges, and than the payments, that an edge has on the way here at a
// time, as a test in server/cmd/webring has it. Each question holds one of these, also
// if it waits for the answer to another.
const MaxUnderWay = 48

// Limits bound what a [Guard] lets through and remembers. A zero field but Pass
// stands for its default; a negative number of questions for no limit.
type Limits struct {
	// Pass is the least passing score.
	Pass int
	// PerClient and InAll are questions a minute. By default 30, and 40: with
	// three tries each, the 120 requests that is-agentic allows. The last third of
	// InAll is for clients of which few were put in that minute.
	PerClient, InAll int
	// AtOnce is how many questions of one client may be under way; by default 4.
	// A scorer has room for so many, and a slow site holds its place for long. If
	// there is a limit, there is one for all clients together, too.
	AtOnce int
	// Ask is the longest that one question may take; by default 15 s.
	Ask time.Duration
}

// Guard stands before a [Scorer]. It remembers scores (passing ones for ten
// minutes, others for one, errors never), lets all who ask about one site at
// the same time share one answer, limits the questions of each client, in a
// minute and at the same time, and of all together, and leaves a service alone for
// half a minute when five questions in a row found it unavailable. It is safe for
// concurrent use.
//
// A service that fails at one site cannot be told from one that fails at all,
// and a client chooses its sites. So the five must come from two clients at
// least; a client that alone has five in a row is kept away by itself.
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
	breaker *gobreaker.CircuitBreaker[Result]
	opened  atomic.Int64 // when the breaker opened last, Unix nanoseconds
	streak  streak

	mu       sync.Mutex
	underWay map[string]int // questions, by client
	all      int            // of these
}

// NewGuard guards scorer.
func NewGuard(scorer Scorer, limits Limits) *Guard {
	if limits.PerClient == 0 {
		limits.PerClient = 30
	}
	if limits.InAll == 0 {
		limits.InAll = 40
	}
	if limits.AtOnce == 0 {
		limits.AtOnce = 4
	}
	if limits.Ask == 0 {
		limits.Ask = 15 * time.Second
	}
	s := &shared{
		scorer:  scorer,
		limits:  limits,
		answers: newMemory[Result](maxCached),
		window:  newWindow(limits.PerClient, limits.InAll),

		underWay: map[string]int{},
	}
	s.breaker = gobreaker.NewCircuitBreaker[Result](gobreaker.Settings{
		Timeout:      openFor,
		ReadyToTrip:  func(gobreaker.Counts) bool { return s.streak.ofMany() },
		IsSuccessful: func(err error) bool { return !failure(err) },
		// A question that was not put says nothing.
		IsExcluded: isBusy,
		OnStateChange: func(_ string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				s.opened.Store(time.Now().UnixNano())
			}
		},
	})
	return &Guard{s, s.window}
}

// Beside gives a guard of the same scorer with limits of its own before the
// common ones: who asks through it shares memory and answers, and can use up no
// more than these limits say. Limits are as in [Limits].
func (g *Guard) Beside(perClient, inAll int) *Guard {
	return &Guard{g.shared, newWindow(perClient, inAll)}
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

// Score answers client about the site at a canonical URL, with the errors of
// [Scorer]. When ctx ends first it returns ctx's error, and the question goes
// on for the others who wait for it and for the memory.
func (g *Guard) Score(ctx context.Context, client, url string) (Result, error) {
	if result, ok := g.answers.get(url, time.Now()); ok {
		return result, nil
	}
	// Before sharing: whoever is beyond its own limit must not hand that refusal
	// to those who asked at the same time. What ask refuses, they share: it is about
	// all together, or about a third of that.
	if wait := g.streak.rest(client, time.Now()); wait > 0 {
		return Result{}, unavailable(wait, errors.New("the client's questions failed several times in a row"))
	}
	if wait := g.own.client(client, time.Now()); wait > 0 {
		return Result{}, unavailable(wait, errors.New("the client asks too often"))
	}
	if g.own != g.window {
		if wait := g.own.all(client, time.Now()); wait > 0 {
			return Result{}, unavailable(wait, errors.New("too many questions in all of this kind"))
		}
	}
	if !g.begin(client) {
		return Result{}, unavailable(crowded, errors.New("as many questions are under way, of the client or of all, as may be"))
	}
	asked := g.flight.DoChan(url, func() (any, error) { return g.ask(client, url) })
	select {
	case answer := <-asked:
		g.end(client)
		if answer.Err != nil {
			return Result{}, answer.Err
		}
		return answer.Val.(Result), nil
	case <-ctx.Done():
		// Going away does not free the place that the question holds.
		go func() {
			<-asked
			g.end(client)
		}()
		return Result{}, fmt.Errorf("score: %w", context.Cause(ctx))
	}
}

// begin counts a question of a client that is under way, if it may be.
func (g *shared) begin(client string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limits.AtOnce >= 0 && (g.underWay[client] >= g.limits.AtOnce || g.all >= MaxUnderWay) {
		return false
	}
	g.underWay[client]++
	g.all++
	return true
}

func (g *shared) end(client string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	if g.underWay[client]--; g.underWay[client] == 0 {
		delete(g.underWay, client)
	}
}

// ask puts the question for everybody who waits, detached from all of them.
// client is who asked first, for whom it counts.
func (g *shared) ask(client, url string) (Result, error) {
	// A shared call may have ended between the look above and this one.
	if result, ok := g.answers.get(url, time.Now()); ok {
		return result, nil
	}
	// Looked at first, so that questions that are not put do not count.
	if g.breaker.State() == gobreaker.StateOpen {
		return Result{}, g.resting()
	}
	if wait := g.window.all(client, time.Now()); wait > 0 {
		return Result{}, unavailable(wait, errors.New("too many questions in all"))
	}
	result, err := g.breaker.Execute(func() (Result, error) {
		ctx, cancel := context.WithTimeout(context.Background(), g.limits.Ask)
		defer cancel()
		result, err := g.scoreSafely(ctx, url)
		if !isBusy(err) {
			g.streak.add(client, failure(err), time.Now())
		}
		return result, err
	})
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return Result{}, g.resting()
	case err != nil:
		return Result{}, err
	}
	keep := failFor
	if result.Score >= g.limits.Pass {
		keep = passFor
	}
	g.answers.put(url, result, time.Now().Add(keep))
	return result, nil
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

// resting is the answer while the breaker keeps questions away.
func (g *shared) resting() error {
	return unavailable(time.Until(time.Unix(0, g.opened.Load()).Add(openFor)), errors.New("the service was unavailable several times in a row"))
}
