package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/server/ledger"
	"webring/server/ledger/etcdstore"
)

// staged is a cluster, and what a member does in it, as the script of a test: it notes each
// step, and the test decides what etcd answers.
type staged struct {
	t *testing.T

	mu      sync.Mutex
	steps   []string
	leader  etcdstore.Leader
	changed chan struct{}
	nodes   []etcdstore.Node

	stands chan stood // what the next Stand gives
	cannot error      // why the node cannot lead
	dirty  error      // why what is stored is not known when a reign ends
	full   atomic.Bool
}

type stood struct {
	term *stagedTerm
	err  error
}

func scripted(t *testing.T) *staged {
	return &staged{t: t, changed: make(chan struct{}), stands: make(chan stood)}
}

func (s *staged) fit() error {
	if s.full.Load() {
		return errors.New("the disk is full")
	}
	return nil
}

func (s *staged) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, fmt.Sprintf(format, args...))
}

// did waits for these steps, and forgets them.
func (s *staged) did(steps ...string) {
	s.t.Helper()
	var seen []string
	deadline := time.Now().Add(longEnough)
	for {
		s.mu.Lock()
		seen = slices.Clone(s.steps)
		if len(seen) >= len(steps) {
			s.steps = s.steps[len(steps):]
		}
		s.mu.Unlock()
		if len(seen) >= len(steps) {
			break
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the steps are %q, and not %q", seen, steps)
		}
		time.Sleep(time.Millisecond)
	}
	if !slices.Equal(seen[:len(steps)], steps) {
		s.t.Fatalf("the steps are %q, and not %q", seen, steps)
	}
}

func (s *staged) setLeader(l etcdstore.Leader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leader = l
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *staged) Leader() (etcdstore.Leader, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader, s.changed
}

func (s *staged) Stand(ctx context.Context, own etcdstore.Copy) (term, error) {
	s.note("stand")
	select {
	case next := <-s.stands:
		if next.term == nil {
			return nil, next.err
		}
		return next.term, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *staged) Follow(ctx context.Context, own etcdstore.Copy) error {
	s.note("only follow")
	<-ctx.Done()
	return ctx.Err()
}

func (s *staged) Status(context.Context) (etcdstore.Status, error) {
	return etcdstore.Status{Nodes: s.nodes}, nil
}

func (s *staged) Until() int64 { return 0 }

func (s *staged) follow() (following, error) {
	s.note("open")
	return &stagedCopy{s}, nil
}

func (s *staged) lead(context.Context, following, term) (reign, error) {
	s.note("lead")
	if err := s.cannot; err != nil {
		return nil, err
	}
	return &stagedReign{s, make(chan struct{})}, nil
}

type stagedCopy struct{ s *staged }

func (c *stagedCopy) Position() ledger.Position { return ledger.Position{} }
func (c *stagedCopy) Apply(ledger.Batch) error  { return nil }
func (c *stagedCopy) end() error                { c.s.note("close"); return nil }

type stagedReign struct {
	s  *staged
	up chan struct{}
}

func (r *stagedReign) broken() <-chan struct{} { return r.up }
func (r *stagedReign) end() error              { r.s.note("end"); return r.s.dirty }

// stagedTerm is a term that ends when the test says so.
type stagedTerm struct {
	s        *staged
	done     chan struct{}
	handover chan string
}

func (s *staged) term() *stagedTerm {
	return &stagedTerm{s, make(chan struct{}), make(chan string)}
}

func (t *stagedTerm) Done() <-chan struct{} { return t.done }

func (t *stagedTerm) Live() bool {
	select {
	case <-t.done:
		return false
	default:
		return true
	}
}

func (t *stagedTerm) Confirm(context.Context) bool              { return t.Live() }
func (t *stagedTerm) Err() error                                { return etcdstore.ErrLost }
func (t *stagedTerm) Room() error                               { return nil }
func (t *stagedTerm) Until() int64                              { return 0 }
func (t *stagedTerm) MoveUntil(context.Context, int64) error    { return nil }
func (t *stagedTerm) SetUntilBack(context.Context, int64) error { return nil }
func (t *stagedTerm) Handover() <-chan string                   { return t.handover }
func (t *stagedTerm) Epoch() int64                              { return 7 }
func (t *stagedTerm) Store(ledger.Store) ledger.Replicated      { return nil }

func (t *stagedTerm) Resign(_ context.Context, to string) error {
	t.s.note("resign to %q", to)
	if to != "" {
		t.s.setLeader(etcdstore.Leader{Node: to, URL: "http://" + to})
	}
	return nil
}

func (t *stagedTerm) Leave(context.Context) error { t.s.note("leave"); return nil }
func (t *stagedTerm) Close() error                { t.s.note("close the term"); return nil }

// begin runs a member named a, until the test ends; the channel gives what run returns.
func (s *staged) begin() (m *member, over <-chan error) {
	m = newMember("a", s, s, s.fit, slog.New(slog.DiscardHandler))
	m.retry, m.fitness = 10*time.Millisecond, time.Millisecond
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- m.run(ctx)
	}()
	s.t.Cleanup(func() {
		cancel()
		<-done
	})
	return m, ended
}

// becomes waits until a member has a role.
func (s *staged) becomes(m *member, r role) memberState {
	s.t.Helper()
	for {
		state, changed := m.now()
		if state.role == r {
			return state
		}
		await(s.t, "the role "+string(r), changed)
	}
}

func TestAMemberLeadsForItsTerm(t *testing.T) {
	t.Parallel()
	s := scripted(t)
	m, _ := s.begin()
	s.did("open", "stand")
	lost := s.term()
	s.stands <- stood{term: lost}
	s.did("lead")
	if state := s.becomes(m, roleLeader); state.epoch != 7 || state.terms != 1 {
		t.Errorf("it leads as %+v", state)
	}
	close(lost.done)
	// A term that is lost is not handed over.
	s.did("end", "close the term", "open", "stand")
	s.becomes(m, roleStandby)

	asked := s.term()
	s.stands <- stood{term: asked}
	s.did("lead")
	s.becomes(m, roleLeader)
	asked.handover <- "b"
	s.did("end", `resign to "b"`, "open", "stand")
	if state := s.becomes(m, roleStandby); state.epoch != 0 || state.terms != 2 {
		t.Errorf("it follows as %+v", state)
	}
}

func TestARefusedMemberTriesAgain(t *testing.T) {
	t.Parallel()
	s := scripted(t)
	m, _ := s.begin()
	s.did("open", "stand")
	s.stands <- stood{err: fmt.Errorf("%w: beyond", etcdstore.ErrRefused)}
	if state := s.becomes(m, roleRefused); state.reason == nil || !strings.Contains(state.reason.Error(), "beyond") {
		t.Errorf("it is refused as %+v", state)
	}
	s.did("stand") // the ledger stays open
	s.setLeader(etcdstore.Leader{Node: "b", URL: "http://b"})
	if state := s.becomes(m, roleStandby); state.reason != nil {
		t.Errorf("it follows as %+v", state)
	}
}

func TestAMemberThatCannotLeadLetsOthers(t *testing.T) {
	t.Parallel()
	s := scripted(t)
	s.cannot = errors.New("the clock is wrong")
	m, _ := s.begin()
	s.did("open", "stand")
	s.stands <- stood{term: s.term()}
	// It follows for a while before it stands again.
	s.did("lead", `resign to ""`, "open", "only follow", "stand")
	if state := s.becomes(m, roleRefused); !errors.Is(state.reason, s.cannot) {
		t.Errorf("it is refused as %+v", state)
	}
	s.cannot = nil
	s.stands <- stood{term: s.term()}
	s.did("lead")
	s.becomes(m, roleLeader)
}

// What is stored and not known ends the process, which reads it anew.
func TestAMemberEndsWithItsStore(t *testing.T) {
	t.Parallel()
	s := scripted(t)
	_, over := s.begin()
	s.did("open", "stand")
	s.stands <- stood{err: fmt.Errorf("%w: disk", ledger.ErrBroken)}
	if err := await(t, "the end", over); !errors.Is(err, ledger.ErrBroken) {
		t.Errorf("it ended with %v", err)
	}
	s.did("close")

	s = scripted(t)
	s.dirty = ledger.ErrBroken
	_, over = s.begin()
	s.did("open", "stand")
	lost := s.term()
	s.stands <- stood{term: lost}
	s.did("lead")
	close(lost.done)
	if err := await(t, "the end", over); !errors.Is(err, ledger.ErrBroken) {
		t.Errorf("it ended with %v", err)
	}
	s.did("end", "close the term")
}

// A node whose disk is full lets another one lead, if one can.
func TestAMemberThatIsUnfitLetsOthers(t *testing.T) {
	t.Parallel()
	s := scripted(t)
	s.nodes = []etcdstore.Node{{Name: "b", Role: etcdstore.RoleStandby}}
	m, _ := s.begin()
	s.did("open", "stand")
	s.stands <- stood{term: s.term()}
	s.did("lead")
	s.becomes(m, roleLeader)
	s.full.Store(true)
	s.did("end", `resign to ""`, "open", "only follow", "only follow")
	s.full.Store(false)
	for {
		s.mu.Lock()
		step := slices.Index(s.steps, "stand")
		s.mu.Unlock()
		if step >= 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	s.stands <- stood{term: s.term()}
	s.becomes(m, roleLeader)
}

func TestAMemberDeparts(t *testing.T) {
	t.Parallel()
	s := scripted(t)
	s.nodes = []etcdstore.Node{{Name: "a", Role: etcdstore.RoleLeader}, {Name: "b", Role: etcdstore.RoleGone}}
	m, _ := s.begin()
	s.did("open", "stand")
	s.stands <- stood{term: s.term()}
	s.did("lead")
	s.becomes(m, roleLeader)
	m.depart()
	if state, _ := m.now(); state.role != roleLeader {
		t.Error("it hands over although nobody could take over")
	}

	s = scripted(t)
	s.nodes = []etcdstore.Node{{Name: "b", Role: etcdstore.RoleStandby}}
	m, _ = s.begin()
	s.did("open", "stand")
	s.stands <- stood{term: s.term()}
	s.did("lead")
	s.becomes(m, roleLeader)
	departed := make(chan struct{})
	go func() {
		defer close(departed)
		m.depart()
	}()
	// It stands no more, whatever happens, and waits for the next leader.
	s.did("end", `resign to ""`, "open", "stand", "only follow")
	s.setLeader(etcdstore.Leader{Node: "b", URL: "http://b"})
	await(t, "the departure", departed)
}

// A wish that comes while a term ends reaches no later term, and does not wait for one.
func TestAMembersWishesAreOfItsTerm(t *testing.T) {
	t.Parallel()
	s := scripted(t)
	s.nodes = []etcdstore.Node{{Name: "b", Role: etcdstore.RoleStandby}}
	s.leader = etcdstore.Leader{Node: "b", URL: "http://b"}
	m := newMember("a", s, s, s.fit, slog.New(slog.DiscardHandler))
	m.enter(roleLeader, 7, nil) // and nobody takes wishes any more
	left, departed := make(chan error, 1), make(chan error, 1)
	go func() { left <- m.leave(t.Context()) }()
	go func() { m.depart(); departed <- nil }()
	<-m.leaving
	m.enter(roleStandby, 0, nil)
	if err := await(t, "the answer", left); !errors.Is(err, errNotLeading) {
		t.Errorf("a ring was ended in no term: %v", err)
	}
	await(t, "the departure", departed)
}

func TestAMemberEndsItsCluster(t *testing.T) {
	t.Parallel()
	s := scripted(t)
	m, _ := s.begin()
	s.did("open", "stand")
	if err := m.leave(t.Context()); !errors.Is(err, errNotLeading) {
		t.Errorf("a standby leaves: %v", err)
	}
	s.stands <- stood{term: s.term()}
	s.did("lead")
	s.becomes(m, roleLeader)
	if err := m.leave(t.Context()); err != nil {
		t.Error(err)
	}
	s.did("end", "leave", "open", "stand")
	s.becomes(m, roleStandby)
}

func TestANewNodeHoldsTheTailFromWhatBackupsHave(t *testing.T) {
	t.Parallel()
	s := etcdstore.Status{Head: ledger.Position{Serial: 90}, Trimmed: 70, Nodes: []etcdstore.Node{
		{Name: "a", Serial: 90}, {Name: "b", Serial: 80}, {Name: "c", Serial: 20, Role: etcdstore.RoleGone}}}
	if got := backedUp(s); got != 80 {
		t.Errorf("the new node is registered at %d, want 80: what is below 70 is trimmed already", got)
	}
}
