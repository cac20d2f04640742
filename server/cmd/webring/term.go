package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/publish"
)

// leaderTerm is the term in which an origin of several leads. All methods work without one,
// for the only origin, whose term has no end.
type leaderTerm struct {
	term
	store *timedStore
}

// term is what [etcdstore.Term] is to a role.
type term interface {
	Done() <-chan struct{}
	Live() bool
	Confirm(ctx context.Context) bool
	Err() error
	Room() error
	Until() int64
	MoveUntil(ctx context.Context, ms int64) error
	SetUntilBack(ctx context.Context, ms int64) error
	Handover() <-chan string
	Resign(ctx context.Context, to string) error
	Leave(ctx context.Context) error
	Close() error
	Epoch() int64
	// Store gives the store that replicates over the node's own.
	Store(local ledger.Store) ledger.Replicated
}

// signedUntil keeps up to when checkpoints may have been signed: in a file, without a term.
func (t *leaderTerm) signedUntil(o *options) (publish.Until, error) {
	if t == nil {
		return publish.OpenUntil(syncPath(o.data))
	}
	return t.term, nil
}

// stallTime is for how long a commit may be in work before no payment is taken any more. A
// commit takes milliseconds. One that hangs ends with the lease at the latest, or is one
// that etcd cannot write.
const stallTime = 2 * time.Second

// ready adds to what paid operations depend on: this node leads, and its commits come
// through. It is asked before a challenge is given out, and before a payment is taken.
func (t *leaderTerm) ready(rest func() error) func() error {
	if t == nil {
		return rest
	}
	return func() error {
		if !t.Live() {
			return errNotLeading
		}
		if stalled := t.store.waits(); stalled > stallTime {
			return fmt.Errorf("a commit has been waiting for etcd for %s", stalled.Round(time.Second))
		}
		if err := t.Room(); err != nil {
			return err
		}
		return rest()
	}
}

// methods are the payment methods of a term, in place of those of the process. They send
// nothing once the term is over: another node drives payments on by then, with the same
// keys. They know nothing of earlier terms: what was sent from the gas account meanwhile is
// known to its chain and to the ledger alone.
func (t *leaderTerm) methods(o *options, all []paid.Method) ([]paid.Method, error) {
	if t == nil {
		return all, nil
	}
	within, _, err := paymentMethods(o)
	for i, m := range within {
		within[i] = fencedMethod{m, t}
	}
	return within, err
}

// fencedMethod broadcasts within a term only.
type fencedMethod struct {
	paid.Method
	t *leaderTerm
}

// Broadcast is [paid.Method.Broadcast].
func (m fencedMethod) Broadcast(ctx context.Context, p mpp.Payment, x mpp.Expenses) (mpp.Outcome, error) {
	if !m.t.Live() {
		return mpp.Outcome{State: mpp.Pending}, fmt.Errorf("%w: this node no longer leads", mpp.ErrUnavailable)
	}
	return m.Method.Broadcast(ctx, p, x)
}

var errNotLeading = errors.New("this node no longer leads")

// timedStore knows how long a commit has been in work.
type timedStore struct {
	ledger.Replicated
	began atomic.Int64 // when the commit in work did, as [sinceStart]; 0 without one
}

var processBegan = time.Now()

// sinceStart is an instant of the monotonic clock, in ns. It is never 0.
func sinceStart() int64 { return int64(time.Since(processBegan)) + 1 }

// Commit implements [ledger.Store].
func (s *timedStore) Commit(b ledger.Batch) error {
	s.began.Store(sinceStart())
	defer s.began.Store(0)
	return s.Replicated.Commit(b)
}

// CommitAhead implements [ledger.Replicated].
func (s *timedStore) CommitAhead(b ledger.Batch, stored func() error) error {
	s.began.Store(sinceStart())
	defer s.began.Store(0)
	return s.Replicated.CommitAhead(b, stored)
}

// waits is for how long the commit in work has been, 0 without one.
func (s *timedStore) waits() time.Duration {
	began := s.began.Load()
	if began == 0 {
		return 0
	}
	return time.Duration(sinceStart() - began)
}
