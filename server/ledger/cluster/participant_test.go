package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/server/ledger"
	"webring/server/ledger/cluster/etcdtest"
)

// script is a handler that notes what it is told to do. The test says what fails.
type script struct {
	*folder
	t     *testing.T
	p     *Participant
	steps chan string

	mu           sync.Mutex // guards the fields below
	unfit        error
	cannotLead   error
	cannotEnd    error
	cannotFollow error // what Apply returns
	broken       chan struct{}
}

func (s *script) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *script) Follow() (Follower, error) { s.steps <- "follow"; return s, nil }

func (s *script) Lead(_ context.Context, t *Term) (<-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps <- "lead"
	if s.cannotLead != nil {
		return nil, s.cannotLead
	}
	t.Store(s.folder)
	s.broken = make(chan struct{})
	return s.broken, nil
}

func (s *script) End() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps <- "end"
	return s.cannotEnd
}

func (s *script) Fit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unfit
}

func (s *script) Apply(b ledger.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cannotFollow != nil {
		return s.cannotFollow
	}
	return s.folder.Apply(b)
}

// did waits for the next steps.
func (s *script) did(steps ...string) {
	s.t.Helper()
	for _, want := range steps {
		select {
		case got := <-s.steps:
			if got != want {
				s.t.Fatalf("%s does %q, want %q of %q", s.p.cluster.c.Node, got, want, steps)
			}
		case <-time.After(time.Minute):
			s.t.Fatalf("%s does not %q of %q", s.p.cluster.c.Node, want, steps)
		}
	}
}

// becomes waits until the participant has a role.
func (s *script) becomes(r Role) State {
	s.t.Helper()
	for {
		state, changed := s.p.State()
		if state.Role == r {
			return state
		}
		select {
		case <-changed:
		case <-time.After(time.Minute):
			s.t.Fatalf("%s is %+v, want %s", s.p.cluster.c.Node, state, r)
		}
	}
}

// participate runs a participant until the test ends. The channel gives what Run returns.
func participate(t *testing.T, c Config, change ...func(*script)) (s *script, over <-chan error) {
	s = &script{folder: newFolder(), t: t, steps: make(chan string, 100)}
	for _, f := range change {
		f(s)
	}
	s.p = NewParticipant(opened(t, c), s)
	s.p.retry, s.p.fitness, s.p.unfit = 50*time.Millisecond, 10*time.Millisecond, 50*time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		ended <- s.p.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return s, ended
}

// leading is a ring with one participant, which leads.
func leading(t *testing.T, e *etcdtest.Cluster) (c Config, ada *script, over <-chan error) {
	c = config(t, e, "ada")
	begun(t, c, beginning)
	ada, over = participate(t, c)
	ada.did("follow", "lead")
	ada.becomes(RoleLeader)
	return c, ada, over
}

// there waits until etcd knows a node as a standby.
func there(t *testing.T, c Config, node string) *Cluster {
	t.Helper()
	in := opened(t, c.as(""))
	until(t, node+" is there", func() bool { return roleOf(t, in, node) == RoleStandby })
	return in
}

// A participant leads until its term ends or an operator asks for another node, and leads again.
func testParticipant(t *testing.T, e *etcdtest.Cluster) {
	c, ada, _ := leading(t, e)
	first := ada.becomes(RoleLeader)
	if first.Epoch == 0 || first.Terms != 1 {
		t.Errorf("it leads as %+v", first)
	}
	in := opened(t, c.as(""))
	_, lease := in.leading(t.Context())
	in.revoke(lease)
	ada.did("end", "follow", "lead")
	if state := ada.becomes(RoleLeader); state.Terms != 2 || state.Epoch <= first.Epoch {
		t.Errorf("after a lost term, it leads as %+v", state)
	}
	bob, _ := participate(t, c.as("bob"))
	bob.did("follow")
	there(t, c, "bob")
	if err := in.Handover(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	ada.did("end", "follow")
	bob.did("lead")
	if state := ada.becomes(RoleStandby); state.Epoch != 0 || state.Terms != 2 {
		t.Errorf("it follows as %+v", state)
	}
	// A ledger that breaks ends the term.
	bob.becomes(RoleLeader)
	bob.set(func() { close(bob.broken) })
	bob.did("end", "follow")
}

// A refused node keeps its ledger open, tries again, and is a standby once another node leads.
func testRefused(t *testing.T, e *etcdtest.Cluster) {
	c := config(t, e, "ada")
	begun(t, c, beginning)
	in := opened(t, c.as(""))
	client := in.members.clients[0]
	if _, err := client.Put(t.Context(), in.keys.removed("ada"), ""); err != nil {
		t.Fatal(err)
	}
	ada, _ := participate(t, c)
	ada.did("follow")
	if state := ada.becomes(RoleRefused); state.Reason == nil || !strings.Contains(state.Reason.Error(), "removed") {
		t.Errorf("it is refused as %+v", state)
	}
	bob, _ := participate(t, c.as("bob"))
	bob.did("follow", "lead")
	if _, err := client.Delete(t.Context(), in.keys.removed("ada")); err != nil {
		t.Fatal(err)
	}
	if state := ada.becomes(RoleStandby); state.Reason != nil {
		t.Errorf("it follows as %+v", state)
	}
	if len(ada.steps) > 0 {
		t.Errorf("it does %q", <-ada.steps)
	}
}

// A node that was elected and cannot lead lets others lead, and tries again later.
func testCannotLead(t *testing.T, e *etcdtest.Cluster) {
	c := config(t, e, "ada")
	begun(t, c, beginning)
	wrong := errors.New("the clock is wrong")
	s, _ := participate(t, c, func(s *script) { s.cannotLead = wrong })
	s.did("follow", "lead", "follow", "lead", "follow")
	if state := s.becomes(RoleRefused); !errors.Is(state.Reason, wrong) {
		t.Errorf("it is refused as %+v", state)
	}
	s.set(func() { s.cannotLead = nil })
	s.becomes(RoleLeader)
}

// If it is unknown what is stored, the process ends and reads it anew.
func testBroken(t *testing.T, e *etcdtest.Cluster) {
	c, ada, over := leading(t, e)
	bob, ended := participate(t, c.as("bob"))
	bob.set(func() { bob.cannotFollow = fmt.Errorf("%w: disk", ledger.ErrBroken) })
	bob.did("follow")
	ada.set(func() { ada.cannotEnd = ledger.ErrBroken })
	b, _ := group(beginning, []byte("content"))
	in := there(t, c, "bob")
	_, lease := in.leading(t.Context())
	if err := in.putGroup(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, ledger.ErrBroken) {
		t.Errorf("a node that cannot store ended with %v", err)
	}
	bob.did("end")
	in.revoke(lease)
	if err := <-over; !errors.Is(err, ledger.ErrBroken) {
		t.Errorf("a node that does not know what it has stored ended with %v", err)
	}
	ada.did("end")
}

// putGroup writes a transaction into the tail, as a leader does.
func (c *Cluster) putGroup(ctx context.Context, b ledger.Batch) error {
	at, err := b.Position()
	if err != nil {
		return err
	}
	plain, _ := appendGroup(nil, b)
	_, err = c.members.clients[0].Put(ctx, c.keys.group(at.Serial), string(c.sealer.seal(at.Serial, compress(plain))))
	return err
}

// A leader that is unfit, or in a process that stops, hands over if another node can take over.
func testReplaced(t *testing.T, e *etcdtest.Cluster) {
	c, ada, _ := leading(t, e)
	ada.set(func() { ada.unfit = errors.New("the disk is full") })
	ada.p.Depart()
	if state, _ := ada.p.State(); state.Role != RoleLeader {
		t.Error("it hands over although no node could take over")
	}
	bob, _ := participate(t, c.as("bob"))
	bob.did("follow", "lead")
	ada.did("end", "follow")
	bob.becomes(RoleLeader)
	// What departs stands for election no more.
	cas, _ := participate(t, c.as("cas"))
	cas.did("follow")
	there(t, c, "cas")
	bob.p.Depart()
	if state, _ := bob.p.State(); state.Role != RoleStandby {
		t.Errorf("after its departure it is %+v", state)
	}
	bob.did("end", "follow")
	cas.did("lead")
}

// fit waits until etcd knows that a node can take payments, or cannot.
func fit(t *testing.T, in *Cluster, node string, can bool) {
	t.Helper()
	until(t, node+" says whether it can take payments", func() bool {
		s, err := in.Status(t.Context())
		return err == nil && slices.ContainsFunc(s.Nodes, func(n Node) bool { return n.Name == node && (n.Unfit == "") == can })
	})
}

// A leader that can take no payments gives way only to a node that can, and stands back after that.
// While none can, one leads all the same.
func testGivesWay(t *testing.T, e *etcdtest.Cluster) {
	c, ada, _ := leading(t, e)
	wrong := errors.New("the clock is wrong")
	set := func(s *script, unfit error) { s.set(func() { s.unfit = unfit }) }
	bob, _ := participate(t, c.as("bob"), func(s *script) { s.unfit = wrong })
	bob.did("follow")
	in := there(t, c, "bob")
	fit(t, in, "bob", false)
	if err := in.Handover(t.Context(), "bob"); err == nil || !strings.Contains(err.Error(), wrong.Error()) {
		t.Errorf("the lead is handed over to a node that can take no payments: %v", err)
	}
	set(ada, wrong)
	fit(t, in, "ada", false)
	time.Sleep(20 * ada.p.unfit)
	if state, _ := ada.p.State(); state.Role != RoleLeader {
		t.Error("it gives way to a node that cannot do better")
	}
	set(bob, nil)
	ada.did("end", "follow")
	bob.did("lead")
	// ada is all right again, but may fail again as soon as it leads.
	set(ada, nil)
	set(bob, wrong)
	fit(t, in, "bob", false)
	time.Sleep(20 * bob.p.unfit)
	fit(t, in, "ada", false)
	if state, _ := bob.p.State(); state.Role != RoleLeader {
		t.Error("the lead goes back at once")
	}
	// A new node that can take payments gets the lead. Without it, one of the others leads.
	cas, _ := participate(t, c.as("cas"))
	cas.did("follow", "lead")
	bob.did("end", "follow")
	cas.becomes(RoleLeader)
	cas.p.Depart()
	cas.did("end", "follow")
	until(t, "a leader among nodes that stand back", func() bool {
		one, _ := ada.p.State()
		other, _ := bob.p.State()
		return one.Role == RoleLeader || other.Role == RoleLeader
	})
}

// An order that comes while a term ends reaches no later term, and does not wait for one.
func TestOrdersAreOfATerm(t *testing.T) {
	c := Config{Endpoints: []string{"127.0.0.1:1"}, Ring: "ring", Node: "ada", KeyFile: keyFile(t)}
	p := NewParticipant(opened(t, c), nil)
	p.enter(RoleLeader, 7, nil) // and nothing takes orders
	left := make(chan error, 1)
	go func() { left <- p.Leave(t.Context()) }()
	p.enter(RoleStandby, 0, nil)
	if err := <-left; !errors.Is(err, ErrNotLeading) {
		t.Errorf("a ring was ended in no term: %v", err)
	}
}

// The leader takes the ring out of etcd.
func testLeaving(t *testing.T, e *etcdtest.Cluster) {
	c, ada, _ := leading(t, e)
	bob, _ := participate(t, c.as("bob"))
	bob.did("follow")
	in := there(t, c, "bob")
	if err := bob.p.Leave(t.Context()); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a standby leaves: %v", err)
	}
	if err := ada.p.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	ada.did("end", "follow")
	if is := stateOf(t, in); !is.Tombstone || is.Single != "ada" {
		t.Errorf("after the end: %+v", is)
	}
	for _, s := range []*script{ada, bob} {
		if state := s.becomes(RoleRefused); !errors.Is(state.Reason, ErrRefused) {
			t.Errorf("it is refused as %+v", state)
		}
	}
	if slices.ContainsFunc(stateOf(t, in).Nodes, func(n Node) bool { return n.Role == RoleLeader }) {
		t.Error("a node leads")
	}
}
