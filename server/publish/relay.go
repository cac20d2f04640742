package publish

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"webring/core/snap"
	"webring/edge/follow"
	"webring/server/ledger"
)

// Books is what a [Relay] reads of a ledger that follows another one.
type Books interface {
	Size() uint64
	Records(from uint64, n int) ([]ledger.Record, error)
	HashReader() tlog.HashReader
}

// RelayConfig says which checkpoints a [Relay] passes on.
type RelayConfig struct {
	// Dir is the folder of the snapshots, as [Config.Dir]. The publisher that takes the
	// relay's place begins with the newest one.
	Dir string
	// Verifiers gives those of the keys that sign. It is asked each time: another key may
	// have taken their place.
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
	c       RelayConfig
	leader  *follow.Link
	moved   follow.Signal // the ledger may have more events
	changed follow.Signal // there is a newer checkpoint
	fresh   follow.Freshness
	trouble atomic.Pointer[error]

	mu       sync.Mutex
	signed   []byte
	keys     []byte
	at       snap.Checkpoint
	snapshot snapshot // that is held, the zero one for none
}

var _ Source = (*Relay)(nil)

const (
	// relayKeys is how often the signed keys are asked for, and relayRetry the wait after a
	// question that failed.
	relayKeys, relayRetry = time.Minute, time.Second
	// relayNote is the longest list of keys that is read, in bytes.
	relayNote = 8 << 10
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
	r := &Relay{c: c, keys: c.SignedKeys}
	var err error
	r.leader, err = follow.NewLink(follow.LinkConfig{Verify: r.verify, Accept: r.accept, Vouch: c.Vouch, Log: c.Log})
	if err != nil {
		return nil, err
	}
	if c.Checkpoint != nil {
		if r.at, err = r.verify(c.Checkpoint); err != nil {
			return nil, err
		}
		r.signed = c.Checkpoint
		r.fresh.Note(r.at.Time, r.at.Time)
	}
	return r, r.findSnapshot()
}

// Moved says that the ledger has more events. It is for [ledger.Config.Publish].
func (r *Relay) Moved() { r.moved.Send() }

// Run follows the checkpoints of whichever node leads, until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { r.keepSnapshot(ctx) })
	others.Go(func() { r.learnKeys(ctx) })
	others.Go(func() { r.findLeader(ctx) })
	r.leader.Run(ctx)
}

// findLeader has the link ask whichever node leads.
func (r *Relay) findLeader(ctx context.Context) {
	for {
		url, changed := r.c.Leader()
		var urls []string
		if url != "" {
			urls = []string{url}
		}
		if err := r.leader.SetOrigins(urls...); err != nil {
			r.c.Log.Error("the leader cannot be followed by what it says of itself", "url", url, "err", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// verify verifies a checkpoint.
func (r *Relay) verify(signed []byte) (at snap.Checkpoint, err error) {
	keys, err := r.verifiers()
	if err == nil {
		at, err = follow.Verify(signed, keys)
	}
	if err != nil {
		err = r.troubled(fmt.Errorf("publish: the leader's checkpoint is not signed with this node's key: are the files sync-key and sync-key-next the same on all nodes?: %w", err))
	}
	return at, err
}

func (r *Relay) verifiers() (note.Verifiers, error) {
	texts, err := r.c.Verifiers()
	if err != nil {
		return nil, err
	}
	return follow.Keys(texts...)
}

// accept passes a checkpoint on as soon as the ledger has its events, if they are those that
// were signed.
func (r *Relay) accept(ctx context.Context, s follow.Signed) error {
	r.mu.Lock()
	last := r.at
	r.mu.Unlock()
	if err := follow.Continues(s.At, last); err != nil {
		return fmt.Errorf("publish: a checkpoint of a node that led before: %w", err)
	}
	// Until its clock has gone on beyond what others have signed, a leader signs at one instant.
	if s.At.Size == last.Size && s.At.Time == last.Time {
		return nil
	}
	_, elected := r.c.Leader()
	for moved := r.moved.Wait(); r.c.Books.Size() < s.At.Size; moved = r.moved.Wait() {
		select {
		case <-moved:
		case <-elected:
			return fmt.Errorf("publish: another node leads, and not all that was signed has come")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	root, err := tlog.TreeHash(int64(s.At.Size), r.c.Books.HashReader())
	if err != nil {
		return err
	}
	if root != s.At.Root {
		return r.troubled(fmt.Errorf("%w: the leader signs another history of %d events than this node has", follow.ErrForked, s.At.Size))
	}
	r.trouble.Store(nil)
	r.mu.Lock()
	r.signed, r.at = s.Text, s.At
	r.mu.Unlock()
	r.fresh.Note(r.c.Now().UnixMilli(), s.At.Time)
	r.changed.Send()
	r.c.Told(time.UnixMilli(s.At.Time))
	return nil
}

// troubled notes what keeps the relay from passing on what is signed.
func (r *Relay) troubled(err error) error {
	r.trouble.Store(&err)
	return err
}

// Trouble says why what the leader signs is not passed on; nil when it is.
func (r *Relay) Trouble() error {
	if err := r.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// learnKeys asks for what was signed about the keys, now and then.
func (r *Relay) learnKeys(ctx context.Context) {
	for {
		pause := relayKeys
		if keys, err := r.leader.Get(ctx, "/sync/keys", relayNote, true); err != nil {
			pause = relayRetry
		} else if verifiers, err := r.verifiers(); err != nil {
			pause = relayRetry
		} else if _, err := note.Open(keys, verifiers); err != nil {
			_ = r.troubled(fmt.Errorf("publish: the leader's keys are not signed with this node's key: %w", err))
		} else {
			r.mu.Lock()
			r.keys = keys
			r.mu.Unlock()
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// Age is how old what is passed on may be, as [follow.Freshness.Age] says.
func (r *Relay) Age() (age time.Duration, known bool) { return r.fresh.Age(r.c.Now()) }

// Stale says whether this node may be behind the ring, as [follow.Freshness.Stale] says.
func (r *Relay) Stale() bool { return r.fresh.Stale(r.c.Now()) }

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
func (r *Relay) Changed() <-chan struct{} { return r.changed.Wait() }

// Events implements [Source].
func (r *Relay) Events(from uint64, n int) ([]snap.Record, error) {
	r.mu.Lock()
	size := r.at.Size
	r.mu.Unlock()
	return eventsOf(r.c.Books, size, from, n)
}
