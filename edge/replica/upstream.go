package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"webring/edge/upstream"
)

const (
	// answerTime is how long an origin may take to begin with an answer that it gives at
	// once, and newsTime how long it may give no newer checkpoint: origins sign one each
	// 15 seconds. Then the next origin is followed, if there are several. With one origin,
	// [silence] and [StaleAfter] are the bounds.
	answerTime, newsTime = 5 * time.Second, 30 * time.Second
)

var errNoOrigin = errors.New("replica: there is no origin to ask")

// origin is one that the replica may follow, with what is known of it.
type origin struct {
	*upstream.Origin
	pace *pace

	// Of the goroutine that follows:
	pollUntil  time.Time // no event stream gets through, so it is polled
	complaint  string
	complained time.Time
}

// origin gives the one to be asked, nil for none.
func (r *Replica) origin() *origin {
	current := r.origins.Current()
	if current == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.known, func(o *origin) bool { return o.Origin == current }); i >= 0 {
		return r.known[i]
	}
	r.known = slices.DeleteFunc(r.known, func(o *origin) bool { return o.Gone().Err() != nil })
	o := &origin{Origin: current, pace: newPace()}
	r.known = append(r.known, o)
	return o
}

// SetOrigins makes these the origins, as [Config.Origins] has them. If the one that is
// followed is none of them, the first one is followed from now on. What was shown is the
// least that is taken from any.
func (r *Replica) SetOrigins(urls ...string) error {
	if err := r.origins.Replace(urls...); err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	r.Nudge()
	return nil
}

// Followed gives all origins in the order in which they are asked, and the one whose
// checkpoint was taken last, "" before the first.
func (r *Replica) Followed() (origins []string, followed string) {
	for _, o := range r.origins.Round() {
		origins = append(origins, o.URL)
	}
	if o := r.followed.Load(); o != nil {
		followed = o.URL
	}
	return origins, followed
}

// take accepts a checkpoint of an origin, which is followed then.
func (r *Replica) take(ctx context.Context, o *origin, e event) error {
	if err := r.acceptWith(ctx, e.signed, e.carried); err != nil {
		return err
	}
	if before := r.followed.Swap(o.Origin); before != nil && before != o.Origin {
		r.log.Info("replica: another origin is followed", "origin", o.URL, "instead_of", before.URL)
	}
	return nil
}

// hurried gives a context for a question that an origin answers at once. If there are
// several origins, it ends with [errStalled] after [answerTime], unless answered was called
// before.
func (r *Replica) hurried(ctx context.Context) (hurried context.Context, answered, end func()) {
	hurried, cancel := context.WithCancelCause(ctx)
	end = func() { cancel(nil) }
	if !r.origins.Several() {
		return hurried, func() {}, end
	}
	late := time.AfterFunc(answerTime, func() { cancel(errStalled) })
	return hurried, func() { late.Stop() }, end
}

// mostQuiet is for how long an origin may give no newer checkpoint.
func (r *Replica) mostQuiet() time.Duration {
	if r.origins.Several() {
		return newsTime
	}
	return StaleAfter
}
