package publish

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"webring/core/snap"
	"webring/edge/durable"
	"webring/edge/follow"
	logs "webring/edge/tlog"
)

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
	Now                    func() time.Time   // the clock
	Told                   func(at time.Time) // is told when each checkpoint was signed
	Log                    *slog.Logger       // receives what operators should see
}

// Relay is the [Source] of a node that follows the one that signs: it passes on that node's
// checkpoints, with the events of its own ledger, and keeps the snapshot that the newest
// checkpoint names. It passes on a checkpoint when the ledger holds all of its events, and
// only if they are those that were signed. Checkpoints never go back.
type Relay struct {
	c       RelayConfig
	leader  *follow.Link
	moved   follow.Signal // the ledger may have more events
	fresh   follow.Freshness
	trouble atomic.Pointer[error]
	joined  atomic.Pointer[cosigned] // what the leader gives as cosigned, nil for nothing
	shown
}

var _ Source = (*Relay)(nil)

const (
	// relayLearns is how often the leader is asked about keys and cosignatures.
	relayLearns = 2 * time.Second
	// relayNote is the longest list of keys that is read, in bytes.
	relayNote = 8 << 10
)

// NewRelay prepares a relay. It passes nothing on but what the configuration gives before
// [Relay.Run].
func NewRelay(c RelayConfig) (*Relay, error) {
	r := &Relay{c: c, shown: shown{dir: c.Dir, books: c.Books, begun: c.Books.Size(), signed: c.Checkpoint, keys: c.SignedKeys}}
	var err error
	r.leader, err = follow.NewLink(follow.LinkConfig{Verify: r.verify, Accept: r.accept, Vouch: c.Vouch, Log: c.Log})
	if err != nil {
		return nil, err
	}
	if c.Checkpoint != nil {
		if r.last, err = r.verify(c.Checkpoint); err != nil {
			return nil, err
		}
		r.fresh.Note(r.last.Time, r.last.Time)
	}
	return r, r.findSnapshots()
}

// Moved says that the ledger has more events. It is for [ledger.Config.Publish].
func (r *Relay) Moved() { r.moved.Send() }

// Run follows the checkpoints of whichever node leads, until ctx ends.
func (r *Relay) Run(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { r.keepSnapshot(ctx) })
	others.Go(func() { r.learn(ctx) })
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
	return logs.Keys(texts...)
}

// accept passes a checkpoint on as soon as the ledger has its events, if they are those that
// were signed.
func (r *Relay) accept(ctx context.Context, s follow.Signed) error {
	r.mu.Lock()
	last := r.last
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
	log, logged := r.leadersLog(ctx, s.At)
	r.mu.Lock()
	r.signed, r.last = s.Text, s.At
	if log != nil {
		r.log, r.logged = log, logged
	}
	r.mu.Unlock()
	r.fresh.Note(r.c.Now().UnixMilli(), s.At.Time)
	r.changed.Send()
	r.c.Told(time.UnixMilli(s.At.Time))
	return nil
}

// leadersLog gives the leader's checkpoint of the log, if it is of the events that it signs and the
// ledger here has them; otherwise that of before stays.
func (r *Relay) leadersLog(ctx context.Context, signed snap.Checkpoint) (log []byte, size uint64) {
	keys, err := r.verifiers()
	if err != nil {
		return nil, 0
	}
	if log, err = r.leader.Get(ctx, logs.CheckpointPath, relayNote, true); err != nil {
		return nil, 0
	}
	at, err := logs.OpenCheckpoint(log, keys)
	if err != nil || uint64(at.N) < signed.Size || uint64(at.N) > r.c.Books.Size() {
		return nil, 0
	}
	if root, err := tlog.TreeHash(at.N, r.c.Books.HashReader()); err != nil || root != at.Hash {
		return nil, 0
	}
	return log, uint64(at.N)
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

// cosigned is what a leader gives as cosigned.
type cosigned struct {
	joined []byte
	at     snap.Checkpoint
}

// learn asks the leader now and then for what it has signed about its keys, and for what witnesses
// have cosigned. What is not signed with this node's keys is not passed on.
func (r *Relay) learn(ctx context.Context) {
	tick := time.NewTicker(relayLearns)
	defer tick.Stop()
	for {
		if verifiers, err := r.verifiers(); err == nil {
			if keys, err := r.leader.Get(ctx, "/sync/keys", relayNote, true); err == nil {
				if _, err := note.Open(keys, verifiers); err == nil {
					r.mu.Lock()
					r.keys = keys
					r.mu.Unlock()
				} else {
					_ = r.troubled(fmt.Errorf("publish: the leader's keys are not signed with this node's key: %w", err))
				}
			}
			if joined, err := r.leader.Get(ctx, "/sync/cosigned", 2*relayNote, true); err == nil {
				if at, err := follow.VerifyCosigned(joined, verifiers); err == nil && r.has(at) {
					r.joined.Store(&cosigned{joined, at})
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// has reports whether a cosigned statement is about events that the ledger here has, and no earlier
// than the one before.
func (r *Relay) has(at snap.Checkpoint) bool {
	if c := r.joined.Load(); c != nil && at.Size < c.at.Size || at.Size > r.c.Books.Size() {
		return false
	}
	root, err := tlog.TreeHash(int64(at.Size), r.c.Books.HashReader())
	return err == nil && root == at.Root
}

// LogCheckpoint implements [Source].
func (r *Relay) LogCheckpoint() []byte {
	c := r.joined.Load()
	r.mu.Lock()
	defer r.mu.Unlock()
	if c == nil {
		return r.choose(false, given{})
	}
	_, log, _ := follow.CutCosigned(c.joined)
	return r.choose(true, given{log, c.at.Size, c.at.Time})
}

// Cosigned implements [Source].
func (r *Relay) Cosigned() []byte {
	if c := r.joined.Load(); c != nil {
		return c.joined
	}
	return nil
}

// Age is how old what is passed on may be, as [follow.Freshness.Age] says.
func (r *Relay) Age() (age time.Duration, known bool) { return r.fresh.Age(r.c.Now()) }

// Stale says whether this node may be behind the ring, as [follow.Freshness.Stale] says.
func (r *Relay) Stale() bool { return r.fresh.Stale(r.c.Now()) }

// findSnapshots takes the files in the folder for what their names say. A name holds the digest,
// and followers compare it with what they get.
func (r *Relay) findSnapshots() error {
	if err := os.MkdirAll(r.c.Dir, 0o700); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	entries, err := os.ReadDir(r.c.Dir) // in the order of names, which begin with the size
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	for _, e := range entries {
		s, ok := parseFileName(e.Name())
		if about, err := e.Info(); ok && err == nil {
			s.Bytes = about.Size()
			r.snapshots = append(r.snapshots, snapshot{Snapshot: s, made: about.ModTime()})
		}
	}
	return nil
}

// keepSnapshot fetches each snapshot that a checkpoint names, so that this node can publish
// from it at once, and edges that follow this node can begin with it.
func (r *Relay) keepSnapshot(ctx context.Context) {
	for {
		changed := r.changed.Wait()
		r.mu.Lock()
		named := r.last.Snapshot
		r.mu.Unlock()
		again := (<-chan time.Time)(nil)
		if named.Size > 0 && named.Digest != r.newest().Digest {
			if err := r.fetchSnapshot(ctx, named); err == nil {
				continue
			} else if ctx.Err() == nil {
				r.c.Log.Warn("the leader's newest snapshot could not be fetched; it is tried again", "err", err)
			}
			again = time.After(sendTime)
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// fetchSnapshot fetches a snapshot's file in place of those before.
func (r *Relay) fetchSnapshot(ctx context.Context, named snap.Snapshot) error {
	err := durable.Create(r.c.Dir, 0o600, func(f io.Writer) (string, error) {
		return fileName(named), r.leader.CopySnapshot(ctx, named, f)
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	before := slices.DeleteFunc(r.snapshots, func(s snapshot) bool { return s.Digest == named.Digest })
	r.snapshots = []snapshot{{Snapshot: named, made: time.Now()}}
	r.mu.Unlock()
	for _, s := range before {
		// A reader of it can go on. It may hold words that were redacted since.
		if err := os.Remove(r.path(s.Snapshot)); err != nil && !errors.Is(err, os.ErrNotExist) {
			r.c.Log.Error("an old snapshot could not be removed", "err", err)
		}
	}
	return nil
}
