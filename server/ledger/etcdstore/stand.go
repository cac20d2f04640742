package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"webring/server/ledger"
)

// Copy is a node's own copy of the ledger. Position may be called at any time, also
// during Apply.
type Copy interface {
	// Position is that of the last transaction which the copy has durably.
	Position() ledger.Position
	// Apply takes the rows of the next transaction.
	Apply(ledger.Batch) error
}

// Bounds of a session.
const (
	pageOfTail = 32                     // transactions read at once
	heartbeat  = time.Second            // between requests for a sign of life of the watch
	silence    = 4 * time.Second        // after which a watch counts as dead
	checkTime  = 200 * time.Millisecond // between looks at what waits for time to pass
	patience   = 10 * time.Second       // for an answer of any member, before something is said
)

// errAgain says that a session must begin anew, although nothing has failed.
var errAgain = errors.New("etcdstore: the watch has left out transactions, or the log began anew")

// applyError is an error of [Copy.Apply].
type applyError struct{ error }

// Stand takes part in the ring. It registers the node, follows the tail into own, and
// stands for election when nobody leads. It returns the term of this node once it is elected
// and own has all that was committed; afterwards it does not call own any more. It tries
// again, for as long as ctx lasts, whatever etcd answers. The errors are that of ctx,
// [ErrRefused], [ErrTooOld], and what own.Apply returned.
func (c *Cluster) Stand(ctx context.Context, own Copy) (*Term, error) {
	if c.c.Node == "" {
		return nil, errors.New("etcdstore: the node has no name")
	}
	t, err := c.follow(ctx, own, true)
	if errors.Is(err, ErrRefused) || errors.Is(err, ErrTooOld) {
		c.sayRefused(err)
	}
	return t, err
}

// Follow follows the tail into own, and does nothing else: etcd does not know of it. The
// errors are those of [Cluster.Stand].
func (c *Cluster) Follow(ctx context.Context, own Copy) error {
	_, err := c.follow(ctx, own, false)
	return err
}

func (c *Cluster) follow(ctx context.Context, own Copy, stand bool) (*Term, error) {
	var r *reporter
	defer func() {
		if r != nil {
			r.stop()
		}
	}()
	entered := func() {
		if stand && r == nil {
			r = c.startReporting(func() uint64 { return own.Position().Serial })
		}
	}
	for pause := firstPause; ; pause = min(2*pause, longAttempt) {
		s := &session{c: c, own: own, stand: stand, entered: entered}
		began, had := time.Now(), own.Position().Serial
		t, err := s.run(ctx)
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
			c.log.Warn("etcd cannot be followed; trying again", "error", err)
			c.members.failed(s.member)
		}
		// A node that catches up while much is written is often overtaken by compaction. It must
		// not wait longer and longer for that.
		if time.Since(began) > silence || own.Position().Serial > had {
			pause = firstPause
		}
		if wait(ctx, pause) != nil {
			return nil, ctx.Err()
		}
	}
}

// session follows the tail by one watch.
type session struct {
	c      *Cluster
	own    Copy
	stand  bool
	member int32
	// entered is called when the node takes part.
	entered func()

	led       bool      // somebody leads
	next      string    // the node to which the last leader has handed over
	nextSince time.Time // when that was seen
	shared    []byte    // fingerprints of the ring's secrets
	others    int       // signs of another process under the name of this node
}

// run follows until the watch fails, or the node is elected.
func (s *session) run(ctx context.Context) (*Term, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	rev, h, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	s.entered()
	client, member := s.c.members.pick()
	s.member = member
	if err := s.catchUp(ctx, rev, h.at); err != nil {
		return nil, err
	}
	watch := client.Watch(ctx, string(s.c.keys), clientv3.WithPrefix(), clientv3.WithRev(rev+1), clientv3.WithFragment())
	check := time.NewTicker(checkTime)
	defer check.Stop()
	heard, asked := time.Now(), time.Now()
	for {
		if t, err := s.try(ctx); t != nil || err != nil {
			return t, err
		}
		select {
		case r, ok := <-watch:
			if !ok {
				return nil, errors.Join(errors.New("etcdstore: the watch has ended"), ctx.Err())
			}
			if err := r.Err(); err != nil {
				return nil, err
			}
			for _, e := range r.Events {
				if err := s.see(e); err != nil {
					return nil, err
				}
			}
			heard = time.Now()
		case now := <-check.C:
			if now.Sub(heard) > silence {
				return nil, errors.New("etcdstore: the watch is silent")
			}
			if now.Sub(asked) > heartbeat {
				asked = now
				if err := s.checkShared(); err != nil { // the node's own may have changed
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
func (s *session) enter(ctx context.Context) (rev int64, h head, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, k, at := s.c, s.c.keys, s.own.Position()
	if s.stand {
		if err := c.claim(ctx); err != nil {
			return 0, h, err
		}
	}
	reads := []clientv3.Op{clientv3.OpGet(k.head()), clientv3.OpGet(k.leader()), clientv3.OpGet(k.until()),
		clientv3.OpGet(k.next()), clientv3.OpGet(k.sealing()), clientv3.OpGet(k.founded()), clientv3.OpGet(k.tombstone()), clientv3.OpGet(k.shared()), clientv3.OpGet(k.removed(c.c.Node))}
	resp, err := ask(ctx, c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		if !s.stand {
			return client.Txn(ctx).Then(reads...).Commit()
		}
		// With a write among them, the reads cannot be from the past. What the node has is told
		// when it is known that the ring has that, too, or trimming would count on it.
		return client.Txn(ctx).
			If(c.notRemoved(), c.notTrimmed(at.Serial)).
			Then(append([]clientv3.Op{clientv3.OpDelete(k.refused(c.c.Node))}, reads...)...).Else(reads...).Commit()
	})
	if err != nil {
		return 0, h, err
	}
	if err := c.checkEtcd(resp.Header.ClusterId); err != nil {
		return 0, h, err
	}
	found := valuesOf(resp)
	if b, ended := found[k.tombstone()]; ended {
		return 0, h, c.errEnded(b)
	}
	b, ok := found[k.head()]
	if !ok {
		return 0, h, fmt.Errorf("%w: the ring %s does not exist in etcd: run webring cluster init on the origin that has its ledger", ErrRefused, c.c.Ring)
	}
	if h, err = decodeHead(b); err != nil {
		return 0, h, err
	}
	_, removed := found[k.removed(c.c.Node)]
	switch {
	case !s.stand:
	case removed:
		return 0, h, c.errRemoved()
	case at.Serial > h.at.Serial || at.Serial == h.at.Serial && at != h.at:
		return 0, h, errBeyond(at, h.at)
	case !resp.Succeeded:
		return 0, h, errTooOld(at.Serial)
	}
	if err := c.knowsKey(found[k.sealing()]); err != nil {
		return 0, h, err
	}
	s.shared = found[k.shared()]
	if err := s.checkShared(); err != nil {
		return 0, h, err
	}
	founded, err := c.checkFounded(found[k.founded()], at.Serial)
	if err == nil {
		err = c.pin(resp.Header.ClusterId, founded)
	}
	if err != nil {
		return 0, h, err
	}
	for _, key := range []string{k.leader(), k.until(), k.next()} {
		if b, ok := found[key]; ok {
			if err := s.learn(resp.Header.Revision, key, b); err != nil {
				return 0, h, err
			}
		}
	}
	if !s.led {
		c.setLeader(Leader{})
	}
	return resp.Header.Revision, h, nil
}

// errEnded refuses a ring that was ended, by what lies in etcd as its tombstone. The node that has
// ended it may have been lost before its folder was that of a single origin.
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

// checkShared refuses a node that follows to lead and does not know the secrets of the ring.
func (s *session) checkShared() error {
	if !s.stand {
		return nil
	}
	return s.c.checkShared(s.shared)
}

// errBeyond refuses a node that has what etcd does not have.
func errBeyond(own, etcd ledger.Position) error {
	if own.Serial == etcd.Serial {
		return fmt.Errorf("%w: at transaction %d, this node has another history than etcd", ErrRefused, own.Serial)
	}
	return fmt.Errorf("%w: this node has %d transactions, but etcd's last is %d, as if etcd had been restored from an older copy; run webring cluster init --force on the node that has the most",
		ErrRefused, own.Serial, etcd.Serial)
}

// valuesOf gives the values that a transaction has read.
func valuesOf(resp *clientv3.TxnResponse) map[string][]byte {
	found := map[string][]byte{}
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().GetKvs() {
			found[string(kv.Key)] = kv.Value
		}
	}
	return found
}

// catchUp reads the tail as it was at a revision and applies what own does not have, up to
// the head of that revision.
func (s *session) catchUp(ctx context.Context, rev int64, to ledger.Position) error {
	k := s.c.keys
	for s.own.Position().Serial < to.Serial {
		next := s.own.Position().Serial + 1
		resp, err := ask(ctx, s.c.members, func(ctx context.Context, client *clientv3.Client) (*clientv3.GetResponse, error) {
			return client.Get(ctx, k.group(next), clientv3.WithRange(k.tailEnd()), clientv3.WithRev(rev), clientv3.WithLimit(pageOfTail))
		})
		if err != nil {
			return err
		}
		if len(resp.Kvs) == 0 || string(resp.Kvs[0].Key) != k.group(next) {
			return fmt.Errorf("%w (transaction %d is gone)", ErrTooOld, next)
		}
		for _, kv := range resp.Kvs {
			if err := s.apply(string(kv.Key), kv.Value); err != nil {
				return err
			}
		}
	}
	if at := s.own.Position(); at != to && s.stand {
		return errBeyond(at, to)
	}
	return nil
}

// see takes an event of the watch.
func (s *session) see(e *clientv3.Event) error {
	key, k := string(e.Kv.Key), s.c.keys
	switch {
	case e.Type == clientv3.EventTypePut && strings.HasPrefix(key, k.tail()):
		return s.apply(key, e.Kv.Value)
	case e.Type == clientv3.EventTypePut && key == k.founded():
		return errAgain
	case e.Type == clientv3.EventTypePut && key == k.tombstone():
		return s.c.errEnded(e.Kv.Value)
	case e.Type == clientv3.EventTypePut && key == k.shared():
		s.shared = e.Kv.Value
		return s.checkShared()
	case e.Type == clientv3.EventTypePut && key == k.alive(s.c.c.Node) && s.stand:
		return s.sawAlive(e.Kv.Value)
	case e.Type == clientv3.EventTypePut && key == k.removed(s.c.c.Node) && s.stand:
		return s.c.errRemoved()
	case e.Type == clientv3.EventTypePut:
		return s.learn(e.Kv.ModRevision, key, e.Kv.Value)
	case key == k.leader():
		s.led = false
		s.c.setLeader(Leader{})
	case key == k.next():
		s.next = ""
	}
	return nil
}

// learn takes the value that one of the small keys has at a revision.
func (s *session) learn(rev int64, key string, value []byte) error {
	switch k := s.c.keys; key {
	case k.leader():
		var l Leader
		if err := decodeText(value, &l); err != nil {
			return err
		}
		s.led = true
		s.c.setLeader(l)
	case k.until():
		ms, err := decodeUntil(value)
		if err != nil {
			return err
		}
		s.c.sawUntil(rev, ms)
	case k.next():
		s.next, s.nextSince = string(value), time.Now()
	}
	return nil
}

// apply gives the rows of a transaction to the copy, unless it has them.
func (s *session) apply(key string, value []byte) error {
	serial, err := s.c.keys.serial(key)
	if err != nil {
		return err
	}
	switch at := s.own.Position().Serial; {
	case serial <= at: // sealed anew
		return nil
	case serial > at+1:
		return errAgain
	}
	batch, err := s.c.sealer.group(serial, value)
	if err != nil {
		return err
	}
	if err := s.own.Apply(batch); err != nil {
		return applyError{err}
	}
	if now := s.own.Position().Serial; now != serial {
		return applyError{fmt.Errorf("etcdstore: after transaction %d, the copy is at %d", serial, now)}
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
		return nil, fmt.Errorf("etcdstore: the value of transaction %d in etcd is that of %d", serial, p.Serial)
	}
	return batch, nil
}
