package score

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jellydator/ttlcache/v3"
	"golang.org/x/sync/singleflight"

	"webring/edge/share"
)

const (
	passFor = 10 * time.Minute
	failFor = time.Minute

	// crowded is when a client may come back if too much is under way.
	crowded = 5 * time.Second

	maxCached = 4096 // answers, of a few hundred bytes each

	// question is what a question costs its asker, and promptly the time of one that costs
	// a whole [share.Piece] more.
	question = share.Piece / 4
	promptly = 5 * time.Second
)

// MaxUnderWay bounds the questions that are under way at a time, those included that
// wait for another's answer. It is less than the unpaid requests, and than the
// payments, that an edge forwards at a time, so that slow sites leave room for both; a
// test in server/cmd/webring compares the numbers.
const MaxUnderWay = 48

// Limits of a [Guard]. A zero field stands for its default, except Pass.
type Limits struct {
	// Pass is the least passing score.
	Pass int
	// InAll bounds questions a minute, shared between the clients by the rule of
	// package share. By default 100: is-agentic allows 120 requests, and the rest is
	// for retries. A negative number removes this limit and MaxUnderWay.
	InAll int
	// Ask is the longest time for one question; by default 15 s.
	Ask time.Duration
	// Past is where the scorer charges askers for the time that their sites take. nil: the
	// guard charges them for the time of each question.
	Past *share.Past
}

// Guard wraps a [Scorer]. It is safe for concurrent use.
//
//   - It caches scores: passing ones for ten minutes, others for one, errors never.
//   - Questions about one site at the same time share one answer.
//   - It limits the questions in a minute and at a time, in all, and shares both
//     between the clients. What a client's questions cost in the last minutes counts
//     against it, so there is room for those who have asked nothing.
//   - When five questions in a row found the service unavailable, it asks nothing for
//     half a minute on behalf of the networks that those questions came from; the others
//     may ask one question at a time.
//
// It uses the clock of package time, so tests can run it under testing/synctest.
type Guard struct {
	*shared
	own *window
}

// shared is the part that guards of one scorer share.
type shared struct {
	scorer  Scorer
	limits  Limits
	answers *ttlcache.Cache[string, Result] // by URL
	window  *window
	flight  singleflight.Group
	breaker *breaker

	past     *share.Past
	timed    bool             // whether questions are charged by their time
	underWay *share.Semaphore // of questions
}

// NewGuard makes a guard of scorer.
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
	past := limits.Past
	if past == nil {
		past = share.NewPast()
	}
	s := &shared{
		scorer:   scorer,
		limits:   limits,
		answers:  ttlcache.New(ttlcache.WithCapacity[string, Result](maxCached), ttlcache.WithDisableTouchOnHit[string, Result]()),
		window:   newWindow(limits.InAll, past),
		breaker:  newBreaker(),
		past:     past,
		timed:    limits.Past == nil,
		underWay: share.NewSemaphore(share.Rule{Most: atOnce, Past: past}, 0),
	}
	return &Guard{s, s.window}
}

// Beside gives a guard of the same scorer with a further limit of questions a minute,
// as in [Limits.InAll]. Its questions share cache and answers with the first guard, and
// count against the limit of both.
func (g *Guard) Beside(inAll int) *Guard {
	return &Guard{g.shared, newWindow(inAll, g.past)}
}

// failure reports whether err is a failure of the service. With all other outcomes the
// service works.
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

// Score gives the score of the site at a canonical URL, on behalf of client, with the
// errors of [Scorer]. When ctx ends first it returns ctx's cause; the question goes on
// for others that wait for it, and for the cache.
func (g *Guard) Score(ctx context.Context, client, url string) (Result, error) {
	began, asker := time.Now(), share.AskerOf(client)
	if known := g.answers.Get(url); known != nil {
		return known.Value(), nil
	}
	if wait := g.breaker.rest(asker, began); wait > 0 {
		return Result{}, refused(wait, "the client's questions failed several times in a row")
	}
	if g.own != g.window {
		if wait := g.own.take(asker, began); wait > 0 {
			return Result{}, refused(wait, "as many questions of this kind were put, of the client or of all, as may be in a minute")
		}
	}
	if !g.underWay.TryAcquire(asker) {
		return Result{}, refused(crowded, "as many questions are under way, of the client or of all, as may be")
	}
	result, err := g.share(ctx, asker, url)
	if unreached(err) && g.own != g.window {
		g.own.waive(asker, began)
	}
	return result, err
}

// answer is the result of a question, and the asker that it was put for.
type answer struct {
	Result
	asker share.Asker
}

// share puts the question, or waits for its answer if it is under way. It gives
// back the room that the question had.
func (g *Guard) share(ctx context.Context, asker share.Asker, url string) (Result, error) {
	for {
		asked := g.flight.DoChan(url, func() (any, error) {
			result, err := g.ask(asker, url)
			return answer{result, asker}, err
		})
		select {
		case shared := <-asked:
			got := shared.Val.(answer)
			if isBusy(shared.Err) && got.asker != asker && ctx.Err() == nil {
				continue // another asker's limit was reached; this one's may not be
			}
			g.underWay.Release(asker)
			return got.Result, shared.Err
		case <-ctx.Done():
			// The question goes on when the client disconnects.
			go func() {
				<-asked
				g.underWay.Release(asker)
			}()
			return Result{}, fmt.Errorf("score: %w", context.Cause(ctx))
		}
	}
}

// ask puts the question, detached from the requests that wait for it. It counts for
// asker, the first that asked.
func (g *shared) ask(asker share.Asker, url string) (Result, error) {
	began := time.Now()
	// Another call may have stored an answer since Score looked.
	if known := g.answers.Get(url); known != nil {
		return known.Value(), nil
	}
	probe, wait := g.breaker.admit(asker, began)
	if wait > 0 {
		return Result{}, refused(wait, "the service was unavailable several times in a row")
	}
	if wait := g.window.take(asker, began); wait > 0 {
		g.breaker.done(asker, probe, false, false, began)
		return Result{}, refused(wait, "as many questions were put, of the client or of all, as may be in a minute")
	}
	ctx, cancel := context.WithTimeout(share.NewContext(context.Background(), asker), g.limits.Ask)
	defer cancel()
	g.past.Charge(asker, question)
	result, err := g.scoreSafely(ctx, url)
	if g.timed && !isBusy(err) {
		g.past.ChargeTime(asker, time.Since(began), promptly)
	}
	g.breaker.done(asker, probe, !isBusy(err), failure(err), time.Now())
	if err != nil {
		if unreached(err) {
			g.window.waive(asker, began)
		}
		return Result{}, err
	}
	g.answers.Set(url, result, KeptFor(result.Score, g.limits.Pass))
	return result, nil
}

// refused is the error for a question that a limit does not allow.
func refused(wait time.Duration, why string) error {
	err := unavailable(wait, errors.New(why))
	err.Busy = true
	return err
}

// KeptFor is for how long a score is cached, if pass is the least that passes.
func KeptFor(points, pass int) time.Duration {
	if points >= pass {
		return passFor
	}
	return failFor
}

// scoreSafely calls the scorer and enforces its contract: a panic, an unknown error or
// a score out of range becomes an unavailable service. A scorer reads what strangers
// wrote, in the process that holds payments.
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
