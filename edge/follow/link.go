package follow

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"webring/core/snap"
)

const (
	// minPause and maxPause bound the wait before the next attempt.
	minPause, maxPause = 50 * time.Millisecond, 2 * time.Second
	// silence is how long a stream, which carries something every 10 seconds, may be quiet.
	silence = 25 * time.Second
	// newsTime is how long an origin may give no newer checkpoint if there are others to
	// ask: origins sign one each 15 seconds. With one origin the bound is [StaleAfter].
	newsTime = 30 * time.Second
	// askEvery is the time between questions where there is no stream, and askFor for how
	// long an origin is asked before it is tried again whether a stream gets through.
	askEvery, askFor = time.Second, 5 * time.Minute
	// maxNote is the longest signed text in bytes.
	maxNote = 8 << 10
)

// errNoStream: the answer is no event stream, or nothing of it gets through.
var errNoStream = errors.New("follow: no event stream")

// LinkConfig says which origins a [Link] asks and what becomes of what they sign. Verify
// and Accept are needed.
type LinkConfig struct {
	// Origins are the URLs of the origin's nodes. One of them is asked at a time, the first
	// one at first, and the next when that one fails, is silent or is behind. Without any,
	// nothing is asked until [Link.SetOrigins].
	Origins []string
	// Verify opens a signed checkpoint, as [Verify] does.
	Verify func(signed []byte) (snap.Checkpoint, error)
	// Accept takes a verified checkpoint, or says why not.
	Accept func(ctx context.Context, s Signed) error
	// cosigned asks for what witnesses have cosigned, which comes without a stream, instead of the
	// newest checkpoint.
	cosigned bool
	// Vouch adds to a request the proof that it comes from a node or an edge of this ring, for
	// which origins keep slots. nil adds none.
	Vouch func(*http.Request)
	// Client sends every request; nil stands for one of the link's own. It must not follow
	// redirects or time out.
	Client *http.Client
	// Log receives what operators should see; nil stands for [slog.Default].
	Log *slog.Logger
}

// Signed is a verified checkpoint, as it was signed, with the records that came with it.
type Signed struct {
	Text []byte
	At   snap.Checkpoint
	carried
}

// Link asks an origin for what it signs, and another one as soon as that one fails. What
// is accepted does not depend on where it came from. It may be used concurrently.
type Link struct {
	cfg     LinkConfig
	origins *Origins
	wake    chan struct{}

	taken    atomic.Pointer[snap.Checkpoint] // the last that was accepted here; another pointer for each
	followed atomic.Pointer[Origin]          // and where it came from
	doubt    atomic.Bool                     // what came last was not what was signed, so caches are bypassed

	mu           sync.Mutex
	disconnect   context.CancelFunc // ends the connection at hand
	disconnected time.Time
}

// NewLink prepares a link.
func NewLink(cfg LinkConfig) (*Link, error) {
	origins, err := NewOrigins(cfg.Origins...)
	if err != nil {
		return nil, fmt.Errorf("follow: %w", err)
	}
	if cfg.Client == nil {
		cfg.Client = newClient()
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Link{cfg: cfg, origins: origins, wake: make(chan struct{}, 1)}, nil
}

// Close closes idle connections.
func (l *Link) Close() { l.cfg.Client.CloseIdleConnections() }

// Run takes checkpoints until ctx ends, from one origin after the other. It is called once.
func (l *Link) Run(ctx context.Context) {
	defer l.Close()
	pause := minPause
	for ctx.Err() == nil {
		before, from := l.taken.Load(), l.origins.Current()
		if from == nil {
			select {
			case <-l.wake:
			case <-ctx.Done():
			}
			continue
		}
		err := l.connect(ctx, from)
		if ctx.Err() != nil {
			return
		}
		if l.taken.Load() != before {
			pause = minPause
		}
		l.logFailure(from, err)
		l.origins.Skip(from)
		// Between half and all of the pause, so that followers do not return all at once.
		wait := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-wait.C:
			pause = min(2*pause, maxPause)
		case <-l.wake:
			pause = minPause
		case <-ctx.Done():
		}
		wait.Stop()
	}
}

// connect takes checkpoints of one origin until the connection ends or something is
// refused. The end of a connection does not interrupt a checkpoint that is being accepted.
func (l *Link) connect(ctx context.Context, from *Origin) error {
	line, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(from.Gone(), cancel)()
	l.mu.Lock()
	l.disconnect = cancel
	l.mu.Unlock()
	if l.cfg.cosigned {
		from.askUntil = time.Now().Add(askFor)
	} else if time.Now().After(from.askUntil) {
		err := l.stream(ctx, line, from)
		full, ok := errors.AsType[*busyError](err)
		switch {
		case ok:
			l.cfg.Log.Info("follow: the origin has no slot for another follower; asking each second", "origin", from.URL, "err", err)
			from.askUntil = time.Now().Add(full.after)
		case !errors.Is(err, errNoStream) || line.Err() != nil:
			return err
		default:
			from.askUntil = time.Now().Add(askFor)
			if errors.Is(err, errStalled) && l.origins.Several() {
				return err // it may be dead; it is asked when it is its turn again
			}
			l.cfg.Log.Info("follow: no event stream gets through; asking each second", "origin", from.URL, "err", err)
		}
	}
	return l.ask(ctx, line, from)
}

// stream takes checkpoints from an event stream. It reads on while a checkpoint is being
// accepted, and then takes only the newest of those that came meanwhile. A stream without
// a newer checkpoint for a while is given up, even if other lines come.
func (l *Link) stream(ctx, line context.Context, from *Origin) error {
	header := map[string]string{"Accept": "text/event-stream", "Cache-Control": "no-cache"}
	if last := l.taken.Load(); last != nil {
		header["Last-Event-ID"] = strconv.FormatUint(last.Size, 10) + "-" + strconv.FormatInt(last.Time, 10)
	}
	res, err := l.request(line, from, "/sync/checkpoint", silence, 0, header)
	if errors.Is(err, errStalled) {
		return errors.Join(errNoStream, err)
	}
	if err != nil {
		return err
	}
	if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media != "text/event-stream" {
		res.Body.Close()
		return fmt.Errorf("%w but %q", errNoStream, media)
	}
	news, ended := make(chan event, 1), make(chan error, 1)
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(news)
		ended <- readEvents(res.Body, news)
	})
	defer reading.Wait()
	defer res.Body.Close()
	for {
		late := time.NewTimer(l.newsTime())
		select {
		case e, ok := <-news:
			late.Stop()
			if !ok {
				return <-ended
			}
			if err := l.take(ctx, from, e); err != nil {
				return err
			}
		case <-late.C:
			return fmt.Errorf("follow: event stream: %w", errStalled)
		}
	}
}

// readEvents puts the newest event into news, in place of one that was not taken, until
// the stream ends. It joins the records of both.
func readEvents(body io.Reader, news chan event) error {
	lines := bufio.NewReaderSize(body, maxNote)
	for first := true; ; first = false {
		e, err := readEvent(lines)
		if errors.Is(err, errStalled) && first {
			return errors.Join(errNoStream, err)
		}
		if err != nil {
			return err
		}
		select {
		case overtaken := <-news:
			e.carried = overtaken.carried.then(e.carried)
		default:
		}
		news <- e
	}
}

// ask asks for the newest checkpoint each second, for as long as the origin gives no stream.
func (l *Link) ask(ctx, line context.Context, from *Origin) error {
	path, limit := "/sync/checkpoint", int64(maxNote)
	if l.cfg.cosigned {
		path, limit = "/sync/cosigned", 2*maxNote
	}
	for newest, since := l.taken.Load(), time.Now(); time.Now().Before(from.askUntil); {
		signed, err := l.Get(line, path, limit, true)
		if err != nil {
			return err
		}
		if err := l.take(ctx, from, event{signed: signed}); err != nil {
			return err
		}
		if now := l.taken.Load(); now != newest {
			newest, since = now, time.Now()
		} else if l.origins.Several() && time.Since(since) > l.newsTime() {
			return fmt.Errorf("follow: questions: %w", errStalled)
		}
		if err := Rest(line, askEvery); err != nil {
			return err
		}
	}
	return nil
}

// take verifies and accepts what an origin has signed.
func (l *Link) take(ctx context.Context, from *Origin, e event) error {
	at, err := l.cfg.Verify(e.signed)
	if err != nil {
		return err
	}
	err = l.cfg.Accept(ctx, Signed{e.signed, at, e.carried})
	l.doubt.Store(errors.Is(err, ErrEvents) || errors.Is(err, ErrAltered))
	if err != nil {
		return err
	}
	if last := l.taken.Load(); last == nil || last.Size != at.Size || last.Time != at.Time {
		l.taken.Store(&at)
	}
	if before := l.followed.Swap(from); before != nil && before != from {
		l.cfg.Log.Info("follow: another origin is followed", "origin", from.URL, "instead_of", before.URL)
	}
	return nil
}

// newsTime is for how long an origin may give no newer checkpoint.
func (l *Link) newsTime() time.Duration {
	if l.cfg.cosigned {
		return StaleAfter + WitnessLag
	}
	if l.origins.Several() {
		return newsTime
	}
	return StaleAfter
}

// refusals are what an origin is refused for. Other errors are the network's.
var refusals = []error{ErrWitnesses, ErrSignature, ErrOrigin, ErrShrunk, ErrOlder, ErrForked, ErrEvents, ErrState, ErrSnapshot}

// logFailure logs why following an origin stopped, once for each reason and minute.
func (l *Link) logFailure(from *Origin, err error) {
	if err == nil || err.Error() == from.failure && time.Since(from.logged) < time.Minute {
		return
	}
	from.failure, from.logged = err.Error(), time.Now()
	log := l.cfg.Log.With("origin", from.URL)
	is := func(refusal error) bool { return errors.Is(err, refusal) }
	switch {
	case is(errNotShown):
		log.Error("follow: the core could not take what was signed; it is tried again", "err", err)
	case l.origins.Several() && (is(ErrShrunk) || is(ErrOlder)):
		log.Warn("follow: this origin is behind what is shown here; the next one is asked", "err", err)
	case slices.ContainsFunc(refusals, is):
		log.Error("follow: refused; readers see what they saw before", "err", err)
	default:
		log.Warn("follow: not connected", "err", err)
	}
}

// SetOrigins replaces the origins. If the one that is followed is none of them, the first
// one is followed from now on.
func (l *Link) SetOrigins(urls ...string) error {
	if err := l.origins.Replace(urls...); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	l.Nudge()
	return nil
}

// Followed returns all origins in the order in which they are asked, and the origin of the
// latest checkpoint taken. followed is "" before the first.
func (l *Link) Followed() (origins []string, followed string) {
	for _, o := range l.origins.Round() {
		origins = append(origins, o.URL)
	}
	if o := l.followed.Load(); o != nil {
		followed = o.URL
	}
	return origins, followed
}

// Nudge ends a wait before the next attempt to reach an origin.
func (l *Link) Nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// reconnect ends the connection at hand, which may be dead without an error, at most once
// a second.
func (l *Link) reconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.disconnect == nil || time.Since(l.disconnected) < time.Second {
		return
	}
	l.disconnected = time.Now()
	l.disconnect()
}
