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
	"sync/atomic"
	"time"

	"webring/core"
	"webring/edge"
	"webring/edge/follow"
	"webring/server"
	serverhops "webring/server/aside/hops"
	"webring/server/aside/search"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/sites/fetch"
	"webring/server/sites/visits"
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
	o.stamps = ledger.NewClock(testClock(o, logs.Logger), clockPath(o.data), o.tempoRPC == "" && o.evm.rpc == "")
	o.clock = o.stamps.Now
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

// originNode is an origin with what it has open for its whole life, whatever its role: run
// opens it, prepare adds what the flags describe, and answer serves.
type originNode struct {
	o         *options
	reload    *reloader[options]
	logs      *logs
	log       *slog.Logger
	out       io.Writer
	disk      *volume
	failpoint func(string)

	// Of run.
	passed    passedSockets
	watch     *originWatch
	books     currentBooks
	answers   follow.Core
	published func([]ledger.Record) // who else is told of durable events; set while nothing is written
	moved     *moves                // of what readers see; nil for the only origin
	desk      desk
	visitor   atomic.Pointer[visits.Visitor]                 // nil while this node does not lead
	passHops  func(ctx context.Context, report []byte) error // to the node that leads; nil for the only origin

	// Of prepare.
	methods      []paid.Method
	sites        *fetch.Client // reads strangers' sites
	networks     []core.Network
	scorer       *sitesScorer
	hops         *serverhops.Store
	found        *search.Index
	keys         challengeKeyring
	config       edge.Config
	certificates certificates // nil without TLS
	listeners    []net.Listener
	socket       net.Listener // the operator's
}

// run serves until ctx is done and the stop has come to its end, or until something fails
// without which there is no serving.
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
	if n.o.cluster.given() {
		return n.runMember(ctx)
	}
	if err := refuseMarker(n.o.data); err != nil {
		return err
	}
	return n.runAlone(ctx)
}

// openAnswers opens the core that answers reads at the position of the ledger, which
// publishes to it from then on.
func (n *originNode) openAnswers(b books) (err error) {
	n.books.set(b)
	n.answers, err = openReads(n.o, b, n.log)
	debug.FreeOSMemory() // of what it took to open both, before a first snapshot is made
	return err
}

// publish has readers and edges see durable events. Nothing is written before openAnswers.
func (n *originNode) publish(records []ledger.Record) {
	if err := n.answers.Apply(records); err != nil {
		// The writer's state has taken these events, and the pool falls back to
		// the native core if a module does not. So the two have diverged.
		panic(err)
	}
	if n.published != nil {
		n.published(records)
	}
	n.moved.tell()
}

// prepare makes what the flags describe, and finds mistakes in them before anything is
// written. What it has opened is for release, also after an error.
func (n *originNode) prepare(ctx context.Context) (err error) {
	if n.methods, n.networks, err = paymentMethods(n.o); err != nil {
		return err
	}
	if err := checkOffers(ctx, n.o.offers(), n.log); err != nil {
		return err
	}
	sites, err := n.o.sites.fetch()
	if err != nil {
		return err
	}
	n.sites = fetch.New(sites)
	if n.scorer, err = openScorer(n.o, n.sites, &n.books, n.log); err != nil {
		return err
	}
	n.hops = serverhops.New(&n.books, n.o.now, n.log)
	n.found = search.New(&n.books)
	if err := n.keys.open(n.o); err != nil {
		return err
	}
	if n.config, n.certificates, err = shellConfig(n.o, n.log); err != nil {
		return err
	}
	n.config.Access = n.logs.access
	watchCertificates(n.watch.Server, n.certificates)
	if n.listeners, err = n.passed.listen(httpSocket, n.o.shell.open, n.log); err != nil {
		n.listeners = nil
		return err
	}
	n.socket, err = new(server.Operator).Listen(socketPath(n.o.data))
	return err
}

// release closes what prepare has opened.
func (n *originNode) release() {
	closeAll(n.listeners)
	if n.socket != nil {
		n.socket.Close()
	}
	if n.sites != nil {
		n.sites.Close()
	}
}

// answer serves clients and the operator until ctx is done and the stop has come to its
// end, or until r or a listener fails.
func (n *originNode) answer(ctx context.Context, r roles) error {
	shell, counting, err := n.openShell()
	if err != nil {
		return err
	}
	defer inBackground(counting)()
	control := &http.Server{Handler: n.logs.controls(&n.desk), ReadHeaderTimeout: controlHeaderTime}
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
	reloadKeys(n.reload, n.o, &n.keys)
	go n.reload.run(ctx)
	n.watch.started(n, r, shell)
	if err := n.announce(); err != nil {
		return err
	}
	notifyReady(n.log)
	defer keepAlive(n.answers, n.log)()
	return n.attend(ctx, shell, r, ended)
}

// announce says where the ring is, and what may surprise its operator.
func (n *originNode) announce() error {
	fmt.Fprintf(n.out, "webring serves %s at %s\n", n.o.baseURL, n.listeners[0].Addr())
	if err := printVerifier(n.out, n.o.data); err != nil {
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
func (n *originNode) attend(ctx context.Context, shell *edge.Shell, r roles, ended <-chan error) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	stopping, stopped := ctx.Done(), chan error(nil)
	for {
		select {
		case <-second.C:
			n.answers.Tick(n.o.now())
		case <-r.failed():
			// What is stored is no longer known for sure: the next start reads it.
			n.log.Error("this process ends", "err", r.err())
			return r.err()
		case err := <-ended:
			if stopped == nil {
				return err
			}
		case <-stopping:
			n.log.Info("stopping; payments in flight finish first, and reads are answered until then")
			stopping, stopped = nil, make(chan error, 1)
			go func() {
				n.o.shell.drain.run(shell, n.log, n.watch.Stopping, func() { notifyStopping(n.log) }, r.depart)
				if n.passed.outlive(httpSocket) {
					shell.StopAccepting() // new connections wait for the next process
				}
				stopped <- stopOrigin(r, shell, stopTime, n.log)
			}()
		case err := <-stopped:
			return err
		}
	}
}
