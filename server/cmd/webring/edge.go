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

	"webring/core/api"
	"webring/core/snap"
	"webring/edge"
	"webring/edge/cache"
	"webring/edge/follow"
	"webring/edge/forward"
	"webring/edge/hops"
	"webring/edge/tlog"
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
	policy, witnessKey   string

	replay   bool
	readyAge time.Duration

	shell shellFlags
	core  coreFlags
}

func (o *edgeOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring edge", flag.ContinueOnError)
	fs.StringVar(&o.data, "data", "./edge-data", "`folder` of the last good state; the start makes it if it is missing")
	fs.Var(&o.origins, "origin", "`URL` of the origin; of a cluster's nodes each, of which one is asked and then the next (repeatable)")
	fs.Var(&o.originKeys, "origin-key", "`verifier` of the origin's checkpoints, as webring serve prints it; while the origin changes its key, also the next one (repeatable)")
	fs.StringVar(&o.edgeSecretFile, "edge-secret-file", "", edgeSecretUsage)
	fs.StringVar(&o.policy, "policy", "", "`file` with the witnesses that must have cosigned what this edge shows, in the format of C2SP tlog-policy")
	fs.StringVar(&o.witnessKey, "witness-key", "", "`file` of the key with which this edge cosigns the ring's checkpoints as a witness: a line that webring key witness prints")
	fs.BoolVar(&o.replay, "replay", false, "fold every event instead of trusting a snapshot")
	o.readyAge = 10 * time.Minute
	fs.Var((*duration)(&o.readyAge), "ready-age", "`time` since the newest checkpoint after which /readyz says no; 0 for never")
	o.shell.define(fs)
	o.core.define(fs, "wasm")
	return fs
}

func (o *edgeOptions) validate() error {
	var wrong mistakes
	wrong.when(len(o.origins) == 0, "--origin is needed: the URL to follow")
	_, err := follow.NewOrigins(o.origins...)
	wrong.when(err != nil, "--origin: %w", err)
	wrong.when(len(o.originKeys) == 0, "--origin-key is needed: webring serve prints it at every start, and webring version --data DIR")
	wrong.when(o.data == "", "--data must not be empty")
	wrong.when(o.readyAge < 0, "--ready-age must not be negative")
	return errors.Join(append(wrong, o.shell.validate(), o.core.validate())...)
}

func runEdge(args []string, out io.Writer) error {
	return runProcess(args, out, func() settings { return new(edgeOptions) }, checkEdge, func(ctx context.Context, n *runner, s settings) error {
		return (&edgeNode{runner: n, o: s.(*edgeOptions)}).run(ctx)
	})
}

// front gives the flags that [reloadFront] needs.
func (o *edgeOptions) front() (*shellFlags, string) { return &o.shell, o.edgeSecretFile }

// edgeNode is the process of an edge: what it is made of, by its flags, and what it has open.
type edgeNode struct {
	*runner
	o       *edgeOptions
	watched admin.Edge
	build   string          // name of the core's build, for validators
	answers *edge.Swappable // what readers see, nil until there is a core
}

// run serves what the origin publishes until ctx is done.
func (n *edgeNode) run(ctx context.Context) (err error) {
	if err := server.Confirmed(n.o.shell.confirmed).User(n.o.data); err != nil {
		return err
	}
	defer n.close()
	if err := n.open(n.o, n.o.data, "the replica has nothing to show yet: it asks "+strings.Join(n.o.origins, " and ")); err != nil {
		return err
	}
	secrets := n.config.EdgeSecrets
	if secrets == nil {
		n.log.Warn("the origin takes all who pay through this edge for one client: give both --edge-secret-file")
	}
	folder, err := holdFolder(n.o.data, n.log)
	if err != nil {
		return err
	}
	if folder != nil {
		defer folder.Close()
	}
	defer n.logs.listenEdge(n.o.data)()
	digest, err := module.Digest()
	if err != nil && !errors.Is(err, module.ErrMissing) {
		return err
	}
	if n.build, err = buildName(); err != nil {
		return err
	}
	policy, err := readPolicy("--policy", n.o.policy)
	if err != nil {
		return err
	}
	cfg := follow.Config{
		Policy:     policy,
		LinkConfig: follow.LinkConfig{Origins: n.o.origins, Log: n.log},
		Keys:       n.o.originKeys, Dir: replicaPath(n.o.data), Replay: n.o.replay,
		Module: digest, Show: n.show, MaxSnapshot: n.o.core.mostSnapshot(),
		Open: func(ctx context.Context, snapshot []byte) (follow.Core, error) {
			return n.o.core.open(ctx, edgeCapacity, n.o.data, snapshot, n.log)
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
	n.watched.Replica = r
	if policy != nil {
		n.config.Witnessed = func() (int64, time.Time) { return policy.Witnessed(r.LogCheckpoint()) }
	}
	n.watch.Add(&n.watched)
	end := func() {}
	run := sync.OnceFunc(func() { end = inBackground(r.Run) })
	defer func() {
		end()
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
	return n.answer(ctx, r, run)
}

// show is [follow.Config.Show].
func (n *edgeNode) show(c follow.Core) {
	n.traps.Show(c)
	if n.answers == nil {
		n.answers = edge.NewSwappable(c, n.build)
		return
	}
	began := time.Now()
	n.answers.Swap(c, n.build)
	n.log.Info("edge: another core answers", "drained", time.Since(began).Round(time.Microsecond))
}

// replicaPath is the folder of an edge's last good state.
func replicaPath(data string) string { return filepath.Join(data, "replica") }

// holdFolder takes an edge's folder for this process, since two edges would remove each
// other's files. Where the folder cannot be locked the log says so, and the edge goes on:
// it does without one that cannot be made or opened, and where the file system has no
// locks only the operator can keep others away.
func holdFolder(dir string, log *slog.Logger) (*badgerstore.FolderLock, error) {
	err := os.MkdirAll(dir, 0o700)
	var lock *badgerstore.FolderLock
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

// answer serves a replica that has a state, and starts run once it listens.
func (n *edgeNode) answer(ctx context.Context, r *follow.Replica, run func()) error {
	cfg := n.config
	forwarder, err := forward.New(forward.Config{Origins: n.o.origins, Secrets: cfg.EdgeSecrets, Reach: r.Reach, Answered: r.Nudge,
		TrustedProxies: cfg.TrustedProxies, BaseURL: n.answers.BaseURL, Log: n.log})
	if err != nil {
		return err
	}
	defer forwarder.Close()
	cfg.Core, cfg.Stale, cfg.Sync = n.answers, r.Stale, syncHandlers(r, forwarder, n.answers.BaseURL)
	cfg.Paid, cfg.Others = map[string]edge.Handler{}, map[string]edge.Handler{}
	for pattern := range server.PaidOperations {
		cfg.Paid[pattern] = forwarder.Paid
	}
	for _, pattern := range server.OnlyAtOrigin {
		cfg.Others[pattern] = forwarder.Pass
	}
	witness := ""
	if n.o.witnessKey != "" {
		if witness, err = asWitness(&cfg, n.o.witnessKey, n.o.data, r, n.log); err != nil {
			return err
		}
	}
	counting := countHops(&cfg, forwarder, r)
	shell, err := edge.New(cfg)
	if err != nil {
		return err
	}
	defer inBackground(counting)()
	listeners, err := n.passed.listen(httpSocket, n.o.shell.open, n.log)
	if err != nil {
		return err
	}
	defer closeAll(listeners)
	ended := n.serve(ctx, n.o, shell, listeners)
	run()
	reloadOrigins(n.reload, r, forwarder)
	n.watched.Forwarder.Store(forwarder)
	n.started(ctx, shell, func(s *admin.Server) { s.Started(n.watched.Checks(n.o.readyAge)...) })
	fmt.Fprintf(n.out, "webring follows %s at %s\n", strings.Join(n.o.origins, " or "), listeners[0].Addr())
	if witness != "" {
		fmt.Fprintf(n.out, "witness key: %s\n", witness)
	}
	notifyReady(n.log)
	defer keepAlive(n.answers, n.log)()
	go settle(ctx)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		n.watch.Stopping()
		drain(shell, n.o.shell.drain, n.log, func() { notifyStopping(n.log) })
		n.log.Info("stopping; forwarded payments finish first")
		return stopEdge(forwarder, shell, stopTime, n.log)
	}
}

// syncHandlers serve the newest checkpoint, the keys and the newest events, by which a backup
// can be completed when the origin is lost. Earlier events, which the page /verify asks for,
// are the origin's. An edge has no snapshots, so nothing can follow it.
func syncHandlers(r *follow.Replica, f *forward.Forwarder, baseURL func() string) map[string]func(*fasthttp.RequestCtx, string, bool) {
	source := new(publish.Switch)
	source.Use(edgeSource{r})
	all := publish.Handlers(source, baseURL)
	for _, path := range []string{"/sync/cosigned", publish.LogPattern} {
		own := all[path]
		all[path] = func(ctx *fasthttp.RequestCtx, client string, known bool) {
			if here := string(ctx.Path()); hasBundle(r, here) || r.Cosigned() != nil && (here == path || here == tlog.CheckpointPath) {
				own(ctx, client, known)
				return
			}
			f.Pass(ctx, client, ctx.IsTLS()) // cosignatures are not followed without a policy, nor tiles of hashes
		}
	}
	return all
}

// hasBundle reports whether a path is that of a bundle whose events an edge has.
func hasBundle(r *follow.Replica, path string) bool {
	t, _, ok := tlog.ParsePath(path)
	first := uint64(t.N) * tlog.TileWidth
	return ok && t.L < 0 && t.N < 1<<40 && first >= r.First() && first+uint64(t.W) <= r.Position()
}

// countHops makes an edge count hops and report them, and show what its origin keeps next to
// the ledger, except words that r has seen withdrawn. Without a secret the origin takes no
// reports. run reports until its context ends.
func countHops(cfg *edge.Config, f *forward.Forwarder, r *follow.Replica) (run func(ctx context.Context)) {
	relay := func() *cache.Relay {
		return cache.NewRelay(func(ctx context.Context, target string) (int, http.Header, []byte, error) {
			a, err := f.Own(ctx, http.MethodGet, target, nil)
			if err != nil {
				return 0, nil, nil, err
			}
			return a.Status, a.Header, a.Body, nil
		}, cfg.Core.BaseURL, r.Withdrawn, time.Now)
	}
	icons, others := relay(), relay() // many icons leave the others their room
	cfg.OriginData = func(ctx context.Context, path, query string) api.Document {
		if strings.HasSuffix(path, edge.IconEnd) {
			return icons.Document(ctx, path, query)
		}
		return others.Document(ctx, path, query)
	}
	if cfg.EdgeSecrets == nil {
		return func(context.Context) {}
	}
	cfg.Hops = hops.NewCounter()
	return hops.NewSender(hops.Config{Counter: cfg.Hops, Send: server.SendHops(f), Log: cfg.Log}).Run
}

// edgeSource is a replica as a [publish.Source].
type edgeSource struct{ *follow.Replica }

// Log implements [publish.Source]: the log is the origin's, to which requests for it are passed on.
func (edgeSource) Log() ([]byte, uint64, publish.Books) { return nil, 0, nil }

// Snapshot implements [publish.Source].
func (edgeSource) Snapshot([32]byte) (io.ReadCloser, int64, error) { return nil, 0, snap.ErrNotHeld }
