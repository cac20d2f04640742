package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"webring/core/api"
	"webring/edge"
	"webring/edge/forward"
	"webring/server/admin"
)

// runner is what the processes of an origin and of an edge have in common.
type runner struct {
	shell  *shellFlags
	reload *reloader
	logs   *logs
	log    *slog.Logger
	out    io.Writer

	passed       passedSockets
	watch        *admin.Server // nil without
	traps        admin.Traps
	config       edge.Config  // of the shell
	certificates certificates // nil without TLS
}

// runProcess reads the settings of a process, and runs it until it is told to stop. With --check it
// only tries them.
func runProcess(args []string, out io.Writer, fresh func() settings, check func([]string, io.Writer) error, run func(context.Context, *runner, settings) error) error {
	s, reload, err := load(args, fresh)
	shell, _ := s.front()
	if shell.check && !errors.Is(err, flag.ErrHelp) {
		return check(args, out)
	}
	if err != nil {
		return err
	}
	logs, err := shell.logs.open(os.Stderr)
	if err != nil {
		return err
	}
	defer logs.close()
	reload.log = logs.Logger
	ctx, release := stopSignals(logs.Logger)
	defer release()
	err = run(ctx, &runner{shell: shell, reload: reload, logs: logs, log: logs.Logger, out: out}, s)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted: %w", err)
	}
	return err
}

// open takes the sockets that a supervisor has passed, opens the listener for operators, and reads
// edge secrets and certificates. starting is what the process is at until it has started.
func (n *runner) open(s settings, data, starting string) (err error) {
	if n.passed, err = takeSockets(); err != nil {
		return err
	}
	if n.watch, err = n.shell.watch(n.passed, n.log); err != nil {
		return err
	}
	n.watch.Starting(starting)
	n.config.Log, n.config.Access = n.log, n.logs.access
	_, path := s.front()
	if n.config.EdgeSecrets, err = openEdgeSecrets(path); err != nil {
		return err
	}
	n.certificates, err = n.shell.fill(&n.config, data, n.watch, n.log)
	return err
}

// close ends the listener for operators.
func (n *runner) close() { n.watch.Close() }

// serve answers clients. ended gets the errors of listeners, and has room for one more.
func (n *runner) serve(ctx context.Context, s settings, shell *edge.Shell, listeners []net.Listener) (ended chan error) {
	ended = make(chan error, len(listeners)+1)
	for _, l := range listeners {
		go func() { ended <- shell.Serve(l) }()
	}
	if n.certificates != nil {
		go n.certificates.Run(ctx)
	}
	reloadFront(n.reload, s, shell, &n.config, n.certificates, n.logs)
	return ended
}

// started has the process reload on hangups, and be collected from. watch has readiness depend on
// what it consists of.
func (n *runner) started(ctx context.Context, shell *edge.Shell, watch func(*admin.Server)) {
	go n.reload.run(ctx)
	if n.watch != nil {
		n.watch.Add(shell.Metrics(), n.traps.Metric())
		watch(n.watch)
		fmt.Fprintf(n.out, "webring is watched at %s\n", n.watch.Addr())
	}
}

// stopSignals gives a context that ends with the first SIGTERM, which asks for a stop
// that loses nothing. SIGINT, and any signal after the first SIGTERM, end the process at
// once, as a crash would: what it had promised is on the disk. release ends the watch.
func stopSignals(log *slog.Logger) (ctx context.Context, release func()) {
	ctx, stop := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	released := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if s == syscall.SIGTERM && ctx.Err() == nil {
					stop()
					continue
				}
				log.Warn("this process ends at once; payments in flight stay reserved, the next start goes on with them, and who sends the same credential again gets the outcome", "signal", s.String())
				signal.Reset(s)
				_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
				// A process can have been started to ignore it, as shells start those in
				// the background.
				time.Sleep(time.Second)
				os.Exit(128 + int(s.(syscall.Signal)))
			case <-released:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(released)
		stop()
	}
}

// drain is the first part of a stop. It calls the functions first, which say that the node is
// not ready any more. Then everything goes on as before, except that connections end with
// their next answer.
//
// Payments are taken, too. One that is taken now has all of [stopTime] left once the drain
// is over, which is longer than a transaction holds its request; to refuse it would fail payers
// that a balancer still sends here. What takes longer stays reserved for the next start,
// as ever.
func drain(shell *edge.Shell, t time.Duration, log *slog.Logger, first ...func()) {
	for _, tell := range first {
		tell()
	}
	shell.Drain()
	if t == 0 {
		return
	}
	log.Info("stopping: this node is not ready any more, and answers for as long as balancers may take to notice", "drain", t)
	time.Sleep(t)
}

// stopTime bounds how long a stop waits for payments in flight: a Tempo transaction
// holds its request for at most 90 seconds, and 10 more. What takes
// longer, as an authorisation may, stays reserved for the next start.
const stopTime = 110 * time.Second

// answerTime is how long a stop then has to answer the requests that still wait: their
// clients are told to ask again.
const answerTime = 5 * time.Second

// stopOrigin closes payments and shell. Reads are answered until payments are over, and new
// payments are refused meanwhile. If the sockets were passed to this process, they stay open,
// and new connections wait there for the next process. So shell is closed first, and each
// request that was accepted is answered as ever, payments included.
func stopOrigin(closePayments func(context.Context) error, shell *edge.Shell, passed bool, patience time.Duration, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience+answerTime)
	defer cancel()
	settled, enough := context.WithTimeout(ctx, patience)
	defer enough()
	ended := make(chan error, 1)
	end := func() { ended <- shut(ctx, shell, log) }
	if passed {
		go end()
		select {
		case err := <-ended:
			ended <- err
		case <-settled.Done():
		}
	}
	if err := closePayments(settled); err != nil {
		log.Warn("payments in flight stay reserved for the next start", "err", err)
	}
	if !passed {
		end()
	}
	return <-ended
}

// stopEdge closes shell, and has forwarder wait no longer for the origin when
// patience has ended.
func stopEdge(forwarder *forward.Forwarder, shell *edge.Shell, patience time.Duration, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience+answerTime)
	defer cancel()
	enough := time.AfterFunc(patience, func() {
		log.Warn("what the origin has not answered is given up; payers are told to send their payment again")
		forwarder.Close()
	})
	defer enough.Stop()
	return shut(ctx, shell, log)
}

// shut closes shell. A client that is too slow to take its answer before ctx ends is no
// error.
func shut(ctx context.Context, shell *edge.Shell, log *slog.Logger) error {
	err := shell.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		log.Warn("not everybody has taken an answer; the connections end")
		return nil
	}
	return err
}

// The names of sockets that a supervisor may pass (FileDescriptorName= of systemd.socket).
const (
	httpSocket  = "http"
	adminSocket = "admin"
)

// passedSockets are the listeners that a supervisor opened for this process before it
// started (sd_listen_fds(3)), by name. They outlive the process: what connects while
// there is none waits in the kernel for the next one.
type passedSockets map[string][]net.Listener

// takeSockets takes what was passed. A single socket is the one that answers clients,
// whatever its name, unless that is [adminSocket].
func takeSockets() (passedSockets, error) {
	files := activation.Files(true)
	passed := passedSockets{}
	for _, f := range files {
		name := f.Name()
		if name != adminSocket && len(files) == 1 {
			name = httpSocket
		}
		if name != httpSocket && name != adminSocket {
			return nil, fmt.Errorf("a socket was passed to this process under the name %q; the names are %s and %s (FileDescriptorName=)", name, httpSocket, adminSocket)
		}
		l, err := net.FileListener(f)
		if err != nil {
			return nil, fmt.Errorf("the socket %s that was passed to this process: %w", name, err)
		}
		f.Close() // the listener has its own
		passed[name] = append(passed[name], l)
	}
	return passed, nil
}

// listen gives the sockets that were passed under a name, or else the one that open opens.
func (p passedSockets) listen(name string, open func() (net.Listener, error), log *slog.Logger) ([]net.Listener, error) {
	if passed := p[name]; len(passed) > 0 {
		for _, l := range passed {
			log.Info("listening on a socket that was passed to this process", "name", name, "address", l.Addr().String())
		}
		return passed, nil
	}
	l, err := open()
	if err != nil {
		return nil, err
	}
	return []net.Listener{l}, nil
}

// closeAll closes listeners; to close one twice does no harm.
func closeAll(listeners []net.Listener) {
	for _, l := range listeners {
		l.Close()
	}
}

// notify tells the supervisor about the state of this process (sd_notify(3)), if it asked
// to be told.
func notify(state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("the supervisor could not be told", "state", state, "err", err)
	}
}

func notifyReady(log *slog.Logger)     { notify(daemon.SdNotifyReady, log) }
func notifyReloading(log *slog.Logger) { notify(daemon.SdNotifyReloading, log) }
func notifyStopping(log *slog.Logger)  { notify(daemon.SdNotifyStopping, log) }

// answering is what a watchdog asks: a core that answers reads.
type answering interface {
	Serve(target []byte, r *api.Response)
}

// keepAlive tells the supervisor's watchdog, if there is one, that this process is alive:
// each time that the core has answered a read. end ends that, and waits for it.
func keepAlive(core answering, log *slog.Logger) (end func()) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the supervisor's watchdog is not told anything", "err", err)
	}
	if interval <= 0 {
		return func() {}
	}
	return inBackground(func(ctx context.Context) {
		every := time.NewTicker(interval / 3)
		defer every.Stop()
		var r api.Response
		for {
			core.Serve([]byte("/api"), &r)
			notify(daemon.SdNotifyWatchdog, log)
			select {
			case <-every.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// inBackground runs a function until end is called, which waits for its end.
func inBackground(run func(ctx context.Context)) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// A ring's state is a few large allocations without pointers. The collector scans them at no
// cost, but by default it lets garbage grow to the size of the live heap, so a large ring
// would take twice the memory that it needs.
const (
	// openingPercent is GOGC while a ring is opened: garbage as a percentage of the live
	// heap.
	openingPercent = 20
	// garbage bounds the garbage while a ring is served, in bytes, unless the usual
	// percentage allows less.
	garbage = 256 << 20
)

// collectOften sets the percentage for opening a ring.
func collectOften() { collectAt(openingPercent) }

// settle frees the memory that opening a ring has needed, and a moment later what was in
// work meanwhile: the state on its way to disk, and further instances. Until ctx is done it
// adjusts the collector's percentage to the live heap, and frees memory again when that has
// shrunk by much.
func settle(ctx context.Context) {
	again := time.NewTicker(10 * time.Second)
	defer again.Stop()
	for round, most, pace := 0, uint64(0), 0; ; round++ {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}} // of the last collection
		metrics.Read(live)
		use := live[0].Value.Uint64()
		if round < 2 || most > use+garbage/2 {
			debug.FreeOSMemory()
			most = 0
		}
		most = max(most, use)
		if p := int(100 * garbage / max(use, garbage)); p != pace {
			collectAt(p)
			pace = p
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// collectAt sets the percentage unless GOGC is set.
func collectAt(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(max(percent, 1))
	}
}
