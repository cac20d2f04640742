package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"webring/edge/forward"
	"webring/edge/voucher"
	"webring/server"
	"webring/server/admin"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
	"webring/server/ledger/etcdstore"
	"webring/server/paid"
	"webring/server/publish"
)

// etcdCluster is [etcdstore.Cluster] as a [coordinator].
type etcdCluster struct{ *etcdstore.Cluster }

// Stand implements [coordinator].
func (c etcdCluster) Stand(ctx context.Context, own etcdstore.Copy) (term, error) {
	t, err := c.Cluster.Stand(ctx, own)
	if t == nil {
		return nil, err // without a term that holds nil
	}
	return etcdTerm{t}, err
}

// etcdTerm is [etcdstore.Term] as a [term].
type etcdTerm struct{ *etcdstore.Term }

// Store implements [term].
func (t etcdTerm) Store(local ledger.Store) ledger.Replicated { return t.Term.Store(local) }

// runMember is run for an origin that is a node of a cluster.
func (n *originNode) runMember(ctx context.Context) (err error) {
	config, err := n.clusterConfig()
	if err != nil {
		return err
	}
	in, err := etcdstore.Open(config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	store, err := badgerstore.Open(storePath(n.o.data), n.log)
	if err != nil {
		return err
	}
	c := &clusterNode{originNode: n, cluster: etcdCluster{in}, store: store}
	n.moved = newMoves()
	if c.next, err = c.openFollower(); err != nil {
		return errors.Join(err, store.Close())
	}
	if err := n.openAnswers(c.next); err != nil {
		return errors.Join(err, c.next.Close(), store.Close())
	}
	defer func() {
		if !errors.Is(err, ledger.ErrBroken) { // or what failed would fail again
			err = errors.Join(err, closeSoon(store.Close))
		}
		err = errors.Join(err, n.answers.Close())
	}()
	defer n.release()
	if err := n.prepare(ctx); err != nil {
		return errors.Join(err, c.next.Close())
	}
	if err := c.prepare(); err != nil {
		return errors.Join(err, c.next.Close())
	}
	defer c.forwarder.Close()
	defer func() {
		if c.next != nil { // it stopped after it had led
			err = errors.Join(err, c.next.Close())
		}
	}()
	return c.serve(ctx)
}

// clusterConfig reads what the flags say of etcd and of this node in it, and the keys that
// all nodes share.
func (n *originNode) clusterConfig() (etcdstore.Config, error) {
	f := &n.o.cluster
	if err := needKeys(n.o); err != nil {
		return etcdstore.Config{}, err
	}
	at, err := f.reachedAt(n.o.shell.listen, n.o.shell.tls.given())
	if err != nil {
		return etcdstore.Config{}, err
	}
	c, err := f.config(n.o.data, at, n.log)
	shared := &sharedSecrets{challenges: n.keys.get, edge: func() *voucher.Secrets { return n.config.EdgeSecrets }, data: n.o.data}
	c.Now, c.Unfenced, c.Shared = n.o.clock, testUnfenced(n.o), shared.all
	return c, err
}

// needKeys says which of the keys is missing that all nodes share.
func needKeys(o *options) error {
	var errs []error
	for _, path := range []string{secretPath(o), syncKeyPath(o.data)} {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("%s is missing, and must be the same on all nodes: start a ring that has none once without --etcd, or restore a backup of another node into an empty folder", path))
		}
	}
	return errors.Join(errs...)
}

// prepare makes what a node has beside an origin that is the only one.
func (c *clusterNode) prepare() (err error) {
	if c.vouch, err = voucher.ForOwn(c.config.EdgeSecrets); err != nil {
		return err
	}
	c.forwarder, err = forward.New(forward.Config{ToLeader: true, Secrets: c.config.EdgeSecrets, Reach: c.reach,
		TrustedProxies: c.config.TrustedProxies, BaseURL: c.answers.BaseURL, Log: c.log})
	c.desk.source = newSwitchedSource()
	c.passHops = sendHops(c.forwarder)
	return err
}

// serve takes part in the cluster and answers requests, until ctx is done and the stop has
// come to its end, or until something fails. Requests are answered as soon as there is an
// event to answer with: a new ring has none before its first leader.
func (c *clusterNode) serve(ctx context.Context) error {
	m := newMember(c.o.cluster.node, c.cluster, c, c.fit, c.log)
	c.leave = m.leave
	c.status = func() *server.ClusterStatus { return c.statusOf(m) }
	c.config.Stale = c.stale
	running, end := context.WithCancel(context.Background())
	part := &memberRoles{clusterNode: c, member: m, seen: &clusterWatch{cluster: c.cluster}, over: make(chan struct{})}
	var beside sync.WaitGroup
	defer beside.Wait()
	defer end()
	beside.Go(func() { c.passOn(running) })
	if c.watch.Server != nil {
		beside.Go(func() { part.seen.run(running) })
	}
	beside.Go(func() {
		defer close(part.over)
		part.why = m.run(running)
	})
	go settle(running)
	c.watch.Starting("this node has no events yet: it waits for the leader's")
	for {
		moved := c.moved.next()
		if c.begun() {
			return c.answer(ctx, part)
		}
		select {
		case <-moved:
		case <-part.over:
			return part.why
		case <-ctx.Done():
			return nil
		}
	}
}

// fit says why this node should not lead: its disk is nearly full, or its clock is not believed.
func (c *clusterNode) fit() error {
	return cmp.Or(c.disk.atLeast(payFloor)(), c.o.stamps.Check(0))
}

// begun says whether there is something to answer, and somebody to do it.
func (c *clusterNode) begun() bool {
	at, _ := c.answers.Head()
	return at > 0 && c.desk.now.Load() != nil
}

// stale says whether what readers are shown may be behind the ring.
func (c *clusterNode) stale() bool {
	r := c.relay.Load()
	return r != nil && r.Stale()
}

// statusOf is what an operator is shown of a member.
func (c *clusterNode) statusOf(m *member) *server.ClusterStatus {
	state, _ := m.now()
	leader, _ := c.cluster.Leader()
	s := &server.ClusterStatus{Node: m.node, Role: string(state.role), Since: state.since.UTC(), Leader: leader.Node, LeaderURL: leader.URL, Epoch: state.epoch}
	if state.reason != nil {
		s.Reason = state.reason.Error()
	}
	s.Serial = c.serial()
	return s
}

// memberRoles are the [roles] of a node of a cluster.
type memberRoles struct {
	*clusterNode
	member *member
	seen   *clusterWatch
	over   chan struct{} // closed when the member runs no more
	why    error         // after over
}

func (r *memberRoles) payments() *paid.Service {
	if l := r.leads.Load(); l != nil {
		return l.payments
	}
	return nil
}

func (r *memberRoles) failed() <-chan struct{} { return r.over }

func (r *memberRoles) err() error { return r.why }

func (r *memberRoles) depart() { r.member.depart() }

// Close waits for payments that are held here. Those that were passed on have until ctx is
// done to be answered.
func (r *memberRoles) Close(ctx context.Context) error {
	if l := r.leads.Load(); l != nil {
		return l.payments.Close(ctx)
	}
	context.AfterFunc(ctx, r.forwarder.Close)
	return nil
}

func (r *memberRoles) checks() []admin.Check {
	checks := []admin.Check{{Name: "role", Ask: r.checkRole}}
	if l := r.leads.Load(); l != nil {
		return append(checks, originChecks(l.books, l.payments, r.disk)...)
	}
	if relay := r.relay.Load(); relay != nil {
		checks = append(checks, diskCheck(r.disk), admin.Check{Name: "age", Ask: func() (string, error) { return checkRelay(relay) }})
	}
	return checks
}

// checkRole says what this node does. It is ready while it takes payments or can pass them
// on.
func (r *memberRoles) checkRole() (string, error) {
	s := r.status()
	told := fmt.Sprintf("%s is the %s", s.Node, s.Role)
	switch {
	case role(s.Role) == roleRefused:
		return "", fmt.Errorf("%s is refused: %s", s.Node, s.Reason)
	case role(s.Role) == roleLeader:
		return fmt.Sprintf("%s leads since %s, term %d, transaction %d", s.Node, s.Since.Format(time.RFC3339), s.Epoch, s.Serial), nil
	case s.Leader == "" || s.Leader == s.Node:
		return "", fmt.Errorf("%s, and no node leads: payments are not taken", told)
	}
	return fmt.Sprintf("%s of %s at %s, transaction %d", told, s.Leader, s.LeaderURL, s.Serial), nil
}

// checkRelay says how old what is shown is.
func checkRelay(relay *publish.Relay) (string, error) {
	if err := relay.Trouble(); err != nil {
		return "", err
	}
	age, known := relay.Age()
	if !known {
		return "", errors.New("nothing that the leader has signed has come yet")
	}
	if relay.Stale() {
		return "", fmt.Errorf("what the leader has signed last is %s old; answers are marked stale", age.Round(time.Second))
	}
	return fmt.Sprintf("what is shown is as of %s ago", age.Round(time.Second)), nil
}

func (r *memberRoles) collectors() []prometheus.Collector {
	return []prometheus.Collector{clusterMetrics{r, r.seen}}
}
