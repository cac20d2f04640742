package follow

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"

	"webring/core/snap"
	"webring/edge/tlog"
)

// Config says which origin to follow and how. Origins, Keys, Open and Show are needed. Verify and
// Accept are the replica's own.
type Config struct {
	LinkConfig
	// Keys verify the origin's checkpoints, name+hash+key each: one is enough, and each
	// of several. What they have signed about other keys counts more.
	Keys []string
	// Policy says which witnesses must have cosigned what is shown; nil asks for none. Then only
	// what is cosigned is followed, which is up to a minute behind what is signed.
	Policy *tlog.Policy
	// Dir is the folder of the last good state; "" keeps none.
	Dir string
	// Replay folds every event instead of trusting a snapshot.
	Replay bool
	// Module is the SHA-256 of the core's module in this process, as checkpoints
	// name the origin's. The log tells both when they come to different states.
	Module [32]byte
	// Open makes a core from a snapshot, or of an empty ledger when that is nil.
	Open func(ctx context.Context, snapshot []byte) (Core, error)
	// Show makes c what readers see from now on, and returns when no request uses
	// the core before any more. That one is closed afterwards.
	Show func(c Core)
	// MaxSnapshot is the longest snapshot that is taken, in bytes before it is
	// compressed; 0 stands for 4 GiB.
	MaxSnapshot int64
}

// Replica follows an origin and shows what it signs. It may be used concurrently.
type Replica struct {
	cfg   Config
	log   *slog.Logger
	link  *Link
	keys  *keyring
	store *store // nil keeps nothing

	// The caller that holds accepting may change what a checkpoint changes.
	accepting sync.Mutex
	floor     snap.Checkpoint // what was signed before a restart, if it could not be shown
	floorText []byte          // as it was signed
	tree      snap.Tree
	failed    *failed // nil unless the last checkpoint could not be reached
	marked    bool    // the folder says that this edge is to be upgraded

	contradicted bool      // there is evidence that the origin has signed two histories
	compared     time.Time // when that was looked for

	// ticking is held while the core that is shown gets the time, and while it is
	// replaced.
	ticking sync.Mutex

	// mu guards what is read without accepting.
	mu     sync.RWMutex
	shown  Core
	signed []byte // the checkpoint as it came
	at     snap.Checkpoint
	base   uint64 // position of tail[0]
	tail   []snap.Record

	writes      writes
	changed     Signal
	fresh       Freshness
	readied     sync.Once
	ready       chan struct{}         // closed by readied
	withdrawn   atomic.Uint64         // what Withdrawn returns
	unreachable atomic.Pointer[error] // why what was signed last is not reached
}

// maxTail is how many records are held in memory, for a backup that is completed from them.
const maxTail = 64 * snap.BlockEvents

// New prepares a replica and shows the last good state if the folder has one.
// It fails when the configuration is wrong, never because of what is on disk.
func New(ctx context.Context, cfg Config) (*Replica, error) {
	if cfg.Open == nil || cfg.Show == nil {
		return nil, errors.New("follow: no host to run a core")
	}
	if cfg.MaxSnapshot == 0 {
		cfg.MaxSnapshot = 4 << 30
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	keys, err := newKeyring(cfg.Keys, cfg.Dir, cfg.Log)
	if err != nil {
		return nil, err
	}
	r := &Replica{cfg: cfg, log: cfg.Log, keys: keys, ready: make(chan struct{})}
	cfg.Verify, cfg.Accept, cfg.cosigned = r.verify, r.accept, cfg.Policy != nil
	r.link, err = NewLink(cfg.LinkConfig)
	if err != nil || cfg.Dir == "" {
		return r, err
	}
	r.store = &store{dir: cfg.Dir, log: r.log}
	r.store.clean()
	r.marked = true // an earlier process may have marked it
	r.accepting.Lock()
	defer r.accepting.Unlock()
	switch err := r.restore(ctx); {
	case errors.Is(err, fs.ErrNotExist):
		r.log.Info("follow: nothing on disk to begin with")
	case err != nil:
		r.log.Warn("follow: what is on disk is not used", "err", err)
	}
	return r, nil
}

// verify verifies what came as a checkpoint, also by the policy if there is one.
func (r *Replica) verify(signed []byte) (snap.Checkpoint, error) {
	if r.cfg.Policy != nil {
		return verifyCosigned(signed, r.keys.verify, r.keys, r.cfg.Policy)
	}
	statement, _, _ := CutCosigned(signed) // an earlier process may have had a policy
	return r.keys.verify(statement)
}

// Ready is closed when there is a state to show.
func (r *Replica) Ready() <-chan struct{} { return r.ready }

// Withdrawn is the position of the last event that took words of a member away: it left, was
// removed or hidden, or has other words. What shows words of an earlier position may show
// some that are not the ring's any more. It is known before readers see that position, and
// may be too high.
func (r *Replica) Withdrawn() uint64 { return r.withdrawn.Load() }

// Stale reports whether what is shown is behind the origin: as [Freshness.Stale] says, or
// because this edge cannot reach the state that was signed last. Under a policy, witnesses have
// [WitnessLag] more.
func (r *Replica) Stale() bool {
	now := time.Now()
	if r.cfg.Policy != nil {
		now = now.Add(-WitnessLag)
	}
	return r.Unreached() != nil || r.fresh.Stale(now)
}

// Age is how old what is shown may be, as [Freshness.Age] says.
func (r *Replica) Age() (age time.Duration, known bool) { return r.fresh.Age(time.Now()) }

// Unreached says why what was signed last cannot be reached here, as the core of this process is
// another than the origin's, memory has gone bad, or the origin has lost events that are shown here or
// signs another history; nil when it is reached.
func (r *Replica) Unreached() error {
	if why := r.unreachable.Load(); why != nil {
		return *why
	}
	return nil
}

// Position gives the position that is shown.
func (r *Replica) Position() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.at.Size
}

// Checkpoint returns the newest checkpoint as it was signed, nil before the first.
func (r *Replica) Checkpoint() []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	statement, _, _ := CutCosigned(r.signed)
	return statement
}

// Cosigned returns the newest checkpoint with its cosignatures, as [JoinCosigned] joins them; nil
// without a policy.
func (r *Replica) Cosigned() []byte {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if _, _, ok := CutCosigned(r.signed); !ok || r.cfg.Policy == nil {
		return nil
	}
	return r.signed
}

// Changed returns a channel that is closed when there is a newer checkpoint.
func (r *Replica) Changed() <-chan struct{} { return r.changed.Wait() }

// Keys returns the newest signed keys of the origin, nil before the first.
func (r *Replica) Keys() []byte { return r.keys.newest() }

// Origin returns the name of the ring's log, and the keys that are trusted to sign it, now and later.
func (r *Replica) Origin() (name string, keys note.Verifiers) { return r.keys.name, r.keys }

// LogCheckpoint returns the checkpoint of the log with its cosignatures; nil without a policy.
func (r *Replica) LogCheckpoint() []byte {
	_, cosigned, _ := CutCosigned(r.Cosigned())
	return cosigned
}

// First is the position of the first record that is held.
func (r *Replica) First() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.base
}

// Events returns up to n of the records that are held, from event number from on. The
// error wraps [snap.ErrNotHeld] if from is before [Replica.First] or beyond the newest
// checkpoint.
func (r *Replica) Events(from uint64, n int) ([]snap.Record, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if from < r.base || from > r.at.Size {
		return nil, snap.ErrNotHeld
	}
	rest := r.tail[from-r.base:]
	return rest[:min(n, len(rest))], nil
}

// SetOrigins is [Link.SetOrigins]. What was shown is the least that is taken from any.
func (r *Replica) SetOrigins(urls ...string) error { return r.link.SetOrigins(urls...) }

// Followed is [Link.Followed].
func (r *Replica) Followed() (origins []string, followed string) { return r.link.Followed() }

// Nudge is [Link.Nudge].
func (r *Replica) Nudge() { r.link.Nudge() }

// Reach waits until position seq is shown, and reports whether that was before ctx ended.
// If no checkpoint comes by itself, the replica connects anew. Under a policy it does not wait:
// witnesses are asked once a minute.
func (r *Replica) Reach(ctx context.Context, seq uint64) bool {
	r.Nudge()
	if r.cfg.Policy != nil {
		return r.Position() >= seq
	}
	late := time.NewTimer(250 * time.Millisecond)
	defer late.Stop()
	for {
		changed := r.Changed()
		if r.Position() >= seq {
			return true
		}
		select {
		case <-changed:
		case <-late.C:
			r.link.reconnect()
		case <-ctx.Done():
			return false
		}
	}
}

// Run follows the origin until ctx ends. It is called once.
func (r *Replica) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var others sync.WaitGroup
	others.Go(func() { r.tick(ctx) })
	others.Go(func() { r.learnKeys(ctx) })
	defer others.Wait()
	defer cancel()
	r.link.Run(ctx)
}

// tick passes the time of day on, and tells when answers become stale.
func (r *Replica) tick(ctx context.Context) {
	second := time.NewTimer(UntilNextSecond())
	defer second.Stop()
	for stale := false; ; {
		select {
		case <-ctx.Done():
			return
		case now := <-second.C:
			r.tickCore(now)
			second.Reset(UntilNextSecond())
			age, known := r.Age()
			if !known || r.Unreached() != nil || r.Stale() == stale {
				continue // nothing is shown, or the log has said why it is stale
			}
			if stale = !stale; stale {
				r.log.Warn("follow: no new checkpoint; answers are marked stale", "since", now.Add(-age).UTC())
			} else {
				r.log.Info("follow: fresh again")
			}
		}
	}
}

// UntilNextSecond is how long the clock still shows this second. Nodes pass the time on as the next
// one begins, so that all of them show the same standings.
func UntilNextSecond() time.Duration {
	return time.Second - time.Duration(time.Now().Nanosecond())
}

// tickCore tells the core that is shown the time. That may take milliseconds, so it does
// not hold mu.
func (r *Replica) tickCore(now time.Time) {
	r.ticking.Lock()
	defer r.ticking.Unlock()
	r.mu.RLock()
	shown := r.shown
	r.mu.RUnlock()
	if shown != nil {
		shown.Tick(now)
	}
}

// Close waits for writes to disk and frees the core. It is called after Run has returned
// and when no request uses the core any more.
func (r *Replica) Close() error {
	r.writes.writing.Wait()
	r.accepting.Lock()
	defer r.accepting.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	if r.shown != nil {
		errs = append(errs, r.shown.Close())
	}
	if r.store != nil {
		errs = append(errs, r.store.close())
	}
	r.shown = nil
	return errors.Join(errs...)
}
