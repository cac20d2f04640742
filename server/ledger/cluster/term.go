package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"webring/server/ledger"
)

// Term is the time for which a node leads. Its methods may be called concurrently. Call one of
// [Term.Resign], [Term.Leave] and [Term.Close] in the end.
type Term struct {
	c     *Cluster
	lease clientv3.LeaseID
	epoch int64 // create revision of the leader's key

	// deadline is how long after began the node may act as the leader, in ns of its own monotonic
	// clock. It counts from when a renewal was sent; etcd counts from later.
	began    time.Time
	deadline atomic.Int64

	ctx      context.Context // ends with the term; its cause says why
	cancel   context.CancelCauseFunc
	over     sync.Once
	revoking sync.Once
	running  sync.WaitGroup

	store *Store

	signing sync.Mutex // guards until
	until   cell

	shares string // what the key shared holds; of try, and then of keepTail

	tail    tailBounds
	handing chan string
}

func newTerm(c *Cluster, lease clientv3.LeaseID, began time.Time) *Term {
	t := &Term{c: c, lease: lease, began: began, handing: make(chan string, 1),
		until: cell{key: c.keys.until()}}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	t.store = newStore(t, cell{key: c.keys.head()})
	t.renewed(0, c.c.lease)
	return t
}

// start begins what runs during a term, except for renew.
func (t *Term) start() {
	t.running.Go(t.awaitHandover)
	t.running.Go(t.keepTail)
	t.running.Go(func() { t.c.report(t.ctx, t.store.local.Load) })
}

// Epoch numbers the term: a later term has a greater one.
func (t *Term) Epoch() int64 { return t.epoch }

// Done is closed when the term is over: another node may lead, the lease may run out before it can be
// renewed, a commit has failed, the node's own disk hangs, or the node has handed over. From then on
// the node must not offer, broadcast or sign.
func (t *Term) Done() <-chan struct{} { return t.ctx.Done() }

// Live reports whether the node still leads. It asks the clock, so it is right even immediately
// after the process was paused, when Done is not closed yet; see Confirm.
func (t *Term) Live() bool { return t.Err() == nil && t.left() > 0 }

// Confirm asks etcd whether this node leads; no answer within ctx means no. It is right even
// after the whole machine was suspended, or a virtual one stopped for a snapshot. No clock of
// this node then shows that time has passed, and Live does not know it for a moment.
func (t *Term) Confirm(ctx context.Context) bool {
	// With a write, though of nothing, the answer cannot be from the past.
	return t.Live() && t.fenced(ctx, clientv3.OpDelete(t.c.keys.next())) == nil
}

// slowCommit is how long a commit may take before no payment is taken any more. A commit takes
// milliseconds. One that hangs ends with the lease at the latest, unless etcd cannot write it.
const slowCommit = 2 * time.Second

// Ready says why no payment may be taken now: this node does not lead, its commits do not come
// through, or etcd has no room. It is quick.
func (t *Term) Ready() error {
	if !t.Live() {
		return ErrNotLeading
	}
	if took := t.store.committing.running(); took > slowCommit {
		return fmt.Errorf("a commit has been waiting for etcd for %s", took.Round(time.Second))
	}
	return t.Room()
}

// Err says why Done is closed: an error that wraps [ErrLost] or [ErrResigned]. It is nil before.
func (t *Term) Err() error { return context.Cause(t.ctx) }

// end ends the term, unless it is over, and gives the reason for its end.
func (t *Term) end(err error) error {
	t.over.Do(func() {
		t.cancel(err)
		t.c.setLeader(Leader{})
		if errors.Is(err, ErrLost) {
			t.c.log.Warn("this node no longer leads", "epoch", t.epoch, "error", err)
		}
	})
	return t.Err()
}

// left is how long the node may still act as the leader without renewing its lease.
func (t *Term) left() time.Duration {
	return time.Duration(t.deadline.Load()) - time.Since(t.began)
}

// renewed sets the deadline after a renewal, which was sent so long after began.
func (t *Term) renewed(sent, lease time.Duration) {
	t.deadline.Store(int64(sent + lease - t.c.c.lease/6))
}

// renew keeps the lease alive, or ends the term before it can have run out.
func (t *Term) renew() {
	lease := t.c.c.lease
	for sought := time.Duration(-1); ; {
		left := t.left()
		if left <= 0 {
			t.end(fmt.Errorf("%w: etcd has not renewed its lease in time", ErrLost))
			return
		}
		if stalls := t.store.storing.running(); stalls > t.c.c.stall {
			t.end(fmt.Errorf("%w: its own disk has not taken a transaction for %s", ErrLost, stalls.Round(time.Second)))
			return
		}
		if now := time.Since(t.began); sought < 0 || now-sought > 2*lease {
			sought = now
			t.running.Go(func() { t.c.members.seekLeader(t.ctx) })
		}
		ctx, cancel := context.WithTimeout(t.ctx, min(left, lease/4))
		client, i := t.c.members.pick()
		sent := time.Since(t.began)
		ttl, err := keepAlive(ctx, client, t.lease)
		cancel()
		pause := lease / 4
		switch {
		case err == nil && ttl <= 0:
			t.end(fmt.Errorf("%w: its lease has run out", ErrLost))
			return
		case err == nil:
			t.renewed(sent, min(ttl, lease))
		default:
			t.c.members.failed(i)
			pause = lease / 40
		}
		if wait(t.ctx, min(pause, max(0, t.left()))) != nil {
			return
		}
	}
}

// keepAlive renews a lease once, and gives for how long; 0 if it has run out.
func keepAlive(ctx context.Context, client *clientv3.Client, id clientv3.LeaseID) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pb.NewLeaseClient(client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return 0, err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		return 0, err
	}
	resp, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

// Store decorates the local store for the ledger that leads: see [Store]. It is called once,
// and local has what was committed when the term began.
func (t *Term) Store(local ledger.Store) *Store {
	t.store.open(local)
	return t.store
}

// Until is the time up to which checkpoints were signed, in ms; 0 if there were none.
func (t *Term) Until() int64 { return t.c.Until() }

// MoveUntil makes Until a later time, durably and for all later terms. After an error, Until is
// unknown, and nothing of that time may be signed.
func (t *Term) MoveUntil(ctx context.Context, ms int64) error {
	return t.setUntil(ctx, ms, func(is int64) bool { return ms > is })
}

// SetUntilBack is MoveUntil to an earlier time, after a clock that was ahead.
func (t *Term) SetUntilBack(ctx context.Context, ms int64) error {
	return t.setUntil(ctx, ms, func(is int64) bool { return ms < is })
}

func (t *Term) setUntil(ctx context.Context, ms int64, may func(is int64) bool) error {
	moved := make(chan error, 1)
	// The request outlives ctx: only its answer tells what the next one must compare.
	go func() {
		t.signing.Lock()
		defer t.signing.Unlock()
		if is := t.c.Until(); !may(is) {
			moved <- fmt.Errorf("cluster: checkpoints were signed up to %d ms, and %d ms is on the wrong side of that", is, ms)
			return
		}
		err := t.Err()
		if err == nil {
			err = t.move(&t.until, encodeUntil(ms))
		}
		if err == nil {
			t.c.sawUntil(t.until.rev, ms)
		}
		moved <- err
	}()
	select {
	case err := <-moved:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Handover receives the name of the node to which an operator asks this one to hand over, empty
// for any. The node then closes its ledger and calls Resign.
func (t *Term) Handover() <-chan string { return t.handing }

// awaitHandover watches for what an operator asks. The election has deleted older requests. The watch
// begins at a new read, not at the election, which is compacted soon.
func (t *Term) awaitHandover() {
	hand := func(to []byte) {
		select {
		case t.handing <- string(to):
		default: // one is there
		}
	}
	for key := t.c.keys.handover(); t.ctx.Err() == nil; wait(t.ctx, longPause) {
		ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(t.ctx))
		if now, err := t.c.members.get(ctx, key); err == nil {
			for _, kv := range now.Kvs {
				if kv.ModRevision > t.epoch {
					hand(kv.Value)
				}
			}
			client, _ := t.c.members.pick()
			for r := range client.Watch(ctx, key, clientv3.WithRev(now.Header.Revision+1), clientv3.WithFilterDelete()) {
				for _, e := range r.Events {
					hand(e.Kv.Value)
				}
			}
		}
		cancel()
	}
}

// Resign hands over to the named node, or to any if the name is empty. Close the ledger first.
// Afterwards everything is in the local store and the term is over. After an error too, but then
// the lease must run out before another node can lead.
func (t *Term) Resign(ctx context.Context, to string) error {
	next := clientv3.OpDelete(t.c.keys.next())
	if to != "" {
		next = clientv3.OpPut(t.c.keys.next(), to)
	}
	_, err := t.leave(ctx, next)
	return err
}

// Leave takes the ring out of etcd. Close the ledger first. Afterwards all nodes refuse to take
// part, until [Init] makes a cluster of a single origin again. The caller then removes the marker
// of this node, which is now the single origin.
func (t *Term) Leave(ctx context.Context) error {
	k := t.c.keys
	took, err := t.leave(ctx, clientv3.OpPut(k.tombstone(), t.tombstone()), clientv3.OpDelete(k.next()),
		clientv3.OpDelete(k.tail(), clientv3.WithPrefix()), clientv3.OpDelete(k.alive(t.c.c.Node)))
	if err == nil && !took {
		// The lease ran out before etcd answered: another node may lead, and write.
		err = fmt.Errorf("%w: the ring goes on in etcd", ErrLost)
	}
	return err
}

// tombstone is what this term leaves in etcd when the ring leaves.
func (t *Term) tombstone() string { return encodeText(ending{t.epoch, t.c.c.Node}) }

// leave ends the term with a transaction. It reports whether that took effect. After a hand-over,
// an earlier attempt that took effect looks like another leader, which makes no difference.
func (t *Term) leave(ctx context.Context, ops ...clientv3.Op) (took bool, err error) {
	// A head that is not known is not handed over.
	if err := cmp.Or(t.store.Settle(), t.Err()); err != nil {
		return false, errors.Join(err, t.Close())
	}
	t.end(ErrResigned)
	t.wait()
	k := t.c.keys
	resp, found, err := t.c.members.txn(ctx, []clientv3.Cmp{t.leads()},
		append([]clientv3.Op{clientv3.OpDelete(k.leader()), clientv3.OpDelete(k.handover())}, ops...), clientv3.OpGet(k.tombstone()))
	t.revoking.Do(func() { t.c.revoke(t.lease) })
	if err != nil {
		return false, fmt.Errorf("cluster: hand over: %w", err)
	}
	return resp.Succeeded || string(found.of(k.tombstone())) == t.tombstone(), nil
}

// Close ends a lost term, and waits until its store has settled.
func (t *Term) Close() error {
	t.end(ErrResigned)
	err := t.store.Settle()
	t.wait()
	t.revoking.Do(func() { t.c.revoke(t.lease) })
	return err
}

func (t *Term) wait() {
	t.store.stop()
	t.running.Wait()
}

// cell is a key that only the leader writes, with the revision that its next write compares.
type cell struct {
	key string
	rev int64 // of its last write; 0 if it was never written
}

var errDeposed = fmt.Errorf("%w: another node was elected", ErrLost)

// leads compares the epoch: it holds while this term lasts in etcd.
func (t *Term) leads() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(t.c.keys.leader()), "=", t.epoch)
}

// fenced writes in the name of this term. If another node was elected, it writes nothing and ends
// the term.
func (t *Term) fenced(ctx context.Context, ops ...clientv3.Op) error {
	resp, _, err := t.c.members.txn(ctx, []clientv3.Cmp{t.leads()}, ops)
	if err == nil && !resp.Succeeded {
		err = t.end(errDeposed)
	}
	return err
}

// move writes a cell, and more with it, in one transaction that compares the epoch and the revision
// of the cell. It returns when that has taken effect. Any error ends the term, because the outcome
// may be unknown.
func (t *Term) move(cell *cell, value []byte, more ...clientv3.Op) error {
	leader := t.c.keys.leader()
	compare := []clientv3.Cmp{t.leads(), clientv3.Compare(clientv3.ModRevision(cell.key), "=", cell.rev)}
	if t.c.c.Unfenced {
		compare = nil
	}
	resp, found, err := t.c.members.txn(t.ctx, compare, append([]clientv3.Op{clientv3.OpPut(cell.key, string(value))}, more...), gets(leader, cell.key)...)
	switch is := found[cell.key]; {
	case err != nil:
		return t.end(fmt.Errorf("%w: %s was not written, or the answer is missing: %w", ErrLost, cell.key, err))
	case resp.Succeeded:
		cell.rev = resp.Header.Revision
	case found[leader].GetCreateRevision() != t.epoch:
		return t.end(errDeposed)
	case is.GetModRevision() > cell.rev && string(is.GetValue()) == string(value):
		cell.rev = is.ModRevision // an earlier attempt took effect, and its answer was lost
	default:
		return t.end(fmt.Errorf("%w: %s is not as this term left it", ErrLost, cell.key))
	}
	return nil
}
