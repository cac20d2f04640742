package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"webring/edge"
	"webring/server"
	"webring/server/admin"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/sites/visits"
)

const adminListenUsage = "`address` of /healthz, /readyz, /metrics and /debug/pprof/; keep strangers away from it; if the default is taken, the next free port; empty for no listener and no metrics"

// adminAddress is --admin-listen.
type adminAddress struct {
	address string
	given   bool
}

const usualAdmin = "127.0.0.1:8403"

func (a *adminAddress) String() string { return a.address }

// Set takes any address. Listening shows whether it is one.
func (a *adminAddress) Set(v string) error {
	*a = adminAddress{v, true}
	return nil
}

// listen listens on the address. If the operator gave none and another process has the usual
// port, it takes the next free one, so that several processes run on one machine.
func (a *adminAddress) listen() (net.Listener, error) {
	l, err := net.Listen("tcp", a.address)
	host, port, _ := net.SplitHostPort(a.address)
	for next, _ := strconv.Atoi(port); !a.given && errors.Is(err, syscall.EADDRINUSE) && next < math.MaxUint16; {
		next++
		l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(next)))
	}
	return l, err
}

// watch opens the second listener, if the flags ask for one. Nil stands for none.
func (f *shellFlags) watch(passed passedSockets, log *slog.Logger) (*admin.Server, error) {
	b := thisBuild()
	switch {
	case f.adminListen.address == "" && len(passed[adminSocket]) > 0:
		return nil, errors.New("a socket was passed for health and metrics, and --admin-listen is empty: give it any address (it is not used), or pass no such socket")
	case f.adminListen.address == "":
		return nil, nil
	}
	listeners, err := passed.listen(adminSocket, f.adminListen.listen, log)
	if err != nil {
		return nil, fmt.Errorf("--admin-listen: %w", err)
	}
	if at := listeners[0].Addr().String(); !f.adminListen.given && at != f.adminListen.address && len(passed[adminSocket]) == 0 {
		log.Warn("another process has the usual address for metrics, so this one has the next free port; give --admin-listen to keep one address", "address", at)
	}
	return admin.Serve(listeners, admin.Build{Version: b.version, Revision: b.revision}, log), nil
}

// announceWatch prints where the process is watched.
func announceWatch(s *admin.Server, out io.Writer) {
	fmt.Fprintf(out, "webring is watched at %s\n", s.Addr())
}

// originWatch is what is counted and collected of an origin. Its functions work without a
// listener, too; then they count nothing.
type originWatch struct {
	*admin.Server
	counters *admin.Counters // nil: nothing is counted
	odd      atomic.Int64    // payments that need attention
}

func (f *shellFlags) watchOrigin(passed passedSockets, log *slog.Logger) (*originWatch, error) {
	s, err := f.watch(passed, log)
	w := &originWatch{Server: s}
	if s != nil {
		w.counters = admin.NewCounters()
		s.Add(w.counters)
		s.Starting("the ledger is being opened")
	}
	return w, err
}

// committed is for [ledger.Config.Committed].
func (w *originWatch) committed() func(time.Duration, error) {
	if w.counters == nil {
		return nil
	}
	return w.counters.Committed
}

// payments has the payments of a configuration counted, and the questions to its scorers.
func (w *originWatch) payments(c *paid.Config) {
	if w.counters == nil {
		return
	}
	var names []string
	for _, m := range c.Methods {
		names = append(names, m.Name())
	}
	w.counters.Methods(names...)
	c.Ended = w.counters.Ended
	c.Scorer, c.DraftScorer = w.counters.Scorer(c.Scorer), w.counters.Scorer(c.DraftScorer)
}

// visits has the visits to members counted.
func (w *originWatch) visits(c *visits.Config) {
	if w.counters != nil {
		c.Visited = w.counters.Visited
	}
}

// started has the origin collected from, and readiness depend on it.
func (w *originWatch) started(n *originNode, shell *edge.Shell) {
	if w.Server == nil {
		return
	}
	payments := func() *paid.Service {
		if l := n.origin.Leader(); l != nil {
			return l.Payments
		}
		return nil
	}
	w.Add(&admin.Origin{Ledger: &n.books, Payments: payments, Attention: func() int { return int(w.odd.Load()) }, Free: n.disk.space, Behind: n.origin.VisitsBehind},
		shell.Metrics(), trapsMetric(trapsOf(n.origin.Core)))
	if node := n.origin.Node(); node != nil {
		w.Add(node)
	}
	w.StartedWith(n.checks)
	announceWatch(w.Server, n.out)
}

// checks are what readiness depends on at the moment.
func (n *originNode) checks() (checks []admin.Check) {
	node, l := n.origin.Node(), n.origin.Leader()
	if node != nil {
		checks = append(checks, admin.Check{Name: "role", Ask: node.CheckRole})
	}
	switch {
	case l != nil:
		checks = append(checks, originChecks(l.Books, l.Payments, n.disk)...)
	case node != nil && node.Follows():
		checks = append(checks, diskCheck(n.disk), admin.Check{Name: "age", Ask: node.CheckAge})
	}
	return checks
}

// lookForOdd counts the payments that need attention: each minute, and in a ledger of so
// many that this takes long, for a hundredth of the time.
func (w *originWatch) lookForOdd(ctx context.Context, operator *server.Operator, log *slog.Logger) {
	if w.Server == nil {
		return
	}
	for {
		began := time.Now()
		n, err := operator.Attention()
		if err == nil {
			w.odd.Store(int64(n))
		} else if !errors.Is(err, ledger.ErrClosed) {
			log.Warn("payments that need attention cannot be counted", "err", err)
		}
		select {
		case <-time.After(max(time.Minute, 100*time.Since(began))):
		case <-ctx.Done():
			return
		}
	}
}

// turnTime is how long the ledger's writer may take to come to a question. A commit takes
// milliseconds.
const turnTime = 2 * time.Second

// originChecks are what an origin's readiness depends on.
func originChecks(books *ledger.Ledger, payments *paid.Service, disk *volume) []admin.Check {
	checks := []admin.Check{
		{Name: "ledger", Ask: func() (string, error) { return checkWriter(books) }},
		diskCheck(disk),
		{Name: "clock", Ask: func() (string, error) { return checkOwnClock(books, payments) }},
	}
	for i, n := range payments.Networks() {
		checks = append(checks, admin.Check{Name: "chain:" + n.Network, Ask: func() (string, error) {
			n := payments.Networks()[i]
			return fmt.Sprintf("the newest block is %s old", time.Since(n.Block).Round(time.Second)), n.Down()
		}})
	}
	return checks
}

// diskCheck holds the free space against what payments need.
func diskCheck(disk *volume) admin.Check {
	return admin.Check{Name: "disk", Ask: func() (string, error) {
		if err := disk.atLeast(payFloor)(); err != nil {
			return "", err
		}
		free, err := disk.space()
		return fmt.Sprintf("%d MiB are free, and %d are needed", free>>20, payFloor>>20), err
	}}
}

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

// checkOwnClock holds this machine's clock against the ledger and against the chains that
// make blocks.
func checkOwnClock(books *ledger.Ledger, payments *paid.Service) (string, error) {
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
