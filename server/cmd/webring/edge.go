package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/snap"
	"webring/edge"
	"webring/edge/follow"
	"webring/edge/forward"
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
	o, reload, err := loadOptions[edgeOptions](args)
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
func serveEdge(ctx context.Context, o *edgeOptions, reload *reloader[edgeOptions], logs *logs, out io.Writer) (err error) {
	log := logs.Logger
	secrets, err := openEdgeSecrets(o.edgeSecretFile)
	if err != nil {
		return err
	}
	if secrets == nil {
		log.Warn("the origin takes all who pay through this edge for one client: give both --edge-secret-file")
	}
	config := edge.Config{EdgeSecrets: secrets, NoCache: !o.core.keep, Log: log, Access: logs.access}
	certificates, err := o.shell.fill(&config, o.data, log)
	if err != nil {
		return err
	}
	passed, err := takeSockets()
	if err != nil {
		return err
	}
	watch, err := o.watchEdge(passed, log)
	if err != nil {
		return err
	}
	defer watch.Close()
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
		LinkConfig: follow.LinkConfig{Origins: o.origins, Log: log},
		Keys:       o.originKeys, Dir: replicaPath(o.data), Replay: o.replay,
		Module: digest, Show: surface.show, MaxSnapshot: o.core.mostSnapshot(),
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
	watch.Add(replicaMetrics{r})
	watchCertificates(watch, certificates)
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
	return o.answer(ctx, r, run, surface, config, certificates, passed, watch, reload, logs, out)
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
func (o *edgeOptions) answer(ctx context.Context, r *follow.Replica, run func(), surface *surface, cfg edge.Config, certificates certificates, passed passedSockets, watch *admin.Server, reload *reloader[edgeOptions], logs *logs, out io.Writer) error {
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
	reloadFront(reload, frontParts{shell, cfg.TrustedProxies, cfg.EdgeSecrets, certificates, logs}, o, (*edgeOptions).front)
	reloadOrigins(reload, r, forwarder)
	go reload.run(ctx)
	o.edgeStarted(watch, r, forwarder, shell, &surface.traps, out)
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
	source := new(publish.Switch)
	source.Use(edgeSource{r})
	all := publish.Handlers(source, baseURL)
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

// edgeSource is a replica as a [publish.Source].
type edgeSource struct{ *follow.Replica }

// Snapshot implements [publish.Source].
func (edgeSource) Snapshot([32]byte) (io.ReadCloser, int64, error) { return nil, 0, snap.ErrNotHeld }

// reloadOrigins has an edge reload its list of origins.
func reloadOrigins(reload *reloader[edgeOptions], r *follow.Replica, forwarder *forward.Forwarder) {
	reload.add(part[edgeOptions]{"the origins", []string{"origin"}, func(next *edgeOptions) (change, error) {
		list, err := follow.NewOrigins(next.origins...)
		if err != nil {
			return change{}, fmt.Errorf("--origin: %w", err)
		}
		var urls []string
		for _, o := range list.Round() {
			urls = append(urls, o.URL)
		}
		now, _ := r.Followed()
		if slices.Sort(now); slices.Equal(now, slices.Sorted(slices.Values(urls))) {
			return change{}, nil
		}
		return change{said: strings.Join(urls, ", "), apply: func() error {
			return errors.Join(r.SetOrigins(urls...), forwarder.SetOrigins(urls...))
		}}, nil
	}})
}

// surface is what readers of an edge see.
type surface struct {
	log     *slog.Logger
	build   string          // name of the core's build, for validators
	answers *edge.Swappable // nil until there is a core
	traps   traps
}

// show is [follow.Config.Show].
func (s *surface) show(c follow.Core) {
	s.traps.of(c)
	if s.answers == nil {
		s.answers = edge.NewSwappable(c, s.build)
		return
	}
	began := time.Now()
	s.answers.Swap(c, s.build)
	s.log.Info("edge: another core answers", "drained", time.Since(began).Round(time.Microsecond))
}
