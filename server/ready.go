package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"webring/server/admin"
	"webring/server/ledger"
	"webring/server/ledger/cluster"
	"webring/server/paid"
)

// Watch has this origin collected from, and readiness depend on it.
func (o *Origin) Watch(s *admin.Server) {
	payments := func() *paid.Service {
		if l := o.Leader(); l != nil {
			return l.Payments
		}
		return nil
	}
	attention := func() int {
		if l := o.Leader(); l != nil {
			return int(l.attention.Load())
		}
		return 0
	}
	s.Add(&admin.Origin{Ledger: &o.Books, Payments: payments, Attention: attention, Free: o.disk.Space, Behind: o.visitsBehind})
	if o.node != nil {
		s.Add(o.node)
	}
	s.StartedWith(o.checks)
}

// countAttention counts the payments that need attention: each minute, and in a ledger of so
// many that this takes long, for a hundredth of the time.
func (l *Leader) countAttention(ctx context.Context) {
	for {
		began := time.Now()
		n, err := l.Operator.Attention()
		if err == nil {
			l.attention.Store(int64(n))
		} else if !errors.Is(err, ledger.ErrClosed) {
			l.log.Warn("payments that need attention cannot be counted", "err", err)
		}
		select {
		case <-time.After(max(time.Minute, 100*time.Since(began))):
		case <-ctx.Done():
			return
		}
	}
}

// checks are what readiness depends on at the moment.
func (o *Origin) checks() (checks []admin.Check) {
	l := o.Leader()
	if o.node != nil {
		checks = append(checks, admin.Check{Name: "role", Ask: o.node.checkRole})
	}
	disk := admin.Check{Name: "disk", Ask: o.checkDisk}
	if l == nil {
		if o.node != nil && o.node.relay.Load() != nil { // it shows what another node has signed
			checks = append(checks, disk, admin.Check{Name: "age", Ask: o.node.checkAge})
		}
		return checks
	}
	checks = append(checks, admin.Check{Name: "ledger", Ask: func() (string, error) { return checkWriter(l.Books) }}, disk,
		admin.Check{Name: "clock", Ask: func() (string, error) { return checkClock(l.Books, l.Payments) }})
	for i, n := range l.Payments.Networks() {
		checks = append(checks, admin.Check{Name: "chain:" + n.Network, Ask: func() (string, error) {
			n := l.Payments.Networks()[i]
			return fmt.Sprintf("the newest block is %s old", time.Since(n.Block).Round(time.Second)), n.Down()
		}})
	}
	return checks
}

// checkDisk compares the free space with what payments need.
func (o *Origin) checkDisk() (string, error) {
	if err := o.Payments.Ready(); err != nil {
		return "", err
	}
	free, err := o.disk.Space()
	return fmt.Sprintf("%d MiB are free, and %d are needed", free>>20, PayFloor>>20), err
}

// turnTime is how long the ledger's writer may take to come to a question. A commit takes
// milliseconds.
const turnTime = 2 * time.Second

// checkWriter asks the ledger's writer for an empty turn. One that hangs in a commit does not
// come to it, or to its answer.
func checkWriter(books *ledger.Ledger) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), turnTime)
	defer cancel()
	answer := make(chan error, 1)
	go func() { answer <- books.Do(ctx, func(*ledger.Tx) error { return nil }) }()
	var err error
	select {
	case err = <-answer:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "", fmt.Errorf("the ledger's writer gives no answer within %s", turnTime)
	}
	var events uint64
	books.View(func(v *ledger.View) { events = v.State().Seq() })
	return fmt.Sprintf("%d events; the writer answers", events), err
}

// checkClock compares this machine's clock with the ledger and with the chains that make
// blocks.
func checkClock(books *ledger.Ledger, payments *paid.Service) (string, error) {
	if err := books.CheckClock(); err != nil {
		return "", err
	}
	var last int64
	books.View(func(v *ledger.View) { last = v.State().LastStamp() })
	if early := time.Until(time.UnixMilli(last)); early > 0 {
		return "", fmt.Errorf("the clock is %s before the last event: set it", early.Round(time.Second))
	}
	told := ""
	for _, n := range payments.Networks() {
		skewed := errors.Is(n.Err, paid.ErrSkew)
		if n.Block.IsZero() || n.Still > 0 || n.Err != nil && !skewed {
			continue // it does not tell the time
		}
		told = fmt.Sprintf("%s away from the newest block of %s", n.Asked.Sub(n.Block).Abs().Round(time.Second), n.Network)
		if skewed {
			return "", fmt.Errorf("the clock is %s: set it, unless that chain stands still", told)
		}
	}
	if told == "" {
		told = "after the last event; no chain tells the time"
	}
	return told, nil
}

// checkRole says what this node does. It is ready while it takes payments or can pass them on.
func (n *Node) checkRole() (string, error) {
	s := n.Status()
	told := fmt.Sprintf("%s is the %s", s.Node, s.Role)
	switch {
	case s.Role == string(cluster.RoleRefused):
		return "", fmt.Errorf("%s is refused: %s", s.Node, s.Reason)
	case s.Role == string(cluster.RoleLeader):
		return fmt.Sprintf("%s leads since %s, term %d, transaction %d", s.Node, s.Since.Format(time.RFC3339), s.Epoch, s.Serial), nil
	case s.Leader == "" || s.Leader == s.Node:
		return "", fmt.Errorf("%s, and no node leads: payments are not taken", told)
	}
	return fmt.Sprintf("%s of %s at %s, transaction %d", told, s.Leader, s.LeaderURL, s.Serial), nil
}

// checkAge says how old it is what this node shows of what another one has signed.
func (n *Node) checkAge() (string, error) {
	relay := n.relay.Load()
	if relay == nil {
		return "this node leads", nil
	}
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
