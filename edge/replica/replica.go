package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"

	"webring/core/api"
	"webring/core/snap"
)

// Core is a core at one position, as a host runs it. Functions may be called
// concurrently, except that nothing is called after Close.
type Core interface {
	// Apply folds in the records that follow and shows them.
	Apply(records []snap.Record) error
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
	// Snapshot gives what a core can be opened from.
	Snapshot() []byte
	// Close frees what the core holds.
	Close() error
}

// Module is a build of the core that a host can load. Without code it is the
// one compiled into this process.
type Module struct {
	Code   []byte
	Digest [32]byte // SHA-256 of Code
	ABI    int      // version of the entry, 0 if there is no code
}

// Config says whom to follow and how. Origin, Key, Open and Show are needed.
type Config struct {
	// Origin is the URL of the origin, or of an edge that follows it.
	Origin string
	// Key verifies the origin's checkpoints: name+hash+key.
	Key string
	// Dir is the folder of the last good state; "" keeps none.
	Dir string
	// Replay folds every event instead of trusting a snapshot.
	Replay bool
	// Own is the module to use unless a checkpoint names another one of the
	// same ABI. Without code, other modules are never loaded.
	Own Module
	// Open makes a core from a snapshot, or of an empty ledger when that is
	// nil. One that is not for readers has one user at a time. If its module is
	// not the own one, it must fail where the module does not return.
	Open func(ctx context.Context, m Module, snapshot []byte, readers bool) (Core, error)
	// Show makes c what readers see from now on, and returns when nobody uses
	// the one before any more. That one is closed afterwards.
	Show func(c Core, m Module)
	// MaxSnapshot is the longest snapshot that is taken, in bytes before it is
	// compressed; 0 stands for 4 GiB.
	MaxSnapshot int64
	// Vouch shows with a request that it comes from an edge of this ring, for
	// which an origin that shares its secret keeps room; nil for a stranger.
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
	cfg       Config
	log       *slog.Logger
	client    *http.Client
	verifiers note.Verifiers
	name      string

	// What a checkpoint changes is changed by whoever holds accepting.
	accepting sync.Mutex
	judge     Core             // nil until it is needed; at the position of the checkpoint, or of what is due
	due       *due             // nil unless it could not be shown
	read      *diskState       // what the first judge begins from, nil afterwards
	floor     *snap.Checkpoint // of a state on disk that could not be shown, until one is
	module    Module
	tree      snap.Tree
	store     *store
	refused   map[[32]byte]time.Time // modules, until when
	proven    map[[32]byte]bool      // that of this process, and those that were shown

	// ticking is held by who has the core that is shown pass time, and by who puts
	// another one in its place.
	ticking sync.Mutex

	// What others read besides.
	mu      sync.RWMutex
	shown   Core
	signed  []byte // the checkpoint as it came
	at      snap.Checkpoint
	base    uint64 // position of tail[0]
	tail    []snap.Record
	changed chan struct{}
	kick    context.CancelFunc // ends the connection at hand
	kicked  time.Time

	pace    *pace
	files   files
	blocks  blocks
	passed  passedModule
	keeping keeping

	settled sync.Once
	ready   chan struct{} // closed when settled
	wake    chan struct{}
	heard   atomic.Int64 // when the newest checkpoint came, ms
	stamped atomic.Int64 // and when it was signed, ms
	doubt   atomic.Bool  // what came last was not what was signed

	lastComplaint string
	complained    time.Time
	pollUntil     time.Time
}

// New prepares a replica and shows the last good state if the folder has one.
// It fails when the configuration is wrong, never because of what is on disk.
func New(ctx context.Context, cfg Config) (*Replica, error) {
	u, err := url.Parse(cfg.Origin)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf("replica: the origin %q is not an http or https URL without path", cfg.Origin)
	}
	cfg.Origin = u.Scheme + "://" + u.Host
	verifier, err := note.NewVerifier(cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("replica: the origin's key: %w", err)
	}
	if cfg.Open == nil || cfg.Show == nil {
		return nil, errors.New("replica: no host to run a core")
	}
	if cfg.MaxSnapshot == 0 {
		cfg.MaxSnapshot = 4 << 30
	}
	r := &Replica{
		cfg: cfg, log: cfg.Log, client: cfg.Client, verifiers: note.VerifierList(verifier), name: verifier.Name(),
		module: cfg.Own, refused: map[[32]byte]time.Time{}, proven: map[[32]byte]bool{cfg.Own.Digest: true}, pace: newPace(), files: files{ended: make(chan struct{})},
		changed: make(chan struct{}), ready: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	if r.log == nil {
		r.log = slog.Default()
	}
	if r.client == nil {
		r.client = newClient()
	}
	if cfg.Dir != "" {
		r.store = &store{dir: cfg.Dir, log: r.log}
		r.store.clean()
		r.blocks.dir, r.blocks.most = filepath.Join(cfg.Dir, "blocks"), maxBlocks
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

// Stale says whether the origin has not been heard from for [StaleAfter], going
// by when its newest checkpoint came and by when that was signed: an origin, or
// whoever stands before it, that repeats itself is as good as gone.
func (r *Replica) Stale() bool {
	now := time.Now().UnixMilli()
	limit := StaleAfter.Milliseconds()
	return now-r.heard.Load() > limit || now-r.stamped.Load() > limit
}

// Position gives the position that is shown.
func (r *Replica) Position() uint64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.at.Size
}

// Reach waits until position seq is shown, and says whether that came before
// ctx ended. It has the replica ask the origin if the origin does not tell.
func (r *Replica) Reach(ctx context.Context, seq uint64) bool {
	r.Nudge()
	patience := time.NewTimer(250 * time.Millisecond)
	defer patience.Stop()
	for {
		changed := r.Changed()
		if r.Position() >= seq {
			return true
		}
		select {
		case <-changed:
		case <-patience.C:
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

// reconnect ends the connection at hand, which may be dead without showing it,
// at most once a second.
func (r *Replica) reconnect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kick == nil || time.Since(r.kicked) < time.Second {
		return
	}
	r.kicked = time.Now()
	r.kick()
}

// Run follows the origin until ctx ends. It is called once.
func (r *Replica) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { r.tick(ctx) })
	beside.Go(func() { r.anticipate(ctx) })
	defer beside.Wait()
	defer cancel()
	r.prepareJudge(ctx)
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
			r.pass(now)
			if r.stamped.Load() == 0 {
				continue // nothing is shown that could be stale
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

// pass tells the core that is shown the time. That may take it milliseconds, for
// which nobody waits who asks where the replica is.
func (r *Replica) pass(now time.Time) {
	r.ticking.Lock()
	defer r.ticking.Unlock()
	r.mu.RLock()
	shown := r.shown
	r.mu.RUnlock()
	if shown != nil {
		shown.Tick(now)
	}
}

// Close ends what is being written to disk and frees the cores. It is called after Run has returned and when nobody
// reads any more.
func (r *Replica) Close() error {
	r.keeping.writing.Wait()
	r.accepting.Lock()
	defer r.accepting.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, c := range []Core{r.judge, r.shown} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	if r.store != nil {
		errs = append(errs, r.store.close())
	}
	r.judge, r.shown = nil, nil
	return errors.Join(errs...)
}
