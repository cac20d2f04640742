package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"webring/core"
	"webring/edge"
	"webring/edge/replica"
	"webring/server"
	"webring/server/ledger"
	"webring/server/mpp"
	"webring/server/paid"
	"webring/server/publish"
)

// controlHeaderTime bounds the reading of a header on the operator's socket.
const controlHeaderTime = 5 * time.Second

func serve(args []string, out io.Writer) error {
	o, reload, err := loadOptions[options](args)
	if o.check && !errors.Is(err, flag.ErrHelp) {
		return checkOrigin(args, out)
	}
	if err != nil {
		return err
	}
	logs, err := o.shell.logs.open(os.Stderr)
	if err != nil {
		return err
	}
	defer logs.close()
	reload.log = logs.Logger
	ctx, release := stopSignals(logs.Logger)
	defer release()
	n := &originNode{o: o, reload: reload, logs: logs, log: logs.Logger, out: out, disk: &volume{dir: o.data}, failpoint: failpoints(o, logs.Logger)}
	return interrupted(ctx, n.run(ctx))
}

// interrupted wraps an error that comes from the end of ctx, which ends when the process is
// told to.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}

// originNode is an origin with what it has open. Each of its steps opens a part, takes the
// next step, and closes the part when that has come back: run, prepare, begin, answer.
type originNode struct {
	o         *options
	reload    *reloader[options]
	logs      *logs
	log       *slog.Logger
	out       io.Writer
	disk      *volume
	failpoint func(string)

	// Of run.
	passed  passedSockets
	watch   *originWatch
	books   *ledger.Ledger
	answers replica.Core

	// Of prepare.
	methods      []paid.Method
	scorer       *sitesScorer
	keys         mpp.Keys
	config       edge.Config
	certificates certificates // nil without TLS
	listeners    []net.Listener
	operator     *server.Operator
	socket       net.Listener // the operator's
	rules        *core.Rules  // nil when they have not changed

	// Of begin.
	publisher *publish.Publisher
	payments  *paid.Service
	counting  func(ctx context.Context) // of hops
}

// run opens the ledger and the core that answers reads.
func (n *originNode) run(ctx context.Context) (err error) {
	if err := os.MkdirAll(n.o.data, 0o700); err != nil {
		return err
	}
	if err := room(n.o.data, startFloor); err != nil {
		return err
	}
	if n.passed, err = takeSockets(); err != nil {
		return err
	}
	if n.watch, err = n.o.shell.watchOrigin(n.passed, n.log); err != nil {
		return err
	}
	defer n.watch.Close()
	books, closeBooks, err := openLedger(n.o, n.publish, n.disk.atLeast(writeFloor), n.log, n.failpoint, n.watch.committed())
	if err != nil {
		return err
	}
	n.books = books
	if n.answers, err = openReads(ctx, n.o, books, n.log); err != nil {
		return errors.Join(err, closeBooks())
	}
	defer func() { err = errors.Join(err, closeBooks(), n.answers.Close()) }()
	debug.FreeOSMemory() // of what it took to open them, before a first snapshot is made
	return n.prepare(ctx)
}

// publish has readers and edges see durable events. Nothing is written before begin, so
// answers and publisher are there.
func (n *originNode) publish(records []ledger.Record) {
	if err := n.answers.Apply(records); err != nil {
		// The writer's state has taken these events, and the pool falls back to
		// the native core if a module does not. So the two have diverged.
		panic(err)
	}
	n.publisher.Published(records)
}

// prepare finds mistakes in the flags before anything is written: the rules, and the name
// of the key that signs, stay for ever.
func (n *originNode) prepare(ctx context.Context) error {
	methods, networks, err := paymentMethods(n.o)
	if err != nil {
		return err
	}
	n.methods = methods
	if err := checkOffers(ctx, n.o.offers(), n.log); err != nil {
		return err
	}
	if n.scorer, err = openScorer(n.o, n.books, n.log); err != nil {
		return err
	}
	if n.keys, err = challengeKeys(n.o); err != nil {
		return err
	}
	if n.config, n.certificates, err = shellConfig(n.o, n.log); err != nil {
		return err
	}
	n.config.Access = n.logs.access
	watchCertificates(n.watch.Server, n.certificates)
	if n.listeners, err = n.passed.listen(httpSocket, n.o.shell.listen, n.log); err != nil {
		return err
	}
	defer closeAll(n.listeners)
	n.operator = &server.Operator{Ledger: n.books, Keys: func() map[string]string { return keyFiles(n.o) }, Log: n.log}
	if n.socket, err = n.operator.Listen(socketPath(n.o.data)); err != nil {
		return err
	}
	defer n.socket.Close()
	if n.rules, err = newRules(ctx, n.o, n.books, methods, networks); err != nil {
		return err
	}
	return n.begin(ctx)
}

// begin writes what a first start makes, or what the flags have changed, publishes to
// edges, and takes payments.
func (n *originNode) begin(ctx context.Context) (err error) {
	publisher, rotation, err := openPublisher(n.o, n.log)
	if err != nil {
		return err
	}
	n.publisher = publisher
	if n.keys.Current == nil {
		if n.keys, err = makeChallengeKey(n.o); err != nil {
			return err
		}
	}
	if err := setRules(ctx, n.books, n.rules); err != nil {
		return err
	}
	if err := n.scorer.takeOver(ctx, reportsPath(n.o.data)); err != nil {
		return err
	}
	if err := publisher.Start(ctx, n.books); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, publisher.Close()) }()
	go settle(ctx)
	go n.scorer.sweep(ctx)
	taking := paid.Config{
		Ledger: n.books, Methods: n.methods, Scorer: n.scorer.registrations, DraftScorer: n.scorer.drafts, Sites: n.o.sites.policy(), Names: n.o.namePolicy(),
		Realm: n.o.realm, Keys: n.keys, Now: time.Now, Log: n.log, Ready: n.disk.atLeast(payFloor), Failpoint: n.failpoint,
		GasBudget: n.o.evm.gasBudget,
	}
	n.watch.payments(&taking)
	if n.payments, err = paid.New(taking); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		if closing := n.payments.Close(ctx); closing != nil {
			n.log.Warn("payments in flight stay reserved for the next start", "err", closing)
		}
	}()
	n.operator.Payments, n.operator.SigningKeys = n.payments, rotation
	return n.answer(ctx)
}

// answer serves clients and the operator until ctx is done and the stop has come to its
// end, or until the ledger or a listener fails.
func (n *originNode) answer(ctx context.Context) error {
	shell, err := n.openShell()
	if err != nil {
		return err
	}
	defer inBackground(n.counting)()
	control := &http.Server{Handler: n.logs.controls(n.operator.Handler()), ReadHeaderTimeout: controlHeaderTime}
	defer control.Close()

	ended := make(chan error, len(n.listeners)+1)
	for _, l := range n.listeners {
		go func() { ended <- shell.Serve(l) }()
	}
	go func() { ended <- control.Serve(n.socket) }()
	if n.certificates != nil {
		go n.certificates.Run(ctx)
	}
	reloadFront(n.reload, front{shell, n.config.TrustedProxies, n.config.EdgeSecrets, n.certificates, n.logs}, n.o, (*options).front)
	reloadKeys(n.reload, n.o, n.keys, n.payments)
	go n.reload.run(ctx)
	n.watch.started(ctx, n.operator, n.disk, shell, n.answers, n.out, n.log)
	if err := n.announce(); err != nil {
		return err
	}
	notifyReady(n.log)
	defer keepAlive(n.answers, n.log)()
	return n.attend(ctx, shell, ended)
}

// announce says where the ring is, and what may surprise its operator.
func (n *originNode) announce() error {
	fmt.Fprintf(n.out, "webring serves %s at %s\n", n.o.baseURL, n.listeners[0].Addr())
	current, next := n.operator.SigningKeys.Keys()
	if err := printKeys(n.out, current, next); err != nil {
		return err
	}
	if len(n.methods) == 0 {
		n.log.Warn("no payments are taken: give --tempo-rpc and --tempo-recipient, or --evm-rpc and what it needs")
	}
	announceTests(n.o.offers(), n.log)
	return nil
}

// attend keeps the core's clock, and stops when ctx is done. ended gets the errors of
// listeners.
func (n *originNode) attend(ctx context.Context, shell *edge.Shell, ended <-chan error) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	stopping, stopped := ctx.Done(), chan error(nil)
	for {
		select {
		case now := <-second.C:
			n.answers.Tick(now)
		case <-n.books.Done():
			// What is stored is no longer known for sure: the next start reads it.
			n.log.Error("this process ends", "err", n.books.Err())
			return n.books.Err()
		case err := <-ended:
			if stopped == nil {
				return err
			}
		case <-stopping:
			n.log.Info("stopping; payments in flight finish first, and reads are answered until then")
			stopping, stopped = nil, make(chan error, 1)
			go func() {
				n.o.shell.drain.run(shell, n.log, n.watch.Stopping, func() { notifyStopping(n.log) })
				if n.passed.outlive(httpSocket) {
					shell.StopAccepting() // new connections wait for the next process
				}
				stopped <- stopOrigin(n.payments, shell, stopTime, n.log)
			}()
		case err := <-stopped:
			return err
		}
	}
}
