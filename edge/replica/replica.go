package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"webring/core/api"
	"webring/core/snap"
	"webring/edge/upstream"
)

// Core is a core at one position, as a host runs it. Functions may be called
// concurrently, except that nothing is called after Close.
type Core interface {
	// Apply folds in the records that follow and shows them.
	Apply(records []snap.Record) error
	// ApplyTo folds in the records that follow, where no reader sees it, and shows
	// them if they lead to the digest. If they do not, refusal says why. With a
	// refusal or an error, readers go on seeing what they saw. A core that cannot
	// roll back by itself calls last for what it held: a snapshot, and the records
	// after it.
	ApplyTo(records []snap.Record, digest [16]byte, last func() (snapshot []byte, records []snap.Record, err error)) (refusal, err error)
	// Tick tells the time of day, once a second.
	Tick(now time.Time)
	// Serve answers a GET for target.
	Serve(target []byte, r *api.Response)
	// ServeAll answers several at one head.
	ServeAll(targets [][]byte, all []api.Response)
	// Head gives position and second of what is served.
	Head() (seq uint64, second int64)
	// BaseURL is what links begin with.
	BaseURL() string
	// Digest gives the digest of the rows, and the position that it is of.
	Digest() (seq uint64, digest [16]byte)
	// Snapshot gives what a core can be opened from, nil when there is none just now.
	Snapshot() []byte
	// Close frees what the core holds.
	Close() error
}

// Config says which origin to follow and how. Origins, Keys, Open and Show are needed.
type Config struct {
	// Origins are the URLs of the origin's nodes, or of edges that follow it. One of them
	// is followed at a time, the first one at first, and the next when that one fails, is
	// silent or is behind what was shown. Without any, nothing is followed until
	// [Replica.SetOrigins].
	Origins []string
	// Keys verify the origin's checkpoints, name+hash+key each: one is enough, and each
	// of several. What they have signed about other keys counts more.
	Keys []string
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
	// Vouch adds to a request the proof that it comes from an edge of this ring. An
	// origin that shares the secret has slots for such edges. nil adds none.
	Vouch func(*http.Request)
	// Client is used for every request, nil for one of its own. It must not
	// follow redirects or time out.
	Client *http.Client
	// Log receives what operators should see, [slog.Default] when nil.
	Log *slog.Logger
}

// StaleAfter is for how long answers count as fresh without a new checkpoint.
const StaleAfter = 60 * time.Second

// Replica is a follower. Its functions may be called concurrently.
type Replica struct {
	cfg    Config
	log    *slog.Logger
	client *http.Client
	keys   *keyring

	origins  *upstream.List
	followed atomic.Pointer[upstream.Origin] // whose checkpoint was taken last

	// The caller that holds accepting may change what a checkpoint changes.
	accepting sync.Mutex
	floor     *snap.Checkpoint // of a state on disk that could not be shown, or is of an earlier version; nil once one of this version is shown
	tree      snap.Tree
	store     *store
	failed    *failed // nil unless the last checkpoint could not be reached
	marked    bool    // the folder says that this edge is to be upgraded

	// ticking is held while the core that is shown gets the time, and while it is
	// replaced.
	ticking sync.Mutex

	// mu guards what is read without accepting.
	mu           sync.RWMutex
	shown        Core
	signed       []byte // the checkpoint as it came
	at           snap.Checkpoint
	base         uint64 // position of tail[0]
	tail         []snap.Record
	changed      chan struct{}
	disconnect   context.CancelFunc // ends the connection at hand
	disconnected time.Time
	known        []*origin

	files  files
	blocks blocks
	writes writes

	readied sync.Once
	ready   chan struct{} // closed by readied
	wake    chan struct{}
	heard   atomic.Int64 // when the newest checkpoint came, ms
	stamped atomic.Int64 // and when it was signed, ms

	withdrawn atomic.Uint64 // what Withdrawn gives
	doubt     atomic.Bool   // what came last was not what was signed, so caches are bypassed

	unreachable atomic.Pointer[error] // why the core here does not come to the state that was signed last
}

// New prepares a replica and shows the last good state if the folder has one.
// It fails when the configuration is wrong, never because of what is on disk.
func New(ctx context.Context, cfg Config) (*Replica, error) {
	origins, err := upstream.New(cfg.Origins...)
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	if cfg.Open == nil || cfg.Show == nil {
		return nil, errors.New("replica: no host to run a core")
	}
	if cfg.MaxSnapshot == 0 {
		cfg.MaxSnapshot = 4 << 30
	}
	r := &Replica{
		cfg: cfg, log: cfg.Log, client: cfg.Client, origins: origins,
		files:   files{ended: make(chan struct{})},
		changed: make(chan struct{}), ready: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	if r.log == nil {
		r.log = slog.Default()
	}
	if r.client == nil {
		r.client = newClient()
	}
	if r.keys, err = newKeyring(cfg.Keys, cfg.Dir, r.log); err != nil {
		return nil, err
	}
	if cfg.Dir != "" {
		r.store = &store{dir: cfg.Dir, log: r.log}
		r.store.clean()
		r.marked = true // an earlier process may have marked it
		r.accepting.Lock()
		defer r.accepting.Unlock()
		if err := r.restore(ctx); err != nil {
			r.log.Info("replica: nothing on disk to begin with", "err", err)
		}
	}
	return r, nil
}

// Ready is closed when there is a state to show.
func (r *Replica) Ready() <-chan struct{} { return r.ready }

// Withdrawn is the position of the last event that took words of a member away: it left, was
// removed or hidden, or has other words. What shows words of an earlier position may show
// some that are not the ring's any more. It is known before readers see that position, and
// may be too high.
func (r *Replica) Withdrawn() uint64 { return r.withdrawn.Load() }

// Stale says whether what is shown is behind the origin: no new checkpoint came for
// [StaleAfter], the newest one is older than that, or this edge cannot reach the state
// that it signs. The age counts too, because an origin, or a cache before it, may repeat
// an old checkpoint.
func (r *Replica) Stale() bool {
	if r.Unreached() != nil {
		return true
	}
	now := time.Now().UnixMilli()
	limit := StaleAfter.Milliseconds()
	return now-r.heard.Load() > limit || now-r.stamped.Load() > limit
}

// Age is how old what is shown may be: the time since the newest checkpoint came, or since
// it was signed if that is longer. It is not known before [Replica.Ready].
func (r *Replica) Age() (age time.Duration, known bool) {
	stamped := r.stamped.Load()
	if stamped == 0 {
		return 0, false
	}
	now := time.Now().UnixMilli()
	return time.Duration(max(now-r.heard.Load(), now-stamped, 0)) * time.Millisecond, true
}

// Unreached says why the state that was signed last cannot be reached here, as the core of
// this process is another than the origin's or memory has gone bad; nil when it is reached.
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

// Reach waits until position seq is shown, and says whether that was before ctx ended. If
// no checkpoint comes by itself, the replica connects anew.
func (r *Replica) Reach(ctx context.Context, seq uint64) bool {
	r.Nudge()
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
			r.reconnect()
		case <-ctx.Done():
			return false
		}
	}
}

// Nudge ends a wait before the next attempt to reach the origin.
func (r *Replica) Nudge() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// reconnect ends the connection at hand, which may be dead without an error, at most once
// a second.
func (r *Replica) reconnect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.disconnect == nil || time.Since(r.disconnected) < time.Second {
		return
	}
	r.disconnected = time.Now()
	r.disconnect()
}

// Run follows the origin until ctx ends. It is called once.
func (r *Replica) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { r.tick(ctx) })
	beside.Go(func() { r.anticipate(ctx) })
	beside.Go(func() { r.learnKeys(ctx) })
	defer beside.Wait()
	defer cancel()
	r.follow(ctx)
}

// tick passes the time of day on, and tells when answers become stale.
func (r *Replica) tick(ctx context.Context) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for stale := false; ; {
		select {
		case <-ctx.Done():
			return
		case now := <-second.C:
			r.tickCore(now)
			if r.stamped.Load() == 0 || r.Unreached() != nil {
				continue // nothing is shown, or the log has said why it is stale
			}
			if was := stale; r.Stale() != was {
				if stale = !was; stale {
					r.log.Warn("replica: no new checkpoint; answers are marked stale", "since", time.UnixMilli(r.stamped.Load()).UTC())
				} else {
					r.log.Info("replica: fresh again")
				}
			}
		}
	}
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
