package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/snap"
	"webring/edge"
	"webring/edge/cache"
	"webring/edge/follow"
	"webring/edge/forward"
	"webring/edge/hops"
	"webring/edge/voucher"
	"webring/server"
	"webring/server/admin"
	"webring/server/ledger/badgerstore"
	"webring/server/publish"
	"webring/wasm/module"
)

// edgeCapacity is more than any origin's, which is the bound that counts.
const edgeCapacity = 50_000_000

// edgeOptions are the flags of `webring edge`.
type edgeOptions struct {
	data, edgeSecretFile string
	origins, originKeys  list

	replay, check bool
	readyAge      time.Duration

	shell shellFlags
	core  coreFlags
}

func (o *edgeOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring edge", flag.ContinueOnError)
	defineConfig(fs)
	defineCheck(fs, &o.check)
	fs.StringVar(&o.data, "data", "./edge-data", "`folder` of the last good state; the start makes it if it is missing")
	fs.Var(&o.origins, "origin", "`URL` of the origin; of a cluster's nodes each, of which one is asked and then the next (repeatable)")
	fs.Var(&o.originKeys, "origin-key", "`verifier` of the origin's checkpoints, as webring serve prints it; while the origin changes its key, also the next one (repeatable)")
	fs.StringVar(&o.edgeSecretFile, "edge-secret-file", "", edgeSecretUsage)
	fs.BoolVar(&o.replay, "replay", false, "fold every event instead of trusting a snapshot")
	o.readyAge = 10 * time.Minute
	fs.Var((*duration)(&o.readyAge), "ready-age", "`time` since the newest checkpoint after which /readyz says no; 0 for never")
	o.shell.define(fs)
	o.core.define(fs, "wasm")
	return fs
}

func (o *edgeOptions) validate() error {
	var errs []error
	if len(o.origins) == 0 {
		errs = append(errs, errors.New("--origin is needed: the URL to follow"))
	}
	if _, err := follow.NewOrigins(o.origins...); err != nil {
		errs = append(errs, fmt.Errorf("--origin: %w", err))
	}
	if len(o.originKeys) == 0 {
		errs = append(errs, errors.New("--origin-key is needed: webring serve prints it at every start, and webring version --data DIR"))
	}
	if o.data == "" {
		errs = append(errs, errors.New("--data must not be empty"))
	}
	if o.readyAge < 0 {
		errs = append(errs, errors.New("--ready-age must not be negative"))
	}
	return errors.Join(append(errs, o.shell.validate(), o.core.validate())...)
}

func runEdge(args []string, out io.Writer) error {
	given, reload, err := load(args, func() settings { return new(edgeOptions) })
	o := given.(*edgeOptions)
	if o.check && !errors.Is(err, flag.ErrHelp) {
		return checkEdge(args, out)
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
	return interrupted(ctx, serveEdge(ctx, o, reload, logs, out))
}

// front gives the flags that [reloadFront] needs.
func (o *edgeOptions) front() (*shellFlags, string) { return &o.shell, o.edgeSecretFile }

// serveEdge serves what the origin publishes until ctx is done.
func serveEdge(ctx context.Context, o *edgeOptions, reload *reloader, logs *logs, out io.Writer) (err error) {
	log := logs.Logger
	secrets, err := openEdgeSecrets(o.edgeSecretFile)
	if err != nil {
		return err
	}
	if secrets == nil {
		log.Warn("the origin takes all who pay through this edge for one client: give both --edge-secret-file")
	}
	config := edge.Config{EdgeSecrets: secrets, NoCache: !o.core.keep, Log: log, Access: logs.access}
	passed, err := takeSockets()
	if err != nil {
		return err
	}
	watch, err := o.shell.watch(passed, log)
	if err != nil {
		return err
	}
	defer watch.Close()
	watch.Starting("the replica has nothing to show yet: it asks " + strings.Join(o.origins, " and "))
	certificates, err := o.shell.fill(&config, o.data, watch, log)
	if err != nil {
		return err
	}
	folder, err := holdFolder(o.data, log)
	if err != nil {
		return err
	}
	defer folder.Close()
	defer logs.listenEdge(o.data)()
	digest, err := module.Digest()
	if err != nil && !errors.Is(err, module.ErrMissing) {
		return err
	}
	surface := &surface{log: log}
	if surface.build, err = buildName(); err != nil {
		return err
	}
	cfg := follow.Config{
		Origins: o.origins, Keys: o.originKeys, Dir: replicaPath(o.data), Replay: o.replay,
		Module: digest, Show: surface.show, Log: log, MaxSnapshot: o.core.mostSnapshot(),
		Open: func(ctx context.Context, snapshot []byte) (follow.Core, error) {
			return o.core.open(ctx, edgeCapacity, o.data, snapshot, log)
		},
	}
	if secrets != nil {
		if cfg.Vouch, err = voucher.ForOwn(secrets); err != nil {
			return err
		}
	}
	r, err := follow.New(ctx, cfg)
	if err != nil {
		return err
	}
	watched := &admin.Edge{Replica: r}
	watch.Add(watched)
	following, end := context.WithCancel(context.Background())
	var done sync.WaitGroup
	run := sync.OnceFunc(func() { done.Go(func() { r.Run(following) }) })
	defer func() {
		end()
		done.Wait()
		err = errors.Join(err, r.Close())
	}()
	select {
	case <-r.Ready(): // from disk: readers come first
	default:
		run()
		select {
		case <-r.Ready():
		case <-ctx.Done():
			return nil
		}
	}
	return o.answer(ctx, r, run, surface, config, certificates, passed, watch, watched, reload, logs, out)
}

// replicaPath is the folder of an edge's last good state.
func replicaPath(data string) string { return filepath.Join(data, "replica") }

// holdFolder takes an edge's folder for this process, since two edges would remove each
// other's files. Where the folder cannot be locked the log says so, and the edge goes on:
// it does without one that cannot be made or opened, and where the file system has no
// locks only the operator can keep others away.
func holdFolder(dir string, log *slog.Logger) (*os.File, error) {
	err := os.MkdirAll(dir, 0o700)
	var lock *os.File
	if err == nil {
		lock, err = badgerstore.Lock(dir)
	}
	switch {
	case errors.Is(err, badgerstore.ErrLocked):
		return nil, fmt.Errorf("another process keeps its state in %s: give each edge a folder of its own with --data", dir)
	case err != nil:
		log.Warn("the folder of this edge cannot be locked: nothing keeps another one from it", "err", err)
	}
	return lock, nil
}

// answer serves a replica that has a state, and starts run once it listens. cfg is the
// shell's configuration by the flags.
func (o *edgeOptions) answer(ctx context.Context, r *follow.Replica, run func(), surface *surface, cfg edge.Config, certificates certificates, passed passedSockets, watch *admin.Server, watched *admin.Edge, reload *reloader, logs *logs, out io.Writer) error {
	log := logs.Logger
	answers := surface.answers
	forwarder, err := forward.New(forward.Config{Origins: o.origins, Secrets: cfg.EdgeSecrets, Reach: r.Reach, Answered: r.Nudge,
		TrustedProxies: cfg.TrustedProxies, BaseURL: answers.BaseURL, Log: log})
	if err != nil {
		return err
	}
	defer forwarder.Close()
	cfg.Core, cfg.Stale, cfg.Sync = answers, r.Stale, syncHandlers(r, forwarder, answers.BaseURL)
	cfg.Paid, cfg.Others = map[string]edge.Handler{}, map[string]edge.Handler{}
	for pattern := range server.PaidOperations {
		cfg.Paid[pattern] = forwarder.Paid
	}
	for _, pattern := range server.OnlyAtOrigin {
		cfg.Others[pattern] = forwarder.Pass
	}
	counting := countHops(&cfg, forwarder, r)
	shell, err := edge.New(cfg)
	if err != nil {
		return err
	}
	defer inBackground(counting)()
	listeners, err := passed.listen(httpSocket, o.shell.open, log)
	if err != nil {
		return err
	}
	defer closeAll(listeners)
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { ended <- shell.Serve(l) }()
	}
	run()
	if certificates != nil {
		go certificates.Run(ctx)
	}
	reloadFront(reload, o, shell, &cfg, certificates, logs)
	reloadOrigins(reload, r, forwarder)
	go reload.run(ctx)
	if watched.Forwarder.Store(forwarder); watch != nil {
		watch.Add(shell.Metrics(), surface.traps.Metric())
		watch.Started(watched.Checks(o.readyAge)...)
		fmt.Fprintf(out, "webring is watched at %s\n", watch.Addr())
	}
	fmt.Fprintf(out, "webring follows %s at %s\n", strings.Join(o.origins, " or "), listeners[0].Addr())
	notifyReady(log)
	defer keepAlive(answers, log)()
	go settle(ctx)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		watch.Stopping()
		o.shell.drain.run(shell, log, func() { notifyStopping(log) })
		log.Info("stopping; forwarded payments finish first")
		return stopEdge(forwarder, shell, stopTime, log)
	}
}

// syncHandlers serve the newest checkpoint, the keys and the newest events, by which a backup
// can be completed when the origin is lost. Earlier events, which the page /verify asks for,
// are the origin's. An edge has no snapshots, so nothing can follow it.
func syncHandlers(r *follow.Replica, f *forward.Forwarder, baseURL func() string) map[string]func(*fasthttp.RequestCtx, string, bool) {
	all := publish.Handlers(edgeSource{r}, baseURL)
	held := all["/sync/events"]
	all["/sync/events"] = func(ctx *fasthttp.RequestCtx, client string, known bool) {
		if from, err := ctx.QueryArgs().GetUint("from"); err == nil && uint64(from) < r.First() {
			f.Pass(ctx, client, ctx.IsTLS())
			return
		}
		held(ctx, client, known)
	}
	return all
}

// countHops makes an edge count hops and report them, and show what its origin keeps next to
// the ledger, except words that r has seen withdrawn. Without a secret the origin takes no
// reports. run reports until its context ends.
func countHops(cfg *edge.Config, f *forward.Forwarder, r *follow.Replica) (run func(ctx context.Context)) {
	cfg.OriginData = cache.NewRelay(func(ctx context.Context, target string) (int, http.Header, []byte, error) {
		a, err := f.Own(ctx, http.MethodGet, target, nil)
		if err != nil {
			return 0, nil, nil, err
		}
		return a.Status, a.Header, a.Body, nil
	}, cfg.Core.BaseURL, r.Withdrawn, time.Now).Document
	if cfg.EdgeSecrets == nil {
		return func(context.Context) {}
	}
	cfg.Hops = hops.NewCounter()
	return hops.NewSender(hops.Config{Counter: cfg.Hops, Send: server.SendHops(f), Log: cfg.Log}).Run
}

// edgeSource is a replica as a [publish.Source].
type edgeSource struct{ *follow.Replica }

// Snapshot implements [publish.Source].
func (edgeSource) Snapshot([32]byte) (io.ReadCloser, int64, error) { return nil, 0, snap.ErrNotHeld }

// surface is what readers of an edge see.
type surface struct {
	log     *slog.Logger
	build   string          // name of the core's build, for validators
	answers *edge.Swappable // nil until there is a core
	traps   admin.Traps
}

// show is [follow.Config.Show].
func (s *surface) show(c follow.Core) {
	s.traps.Show(c)
	if s.answers == nil {
		s.answers = edge.NewSwappable(c, s.build)
		return
	}
	began := time.Now()
	s.answers.Swap(c, s.build)
	s.log.Info("edge: another core answers", "drained", time.Since(began).Round(time.Microsecond))
}
