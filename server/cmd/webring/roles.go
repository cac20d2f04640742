package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"webring/server/admin"
	"webring/server/ledger/etcdstore"
	"webring/server/paid"
)

// roles is what stands behind an origin's desk: [alone], or [member], whose role changes.
type roles interface {
	// payments gives the service that takes payments, nil while none is here.
	payments() *paid.Service
	// checks are what readiness depends on at the moment.
	checks() []admin.Check
	collectors() []prometheus.Collector
	// failed is closed when the process has to end, and err says why.
	failed() <-chan struct{}
	err() error
	// depart is called at the beginning of a stop, while requests are answered as before.
	depart()
	// Close lets no new payment begin, and waits until those that are held have their
	// answers, or ctx is done.
	Close(ctx context.Context) error
}

// alone is an origin that is the only one.
type alone struct {
	*leading
	disk *volume
}

func (a alone) payments() *paid.Service            { return a.leading.payments }
func (a alone) checks() []admin.Check              { return originChecks(a.books, a.leading.payments, a.disk) }
func (a alone) collectors() []prometheus.Collector { return nil }
func (a alone) failed() <-chan struct{}            { return a.books.Done() }
func (a alone) err() error                         { return a.books.Err() }
func (a alone) depart()                            {}

func (a alone) Close(ctx context.Context) error { return a.leading.payments.Close(ctx) }

// runAlone is run for an origin that is the only one.
func (n *originNode) runAlone(ctx context.Context) (err error) {
	books, closeBooks, err := openLedger(n.o, n.publish, n.disk.atLeast(writeFloor), n.log, n.failpoint, n.watch.committed())
	if err != nil {
		return err
	}
	if err := n.openAnswers(books); err != nil {
		return errors.Join(err, closeBooks())
	}
	defer func() { err = errors.Join(err, closeBooks(), n.answers.Close()) }()
	defer n.release()
	if err := n.prepare(ctx); err != nil {
		return err
	}
	l, err := n.lead(ctx, books, nil)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		err = errors.Join(err, l.close(ctx))
	}()
	go settle(ctx)
	n.desk.show(l.backend(n))
	return n.answer(ctx, alone{l, n.disk})
}

// timeUp is a context that has ended: what is closed with it does not wait.
func timeUp() context.Context {
	ctx, cancel := context.WithDeadline(context.Background(), time.Time{})
	cancel()
	return ctx
}

// refuseMarker refuses to serve the folder of a node of a cluster as an only origin: its
// ledger would go on beside that of the others.
func refuseMarker(data string) error {
	m, err := etcdstore.ReadMarker(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s belongs to the node %s of the ring %s in etcd: give --etcd, --cluster-id and --node, or make the ring a single origin again with webring cluster leave", data, m.Node, m.Ring)
}
