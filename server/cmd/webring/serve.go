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
	"net/netip"
	"os"
	"strings"
	"time"

	"webring/core"
	"webring/edge"
	"webring/edge/follow"
	"webring/server"
	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/publish"
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

// originNode is the process of an origin: what it is made of, by its flags, and what it has open.
type originNode struct {
	o         *options
	reload    *reloader[options]
	logs      *logs
	log       *slog.Logger
	out       io.Writer
	disk      *volume
	failpoint func(string)

	passed       passedSockets
	watch        *originWatch
	origin       *server.Origin
	books        server.Books
	methods      []paid.Method
	sites        *fetch.Client // reads strangers' sites
	scorer       *sitesScorer
	hops         *aside.Hops
	passHops     func(ctx context.Context, report []byte) error // to the node that leads; nil for the only origin
	found        *aside.Index
	keys         server.Keyring
	config       edge.Config
	certificates certificates // nil without TLS
	listeners    []net.Listener
	socket       net.Listener // the operator's
}

// run serves until ctx is done and the stop has come to its end, or until something that serving
// needs fails.
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
	defer n.release()
	config, err := n.prepare(ctx)
	if err != nil {
		return err
	}
	n.origin = server.New(config)
	if err := n.origin.Open(); err != nil {
		return err
	}
	defer func() {
		// Nothing is accepted any more while the origin closes, and the socket goes while this
		// process has the lock of the folder.
		closeAll(n.listeners)
		if n.socket != nil {
			n.socket.Close()
		}
		within, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		err = errors.Join(err, n.origin.Close(within))
	}()
	if err := n.listen(); err != nil {
		return err
	}
	if config.Cluster != nil {
		n.watch.Starting("this node has no events yet: it waits for the leader's")
	}
	if err := n.origin.Start(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	if node := n.origin.Node(); node != nil {
		n.passHops = sendHops(node.Forwarder())
	}
	go settle(ctx)
	return n.answer(ctx)
}

// prepare makes what the flags describe, and finds mistakes in them before anything is written.
// Release closes what it has opened, even after an error.
func (n *originNode) prepare(ctx context.Context) (c server.Config, err error) {
	var networks []core.Network
	if n.methods, networks, err = paymentMethods(n.o); err != nil {
		return c, err
	}
	if err := checkOffers(ctx, n.o.offers(), n.log); err != nil {
		return c, err
	}
	sites, err := n.o.sites.fetch()
	if err != nil {
		return c, err
	}
	n.sites = fetch.New(sites)
	if n.scorer, err = openScorer(n.o, n.sites, &n.books, n.log); err != nil {
		return c, err
	}
	n.hops, n.found = aside.NewHops(&n.books, n.o.now, n.log), aside.NewIndex(&n.books)
	keys, err := challengeKeys(n.o)
	if err != nil {
		return c, err
	}
	n.keys.Make = func() (mpp.Keys, error) { return makeChallengeKey(n.o) }
	if err := n.keys.Set(keys); err != nil {
		return c, err
	}
	if n.config, n.certificates, err = shellConfig(n.o, n.log); err != nil {
		return c, err
	}
	n.config.Access = n.logs.access
	watchCertificates(n.watch.Server, n.certificates)
	prover, err := ownerProofs(n.o)
	if err != nil {
		return c, err
	}
	c = server.Config{
		Data: n.o.data, Books: &n.books, Ledger: n.o.ledgerConfig(), Rules: newRules(n.o, networks), Reports: n.scorer.reports, Keys: &n.keys, PayingWords: n.o.payingWords(),
		Edge: &n.config, Leading: n.leading, Log: n.log,
		KeyFiles:  func() map[string]string { return keyFiles(n.o) },
		Verifiers: func() ([]string, error) { return verifiersOf(n.o.data) },
		OpenCore: func(snapshot []byte) (follow.Core, error) {
			return n.o.core.open(context.Background(), n.o.capacity, n.o.data, snapshot, n.log)
		},
		Methods: func() ([]paid.Method, error) {
			methods, _, err := paymentMethods(n.o)
			return methods, err
		},
		Publisher: func(until publish.Until) (*publish.Publisher, error) { return openPublisher(n.o, until, n.log) },
		Payments: paid.Config{
			Methods: n.methods, Scorer: n.scorer.registrations, DraftScorer: n.scorer.drafts, Sites: n.o.sites.policy(), Names: n.o.namePolicy(),
			Realm: n.o.realm, Now: n.o.now, Log: n.log, Ready: n.disk.atLeast(payFloor), Failpoint: n.failpoint,
			Told: n.o.stamps.Told, GasBudget: n.o.evm.gasBudget, Prover: prover, MemberSites: server.MemberSites{Client: n.sites},
		},
		Visits: visits.Config{Fetch: n.sites, Now: n.o.now, Log: n.log},
	}
	c.Ledger.Room, c.Ledger.Failpoint, c.Ledger.Committed = n.disk.atLeast(writeFloor), n.failpoint, n.watch.committed()
	n.watch.payments(&c.Payments)
	n.watch.visits(&c.Visits)
	if n.o.cluster.given() {
		c.Cluster, err = n.clusterConfig()
		return c, err
	}
	return c, refuseMarker(n.o.data)
}

// leading starts what runs while this origin leads.
func (n *originNode) leading(ctx context.Context, l *server.Leader) {
	go n.scorer.sweep(ctx)
	go n.hops.Run(ctx)
	go n.watch.lookForOdd(ctx, l.Operator, n.log)
}

// listen opens the listeners and the operator's socket. The ledger is open, so no other process
// serves this folder.
func (n *originNode) listen() (err error) {
	if n.listeners, err = n.passed.listen(httpSocket, n.o.shell.open, n.log); err != nil {
		n.listeners = nil
		return err
	}
	n.socket, err = new(server.Operator).Listen(socketPath(n.o.data))
	return err
}

// release closes what prepare and listen have opened.
func (n *originNode) release() {
	closeAll(n.listeners)
	if n.socket != nil {
		n.socket.Close()
	}
	if n.sites != nil {
		n.sites.Close()
	}
}

// answer serves clients and the operator until ctx is done and the stop has come to its end, or until
// the origin or a listener fails.
func (n *originNode) answer(ctx context.Context) error {
	shell, counting, err := n.openShell()
	if err != nil {
		return err
	}
	defer inBackground(counting)()
	control := &http.Server{Handler: n.logs.controls(n.origin), ReadHeaderTimeout: controlHeaderTime}
	defer control.Close()

	ended := make(chan error, len(n.listeners)+1)
	for _, l := range n.listeners {
		go func() { ended <- shell.Serve(l) }()
	}
	go func() { ended <- control.Serve(n.socket) }()
	if n.certificates != nil {
		go n.certificates.Run(ctx)
	}
	reloadFront(n.reload, frontParts{shell, n.config.TrustedProxies, n.config.EdgeSecrets, n.certificates, n.logs}, n.o, (*options).front)
	reloadKeys(n.reload, n.o, &n.keys)
	go n.reload.run(ctx)
	n.watch.started(n, shell)
	if err := n.announce(); err != nil {
		return err
	}
	notifyReady(n.log)
	defer keepAlive(n.origin.Core, n.log)()
	return n.attend(ctx, shell, ended)
}

// openShell makes the shell. counting reports the hops that it counts until its context ends.
func (n *originNode) openShell() (shell *edge.Shell, counting func(context.Context), err error) {
	cfg := n.config
	if cfg.CoreDigest, err = buildName(); err != nil {
		return nil, nil, err
	}
	cfg.ExampleSite, cfg.Log, cfg.NoCache = n.o.exampleSite(), n.log, !n.o.core.keep
	n.origin.Fill(&cfg)
	counting = n.countHops(&cfg)
	shell, err = edge.New(cfg)
	return shell, counting, err
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
func (n *originNode) attend(ctx context.Context, shell *edge.Shell, ended <-chan error) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	stopping, stopped := ctx.Done(), chan error(nil)
	for {
		select {
		case <-second.C:
			n.origin.Core.Tick(n.o.now())
		case <-n.origin.Failed():
			// What is stored is no longer known for sure: the next start reads it.
			n.log.Error("this process ends", "err", n.origin.Err())
			return n.origin.Err()
		case err := <-ended:
			if stopped == nil {
				return err
			}
		case <-stopping:
			n.log.Info("stopping; payments in flight finish first, and reads are answered until then")
			stopping, stopped = nil, make(chan error, 1)
			go func() {
				n.o.shell.drain.run(shell, n.log, n.watch.Stopping, func() { notifyStopping(n.log) }, n.origin.Depart)
				if n.passed.outlive(httpSocket) {
					shell.StopAccepting() // new connections wait for the next process
				}
				stopped <- stopOrigin(n.origin.ClosePayments, shell, stopTime, n.log)
			}()
		case err := <-stopped:
			return err
		}
	}
}

// payingWords are what the command line that pays needs besides the request: the address of
// the chain's node, if it is on this machine. Another node's address may be secret.
func (o *options) payingWords() string {
	address, found := strings.CutPrefix(strings.TrimRight(o.tempoRPC, "/"), "http://")
	at, err := netip.ParseAddrPort(address)
	if !found || err != nil || !at.Addr().IsLoopback() {
		return ""
	}
	return "-r http://" + at.String()
}

// exampleSite is a site that may join this ring: one that the flags for
// development admit, or the ring's own when it has a public name.
func (o *options) exampleSite() string {
	policy := o.sites.policy()
	for _, pattern := range policy.AllowHosts {
		return "https://" + strings.Replace(pattern, "*.", "example.", 1)
	}
	if _, _, err := policy.Canonical(o.baseURL); err == nil {
		return o.baseURL
	}
	return "https://my-agent.dev"
}
