package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"webring/server/ledger"
)

// Timing of roles.
const (
	// fitTime is the time between checks whether this node can take payments.
	fitTime = time.Second
	// unfitTime is how long a leader must be unable to take payments before it gives way.
	unfitTime = 10 * time.Second
	// giveWayRest is how long a node that gave way stands back. It bounds how often nodes that are
	// all right only until they lead pass the lead around.
	giveWayRest = 2 * time.Minute
	// refusedRetry is the time after which a refused node tries again. An operator may have fixed what
	// was wrong.
	refusedRetry = 10 * time.Second
	// resignTime bounds how long a node takes to hand over. If that fails, its lease runs out.
	resignTime = 5 * time.Second
)

// RoleHandler does what a node does in its roles. Each role ends before the next one begins.
type RoleHandler interface {
	// Follow opens the ledger as a follower, and answers as a standby from then on.
	Follow() (Follower, error)
	// Lead has the followed ledger written in a term, and answers as a leader from then on. broken is
	// closed if the ledger ends by itself. After an error, the handler can follow again.
	Lead(ctx context.Context, t *Term) (broken <-chan struct{}, err error)
	// End ends the role that the last call of Follow or Lead began, and closes the ledger. An error
	// says that what is stored here is unknown.
	End() error
	// Fit says why this node can take no payments, such as a full disk; nil if it can. Such a node
	// leads only while no other node can take payments either.
	Fit() error
}

// Participant takes part in a cluster: it follows, stands for election, and leads. Run changes its
// role. All other methods may be called concurrently.
type Participant struct {
	cluster *Cluster
	handler RoleHandler
	log     *slog.Logger
	retry   time.Duration // refusedRetry
	fitness time.Duration // fitTime
	unfit   time.Duration // unfitTime

	orders    chan order    // of this process, to the leader
	departing chan struct{} // closed when this process stops: it stands for election no more
	depart    sync.Once

	mu      sync.Mutex
	state   State
	changed chan struct{} // closed when state changes
}

// order tells a leader to end its term: to hand over, or to take the ring out of etcd.
type order struct {
	leave bool
	done  chan error
}

// State is what a participant shows of itself.
type State struct {
	Role   Role
	Since  time.Time
	Reason error  // why it is refused
	Epoch  int64  // of the term, 0 while it does not lead
	Terms  uint64 // in which it has led
}

// NewParticipant makes a participant that does not run yet.
func NewParticipant(c *Cluster, h RoleHandler) *Participant {
	c.setUnfit(errNotKnown)
	return &Participant{cluster: c, handler: h, log: c.log, retry: refusedRetry, fitness: fitTime, unfit: unfitTime, orders: make(chan order), departing: make(chan struct{}),
		state: State{Role: RoleStandby, Since: time.Now()}, changed: make(chan struct{})}
}

// State gives the state, and a channel that is closed when it changes.
func (p *Participant) State() (State, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state, p.changed
}

// enter begins a role.
func (p *Participant) enter(r Role, epoch int64, reason error) {
	p.mu.Lock()
	before := p.state
	if before.Role == r && reason == nil && before.Reason == nil {
		p.mu.Unlock()
		return
	}
	terms := before.Terms
	if before.Role != r && r == RoleLeader {
		terms++
	}
	p.state = State{Role: r, Since: time.Now(), Epoch: epoch, Reason: reason, Terms: terms}
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	switch {
	case r == RoleRefused && (before.Reason == nil || before.Reason.Error() != reason.Error()):
		p.log.Error("this node may not take part in the cluster now; it goes on answering reads", "node", p.cluster.c.Node, "err", reason)
	case before.Role != r:
		p.log.Info("this node has another role", "node", p.cluster.c.Node, "role", string(r), "before", string(before.Role), "epoch", epoch)
	}
}

// Run takes part until ctx ends. An error says that the process must start again.
func (p *Participant) Run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	go p.examine(ctx) // a disk that hangs keeps nothing else waiting
	failed := false   // to begin a term
	for ctx.Err() == nil {
		own, err := p.handler.Follow()
		if err != nil {
			return err
		}
		if failed {
			err = p.onlyFollow(ctx, own)
		}
		var t *Term
		if err == nil {
			t, err = p.stand(ctx, own)
		}
		if t == nil {
			return errors.Join(err, p.handler.End())
		}
		if failed, err = p.lead(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// stand follows until this node is elected. It gives neither a term nor an error once ctx has ended.
func (p *Participant) stand(ctx context.Context, own Follower) (*Term, error) {
	for ctx.Err() == nil {
		t, err := p.campaign(ctx, own)
		switch {
		case t != nil:
			return t, nil
		case errors.Is(err, ledger.ErrBroken):
			return nil, err
		case err != nil && ctx.Err() == nil:
			p.enter(RoleRefused, 0, err)
			wait(ctx, p.retry)
		}
	}
	return nil, nil
}

// campaign is [Cluster.Stand] until this process departs. From then on the node only follows. A
// refused node is a standby again when it knows another node that leads.
func (p *Participant) campaign(ctx context.Context, own Follower) (*Term, error) {
	standing, end := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer end()
	watching.Go(func() {
		for {
			elsewhere, changed := p.leadsElsewhere()
			if elsewhere {
				p.enter(RoleStandby, 0, nil)
			}
			select {
			case <-changed:
			case <-p.departing:
				end()
				return
			case <-standing.Done():
				return
			}
		}
	})
	t, err := p.cluster.Stand(standing, own)
	if t != nil || standing.Err() == nil || ctx.Err() != nil {
		return t, err
	}
	return nil, p.cluster.Follow(ctx, own)
}

// leadsElsewhere reports whether another node leads. The channel is closed when that may change.
func (p *Participant) leadsElsewhere() (bool, <-chan struct{}) {
	leader, changed := p.cluster.Leader()
	return leader.Node != "" && leader.Node != p.cluster.c.Node, changed
}

// onlyFollow follows for a while without standing for election.
func (p *Participant) onlyFollow(ctx context.Context, own Follower) error {
	ctx, cancel := context.WithTimeout(ctx, p.retry)
	defer cancel()
	if err := p.cluster.Follow(ctx, own); errors.Is(err, ledger.ErrBroken) {
		return err
	}
	return nil
}

// lead leads until the term ends, the node hands over, or ctx ends. failed says that the node could
// not begin. An error says that the process must start again.
func (p *Participant) lead(ctx context.Context, t *Term) (failed bool, err error) {
	broken, err := p.handler.Lead(ctx, t)
	if err != nil {
		if ctx.Err() == nil {
			p.enter(RoleRefused, 0, fmt.Errorf("this node was elected and could not begin to lead: %w", err))
		}
		p.resign(t, "")
		return true, nil
	}
	p.enter(RoleLeader, t.Epoch(), nil)
	to, o := p.await(ctx, t, broken)
	p.enter(RoleStandby, 0, nil)
	if err := p.handler.End(); err != nil {
		o.done <- err
		return false, errors.Join(err, t.Close())
	}
	if o.leave {
		within, cancel := context.WithTimeout(ctx, resignTime)
		defer cancel()
		o.done <- t.Leave(within)
		return false, nil
	}
	p.resign(t, to)
	o.done <- nil
	return false, nil
}

// await waits until a term must end. It gives the node that is to lead next, empty for any, and
// the order, which has room for one answer.
func (p *Participant) await(ctx context.Context, t *Term, broken <-chan struct{}) (to string, o order) {
	o.done = make(chan error, 1)
	watching, end := context.WithCancel(ctx)
	defer end()
	fitter := make(chan string, 1)
	go p.seekFitter(watching, t, fitter)
	for {
		select {
		case <-t.Done():
			return "", o
		case <-broken:
			p.log.Warn("the ledger of this node cannot be written any more", "err", t.Err())
			return "", o
		case to = <-t.Handover():
			return to, o
		case o = <-p.orders:
			return "", o
		case <-ctx.Done():
			return "", o
		case to = <-fitter:
			_, err := p.cluster.unfitness()
			p.log.Error("this node can take no payments, and hands over to one that can", "to", to, "err", err)
			p.cluster.standBack(giveWayRest)
			return to, o
		}
	}
}

// examine finds out again and again whether this node can take payments, until ctx ends.
func (p *Participant) examine(ctx context.Context) {
	said := false
	for ; ctx.Err() == nil; wait(ctx, p.fitness) {
		err := p.handler.Fit()
		p.cluster.setUnfit(err)
		if since, _ := p.cluster.unfitness(); (err != nil && time.Since(since) >= p.unfit/2) != said {
			if said = !said; said {
				p.log.Error("this node can take no payments", "err", err)
			} else {
				p.log.Info("this node can take payments again")
			}
		}
	}
}

// seekFitter names once a node that can take payments, if this one cannot for a while, until ctx ends.
func (p *Participant) seekFitter(ctx context.Context, t *Term, found chan<- string) {
	for ; ctx.Err() == nil; wait(ctx, p.fitness) {
		if since, err := p.cluster.unfitness(); err == nil || time.Since(since) < p.unfit {
			continue
		}
		if to := p.another(t.ctx, true); to != "" {
			found <- to
			return
		}
	}
}

// resign ends a term. If the term still lasts, another node can lead at once.
func (p *Participant) resign(t *Term, to string) {
	if !t.Live() {
		if err := t.Close(); err != nil {
			p.log.Warn("a term has not ended well", "err", err)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), resignTime)
	defer cancel()
	if err := t.Resign(ctx, to); err != nil {
		p.log.Warn("this node could not hand over; another one leads when its lease has run out", "err", err)
	}
}

// Depart ends this node's candidacy. If the node leads and another one can take over, it hands over,
// and waits until the other leads.
func (p *Participant) Depart() {
	p.depart.Do(func() { close(p.departing) })
	ctx, cancel := context.WithTimeout(context.Background(), 2*resignTime)
	defer cancel()
	if s, _ := p.State(); s.Role != RoleLeader || p.another(ctx, false) == "" {
		return
	}
	if err := p.tell(ctx, order{done: make(chan error, 1)}); err != nil && !errors.Is(err, ErrNotLeading) {
		return
	}
	for ctx.Err() == nil {
		elsewhere, leader := p.leadsElsewhere()
		s, role := p.State()
		if elsewhere && s.Role != RoleLeader {
			return
		}
		select {
		case <-leader:
		case <-role:
		case <-ctx.Done():
		}
	}
}

// Leave makes the ring a single origin again: this node, which must lead. The node is refused from
// then on, and answers reads until it is started as a single origin.
func (p *Participant) Leave(ctx context.Context) error {
	o := order{leave: true, done: make(chan error, 1)}
	if err := p.tell(ctx, o); err != nil {
		return err
	}
	return <-o.done
}

// tell gives an order to this node while it leads. An order never reaches a later term.
func (p *Participant) tell(ctx context.Context, o order) error {
	for {
		s, changed := p.State()
		if s.Role != RoleLeader {
			return ErrNotLeading
		}
		select {
		case p.orders <- o:
			return nil
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// another names a node that can take over, "" if there is none; fit wants one that can take payments.
func (p *Participant) another(ctx context.Context, fit bool) string {
	ctx, cancel := context.WithTimeout(ctx, resignTime)
	defer cancel()
	s, err := p.cluster.Status(ctx)
	if err != nil {
		p.log.Warn("it is not known whether another node can take over", "err", err)
		return ""
	}
	for _, n := range s.Nodes {
		if n.Name != p.cluster.c.Node && n.Role == RoleStandby && (n.Unfit == "" || !fit) {
			return n.Name
		}
	}
	return ""
}
