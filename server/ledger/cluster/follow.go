package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"webring/server/ledger"
)

// Follower is a node's own copy of the ledger. Position may be called at any time, even during Apply.
type Follower interface {
	// Position is after the last transaction that the copy has durably.
	Position() ledger.Position
	// Apply takes the rows of the next transaction.
	Apply(ledger.Batch) error
}

// Bounds of a watch.
const (
	pageOfTail = 32                     // transactions read at once
	heartbeat  = time.Second            // between requests for a sign of life of the watch
	silence    = 4 * time.Second        // after which a watch counts as dead
	checkTime  = 200 * time.Millisecond // between checks of what waits for time to pass
	roomTime   = time.Second            // between attempts to store where there is no room
	patience   = 10 * time.Second       // for an answer of any member, before a warning
)

// makeSpace is what to do about the alarm NOSPACE of etcd.
const makeSpace = "etcd takes no writes until there is space: run etcdctl defrag on one member after the other, and then etcdctl alarm disarm"

// errAgain says that a watch must begin anew, although nothing has failed.
var errAgain = errors.New("cluster: the watch has left out transactions, or the log began anew")

// applyError is an error of [Follower.Apply].
type applyError struct{ error }

// Stand takes part in the ring. It registers the node, follows the tail into own, and stands for
// election when no node leads. It returns the term of this node once the node is elected and own
// has everything that was committed; it does not call own after that. Stand retries for as long as
// ctx lasts. Its errors are that of ctx, [ErrRefused], [ErrTooOld], and what own.Apply returned.
func (c *Cluster) Stand(ctx context.Context, own Follower) (*Term, error) {
	if c.c.Node == "" {
		return nil, errors.New("cluster: the node has no name")
	}
	t, err := c.follow(ctx, own, true)
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrTooOld) {
		c.sayRefused(err)
	}
	return t, err
}

// Follow follows the tail into own and does nothing else: etcd does not know of it. Its errors
// are those of [Cluster.Stand].
func (c *Cluster) Follow(ctx context.Context, own Follower) error {
	_, err := c.follow(ctx, own, false)
	return err
}

func (c *Cluster) follow(ctx context.Context, own Follower, stand bool) (*Term, error) {
	var reporting sync.WaitGroup
	defer reporting.Wait()
	reports, end := context.WithCancel(ctx)
	defer end()
	entered := sync.OnceFunc(func() {
		if stand {
			reporting.Go(func() { c.report(reports, func() uint64 { return own.Position().Serial }) })
		}
	})
	for pause := firstPause; ; pause = min(2*pause, longAttempt) {
		w := &watcher{c: c, own: own, stand: stand, entered: entered, alone: time.Now()}
		began, had := time.Now(), own.Position().Serial
		t, err := w.run(ctx)
		if t != nil {
			return t, nil
		}
		c.setLeader(Leader{})
		var apply applyError
		switch {
		case errors.As(err, &apply):
			return nil, apply.error
		case errors.Is(err, ErrRefused), errors.Is(err, ErrTooOld):
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, errAgain), errors.Is(err, rpctypes.ErrCompacted):
		default:
			if errors.Is(err, rpctypes.ErrNoSpace) {
				err = fmt.Errorf("%w: %s", err, makeSpace)
			}
			c.mu.Lock()
			c.trouble = err
			c.mu.Unlock()
			c.log.Warn("etcd cannot be followed; trying again", "error", err)
			c.members.failed(w.member)
		}
		// Compaction often overtakes a node that catches up while much is written. Such a node
		// must not wait longer and longer.
		if time.Since(began) > silence || own.Position().Serial > had {
			pause = firstPause
		}
		if wait(ctx, pause) != nil {
			return nil, ctx.Err()
		}
	}
}

// watcher follows the tail with one watch.
type watcher struct {
	c      *Cluster
	own    Follower
	stand  bool
	member int32
	// entered is called when etcd has accepted the node.
	entered func()

	led       bool      // a node leads
	alone     time.Time // since when none does
	next      string    // the node to which the last leader handed over
	nextSince time.Time // when that was seen
	shared    []byte    // fingerprints of the ring's secrets
	others    int       // signs of another process under the name of this node
}

// run follows until the watch fails or the node is elected.
func (w *watcher) run(ctx context.Context) (*Term, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	rev, h, err := w.enter(ctx)
	if err != nil {
		return nil, err
	}
	w.entered()
	client, member := w.c.members.pick()
	w.member = member
	if err := w.catchUp(ctx, rev, h.at); err != nil {
		return nil, err
	}
	watch := client.Watch(ctx, string(w.c.keys), clientv3.WithPrefix(), clientv3.WithRev(rev+1), clientv3.WithFragment())
	check := time.NewTicker(checkTime)
	defer check.Stop()
	heard, asked := time.Now(), time.Now()
	for {
		if t, err := w.try(ctx); t != nil || err != nil {
			return t, err
		}
		select {
		case r, ok := <-watch:
			if !ok {
				return nil, errors.Join(errors.New("cluster: the watch has ended"), ctx.Err())
			}
			if err := r.Err(); err != nil {
				return nil, err
			}
			for _, e := range r.Events {
				if err := w.see(ctx, e); err != nil {
					return nil, err
				}
			}
			heard = time.Now()
		case now := <-check.C:
			if now.Sub(heard) > silence {
				return nil, errors.New("cluster: the watch is silent")
			}
			if now.Sub(asked) > heartbeat {
				asked = now
				if err := w.checkShared(); err != nil { // the node's own may have changed
					return nil, err
				}
				if err := client.RequestProgress(ctx); err != nil {
					return nil, err
				}
			}
		}
	}
}

// enter reads what must be known at the beginning, as of one revision.
func (w *watcher) enter(ctx context.Context) (rev int64, h head, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, k, at := w.c, w.c.keys, w.own.Position()
	m, err := ownMarker(c.c.Dir)
	if err != nil {
		return 0, h, err
	}
	reads := gets(k.head(), k.leader(), k.until(), k.next(), k.sealing(), k.founded(), k.tombstone(), k.shared(), k.removed(c.c.Node))
	var compare []clientv3.Cmp
	then := reads
	if w.stand {
		if err := c.claim(ctx, m); err != nil {
			return 0, h, err
		}
		// With a write among them, the reads cannot be from the past. The node says what it has only
		// when it knows that the ring has that too, because trimming relies on it.
		compare, then = []clientv3.Cmp{c.notRemoved(), c.notTrimmed(at.Serial)}, append([]clientv3.Op{clientv3.OpDelete(k.refused(c.c.Node))}, reads...)
	}
	resp, found, err := c.members.txn(ctx, compare, then, reads...)
	if err != nil {
		return 0, h, err
	}
	if err := m.checkEtcd(c.c.Dir, resp.Header.ClusterId); err != nil {
		return 0, h, err
	}
	if found.has(k.tombstone()) {
		return 0, h, c.errEnded(found.of(k.tombstone()))
	}
	if !found.has(k.head()) {
		return 0, h, fmt.Errorf("%w: the ring %s does not exist in etcd: run webring cluster init on the origin that has its ledger", ErrRefused, c.c.Ring)
	}
	if h, err = decodeHead(found.of(k.head())); err != nil {
		return 0, h, err
	}
	switch {
	case !w.stand:
	case found.has(k.removed(c.c.Node)):
		return 0, h, c.errRemoved()
	case at.Serial > h.at.Serial || at.Serial == h.at.Serial && at != h.at:
		return 0, h, errBeyond(at, h.at)
	case !resp.Succeeded:
		return 0, h, errTooOld(at.Serial)
	}
	if _, err := c.knowsKey(found); err != nil {
		return 0, h, err
	}
	w.shared = found.of(k.shared())
	if err := w.checkShared(); err != nil {
		return 0, h, err
	}
	founded, err := m.checkFounded(found, k, at.Serial)
	if err == nil && (m.Ring == "" || m.Founded != founded) {
		err = c.mark(m, resp.Header.ClusterId, founded)
	}
	for _, key := range []string{k.leader(), k.until(), k.next()} {
		if err == nil && found.has(key) {
			err = w.learn(resp.Header.Revision, key, found.of(key))
		}
	}
	if !w.led {
		c.setLeader(Leader{})
	}
	return resp.Header.Revision, h, err
}

// errEnded refuses a ring that left etcd, by its tombstone. The node that took it out may have
// failed before its folder became that of a single origin.
func (c *Cluster) errEnded(tombstone []byte) error {
	var end ending
	if err := decodeText(tombstone, &end); err != nil {
		return err
	}
	if end.Node == c.c.Node {
		return fmt.Errorf("%w: the ring is a single origin again, this one: run webring cluster leave once more, and then start it without --etcd", ErrRefused)
	}
	return fmt.Errorf("%w: the ring was made a single origin again, which is %s (webring cluster leave); to make it a cluster, run webring cluster init there", ErrRefused, end.Node)
}

// checkShared refuses a node that stands for election and lacks a secret of the ring.
func (w *watcher) checkShared() error {
	if !w.stand {
		return nil
	}
	return w.c.checkShared(w.shared)
}

// errBeyond refuses a node that has transactions that etcd does not have.
func errBeyond(own, etcd ledger.Position) error {
	if own.Serial == etcd.Serial {
		return fmt.Errorf("%w: at transaction %d, this node has another history than etcd", ErrRefused, own.Serial)
	}
	return fmt.Errorf("%w: this node has %d transactions, but etcd's last is %d, as if etcd had been restored from an older copy; run webring cluster init --force on the node that has the most",
		ErrRefused, own.Serial, etcd.Serial)
}

// catchUp reads the tail as of a revision and applies what own lacks, up to the head of that revision.
func (w *watcher) catchUp(ctx context.Context, rev int64, to ledger.Position) error {
	k := w.c.keys
	for w.own.Position().Serial < to.Serial {
		next := w.own.Position().Serial + 1
		resp, err := w.c.members.get(ctx, k.group(next), clientv3.WithRange(k.tailEnd()), clientv3.WithRev(rev), clientv3.WithLimit(pageOfTail))
		if err != nil {
			return err
		}
		if len(resp.Kvs) == 0 || string(resp.Kvs[0].Key) != k.group(next) {
			return fmt.Errorf("%w (transaction %d is gone)", ErrTooOld, next)
		}
		for _, kv := range resp.Kvs {
			if err := w.apply(ctx, string(kv.Key), kv.Value); err != nil {
				return err
			}
		}
	}
	if at := w.own.Position(); at != to && w.stand {
		return errBeyond(at, to)
	}
	return nil
}

// see takes an event of the watch.
func (w *watcher) see(ctx context.Context, e *clientv3.Event) error {
	key, k, own := string(e.Kv.Key), w.c.keys, w.c.c.Node
	if e.Type != clientv3.EventTypePut {
		switch key {
		case k.leader():
			w.led, w.alone = false, time.Now()
			w.c.setLeader(Leader{})
		case k.next():
			w.next = ""
		}
		return nil
	}
	switch {
	case strings.HasPrefix(key, k.tail()):
		return w.apply(ctx, key, e.Kv.Value)
	case key == k.founded():
		return errAgain
	case key == k.tombstone():
		return w.c.errEnded(e.Kv.Value)
	case key == k.shared():
		w.shared = e.Kv.Value
		return w.checkShared()
	case key == k.alive(own) && w.stand:
		return w.sawAlive(e.Kv.Value)
	case key == k.removed(own) && w.stand:
		return w.c.errRemoved()
	}
	return w.learn(e.Kv.ModRevision, key, e.Kv.Value)
}

// learn takes the value that one of the small keys has at a revision.
func (w *watcher) learn(rev int64, key string, value []byte) error {
	switch k := w.c.keys; key {
	case k.leader():
		var l Leader
		if err := decodeText(value, &l); err != nil {
			return err
		}
		w.led = true
		w.c.setLeader(l)
	case k.until():
		ms, err := decodeUntil(value)
		if err != nil {
			return err
		}
		w.c.sawUntil(rev, ms)
	case k.next():
		w.next, w.nextSince = string(value), time.Now()
	}
	return nil
}

// apply gives the rows of a transaction to the copy, unless it has them. It waits while there is no
// room for them.
func (w *watcher) apply(ctx context.Context, key string, value []byte) error {
	serial, err := w.c.keys.serial(key)
	if err != nil {
		return err
	}
	switch at := w.own.Position().Serial; {
	case serial <= at: // sealed anew
		return nil
	case serial > at+1:
		return errAgain
	}
	batch, err := w.c.sealer.group(serial, value)
	if err != nil {
		return err
	}
	for said := false; ; said = true {
		err := w.own.Apply(batch)
		if err == nil {
			break
		}
		if !errors.Is(err, ledger.ErrNoRoom) {
			return applyError{err}
		}
		if !said {
			w.c.log.Error("this node cannot follow the ledger", "err", err)
		}
		if err := wait(ctx, roomTime); err != nil {
			return err
		}
	}
	if now := w.own.Position().Serial; now != serial {
		return applyError{fmt.Errorf("cluster: after transaction %d, the copy is at %d", serial, now)}
	}
	return nil
}

// group opens the value of a transaction.
func (s *sealer) group(serial uint64, value []byte) (ledger.Batch, error) {
	b, err := s.open(serial, value)
	if err != nil {
		return nil, err
	}
	if b, err = decompress(b); err != nil {
		return nil, err
	}
	batch, err := parseGroup(b)
	if err != nil {
		return nil, err
	}
	if p, err := batch.Position(); err != nil {
		return nil, err
	} else if p.Serial != serial {
		return nil, fmt.Errorf("cluster: the value of transaction %d in etcd is that of %d", serial, p.Serial)
	}
	return batch, nil
}
