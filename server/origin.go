package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"webring/core"
	"webring/core/snap"
	"webring/edge"
	"webring/edge/describe"
	"webring/edge/follow"
	"webring/edge/hops"
	"webring/edge/tlog"
	"webring/server/admin"
	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
	"webring/server/ledger/cluster"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/publish"
	"webring/server/sites/fetch"
	"webring/server/sites/score"
	"webring/server/sites/score/local"
	"webring/server/sites/visits"
)

// closeTime bounds how long a stop waits until the files of the ledger are closed. The store compacts
// them meanwhile, and retries forever if it cannot. The next start does not need that: everything
// that was answered is on disk.
const closeTime = 20 * time.Second

// Config says what an [Origin] is made of. The configurations in it lack what the origin adds: its
// ledger, and what changes with its role.
type Config struct {
	Data   string        // the folder of the ledger
	Ledger ledger.Config // without Store, HeadPath, Room, Publish, Observe and Committed
	// OpenCore opens the core that answers reads, at a snapshot or empty.
	OpenCore func(snapshot []byte) (follow.Core, error)
	// SnapshotEvery is the number of events between two snapshots for edges.
	SnapshotEvery uint64
	// Witnesses names the witnesses that are asked to cosign the log; nil asks none.
	Witnesses *tlog.Policy
	// Rules are what the flags say of the ring's rules, and Networks those of the payment methods.
	Rules core.Rules
	// Methods makes the payment methods.
	Methods  func() ([]paid.Method, error)
	Payments paid.Config   // without Ledger, Methods, Keys, Visit, Ready, scorers and member sites
	Scorer   score.Config  // which service scores sites
	Sites    *fetch.Client // reads strangers' sites
	Keys     *Keyring
	// KeyFiles gives the files that a backup holds with the ledger: paths by name.
	KeyFiles func() map[string]string
	// PayingWords are what the command line that pays needs besides the request.
	PayingWords string
	Edge        *edge.Config // of the shell
	// Confirmed is what the operator has confirmed of what a start would change.
	Confirmed Confirmed
	// Cluster is how a node takes part in its cluster. A single origin has none.
	Cluster *cluster.Config
	// Counters count what this origin does. If they are nil, nothing is counted.
	Counters *admin.Counters
	Log      *slog.Logger
}

// Origin is an origin for the whole life of a process, whatever its role. It is the only origin of
// its ring, or a node of a cluster, which leads or follows. Open comes first, then Start, and Close
// last.
type Origin struct {
	Config
	// Books are the ledger of this origin, from Open on.
	Books Books
	// Core answers reads. It follows the ledger.
	Core follow.Core
	// Moved signals each further position that readers see.
	Moved follow.Signal

	disk      Volume
	reports   *local.Store // of the local scorer, even if another one is asked now
	hops      *aside.Hops
	sender    *hops.Sender
	found     *aside.Index
	best      *aside.Best
	moments   *aside.Moments
	feeds     *visits.Feeds
	passHops  func(ctx context.Context, report []byte) error // to the node that leads; nil for the only origin
	store     *badgerstore.Store
	follower  *ledger.Follower      // in memory and not in use: the process has begun with it, or has led
	written   *ledger.Ledger        // of the only origin, once it leads
	published func([]ledger.Record) // what else is told of durable events; set while nothing is written
	answers   backendSwitch
	visitor   atomic.Pointer[visits.Visitor] // nil while this origin does not lead
	leader    atomic.Pointer[Leader]         // nil while this origin does not lead
	node      *Node                          // nil for the only origin
}

// New makes an origin. It fails if the scorer cannot be as it is configured.
func New(c Config) (*Origin, error) {
	o := &Origin{Config: c, disk: Volume{Dir: c.Data}}
	o.Ledger.HeadPath = filepath.Join(c.Data, "head")
	o.Ledger.Room, o.Ledger.Observe, o.Ledger.Publish = o.disk.AtLeast(WriteFloor), observe, o.publish
	o.hops, o.found = aside.NewHops(&o.Books, c.Ledger.Now, c.Log), aside.NewIndex(&o.Books)
	o.moments, o.best = aside.NewMoments(&o.Books, describe.MostReplayed, c.Ledger.Now), aside.NewBest(&o.Books, c.Ledger.Now)
	o.feeds = visits.NewFeeds(&o.Books, c.Ledger.Now, c.Log)
	o.Payments.Ready, o.Payments.MemberSites = o.diskReady, memberSites{c.Sites}
	if err := o.openScorer(); err != nil {
		return nil, err
	}
	o.Ledger.Slow = func() {
		c.Log.Warn("a commit is slow: look at the disk, and at etcd if there is one; no payment is offered until the commit has come to its end", "so_far", ledger.SlowGroup)
	}
	o.Ledger.Committed = func(took time.Duration, err error) {
		if took > ledger.SlowGroup {
			c.Log.Warn("a slow commit has come to its end", "took", took.Round(time.Millisecond), "err", err)
		}
		if c.Counters != nil {
			c.Counters.Committed(took, err)
		}
	}
	if c.Counters != nil {
		o.Payments.Ended = c.Counters.Ended
		o.Payments.Scorer, o.Payments.DraftScorer = c.Counters.Scorer(o.Payments.Scorer), c.Counters.Scorer(o.Payments.DraftScorer)
		for _, m := range o.Payments.Methods {
			c.Counters.Methods(m.Name())
		}
	}
	if c.Cluster != nil {
		o.node = &Node{Origin: o, over: make(chan struct{})}
	}
	return o, nil
}

// observe is [ledger.Config.Observe]: it writes the news of an event and what an owner can take
// back, and forgets the feed, the icon and the webhook of a member that is gone by it.
func observe(tx *ledger.Tx, e core.Event) (applied func(seq uint64) error) {
	news, owners := aside.ObserveNews(tx, e), aside.ObserveOwners(tx, e)
	return func(seq uint64) error {
		return errors.Join(news(seq), owners(seq), visits.Forget(tx, e))
	}
}

// diskReady says why the disk can take no payment: it has given errors, or is nearly full.
func (o *Origin) diskReady() error {
	if o.store != nil && o.store.Fault() != nil {
		return o.store.Fault()
	}
	return o.disk.AtLeast(PayFloor)()
}

// Node is this origin as a node of a cluster, nil for the only origin.
func (o *Origin) Node() *Node { return o.node }

// Leader is what takes payments, nil while this origin does not lead.
func (o *Origin) Leader() *Leader { return o.leader.Load() }

// Open opens the ledger, and the core that answers reads at its position. The core is made of the
// rows of the ledger's state, which costs much less than to fold all events again.
func (o *Origin) Open() (err error) {
	if o.store, err = badgerstore.Open(filepath.Join(o.Data, "ledger"), o.Log); err != nil {
		return err
	}
	o.Ledger.Store = o.store
	if o.follower, err = ledger.Follow(o.Ledger); err != nil {
		return errors.Join(err, o.store.Close())
	}
	o.Books.set(o.follower)
	var snapshot []byte
	o.Books.View(func(v *ledger.View) {
		err = o.Confirmed.Ring(v, o.Rules.BaseURL, o.KeyFiles())
		if v.State().Seq() > 0 {
			snapshot = snap.Append(nil, v.State())
		}
	})
	if err == nil {
		o.Core, err = o.OpenCore(snapshot)
	}
	if err != nil {
		return errors.Join(err, o.follower.Close(), o.store.Close())
	}
	o.Core.Tick(o.Ledger.Now())
	debug.FreeOSMemory() // of what it took to open both, before the first snapshot is made
	return nil
}

// Start takes up the role of this origin. The only origin leads. A node takes part in its cluster
// in the background. Start returns when it has an event to answer with, or when ctx ends: a new ring
// has no events before its first leader.
func (o *Origin) Start(ctx context.Context) error {
	if o.node != nil {
		return o.node.start(ctx)
	}
	var err error
	if o.written, err = o.follower.Lead(o.store); err != nil {
		return err
	}
	o.follower = nil
	o.Books.set(o.written)
	l, err := o.lead(ctx, o.written, nil)
	if err != nil {
		return err
	}
	o.leader.Store(l)
	o.answers.show(o.leaderBackend(l))
	return nil
}

// Failed is closed when the process must end, and Err says why.
func (o *Origin) Failed() <-chan struct{} {
	if o.node != nil {
		return o.node.over
	}
	return o.written.Done()
}

// Err says why Failed is closed.
func (o *Origin) Err() error {
	if o.node != nil {
		return o.node.why
	}
	return o.written.Err()
}

// Depart begins a stop, while requests are answered as before: a leader hands over, if another node
// can take over.
func (o *Origin) Depart() {
	if o.node != nil {
		o.node.part.Depart()
	}
}

// ClosePayments lets no new payment begin, and waits until the requests that are held have their
// answers, or ctx is done. Requests that were passed on have until then, too.
func (o *Origin) ClosePayments(ctx context.Context) error {
	if l := o.Leader(); l != nil {
		return l.Payments.Close(ctx)
	}
	if o.node != nil {
		context.AfterFunc(ctx, o.node.forwarder.Close)
	}
	return nil
}

// Close ends the role of this origin, and closes its ledger and the core. Payments in flight are
// waited for until ctx ends.
func (o *Origin) Close(ctx context.Context) error {
	var err error
	if o.node != nil {
		err = o.node.close()
	} else if l := o.Leader(); l != nil {
		err = l.close(ctx)
	}
	broken := o.node != nil && errors.Is(o.node.why, ledger.ErrBroken)
	if o.written != nil {
		err = errors.Join(err, o.written.Close())
		broken = errors.Is(o.written.Err(), ledger.ErrBroken)
	}
	if o.follower != nil {
		err = errors.Join(err, o.follower.Close())
	}
	if !broken { // otherwise what failed would fail again
		err = errors.Join(err, o.closeStore())
	}
	return errors.Join(err, o.Core.Close())
}

// closeStore closes the files of the ledger, within closeTime.
func (o *Origin) closeStore() error {
	closed := make(chan error, 1)
	go func() { closed <- o.store.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeTime):
		return fmt.Errorf("the files of the ledger could not be closed within %s, which loses nothing: the next start reads them as after a crash", closeTime)
	}
}

// publish shows durable events to readers and edges.
func (o *Origin) publish(records []ledger.Record) {
	if err := o.Core.Apply(records); err != nil {
		// The writer's state has taken these events, and the pool falls back to the native core if a
		// module does not. So the two have diverged.
		panic(err)
	}
	if o.published != nil {
		o.published(records)
	}
	o.Moved.Send()
}

// Books are the ledger that this origin has at the moment: one that it writes, or one that it
// follows.
type Books struct{ now atomic.Pointer[books] }

type books interface {
	publish.Books
	View(func(*ledger.View))
}

func (b *Books) set(now books) { b.now.Store(&now) }

// View reads the present state.
func (b *Books) View(fn func(*ledger.View)) { (*b.now.Load()).View(fn) }

// Records gives durable events.
func (b *Books) Records(from uint64, n int) ([]ledger.Record, error) {
	return (*b.now.Load()).Records(from, n)
}

// rules gives the ring's rules, nil before there are any.
func (b *Books) rules() (r *core.Rules) {
	b.View(func(v *ledger.View) { r = v.State().Rules() })
	return r
}

// Do writes to the ledger, or fails with [cluster.ErrNotLeading].
func (b *Books) Do(ctx context.Context, fn func(*ledger.Tx) error) error {
	if now := b.now.Load(); now != nil {
		if l, ok := (*now).(*ledger.Ledger); ok {
			return l.Do(ctx, fn)
		}
	}
	return cluster.ErrNotLeading
}

// Keyring holds the keys of challenges that are in force, and passes them on to the service of
// payments, if there is one.
type Keyring struct {
	// Make makes the key of a first start.
	Make func() (mpp.Keys, error)

	mu       sync.Mutex
	keys     mpp.Keys
	payments *paid.Service
}

// Get gives the keys in force. There are none before the first start of an origin.
func (k *Keyring) Get() mpp.Keys {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys
}

// Set replaces the keys.
func (k *Keyring) Set(keys mpp.Keys) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.payments != nil {
		if err := k.payments.SetKeys(keys); err != nil {
			return err
		}
	}
	k.keys = keys
	return nil
}

// make makes the keys of a first start.
func (k *Keyring) make() (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.keys.Current == nil {
		k.keys, err = k.Make()
	}
	return err
}

// use gives a service each later change of the keys. The service was made with the present ones.
func (k *Keyring) use(payments *paid.Service) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.payments = payments
}
