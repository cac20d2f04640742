package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"webring/core"
	"webring/core/snap"
	"webring/edge"
	"webring/edge/replica"
	"webring/server"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
	"webring/server/node"
	"webring/server/paid"
	"webring/server/publish"
	"webring/server/tempo"
)

// requiredScore is the least agent-readiness score that may join.
const requiredScore = 40

// closeTime bounds how long a stop waits until the ledger's files are closed. The store
// compacts them meanwhile, and retries for ever if it cannot. The next start does not need
// that: everything that was answered is on disk.
const closeTime = 20 * time.Second

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
	return interrupted(ctx, runOrigin(ctx, o, reload, logs, out))
}

// interrupted wraps an error that comes from the end of ctx, which ends when the process is
// told to.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}

// runOrigin opens everything from the ledger outwards, serves until ctx is
// done, and closes it in the opposite order.
func runOrigin(ctx context.Context, o *options, reload *reloader[options], logs *logs, out io.Writer) (err error) {
	log := logs.Logger
	if err := os.MkdirAll(o.data, 0o700); err != nil {
		return err
	}
	if err := room(o.data, startFloor); err != nil {
		return err
	}
	passed, err := takeSockets()
	if err != nil {
		return err
	}
	watch, err := o.shell.watchOrigin(passed, log)
	if err != nil {
		return err
	}
	defer watch.Close()
	disk, failpoint := &volume{dir: o.data}, failpoints(o, log)
	var answers replica.Core // these are there before the first event is published
	var publisher *publish.Publisher
	books, closeBooks, err := openLedger(o, func(records []ledger.Record) {
		if err := answers.Apply(records); err != nil {
			// The writer's state has taken these events, and the pool falls back to
			// the native core if a module does not. So the two have diverged.
			panic(err)
		}
		publisher.Published(records)
	}, disk.atLeast(writeFloor), log, failpoint, watch.committed())
	if err != nil {
		return err
	}
	answers, err = openReads(ctx, o, books, log)
	if err != nil {
		return errors.Join(err, closeBooks())
	}
	defer func() { err = errors.Join(err, closeBooks(), answers.Close()) }()
	debug.FreeOSMemory() // of what it took to open them, before a first snapshot is made

	// Mistakes in the flags must be found before anything is written: the rules, and the
	// name of the key that signs, stay for ever.
	methods, networks, err := paymentMethods(o)
	if err != nil {
		return err
	}
	offers := o.offers()
	if err := checkOffers(ctx, offers, log); err != nil {
		return err
	}
	scorer, err := openScorer(o, books, log)
	if err != nil {
		return err
	}
	keys, err := challengeKeys(o)
	if err != nil {
		return err
	}
	config, certificates, err := shellConfig(o, log)
	if err != nil {
		return err
	}
	config.Access = logs.access
	watchCertificates(watch.Server, certificates)
	listeners, err := passed.listen(httpSocket, o.shell.listen, log)
	if err != nil {
		return err
	}
	defer closeAll(listeners)
	operator := &server.Operator{Ledger: books, Keys: func() map[string]string { return keyFiles(o) }, Reports: scorer.reports, Log: log}
	socket, err := operator.Listen(socketPath(o.data))
	if err != nil {
		return err
	}
	defer socket.Close()
	rules, err := newRules(ctx, o, books, methods, networks)
	if err != nil {
		return err
	}

	publisher, rotation, err := openPublisher(o, log)
	if err != nil {
		return err
	}
	if keys.Current == nil {
		if keys, err = makeChallengeKey(o); err != nil {
			return err
		}
	}
	if err := setRules(ctx, books, rules); err != nil {
		return err
	}
	if err := publisher.Start(ctx, books); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, publisher.Close()) }()
	go settle(ctx)
	go scorer.sweep(ctx)
	taking := paid.Config{
		Ledger: books, Methods: methods, Scorer: scorer.registrations, DraftScorer: scorer.drafts, Sites: o.sites.policy(), Names: o.namePolicy(),
		Realm: o.realm, Keys: keys, Now: time.Now, Log: log, Ready: disk.atLeast(payFloor), Failpoint: failpoint,
		GasBudget: o.evm.gasBudget,
	}
	watch.payments(&taking)
	payments, err := paid.New(taking)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		if closing := payments.Close(ctx); closing != nil {
			log.Warn("payments in flight stay reserved for the next start", "err", closing)
		}
	}()
	operator.Payments, operator.SigningKeys = payments, rotation

	shell, err := openShell(o, config, answers, payments, scorer, publisher, log)
	if err != nil {
		return err
	}
	control := &http.Server{Handler: logs.controls(operator.Handler()), ReadHeaderTimeout: controlHeaderTime}
	defer control.Close()

	ended := make(chan error, len(listeners)+1)
	for _, l := range listeners {
		go func() { ended <- shell.Serve(l) }()
	}
	go func() { ended <- control.Serve(socket) }()
	if certificates != nil {
		go certificates.Run(ctx)
	}
	reloadFront(reload, front{shell, config.TrustedProxies, config.EdgeSecrets, certificates, logs}, o, (*options).front)
	reloadKeys(reload, o, keys, payments)
	go reload.run(ctx)
	watch.started(ctx, operator, disk, shell, answers, out, log)
	fmt.Fprintf(out, "webring serves %s at %s\n", o.baseURL, listeners[0].Addr())
	current, next := rotation.Keys()
	if err := printKeys(out, current, next); err != nil {
		return err
	}
	if len(methods) == 0 {
		log.Warn("no payments are taken: give --tempo-rpc and --tempo-recipient, or --evm-rpc and what it needs")
	}
	announceTests(offers, log)

	notifyReady(log)
	defer keepAlive(answers, log)()

	second := time.NewTicker(time.Second)
	defer second.Stop()
	stopping, stopped := ctx.Done(), chan error(nil)
	for {
		select {
		case now := <-second.C:
			answers.Tick(now)
		case <-books.Done():
			// What is stored is no longer known for sure: the next start reads it.
			log.Error("this process ends", "err", books.Err())
			return books.Err()
		case err := <-ended:
			if stopped == nil {
				return err
			}
		case <-stopping:
			log.Info("stopping; payments in flight finish first, and reads are answered until then")
			stopping, stopped = nil, make(chan error, 1)
			go func() {
				o.shell.drain.run(shell, log, watch.Stopping, func() { notifyStopping(log) })
				if passed.outlive(httpSocket) {
					shell.StopAccepting() // new connections wait for the next process
				}
				stopped <- stopOrigin(payments, shell, stopTime, log)
			}()
		case err := <-stopped:
			return err
		}
	}
}

// openLedger opens the ledger. It calls publish with durable events, and writes only while
// room allows it; nil: always. The second result closes the ledger, within [closeTime].
func openLedger(o *options, publish func([]ledger.Record), room func() error, log *slog.Logger, failpoint func(string), committed func(time.Duration, error)) (*ledger.Ledger, func() error, error) {
	store, err := badgerstore.Open(filepath.Join(o.data, "ledger"), log)
	if err != nil {
		return nil, nil, err
	}
	books, closeBooks, err := openBooks(store, ledger.Config{
		HeadPath: filepath.Join(o.data, "head"), Capacity: o.capacity, Publish: publish, Room: room, Failpoint: failpoint, Committed: committed,
	})
	return books, func() error {
		closed := make(chan error, 1)
		go func() { closed <- closeBooks() }()
		select {
		case err := <-closed:
			return err
		case <-time.After(closeTime):
			return fmt.Errorf("the files of the ledger could not be closed within %s, which loses nothing: the next start reads them as after a crash", closeTime)
		}
	}, err
}

// openBooks opens the ledger of a store, and gives the function that closes both. It closes
// the store after an error. The store of a ledger that broke is not closed: what failed
// would fail again, and the next start reads what is stored.
func openBooks(store *badgerstore.Store, c ledger.Config) (*ledger.Ledger, func() error, error) {
	c.Store = store
	books, err := ledger.Open(c)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return books, func() error {
		err := books.Close()
		if errors.Is(books.Err(), ledger.ErrBroken) {
			return err
		}
		return errors.Join(err, store.Close())
	}, nil
}

// openReads opens the core that answers reads, at the ledger's position. It opens it from
// the rows of the ledger's state, which costs much less than folding all events again.
func openReads(ctx context.Context, o *options, books *ledger.Ledger, log *slog.Logger) (replica.Core, error) {
	var snapshot []byte
	err := books.Do(ctx, func(tx *ledger.Tx) error {
		if tx.State().Seq() > 0 {
			snapshot = snap.Append(nil, tx.State())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	answers, err := o.core.open(context.Background(), o.capacity, o.data, snapshot, log)
	if err != nil {
		return nil, err
	}
	answers.Tick(time.Now())
	return answers, nil
}

// newRules gives the rules that the flags describe, nil when they have not changed
// since the last event of them, and refuses to change them by a wrong clock.
func newRules(ctx context.Context, o *options, books *ledger.Ledger, methods []paid.Method, networks []core.Network) (*core.Rules, error) {
	want := &core.Rules{Name: o.name, BaseURL: o.baseURL, Fee: int64(o.fee), MinBid: int64(o.minBid),
		Grace: seconds(o.grace), Decay: seconds(o.decay), Networks: networks, Scorer: o.score.spec, RequiredScore: requiredScore, Policies: o.policies.Policies}
	changed := true
	books.View(func(v *ledger.View) {
		if have := v.State().Rules(); have != nil {
			// A ring that was made for measurement stays marked as one.
			want.Synthetic = have.Synthetic
			want.Stamp = have.Stamp
			changed = !reflect.DeepEqual(have, want)
		}
	})
	if !changed {
		return nil, nil
	}
	return want, checkClock(ctx, methods)
}

// setRules writes a rules event, if there is one to be written.
func setRules(ctx context.Context, books *ledger.Ledger, rules *core.Rules) error {
	if rules == nil {
		return nil
	}
	return books.Do(ctx, func(tx *ledger.Tx) error {
		rules.Stamp = tx.Stamp()
		_, err := tx.Append(rules, nil)
		return err
	})
}

// checkClock keeps a wrong clock from stamping an event: after an event in the future, no
// payment is taken until then. A network that does not answer is ignored. If ctx has ended,
// checkClock fails: an operator who stops a start may have seen that its flags are wrong.
func checkClock(ctx context.Context, methods []paid.Method) error {
	const tolerated = 10 * time.Minute // networks stall, too
	for _, m := range methods {
		asked, cancel := context.WithTimeout(ctx, 5*time.Second)
		block, err := m.Clock(asked)
		cancel()
		if err != nil {
			continue
		}
		if apart := time.Since(block).Round(time.Second); apart.Abs() > tolerated {
			return fmt.Errorf("the ring's flags have changed and need an event, but this clock is %s away from the newest block of %s: set the clock, or wait for the network", apart.Abs(), m.Network())
		}
	}
	return ctx.Err()
}

// paymentMethods makes the methods that the flags configure, in the order of
// their offers, and says how they are to be named.
func paymentMethods(o *options) (methods []paid.Method, networks []core.Network, err error) {
	if o.tempoRPC != "" {
		currency := common.Address(o.tempoCurrency)
		m, err := tempo.New(tempo.Config{RPC: o.tempoRPC, ChainID: o.tempoChainID, Depth: o.tempoDepth, Currency: currency, Recipient: common.Address(o.tempoRecipient)})
		if err != nil {
			return nil, nil, err
		}
		methods = append(methods, m)
		networks = append(networks, core.Network{Name: m.Network(), Method: m.Name(), Currency: node.LowerHex(currency)})
	}
	m, network, err := o.evm.method()
	if err != nil {
		return nil, nil, err
	}
	if m != nil {
		methods, networks = append(methods, m), append(networks, network)
	}
	return methods, networks, nil
}

// openShell makes the shell of what the flags say of it and of what it answers with.
func openShell(o *options, cfg edge.Config, answers replica.Core, payments *paid.Service, scorer *sitesScorer, publisher *publish.Publisher, log *slog.Logger) (*edge.Shell, error) {
	var err error
	if cfg.CoreDigest, err = buildName(); err != nil {
		return nil, err
	}
	cfg.Core, cfg.ExampleSite, cfg.Log = answers, o.exampleSite(), log
	cfg.NoCache = !o.core.keep
	cfg.Paid = map[string]edge.Handler{
		"/api/register": server.Paid(payments, paid.OpRegister, edge.Body),
		"/api/bid":      server.Paid(payments, paid.OpBid, edge.Body),
	}
	cfg.Check = server.Check(payments, answers.BaseURL, o.payingWords())
	cfg.Sync = publish.Handlers(publisher, answers.BaseURL)
	scorer.serve(&cfg)
	return edge.New(cfg)
}

// payingWords are what the command line that pays needs beside the request: the address of
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

// buildDigest is the SHA-256 of this binary, in hexadecimal.
func buildDigest() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// failpoints ends the process, as a power cut would, when it comes to the step
// that WEBRING_FAILPOINT names for the n-th time: "head:2", or "head" for the
// first. It is for the project's own tests and needs --dev.
func failpoints(o *options, log *slog.Logger) func(string) {
	step, count, _ := strings.Cut(os.Getenv("WEBRING_FAILPOINT"), ":")
	if step == "" || !o.sites.dev {
		return func(string) {}
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		n = 1
	}
	var seen atomic.Int64
	return func(at string) {
		if at == step && seen.Add(1) == int64(n) {
			log.Warn("failpoint reached; this process ends now", "step", at)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// socketPath is where the operator reaches a running origin.
func socketPath(data string) string { return filepath.Join(data, "operator.sock") }
