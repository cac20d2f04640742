package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"webring/core"
	"webring/core/abi"
	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/ledger/cluster"
	"webring/server/paid"
	"webring/server/publish"
	"webring/server/sites/visits"
	"webring/server/sites/webhooks"
	"webring/wasm/module"
)

// Leader is what writes the ledger, publishes it to edges, and takes payments.
type Leader struct {
	Books    *ledger.Ledger
	Payments *paid.Service
	Operator *Operator

	publisher *publish.Publisher
	attention atomic.Int64       // payments that need attention, of those counted last
	end       context.CancelFunc // of what runs while this origin leads
	log       *slog.Logger
}

// lead writes what a first start makes or what the flags have changed, publishes to edges, and takes
// payments. It finds mistakes in the flags before it writes anything: the rules and the name of the
// signing key stay forever. t is the term of a node, nil for the only origin.
func (o *Origin) lead(ctx context.Context, books *ledger.Ledger, t *cluster.Term) (*Leader, error) {
	methods, err := o.Methods()
	if err != nil {
		return nil, err
	}
	var until publish.Until = t
	if t == nil {
		if until, err = publish.OpenUntil(SyncPath(o.Data)); err != nil {
			return nil, err
		}
	}
	rules, before := changedRules(books, o.Rules), o.Books.rules()
	if err := o.askTheTime(ctx, books, methods, until.Until(), rules != nil); err != nil {
		return nil, err
	}
	publisher, err := o.openPublisher(until)
	if err != nil {
		return nil, err
	}
	o.published = publisher.Published
	if err := o.Keys.make(); err != nil {
		return nil, err
	}
	if err := aside.CatchUpNews(ctx, books); err != nil && !errors.Is(err, ledger.ErrNotNow) {
		return nil, err // without room they are written later, by aside.RunNews
	}
	if rules != nil {
		if err := books.Do(ctx, func(tx *ledger.Tx) error {
			rules.Stamp = tx.Stamp()
			_, err := tx.Append(rules, nil)
			return err
		}); err != nil {
			return nil, err
		}
		if before != nil {
			logChanges(o.Log, before, rules)
		}
	}
	if err := publisher.Start(ctx, books); err != nil {
		return nil, err
	}
	visiting := visits.Config{Ledger: books, Fetch: o.Sites, Now: o.Ledger.Now, Log: o.Log}
	if o.Counters != nil {
		visiting.Visited = o.Counters.Visited
	}
	visitor := visits.New(visiting)
	taking := o.Payments
	taking.Ledger, taking.Methods, taking.Keys, taking.Visit = books, methods, o.Keys.Get(), visitor.Ask
	taking.Ready = func() error {
		if err := publisher.Contradicted(); err != nil {
			return err
		}
		if t != nil {
			if err := t.Ready(); err != nil {
				return err
			}
		}
		return o.Payments.Ready()
	}
	if t != nil {
		taking.Fence = func() error {
			if !t.Live() {
				return cluster.ErrNotLeading
			}
			return nil
		}
	}
	l := &Leader{Books: books, publisher: publisher, log: o.Log}
	if l.Payments, err = paid.New(taking); err != nil {
		return nil, errors.Join(err, publisher.Close())
	}
	o.Keys.use(l.Payments)
	l.Operator = &Operator{Ledger: books, Payments: l.Payments, Keys: o.KeyFiles, Publisher: publisher, Log: o.Log}
	running, end := context.WithCancel(ctx)
	l.end = end
	go aside.RunNews(running, books, o.Ledger.Now, o.Log)
	o.visitor.Store(visitor)
	go func() {
		defer o.visitor.CompareAndSwap(visitor, nil)
		visitor.Run(running)
	}()
	hub := ""
	if o.Edge != nil {
		hub = o.Edge.Hub
	}
	go webhooks.New(webhooks.Config{Ledger: books, Fetch: o.Sites, Hub: hub, Base: o.Rules.BaseURL, Now: o.Ledger.Now, Log: o.Log}).Run(running)
	go o.sweepReports(running)
	go o.hops.Run(running)
	if o.Counters != nil {
		go l.countAttention(running)
	}
	return l, nil
}

// openPublisher prepares what edges follow. The key is made on the first start, under the name that
// the base URL has then, and keeps it.
func (o *Origin) openPublisher(until publish.Until) (*publish.Publisher, error) {
	base, err := url.Parse(o.Rules.BaseURL)
	if err != nil {
		return nil, err
	}
	digest, err := module.Digest()
	if errors.Is(err, module.ErrMissing) {
		o.Log.Warn("checkpoints name no core", "err", err)
	} else if err != nil {
		return nil, err
	}
	return publish.New(publish.Config{Dir: SyncPath(o.Data), KeyPath: SyncKeyPath(o.Data), NextPath: NextKeyPath(o.Data), Name: KeyName(base), Core: digest,
		ABI: abi.Version, Capacity: o.Ledger.Capacity, SnapshotEvery: o.SnapshotEvery, Witnesses: o.Witnesses, Until: until, Now: o.Ledger.Now, Log: o.Log})
}

// KeyName is how the key of a ring at this URL is named.
func KeyName(base *url.URL) string { return base.Host + base.EscapedPath() }

// SyncPath is the folder of the snapshots for edges, in a data folder.
func SyncPath(data string) string { return filepath.Join(data, "sync") }

// SyncKeyPath is the file of the key that signs for edges.
func SyncKeyPath(data string) string { return filepath.Join(data, "sync-key") }

// NextKeyPath is the file of the key that is announced and not yet alone.
func NextKeyPath(data string) string { return filepath.Join(data, "sync-key-next") }

// SigningKeys are the verifiers of the keys that sign for edges.
type SigningKeys struct {
	Current string `json:"current"`
	Next    string `json:"next,omitempty"` // announced, and not yet alone
}

// ReadSigningKeys reads them as they are in a data folder now.
func ReadSigningKeys(data string) (s SigningKeys, err error) {
	key, err := publish.ReadKey(SyncKeyPath(data))
	if err != nil {
		return s, err
	}
	next, err := publish.ReadNext(NextKeyPath(data))
	if s.Current = key.Verifier(); next != nil {
		s.Next = next.Verifier()
	}
	return s, err
}

// Verifiers are those of all keys that sign for edges, as they are in a data folder now.
func Verifiers(data string) ([]string, error) {
	s, err := ReadSigningKeys(data)
	if s.Next == "" {
		return []string{s.Current}, err
	}
	return []string{s.Current, s.Next}, err
}

// close ends payments and publishing. It waits for payments in flight until ctx ends; after that they
// stay reserved.
func (l *Leader) close(ctx context.Context) error {
	l.end()
	if err := l.Payments.Close(ctx); err != nil {
		l.log.Warn("payments in flight stay reserved for the next start", "err", err)
	}
	return l.publisher.Close()
}

// changedRules gives the wanted rules, nil if they are those of the ring.
func changedRules(books *ledger.Ledger, want core.Rules) *core.Rules {
	changed := true
	books.View(func(v *ledger.View) {
		if have := v.State().Rules(); have != nil {
			want.Synthetic = have.Synthetic // a ring that was made for measurement stays marked as one
			want.Stamp = have.Stamp
			changed = !reflect.DeepEqual(*have, want)
		}
	})
	if !changed {
		return nil
	}
	return &want
}

// askTheTime says which instants are certain, before anything is written: the last event, and until,
// up to which checkpoints may have been signed, in milliseconds. A new ring has neither, and a silent
// network does not keep it from beginning. If these alone do not confirm the clock, or the rules
// change, it asks the payment networks for their newest blocks. It fails if the rules cannot change
// by this clock, or if ctx has ended: an operator who stops a start may have seen a mistake.
func (o *Origin) askTheTime(ctx context.Context, books *ledger.Ledger, methods []paid.Method, until int64, changes bool) error {
	clock := o.Ledger.Clock
	books.View(func(v *ledger.View) {
		switch st := v.State(); {
		case st.Seq() > 0:
			clock.Kept(time.UnixMilli(max(st.LastStamp(), until)))
		case len(methods) == 0:
			clock.Kept(o.Ledger.Now()) // a new ring has nothing to lose
		}
	})
	if changes || books.CheckClock() != nil {
		var asked sync.WaitGroup
		for _, m := range methods {
			asked.Go(func() {
				within, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				block, _ := m.Clock(within) // a network that does not answer tells nothing
				clock.Told("the newest block of "+m.Network(), block)
			})
		}
		asked.Wait()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	o.Core.Tick(o.Ledger.Now()) // readers are shown the ring as of then
	switch err := books.CheckClock(); {
	case err != nil && changes:
		return fmt.Errorf("the ring's flags have changed and need an event: %w", err)
	case err != nil:
		o.Log.Error("nothing is written, and no payment is taken", "err", err)
	}
	return nil
}
