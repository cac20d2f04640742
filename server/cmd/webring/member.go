package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"webring/server/ledger"
	"webring/server/ledger/etcdstore"
)

// role is what a node of a cluster does.
type role string

// The roles.
const (
	roleStandby role = "standby" // it follows the ledger and passes paid requests on
	roleLeader  role = "leader"  // it writes the ledger and takes payments
	roleRefused role = "refused" // it may not take part; it answers reads as of what it has
)

var allRoles = []role{roleLeader, roleStandby, roleRefused}

// Timing of roles.
const (
	// fitTime is how often a leader asks whether it should go on.
	fitTime = 5 * time.Second
	// refusedRetry is after how long a node that was refused asks again. An operator may
	// have mended what was wrong.
	refusedRetry = 10 * time.Second
	// resignTime bounds how long a node takes to hand over. If that fails, its lease runs
	// out.
	resignTime = 5 * time.Second
)

// coordinator is what [etcdstore.Cluster] is to a member.
type coordinator interface {
	Stand(ctx context.Context, own etcdstore.Copy) (term, error)
	Follow(ctx context.Context, own etcdstore.Copy) error
	Leader() (etcdstore.Leader, <-chan struct{})
	Status(ctx context.Context) (etcdstore.Status, error)
	Until() int64
}

// duties are what a member does in its roles. Each one ends before the next one begins.
type duties interface {
	// follow opens the ledger as a follower, and answers as a standby from then on.
	follow() (following, error)
	// lead has the ledger of a follower, which is over, written in a term, and answers as
	// a leader from then on. After an error the node can follow again.
	lead(ctx context.Context, f following, t term) (reign, error)
}

// following is a ledger that follows another one.
type following interface {
	etcdstore.Copy
	end() error
}

// reign is a ledger that is written in a term.
type reign interface {
	// broken is closed when the ledger has ended by itself.
	broken() <-chan struct{}
	// end answers as a standby again, ends what was in work, and closes the ledger. Its error
	// says that what is stored here is not known for sure.
	end() error
}

// member takes part in a cluster. Its run changes its role, and all other functions may be
// called concurrently.
type member struct {
	node    string
	cluster coordinator
	duties  duties
	log     *slog.Logger
	retry   time.Duration // refusedRetry
	fitness time.Duration // fitTime
	fit     func() error  // says why this node should not lead; nil if it may

	handovers chan string // a wish of this process to hand over; as of [term.Handover]
	leaves    chan chan error
	leaving   chan struct{} // closed when this process stops: it stands for election no more
	leaveOnce sync.Once

	mu      sync.Mutex
	state   memberState
	changed chan struct{} // closed when state changes
}

// memberState is what a member shows of itself.
type memberState struct {
	role   role
	since  time.Time
	reason error // why it is refused
	epoch  int64 // of the term, 0 while it does not lead
	terms  uint64
}

// newMember makes a member that does not run yet. fit says why the node should not lead, such
// as a disk that is nearly full; nil if nothing is wrong.
func newMember(node string, c coordinator, d duties, fit func() error, log *slog.Logger) *member {
	return &member{node: node, cluster: c, duties: d, log: log, fit: fit, retry: refusedRetry, fitness: fitTime, handovers: make(chan string), leaves: make(chan chan error), leaving: make(chan struct{}),
		state: memberState{role: roleStandby, since: time.Now()}, changed: make(chan struct{})}
}

// now gives the state, and a channel that is closed when it changes.
func (m *member) now() (memberState, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, m.changed
}

// enter begins a role.
func (m *member) enter(r role, epoch int64, reason error) {
	m.mu.Lock()
	before := m.state
	if before.role == r && reason == nil && before.reason == nil {
		m.mu.Unlock()
		return
	}
	terms := before.terms
	if before.role != r && r == roleLeader {
		terms++
	}
	m.state = memberState{role: r, since: time.Now(), epoch: epoch, reason: reason, terms: terms}
	close(m.changed)
	m.changed = make(chan struct{})
	m.mu.Unlock()
	switch {
	case r == roleRefused && (before.reason == nil || before.reason.Error() != reason.Error()):
		m.log.Error("this node may not take part in the cluster now; it goes on answering reads", "node", m.node, "err", reason)
	case before.role != r:
		m.log.Info("this node has another role", "node", m.node, "role", string(r), "before", string(before.role), "epoch", epoch)
	}
}

// run takes part until ctx ends. Its error says that the process must begin anew.
func (m *member) run(ctx context.Context) error {
	rest := false // after a term that could not begin
	for ctx.Err() == nil {
		f, err := m.duties.follow()
		if err != nil {
			return err
		}
		if rest {
			err = m.justFollow(ctx, f, m.retry)
		}
		var t term
		if err == nil {
			t, err = m.stand(ctx, f)
		}
		if t == nil {
			return errors.Join(err, f.end())
		}
		if rest, err = m.lead(ctx, f, t); err != nil {
			return err
		}
	}
	return nil
}

// stand follows until this node is elected. Without a term and an error, ctx has ended.
func (m *member) stand(ctx context.Context, f following) (term, error) {
	own := patientCopy{ctx, f, m.log}
	for ctx.Err() == nil {
		if err := m.fit(); err != nil {
			m.log.Error("this node does not stand for election", "err", err)
			if err := m.justFollow(ctx, f, m.retry); err != nil {
				return nil, err
			}
			continue
		}
		t, err := m.campaign(ctx, own)
		switch {
		case t != nil:
			return t, nil
		case errors.Is(err, ledger.ErrBroken):
			return nil, err
		case ctx.Err() != nil || err == nil:
			continue
		}
		m.enter(roleRefused, 0, err)
		pause(ctx, m.retry)
	}
	return nil, nil
}

// campaign is [etcdstore.Cluster.Stand], until this process stops: then the node only
// follows. A node that was refused is a standby again once it knows of a leader.
func (m *member) campaign(ctx context.Context, own etcdstore.Copy) (term, error) {
	standing, end := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer end()
	watching.Go(func() {
		for {
			leader, changed := m.cluster.Leader()
			if leader.Node != "" && leader.Node != m.node {
				m.enter(roleStandby, 0, nil)
			}
			select {
			case <-changed:
			case <-m.leaving:
				end()
				return
			case <-standing.Done():
				return
			}
		}
	})
	t, err := m.cluster.Stand(standing, own)
	if t != nil || standing.Err() == nil || ctx.Err() != nil {
		return t, err
	}
	return nil, m.cluster.Follow(ctx, own)
}

// justFollow follows for a time without standing for election.
func (m *member) justFollow(ctx context.Context, f following, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := m.cluster.Follow(ctx, patientCopy{ctx, f, m.log})
	if errors.Is(err, ledger.ErrBroken) {
		return err
	}
	return nil
}

// lead leads until the term ends, or the node hands over, or ctx ends. failed says that
// the node could not lead. The error says that the process must begin anew.
func (m *member) lead(ctx context.Context, f following, t term) (failed bool, err error) {
	r, err := m.duties.lead(ctx, f, t)
	if err != nil {
		if ctx.Err() == nil {
			m.enter(roleRefused, 0, fmt.Errorf("this node was elected and could not begin to lead: %w", err))
		}
		m.resign(t, "")
		return true, nil
	}
	m.enter(roleLeader, t.Epoch(), nil)
	var to string
	var left chan error
	unfit, watched := m.watchFitness(ctx)
	select {
	case <-t.Done():
		m.log.Warn("this node no longer leads", "err", t.Err())
	case <-r.broken():
		m.log.Warn("the ledger of this node cannot be written any more", "err", t.Err())
	case to = <-t.Handover():
	case to = <-m.handovers:
	case <-unfit:
	case left = <-m.leaves:
	case <-ctx.Done():
	}
	watched()
	m.enter(roleStandby, 0, nil)
	if err := r.end(); err != nil {
		if left != nil {
			left <- err
		}
		return false, errors.Join(err, t.Close())
	}
	if left != nil {
		within, cancel := context.WithTimeout(ctx, resignTime)
		defer cancel()
		left <- t.Leave(within)
		return false, nil
	}
	m.resign(t, to)
	return false, nil
}

// watchFitness gives a channel that is closed when this node should not lead any more and
// another one can take over. end ends the watch.
func (m *member) watchFitness(ctx context.Context) (unfit <-chan struct{}, end func()) {
	ctx, end = context.WithCancel(ctx)
	found := make(chan struct{})
	go func() {
		for pause(ctx, m.fitness) {
			if err := m.fit(); err != nil && m.replaceable(ctx) {
				m.log.Error("this node hands over", "err", err)
				close(found)
				return
			}
		}
	}()
	return found, end
}

// resign ends a term: on purpose, if it lasts, so that another node leads at once.
func (m *member) resign(t term, to string) {
	if !t.Live() {
		if err := t.Close(); err != nil {
			m.log.Warn("a term has not ended well", "err", err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), resignTime)
	defer cancel()
	if err := t.Resign(ctx, to); err != nil {
		m.log.Warn("this node could not hand over; another one leads when its lease has run out", "err", err)
	}
}

// depart has this node stand for election no more. If it leads and another one can take
// over, it hands over, and waits for that.
func (m *member) depart() {
	m.leaveOnce.Do(func() { close(m.leaving) })
	ctx, cancel := context.WithTimeout(context.Background(), 2*resignTime)
	defer cancel()
	if s, _ := m.now(); s.role != roleLeader || !m.replaceable(ctx) {
		return
	}
	if err := instruct(ctx, m, m.handovers, ""); err != nil && !errors.Is(err, errNotLeading) {
		return
	}
	for {
		leader, changed := m.cluster.Leader()
		if s, _ := m.now(); s.role != roleLeader && leader.Node != "" && leader.Node != m.node {
			return
		}
		select {
		case <-changed:
		case <-time.After(resignTime / 50): // the role has no part in that channel
		case <-ctx.Done():
			return
		}
	}
}

// replaceable says whether another node can take over.
func (m *member) replaceable(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, resignTime)
	defer cancel()
	s, err := m.cluster.Status(ctx)
	if err != nil {
		m.log.Warn("whether another node can take over is not known", "err", err)
		return false
	}
	for _, n := range s.Nodes {
		if n.Name != m.node && n.Role == etcdstore.RoleStandby {
			return true
		}
	}
	return false
}

// leave makes the ring a single origin again: this node, which leads. It is refused from
// then on, and answers reads until it is started as a single origin.
func (m *member) leave(ctx context.Context) error {
	done := make(chan error, 1)
	if err := instruct(ctx, m, m.leaves, done); err != nil {
		return err
	}
	return <-done
}

// instruct tells a node that leads what it shall do. A wish that comes late reaches no later term.
func instruct[T any](ctx context.Context, m *member, to chan<- T, what T) error {
	for {
		s, changed := m.now()
		if s.role != roleLeader {
			return errNotLeading
		}
		select {
		case to <- what:
			return nil
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// patientCopy waits while there is no room for a transaction: nothing else is wrong.
type patientCopy struct {
	ctx context.Context
	following
	log *slog.Logger
}

// Apply implements [etcdstore.Copy].
func (c patientCopy) Apply(b ledger.Batch) error {
	for said := false; ; said = true {
		err := c.following.Apply(b)
		if !errors.Is(err, ledger.ErrNoRoom) {
			return err
		}
		if !said {
			c.log.Error("this node cannot follow the ledger", "err", err)
		}
		if !pause(c.ctx, time.Second) {
			return c.ctx.Err()
		}
	}
}

// pause reports whether ctx has lasted for that long.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
