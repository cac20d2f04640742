package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"webring/core"
	"webring/edge"
	"webring/edge/describe"
	"webring/edge/follow"
	"webring/server"
	"webring/server/admin"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/sites/fetch"
)

// controlHeaderTime bounds the reading of a header on the operator's socket.
const controlHeaderTime = 5 * time.Second

func serve(args []string, out io.Writer) error {
	return runProcess(args, out, func() settings { return new(options) }, checkOrigin, func(ctx context.Context, n *runner, s settings) error {
		o := s.(*options)
		o.stamps = ledger.NewClock(testClock(o, n.log), clockPath(o.data), len(o.offers()) == 0)
		o.clock = o.stamps.Now
		return (&originNode{runner: n, o: o}).run(ctx)
	})
}

// originNode is the process of an origin: what it is made of, by its flags, and what it has open.
type originNode struct {
	*runner
	o *options

	origin    *server.Origin
	methods   []paid.Method
	keys      server.Keyring
	listeners []net.Listener
	socket    net.Listener // the operator's
}

// run serves until ctx is done and the stop has come to its end, or until something that serving
// needs fails.
func (n *originNode) run(ctx context.Context) (err error) {
	if err := server.Confirmed(n.o.shell.confirmed).User(n.o.data); err != nil {
		return err
	}
	if err := os.MkdirAll(n.o.data, 0o700); err != nil {
		return err
	}
	if err := unfinished(n.o.data); err != nil {
		return err
	}
	if err := room(n.o.data, server.StartFloor); err != nil {
		return err
	}
	defer n.close()
	if err := n.open(n.o, n.o.data, "the ledger is being opened"); err != nil {
		return err
	}
	sites, err := n.o.sites.fetch()
	if err != nil {
		return err
	}
	client := fetch.New(sites)
	defer client.Close()
	config, err := n.prepare(ctx, client)
	if err != nil {
		return err
	}
	if n.origin, err = server.New(config); err != nil {
		return err
	}
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
	// The ledger is open, so no other process serves this folder.
	if n.listeners, err = n.passed.listen(httpSocket, n.o.shell.open, n.log); err != nil {
		return err
	}
	if n.socket, err = new(server.Operator).Listen(socketPath(n.o.data)); err != nil {
		return err
	}
	if config.Cluster != nil {
		n.watch.Starting("this node has no events yet: it waits for the leader's")
	}
	if err := n.origin.Start(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	go settle(ctx)
	return n.answer(ctx)
}

// prepare makes what the flags describe, and finds mistakes in them before anything is written.
func (n *originNode) prepare(ctx context.Context, sites *fetch.Client) (c server.Config, err error) {
	var networks []core.Network
	if n.methods, networks, err = paymentMethods(n.o); err != nil {
		return c, err
	}
	if err := checkOffers(ctx, n.o.offers(), n.log); err != nil {
		return c, err
	}
	scorer, err := n.o.scorer()
	if err != nil {
		return c, err
	}
	keys, err := challengeKeys(n.o)
	if err != nil {
		return c, err
	}
	n.keys.Make = func() (mpp.Keys, error) { return makeChallengeKey(n.o) }
	if err := n.keys.Set(keys); err != nil {
		return c, err
	}
	witnesses, err := readPolicy("--witness-policy", n.o.witnessPolicy)
	if err != nil {
		return c, err
	}
	prover, err := ownerProofs(n.o)
	if err != nil {
		return c, err
	}
	c = server.Config{
		Data: n.o.data, Ledger: n.o.ledgerConfig(), Rules: newRules(n.o, networks), SnapshotEvery: n.o.snapshotEvery, Witnesses: witnesses, Scorer: scorer, Sites: sites,
		Keys: &n.keys, KeyFiles: func() map[string]string { return keyFiles(n.o) }, PayingWords: n.o.payingWords(), Edge: &n.config, Log: n.log,
		Confirmed: server.Confirmed(n.o.shell.confirmed),
		OpenCore: func(snapshot []byte) (follow.Core, error) {
			return n.o.core.open(context.Background(), n.o.capacity, n.o.data, snapshot, n.log)
		},
		Methods: func() ([]paid.Method, error) {
			methods, _, err := paymentMethods(n.o)
			return methods, err
		},
		Payments: paid.Config{
			Methods: n.methods, Sites: n.o.sites.policy(), Names: n.o.namePolicy(), Realm: n.o.realm, Now: n.o.now, Log: n.log,
			Failpoint: failpoints(n.o, n.log), Told: n.o.stamps.Told, GasBudget: &n.o.gasBudget, Prover: prover, Bazaar: describe.Bazaar,
		},
	}
	c.Ledger.Failpoint = c.Payments.Failpoint
	if n.watch != nil {
		c.Counters = admin.NewCounters()
		n.watch.Add(c.Counters.All()...)
	}
	if n.o.cluster.given() {
		if err := needKeys(n.o); err != nil {
			return c, err
		}
		at, err := n.o.cluster.reachedAt(n.o.shell.listen, n.o.shell.tls.given())
		if err != nil {
			return c, err
		}
		in, err := n.o.cluster.config(n.o.data, at, n.log)
		in.Now, in.Unfenced, in.Shared = n.o.clock, testUnfenced(n.o), sharedSecrets(n.keys.Get, n.config.EdgeSecrets, n.o.data)
		c.Cluster = &in
		return c, err
	}
	return c, refuseMarker(n.o.data)
}

// answer serves clients and the operator until ctx is done and the stop has come to its end, or until
// the origin or a listener fails.
func (n *originNode) answer(ctx context.Context) error {
	cfg := n.config
	var err error
	if cfg.CoreDigest, err = buildName(); err != nil {
		return err
	}
	cfg.ExampleSite = n.o.exampleSite()
	n.origin.Fill(&cfg)
	shell, err := edge.New(cfg)
	if err != nil {
		return err
	}
	defer inBackground(n.origin.CountHops)()
	control := &http.Server{Handler: n.logs.controls(n.origin), ReadHeaderTimeout: controlHeaderTime}
	defer control.Close()

	ended := n.serve(ctx, n.o, shell, n.listeners)
	go func() { ended <- control.Serve(n.socket) }()
	reloadKeys(n.reload, n.o, &n.keys)
	n.traps.Show(n.origin.Core)
	n.started(ctx, shell, n.origin.Watch)
	fmt.Fprintf(n.out, "webring serves %s at %s\n", n.o.baseURL, n.listeners[0].Addr())
	if err := printVerifier(n.out, n.o.data); err != nil {
		return err
	}
	if len(n.methods) == 0 {
		n.log.Warn("no payments are taken: " + howToBePaid)
	}
	announceTests(n.o.offers(), n.log)
	notifyReady(n.log)
	defer keepAlive(n.origin.Core, n.log)()
	return n.attend(ctx, shell, ended)
}

// attend keeps the core's clock, and stops when ctx is done. ended gets the errors of
// listeners.
func (n *originNode) attend(ctx context.Context, shell *edge.Shell, ended <-chan error) error {
	second := time.NewTimer(follow.UntilNextSecond())
	defer second.Stop()
	stopping, stopped := ctx.Done(), chan error(nil)
	for {
		select {
		case <-second.C:
			n.origin.Core.Tick(n.o.now())
			second.Reset(follow.UntilNextSecond())
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
				drain(shell, n.o.shell.drain, n.log, n.watch.Stopping, func() { notifyStopping(n.log) }, n.origin.Depart)
				stopped <- stopOrigin(n.origin.ClosePayments, shell, len(n.passed[httpSocket]) > 0, stopTime, n.log)
			}()
		case err := <-stopped:
			return err
		}
	}
}

// payingWords are what the command line that pays needs besides the request: the address of
// the chain's node, if it is on this machine. Another node's address may be secret.
func (o *options) payingWords() string {
	address, found := strings.CutPrefix(strings.TrimRight(o.tempo.RPC, "/"), "http://")
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

// room says whether the disk of a folder has at least floor bytes free.
func room(dir string, floor uint64) error { return (&server.Volume{Dir: dir}).AtLeast(floor)() }
