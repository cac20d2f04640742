package main

import (
	"context"
	"errors"
	"log/slog"

	"webring/edge"
	"webring/server"
	"webring/server/aside/news"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/publish"
	"webring/server/sites/visits"
)

// leading is what writes the ledger, publishes it to edges, and takes payments: the only
// origin for as long as it runs, and of several the one that leads.
type leading struct {
	books     *ledger.Ledger
	publisher *publish.Publisher
	payments  *paid.Service
	operator  *server.Operator
	end       context.CancelFunc // of what goes on beside
	log       *slog.Logger
}

// lead writes what a first start makes, or what the flags have changed, publishes to edges,
// and takes payments. It finds mistakes in the flags before anything is written: the rules,
// and the name of the key that signs, stay for ever. t is the term of an origin that leads
// others, nil for the only one.
func (n *originNode) lead(ctx context.Context, books *ledger.Ledger, t *leaderTerm) (l *leading, err error) {
	prover, err := ownerProofs(n.o)
	if err != nil {
		return nil, err
	}
	until, err := t.signedUntil(n.o)
	if err != nil {
		return nil, err
	}
	rules := newRules(n.o, books, n.networks)
	if err := n.askTheTime(ctx, books, until.Until(), rules != nil); err != nil {
		return nil, err
	}
	publisher, rotation, err := openPublisher(n.o, until, n.log)
	if err != nil {
		return nil, err
	}
	n.published = publisher.Published
	if err := n.keys.make(n.o); err != nil {
		return nil, err
	}
	if err := news.CatchUp(ctx, books); err != nil && !errors.Is(err, ledger.ErrNotNow) {
		return nil, err // without room they are written later, by news.Run
	}
	if err := setRules(ctx, books, rules); err != nil {
		return nil, err
	}
	if err := publisher.Start(ctx, books); err != nil {
		return nil, err
	}
	methods, err := t.methods(n.o, n.methods)
	if err != nil {
		return nil, errors.Join(err, publisher.Close())
	}
	l = &leading{books: books, publisher: publisher, log: n.log}
	beside, end := context.WithCancel(ctx)
	l.end = end
	go n.scorer.sweep(beside)
	go n.hops.Run(beside)
	go news.Run(beside, books, n.o.now, n.log)
	taking := paid.Config{
		Ledger: books, Methods: methods, Scorer: n.scorer.registrations, DraftScorer: n.scorer.drafts, Sites: n.o.sites.policy(), Names: n.o.namePolicy(),
		Realm: n.o.realm, Keys: n.keys.get(), Now: n.o.now, Log: n.log, Ready: t.ready(n.disk.atLeast(payFloor)), Failpoint: n.failpoint,
		Told: n.o.stamps.Told, GasBudget: n.o.evm.gasBudget, Prover: prover, MemberSites: server.MemberSites{Client: n.sites},
	}
	visiting := visits.Config{Ledger: books, Fetch: n.sites, Now: n.o.now, Log: n.log}
	n.watch.visits(&visiting)
	visitor := visits.New(visiting)
	taking.Visit = visitor.Ask
	n.watch.payments(&taking)
	if l.payments, err = paid.New(taking); err != nil {
		end()
		return nil, errors.Join(err, publisher.Close())
	}
	n.keys.use(l.payments)
	l.operator = &server.Operator{Ledger: books, Payments: l.payments, Keys: func() map[string]string { return keyFiles(n.o) },
		SigningKeys: rotation, SignedUntil: publisher.SignedUntil, Log: n.log}
	go n.watch.lookForOdd(beside, l.operator, n.log)
	n.visitor.Store(visitor)
	go func() {
		defer n.visitor.CompareAndSwap(visitor, nil)
		visitor.Run(beside)
	}()
	return l, nil
}

// backend is what answers requests while this origin leads.
func (l *leading) backend(n *originNode) *backend {
	taken := map[string]edge.Handler{}
	for pattern, operation := range paidOperations {
		taken[pattern] = server.Paid(l.payments, operation, edge.Body)
	}
	return &backend{
		paid:    taken,
		others:  map[string]edge.Handler{reportsPattern: n.scorer.report(), checkPattern: server.CheckDraft(l.payments, edge.Body)},
		check:   server.Check(l.payments, n.answers.BaseURL, n.scorer.reports, n.o.payingWords(), n.log),
		source:  l.publisher,
		control: l.operator.Handler(),
	}
}

// close ends payments and publishing. Payments in flight are waited for until ctx ends, and
// stay reserved after that.
func (l *leading) close(ctx context.Context) error {
	l.end()
	if err := l.payments.Close(ctx); err != nil {
		l.log.Warn("payments in flight stay reserved for the next start", "err", err)
	}
	return l.publisher.Close()
}
