package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"webring/core/snap"
	"webring/server/ledger"
)

// Books is what a [Relay] reads of a ledger that follows another one.
type Books interface {
	Size() uint64
	Records(from uint64, n int) ([]ledger.Record, error)
	HashReader() tlog.HashReader
}

// RelayConfig says whose checkpoints a [Relay] passes on.
type RelayConfig struct {
	// Dir is the folder of the snapshots, as [Config.Dir]. The publisher that takes the
	// relay's place begins with the newest one.
	Dir string
	// Verifiers gives those of the keys that sign. It is asked again when none of them has
	// signed a checkpoint: another key may have taken their place.
	Verifiers func() ([]string, error)
	// Books hold the events. They may be behind the checkpoints for a moment.
	Books Books
	// Leader gives the URL of the node that signs, "" while there is none or it is this
	// one. changed is closed when that has changed.
	Leader func() (url string, changed <-chan struct{})
	// Vouch adds to a request the proof that it comes from a node of this ring.
	Vouch func(*http.Request)
	// Checkpoint and SignedKeys are what this node has served last; nil for nothing.
	Checkpoint, SignedKeys []byte
	// Now is the clock; nil stands for [time.Now].
	Now func() time.Time
	// Told, when given, is told when each checkpoint was signed.
	Told func(at time.Time)
	// Log receives what operators should see; nil stands for [slog.Default].
	Log *slog.Logger
}

// Relay is the [Source] of a node that follows the one that signs: it passes on that node's
// checkpoints, with the events of its own ledger, and keeps the snapshot that the newest
// checkpoint names. It passes on a checkpoint when the ledger holds all of its events, and
// only if they are those that were signed. Checkpoints never go back.
type Relay struct {
	c      RelayConfig
	client *http.Client
	moved  chan struct{} // holds a token when the ledger may have more events

	heard, stamped atomic.Int64 // when the newest checkpoint came, and when it was signed; ms
	trouble        atomic.Pointer[error]
	verifiers      atomic.Pointer[note.Verifiers]

	mu       sync.Mutex
	signed   []byte
	keys     []byte
	at       snap.Checkpoint
	changed  chan struct{}
	snapshot snapshot // that is held, the zero one for none
}

var _ Source = (*Relay)(nil)

// Timing of a relay.
const (
	// relayStale is for how long a ring counts as fresh without a new checkpoint: as long
	// as at an edge.
	relayStale = 60 * time.Second
	// relayPoll is longer than the leader holds a long poll ([pollTime]).
	relayPoll = pollTime + 10*time.Second
	// relayRetry is the wait after a question that failed.
	relayRetry = 250 * time.Millisecond
	// relayKeys is how often the signed keys are asked for.
	relayKeys = time.Minute
	// relayFile bounds how long a snapshot takes to come.
	relayFile = 10 * time.Minute
	// relayNote is the longest checkpoint or list of keys that is read, in bytes.
	relayNote = 64 << 10
)

// NewRelay prepares a relay. It passes nothing on but what the configuration gives before
// [Relay.Run].
func NewRelay(c RelayConfig) (*Relay, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Told == nil {
		c.Told = func(time.Time) {}
	}
	r := &Relay{c: c, moved: make(chan struct{}, 1), changed: make(chan struct{}), keys: c.SignedKeys,
		client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if err := r.readVerifiers(); err != nil {
		return nil, err
	}
	if c.Checkpoint != nil {
		at, err := r.read(c.Checkpoint)
		if err != nil {
			return nil, err
		}
		r.signed, r.at = c.Checkpoint, at
		r.stamped.Store(at.Time)
		r.heard.Store(at.Time)
	}
	return r, r.findSnapshot()
}

// Moved says that the ledger has more events. It is for [ledger.Config.Publish].
func (r *Relay) Moved() {
	select {
	case r.moved <- struct{}{}:
	default: // the token that is there will do
	}
}

// Run follows the checkpoints of whichever node leads, until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	defer r.client.CloseIdleConnections()
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { r.keepSnapshot(ctx) })
	beside.Go(func() { r.each(ctx, relayKeys, r.learnKeys) })
	r.each(ctx, 0, r.next)
}

// each asks the leader of the moment again and again, with pauses: every after a question
// that was answered, and relayRetry after one that failed. It asks at once when another node
// leads.
func (r *Relay) each(ctx context.Context, every time.Duration, ask func(ctx context.Context, base string) error) {
	for ctx.Err() == nil {
		base, changed := r.c.Leader()
		pause := every
		if base != "" {
			asking, end := context.WithCancel(ctx)
			go func() {
				select {
				case <-changed:
					end() // the next leader may be asked
				case <-asking.Done():
				}
			}()
			if err := ask(asking, base); err != nil {
				pause = relayRetry
			}
			end()
		} else {
			pause = time.Hour // until there is a leader
		}
		if pause == 0 {
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// next waits for a checkpoint that is newer than the last, and passes it on.
func (r *Relay) next(ctx context.Context, base string) error {
	r.mu.Lock()
	last := r.at
	r.mu.Unlock()
	path := "/sync/checkpoint"
	if last.Time > 0 {
		path += "?after=" + strconv.FormatUint(last.Size, 10) + "-" + strconv.FormatInt(last.Time, 10)
	}
	within, cancel := context.WithTimeout(ctx, relayPoll)
	defer cancel()
	signed, err := r.get(within, base, path)
	if err != nil {
		return err
	}
	at, err := r.read(signed)
	if err != nil {
		return r.troubled(fmt.Errorf("%w: are the files sync-key and sync-key-next the same on all nodes?", err))
	}
	// Until its clock has gone on beyond what others have signed, a leader signs at one instant.
	if at.Size < last.Size || at.Size == last.Size && at.Time <= last.Time {
		return errors.New("publish: a checkpoint of a node that led before")
	}
	if err := r.hold(ctx, at); err != nil {
		return err
	}
	r.troubled(nil)
	r.show(signed, at)
	return nil
}

// hold waits until the ledger has the events of a checkpoint, and compares them.
func (r *Relay) hold(ctx context.Context, at snap.Checkpoint) error {
	for r.c.Books.Size() < at.Size {
		select {
		case <-r.moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	root, err := tlog.TreeHash(int64(at.Size), r.c.Books.HashReader())
	if err != nil {
		return err
	}
	if root != at.Root {
		return r.troubled(fmt.Errorf("publish: the leader signs another history of %d events than this node has", at.Size))
	}
	return nil
}

// troubled notes what keeps the relay from passing on what is signed, nil for nothing. The
// log tells of it once.
func (r *Relay) troubled(err error) error {
	before := r.trouble.Swap(&err)
	if err != nil && (before == nil || *before == nil || (*before).Error() != err.Error()) {
		r.c.Log.Error("what the leader signs is not passed on", "err", err)
	}
	return err
}

// Trouble says why what the leader signs is not passed on; nil when it is.
func (r *Relay) Trouble() error {
	if err := r.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

func (r *Relay) show(signed []byte, at snap.Checkpoint) {
	r.mu.Lock()
	r.signed, r.at = signed, at
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	r.stamped.Store(at.Time)
	r.heard.Store(r.c.Now().UnixMilli())
	r.c.Told(time.UnixMilli(at.Time))
}

// readVerifiers reads the keys by which signatures are verified.
func (r *Relay) readVerifiers() error {
	texts, err := r.c.Verifiers()
	if err != nil {
		return err
	}
	var keys []note.Verifier
	for _, v := range texts {
		key, err := note.NewVerifier(v)
		if err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		keys = append(keys, key)
	}
	list := note.VerifierList(keys...)
	r.verifiers.Store(&list)
	return nil
}

// open verifies what the leader has signed.
func (r *Relay) open(signed []byte) (*note.Note, error) {
	n, err := note.Open(signed, *r.verifiers.Load())
	if err == nil {
		return n, nil
	}
	if err := r.readVerifiers(); err != nil {
		return nil, err
	}
	return note.Open(signed, *r.verifiers.Load())
}

// read verifies a checkpoint.
func (r *Relay) read(signed []byte) (at snap.Checkpoint, err error) {
	n, err := r.open(signed)
	if err != nil {
		return at, fmt.Errorf("publish: a checkpoint that is not signed with this node's key: %w", err)
	}
	at, err = snap.ParseCheckpoint(n.Text)
	if err == nil && at.Origin != n.Sigs[0].Name {
		err = errors.New("publish: a checkpoint of another origin")
	}
	return at, err
}

// learnKeys fetches what was signed about the keys.
func (r *Relay) learnKeys(ctx context.Context, base string) error {
	within, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	keys, err := r.get(within, base, "/sync/keys")
	if err != nil {
		return err
	}
	if _, err := r.open(keys); err != nil {
		return r.troubled(fmt.Errorf("publish: keys that are not signed with this node's key: %w", err))
	}
	r.mu.Lock()
	r.keys = keys
	r.mu.Unlock()
	return nil
}

// get fetches a short document of the leader.
func (r *Relay) get(ctx context.Context, base, path string) ([]byte, error) {
	res, err := r.ask(ctx, base, path)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, relayNote+1))
	if err == nil && len(text) > relayNote {
		err = fmt.Errorf("publish: %s is too long", path)
	}
	return text, err
}

// ask gives an answer of the leader with the status 200. The caller closes its body.
func (r *Relay) ask(ctx context.Context, base, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return nil, err
	}
	if r.c.Vouch != nil {
		r.c.Vouch(req)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		return nil, fmt.Errorf("publish: the leader answers %d to %s", res.StatusCode, path)
	}
	return res, nil
}

// Age is how old what is passed on may be: the time since the newest checkpoint came, or
// since it was signed if that is longer. It is not known before the first.
func (r *Relay) Age() (age time.Duration, known bool) {
	heard, stamped := r.heard.Load(), r.stamped.Load()
	if heard == 0 {
		return 0, false
	}
	now := r.c.Now().UnixMilli()
	return time.Duration(max(now-heard, now-stamped, 0)) * time.Millisecond, true
}

// Stale says whether this node may be behind the ring: no new checkpoint came for a minute,
// or the newest is older than that.
func (r *Relay) Stale() bool {
	age, known := r.Age()
	return !known || age > relayStale
}

// Checkpoint implements [Source].
func (r *Relay) Checkpoint() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.signed
}

// Keys implements [Source].
func (r *Relay) Keys() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keys
}

// Changed implements [Source].
func (r *Relay) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// Events implements [Source].
func (r *Relay) Events(from uint64, n int) ([]snap.Record, error) {
	r.mu.Lock()
	size := r.at.Size
	r.mu.Unlock()
	return eventsOf(r.c.Books, size, from, n)
}
