package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"webring/edge/durable"
	"webring/edge/follow"
	"webring/edge/front"
	"webring/edge/voucher"
	"webring/server"
	"webring/server/backup"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
	"webring/server/ledger/cluster"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/publish"
	"webring/server/sites/score"
	"webring/server/sites/score/local"
	"webring/wasm/module"
)

// checks is the list that --check prints, a line a check. Its texts hold no secret.
type checks struct {
	out          io.Writer
	count, wrong int
}

func (c *checks) line(state, what, text string) {
	c.count++
	fmt.Fprintf(c.out, "%-5s  %-15s  %s\n", state, what, text)
}

func (c *checks) ok(what, format string, args ...any) {
	c.line("ok", what, fmt.Sprintf(format, args...))
}

// note adds a line about something that works, but may not be what the operator wants.
func (c *checks) note(what, format string, args ...any) {
	c.line("note", what, fmt.Sprintf(format, args...))
}

// fail adds a line for each of the joined errors, and reports whether there are any.
func (c *checks) fail(what string, err error) bool {
	if err == nil {
		return false
	}
	for text := range strings.Lines(err.Error()) {
		c.wrong++
		c.line("wrong", what, strings.TrimSpace(text))
	}
	return true
}

// result adds a line that is ok, or one for each of the joined errors.
func (c *checks) result(what string, err error, format string, args ...any) {
	if !c.fail(what, err) {
		c.ok(what, format, args...)
	}
}

// end gives an error if a check is wrong.
func (c *checks) end() error {
	if c.wrong == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d checks are wrong", c.wrong, c.count)
}

// configuration reads the flags of a command, and reports whether that worked: without
// them nothing else can be checked.
func (c *checks) configuration(flags *flag.FlagSet, args []string) bool {
	if c.fail("configuration", parse(flags, args)) {
		c.note("configuration", "the rest is checked once this is right")
		return false
	}
	path := flags.Lookup(configName).Value.String()
	if path == "" {
		c.ok("configuration", "of flags and environment")
		return true
	}
	c.ok("configuration", "of flags, environment and %s", path)
	info, err := os.Stat(path)
	if err != nil || !durable.Shared(info) {
		return true
	}
	flags.VisitAll(func(f *flag.Flag) {
		if _, secret := blank(f.Name, f.Value.String()); secret && secretURL(f.Name) {
			c.note("configuration", "%s is open to others than its owner, and --%s may hold a key: if it is set there, run chmod 600 '%[1]s', or give it to root and the group of the service, with mode 640", path, f.Name)
		}
	})
	return true
}

// folder checks that a data folder can be written or made, and the room on its disk.
func (c *checks) folder(dir string, floor uint64, confirmed server.Confirmed) {
	const writable = 2 | 1 // and searchable, as access(2) has it
	at := dir
	info, err := os.Stat(at)
	if (err == nil && info.IsDir() || errors.Is(err, fs.ErrPermission)) && c.fail("data", confirmed.User(dir)) {
		return
	}
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(at) != at {
		at = filepath.Dir(at)
		info, err = os.Stat(at)
	}
	switch {
	case c.fail("data", err):
		return
	case !info.IsDir():
		c.fail("data", fmt.Errorf("--data %s: %s is no folder", dir, at))
		return
	case syscall.Access(at, writable) != nil:
		c.fail("data", fmt.Errorf("--data %s: this user cannot write in %s (%w): make the folder as root, and give it to this user: chown -R %d '%[1]s'", dir, at, syscall.Access(at, writable), os.Geteuid()))
	case at != dir:
		c.ok("data", "%s is made at the start", dir)
	default:
		c.ok("data", "%s can be written in", dir)
	}
	disk := &server.Volume{Dir: at}
	if !c.fail("disk", disk.AtLeast(floor)()) {
		free, _ := disk.Space()
		c.ok("disk", "%d MiB free, of %d that are needed", free>>20, floor>>20)
	}
}

// listening checks that an address can be listened on. If a process runs on the same data
// folder, that process may hold the address. Instead of one that was not given, the start takes
// another.
func (c *checks) listening(name, address string, running, given bool) {
	l, err := net.Listen("tcp", address)
	switch {
	case err == nil:
		l.Close()
		c.ok("listen", "%s %s is free", name, address)
	case running && errors.Is(err, syscall.EADDRINUSE):
		c.note("listen", "%s %s is taken, as it must be if the process on this data folder has it", name, address)
	case !given && errors.Is(err, syscall.EADDRINUSE):
		c.note("listen", "%s %s is taken: the start takes the next free port", name, address)
	default:
		c.fail("listen", fmt.Errorf("%s: %w: choose another address, or stop the process that uses this one; if that is this process's own socket unit, ignore this", name, err))
	}
}

// accessLog checks that lines can be appended to the file at path, or that it can be made.
func (c *checks) accessLog(path string) {
	const writable, enterable = 2, 1 // as access(2) has it
	if path == "" || path == "-" {
		return
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		c.fail("access log", fmt.Errorf("--access-log: %s is a folder: name a file in it", path))
		return
	}
	err := syscall.Access(path, writable)
	if errors.Is(err, fs.ErrNotExist) {
		path = filepath.Dir(path)
		err = syscall.Access(path, writable|enterable)
	}
	if err != nil {
		err = fmt.Errorf("--access-log: this user cannot write in %s: %w", path, err)
	}
	c.result("access log", err, "%s can be written", path)
}

// soon is how long before its end a certificate is worth a note.
const soon = 14 * 24 * time.Hour

// front checks listeners, proxies and TLS. host is the host name that clients use, "" if
// that is not known.
func (c *checks) front(f *shellFlags, data, host string, running bool) {
	if _, err := f.proxies(); !c.fail("proxies", err) {
		if n := len(f.trustedProxies); n > 0 {
			c.ok("proxies", "%d trusted, which name their clients in %s", n, f.clientIPHeader)
		} else {
			c.ok("proxies", "none is trusted")
		}
	}
	c.listening("--listen", f.listen, running, true)
	c.accessLog(f.logs.access)
	if f.adminListen != "" {
		c.listening("--admin-listen", f.adminListen, running, f.given("admin-listen"))
	}
	if f.tls.acme.HTTPListen != "" {
		c.listening("acme-http-listen", f.tls.acme.HTTPListen, running, true)
	}
	switch {
	case f.tls.cert != "" && f.tls.key != "":
		c.certificate(&f.tls, host)
	case len(f.tls.acme.Hosts) > 0:
		c.authority(&f.tls, data)
	default:
		c.ok("tls", "none here")
	}
}

// certificate checks a pair of files.
func (c *checks) certificate(f *tlsFlags, host string) {
	pair, err := front.ReadCertificate(f.cert, f.key)
	if c.fail("tls", err) {
		return
	}
	leaf, now := pair.Leaf(), time.Now()
	until := leaf.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case now.After(leaf.NotAfter):
		c.fail("tls", fmt.Errorf("--tls-cert: %s expired on %s: have it renewed", f.cert, until))
		return
	case now.Before(leaf.NotBefore):
		c.fail("tls", fmt.Errorf("--tls-cert: %s counts from %s on only: check this machine's clock", f.cert, leaf.NotBefore.UTC().Format(time.RFC3339)))
		return
	case now.Add(soon).After(leaf.NotAfter):
		c.note("tls", "the certificate expires on %s already", until)
	default:
		c.ok("tls", "the certificate holds until %s", until)
	}
	if host != "" && leaf.VerifyHostname(host) != nil {
		c.note("tls", "the certificate is not for %s: clients that come straight here refuse it", host)
	}
}

// patience is how long a check waits for another machine.
const patience = 10 * time.Second

// authority checks that the authority of ACME answers.
func (c *checks) authority(f *tlsFlags, data string) {
	ctx, cancel := waiting()
	defer cancel()
	cfg := f.authority(data, nil)
	err := cfg.Reach(ctx)
	if err != nil {
		err = fmt.Errorf("acme-directory %s: %w: correct it, or have this machine reach it", f.acme.Directory, err)
	}
	c.result("acme", err, "%s answers; it has to reach port 443 of %s", f.acme.Directory, strings.Join(f.acme.Hosts, ","))
}

func waiting() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// checkOrigin checks what `webring serve` needs with these arguments.
func checkOrigin(args []string, out io.Writer) error {
	o, c := new(options), &checks{out: out}
	if !c.configuration(o.flags(), args) {
		return c.end()
	}
	c.result("flags", o.validate(), "%q at %s", o.name, o.baseURL)
	c.folder(o.data, server.PayFloor, server.Confirmed(o.shell.confirmed))
	running := c.ledger(o)
	c.keys(o)
	c.cluster(o)
	host := ""
	base, err := url.Parse(o.baseURL)
	if err == nil && base.Scheme == "https" {
		host = base.Hostname()
	}
	c.front(&o.shell, o.data, host, running)
	offers := o.offers()
	if f := &o.shell; len(offers) > 0 && host != "" && f.tls.cert == "" && len(f.tls.acme.Hosts) == 0 && len(f.trustedProxies) == 0 {
		c.fail("tls", errors.New("payments are taken over TLS alone: give --tls-cert and --tls-key, --acme-host, or --trusted-proxy for what speaks TLS before this ring"))
	}
	c.core(&o.core)
	c.scorer(o)
	c.payments(o, offers)
	return c.end()
}

// ledger reads a copy of the ledger, as a start reads it, and reports whether an origin has it.
func (c *checks) ledger(o *options) (running bool) {
	var s server.Status
	data := o.data
	err := operator(data).ask(http.MethodGet, "/status", nil, &s)
	if err == nil {
		c.note("ledger", "an origin runs on %s, at %d events: its ledger is locked, and was not looked at", data, s.Events)
		if s.Events > 0 && !s.Synthetic {
			c.fail("ledger", server.Confirmed(o.shell.confirmed).RingAt(s.BaseURL, o.baseURL, keyFiles(o)))
		}
		return true
	}
	if c.fail("ledger", unfinished(data)) {
		return false
	}
	dir := filepath.Join(data, "ledger")
	lock, err := badgerstore.Lock(dir)
	switch {
	case err == nil:
		lock.Close()
		var events uint64
		err = onCopy(func(work string, _ func() error) (*backup.Books, error) {
			return backup.OpenCopy(data, work, o.capacity, slog.New(slog.DiscardHandler))
		}, func(b *backup.Books) error {
			events = b.Size()
			b.View(func(v *ledger.View) { err = server.Confirmed(o.shell.confirmed).Ring(v, o.baseURL, keyFiles(o)) })
			return err
		})
		c.result("ledger", err, "%s is whole, with %d events, and nobody has it open; webring verify recomputes it", dir, events)
	case errors.Is(err, badgerstore.ErrLocked):
		c.note("ledger", "another process has %s open, so it was not looked at", dir)
		return true
	case errors.Is(err, fs.ErrNotExist):
		c.ok("ledger", "%s is made at the start", dir)
	default:
		c.fail("ledger", err)
	}
	return false
}

// keys checks the files of secrets.
func (c *checks) keys(o *options) {
	keys, err := challengeKeys(o)
	switch {
	case c.fail("challenge key", err):
	case keys.Current == nil:
		c.ok("challenge key", "%s is made at the start", secretPath(o))
	default:
		c.ok("challenge key", "%s: %s", secretPath(o), describeKeys(keys))
	}
	path := server.SyncKeyPath(o.data)
	_, missing := os.Lstat(path)
	base, err := url.Parse(o.baseURL)
	if err != nil {
		return // told of as a flag
	}
	switch key, err := publish.ReadKey(path); {
	case errors.Is(missing, fs.ErrNotExist):
		c.ok("signing key", "%s is made at the start, and named %s for ever", path, server.KeyName(base))
	case c.fail("signing key", err):
	case key.Name() != server.KeyName(base):
		c.note("signing key", "edges know this origin as %s, from an earlier --base-url", key.Name())
	default:
		c.ok("signing key", "edges know this origin as %s", key.Name())
	}
	if next, err := publish.ReadNext(server.NextKeyPath(o.data)); !c.fail("signing key", err) && next != nil {
		c.note("signing key", "a next one is announced: %s", next.Verifier())
	}
	c.edgeSecrets(o.edgeSecretFile)
}

// edgeSecrets checks the file that origin and edges share.
func (c *checks) edgeSecrets(path string) {
	if path == "" {
		c.note("edge secret", "without --edge-secret-file all clients of an edge count as one")
		return
	}
	all, err := readEdgeSecrets(path)
	c.result("edge secret", err, "%s holds secrets: %d", path, len(all))
}

// core checks that this binary has the core that is asked for.
func (c *checks) core(f *coreFlags) {
	if f.kind != "wasm" {
		c.ok("core", "%s", f.kind)
		return
	}
	digest, err := module.Digest()
	if err != nil {
		err = fmt.Errorf("%w, or use --core native", err)
	}
	c.result("core", err, "wasm, sha256:%x", digest)
}

// scorer checks who scores sites, and that a service answers at its address.
func (c *checks) scorer(o *options) {
	if o.score.Spec == local.Provider {
		c.ok("scorer", "this ring looks at sites itself")
		return
	}
	config, err := o.scorer()
	var s score.Scorer
	if err == nil {
		s, err = score.New(config)
	}
	if c.fail("scorer", err) {
		return
	}
	address := score.Address(s)
	if address == "" {
		c.note("scorer", "%s scores nothing, and is for development", o.score.Spec)
		return
	}
	ctx, cancel := waiting()
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		conn.Close()
	} else {
		err = fmt.Errorf("--scorer %s: %w: correct its URL, or have this machine reach it", o.score.Spec, err)
	}
	c.result("scorer", err, "%s answers at %s", o.score.Spec, address)
}

// payments checks each node, its chain, its token, its clock, and who is paid.
func (c *checks) payments(o *options, offers []offer) {
	if len(offers) == 0 {
		c.note("payments", "none are taken: "+howToBePaid)
		return
	}
	methods, _, err := paymentMethods(o)
	if c.fail("payments", err) {
		return
	}
	for i, f := range offers {
		what := f.flags[2:]
		ctx, cancel := waiting()
		unknown, difference := f.compare(ctx)
		switch {
		case unknown != nil:
			c.fail(what, fmt.Errorf("the node of %s-rpc does not say what its chain and token are: %w: correct the URL, or have the node answer", f.flags, unknown))
		case c.fail(what, difference):
		default:
			c.ok(what, "the node of %s-rpc is on chain %d, with the token %s", f.flags, f.chain, f.token.Hex())
			c.clock(ctx, what, f.flags, methods[i])
		}
		cancel()
		if f.recipient == f.token {
			c.fail(what, fmt.Errorf("%s-recipient is the token itself, and money sent there is lost: give an account", f.flags))
		} else if f.recipient != (common.Address{}) {
			c.ok(what, "%s is paid", f.recipient.Hex())
		}
		if name, ok := testNetworks[f.chain]; ok {
			c.note(what, "chain %d is the public test network of %s: its money is worth nothing", f.chain, name)
		}
	}
}

// clock checks that a payment could be taken by a method now, as far as its node says.
func (c *checks) clock(ctx context.Context, what, flags string, m paid.Method) {
	block, err := m.Clock(ctx)
	if err != nil {
		c.fail(what, fmt.Errorf("the node of %s-rpc: %w", flags, err))
		return
	}
	if apart := time.Since(block).Round(time.Second); apart.Abs() > paid.MaxSkew {
		c.fail(what, fmt.Errorf("this clock and the newest block of %s-rpc are %s apart, and payments are taken within %s: set the clock, or ask the node's operator", flags, apart.Abs(), paid.MaxSkew))
		return
	}
	c.ok(what, "the newest block is of %s", block.UTC().Format(time.RFC3339))
}

// shared compares the secrets that all nodes share with those by which the ring works.
func (c *checks) shared(o *options, s cluster.Status) {
	keys, err := challengeKeys(o)
	secrets, wrong := openEdgeSecrets(o.edgeSecretFile)
	if errors.Join(err, wrong) != nil {
		return // told of as those files
	}
	own := sharedSecrets(func() mpp.Keys { return keys }, secrets, o.data)
	switch lacks := s.Lacks(own()); {
	case lacks != nil:
		c.fail("cluster", fmt.Errorf("%s of this node is not that of the ring: copy what the node that leads has", strings.Join(lacks, ", ")))
	case s.Shared != nil:
		c.ok("cluster", "the keys of this node are those of the ring")
	}
}

// cluster checks what a node of a cluster needs, and asks etcd for the ring.
func (c *checks) cluster(o *options) {
	f := &o.cluster
	m, err := cluster.ReadMarker(o.data)
	if !f.given() {
		if !errors.Is(err, fs.ErrNotExist) {
			c.fail("cluster", refuseMarker(o.data))
		}
		return
	}
	if f.validateAll() != nil {
		return // told of as a flag
	}
	at, err := f.reachedAt(o.shell.listen, o.shell.tls.given())
	c.result("cluster", err, "others reach this node at %s", at)
	c.result("cluster", needKeys(o), "the keys that all nodes share are there")
	config, err := f.config(o.data, at, slog.New(slog.DiscardHandler))
	if c.fail("etcd", err) {
		return
	}
	in, err := cluster.Open(config)
	if c.fail("etcd", err) {
		return
	}
	defer in.Close()
	ctx, cancel := waiting()
	defer cancel()
	s, err := in.Status(ctx)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		c.fail("etcd", fmt.Errorf("--etcd %s gives no answer within %s: correct it, or have most of its members answer", strings.Join(f.Endpoints, ","), patience))
	case c.fail("etcd", err):
	case s.Tombstone:
		c.fail("etcd", fmt.Errorf("the ring %s was made a single origin again", f.Ring))
	default:
		c.ok("etcd", "the ring %s is at transaction %d; nodes: %d", f.Ring, s.Head.Serial, len(s.Nodes))
		c.shared(o, s)
		if m.Node == "" {
			c.note("cluster", "%s joins the ring with this start", f.Node)
		}
	}
}

// checkEdge checks what `webring edge` needs with these arguments.
func checkEdge(args []string, out io.Writer) error {
	o, c := new(edgeOptions), &checks{out: out}
	if !c.configuration(o.flags(), args) {
		return c.end()
	}
	c.result("flags", o.validate(), "they agree")
	running := false
	if o.data != "" {
		c.folder(o.data, server.WriteFloor, server.Confirmed(o.shell.confirmed))
		running = c.held(o.data)
	}
	c.edgeSecrets(o.edgeSecretFile)
	c.front(&o.shell, o.data, "", running)
	c.core(&o.core)
	if len(o.origins) > 0 && len(o.originKeys) > 0 {
		c.origins(o)
	}
	return c.end()
}

// held reports whether an edge has this folder.
func (c *checks) held(data string) bool {
	lock, err := badgerstore.Lock(data)
	if err == nil {
		lock.Close()
		return false
	}
	if !errors.Is(err, badgerstore.ErrLocked) {
		return false
	}
	c.note("data", "an edge runs on %s", data)
	return true
}

// origins checks each origin. One that cannot be reached is no mistake if another answers.
func (c *checks) origins(o *edgeOptions) {
	var away []string
	for _, url := range o.origins {
		if err := c.origin(o, url); err != nil {
			away = append(away, fmt.Sprintf("--origin %s, --origin-key: %v: correct these, or have the origin answer", url, err))
		}
	}
	for _, why := range away {
		if len(away) < len(o.origins) {
			c.note("origin", "%s", why)
			continue
		}
		c.fail("origin", errors.New(why))
	}
}

// origin checks that an origin signs with the pinned key and knows the secret. The error is
// of one that cannot be reached.
func (c *checks) origin(o *edgeOptions, url string) error {
	ctx, cancel := waiting()
	defer cancel()
	events, signed, err := follow.Probe(ctx, follow.Config{LinkConfig: follow.LinkConfig{Origins: []string{url}}, Keys: o.originKeys, Dir: replicaPath(o.data)})
	if _, away := errors.AsType[*net.OpError](err); away || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err != nil {
		c.fail("origin", fmt.Errorf("--origin %s, --origin-key: %w: correct these, or have the origin answer", url, err))
		return nil
	}
	c.ok("origin", "%s signs with the pinned key, at %d events", url, events)
	if age := time.Since(signed).Round(time.Second); age > follow.StaleAfter {
		c.note("origin", "its checkpoint is %s old: clocks differ, or the origin stands still", age)
	}
	secrets, err := openEdgeSecrets(o.edgeSecretFile)
	if err != nil {
		secrets = nil // reported already
	}
	known, apart, err := askOrigin(ctx, url, secrets)
	if c.fail("origin", err) {
		return nil
	}
	const tolerated = voucher.Life - 5*time.Second
	if apart.Abs() > tolerated {
		err = fmt.Errorf("this clock is %s from the origin's, and vouchers count for %s: set the clock", apart.Abs(), voucher.Life)
	}
	c.result("clock", err, "within %s of the origin's", max(apart.Abs(), time.Second))
	if err = nil; !known {
		err = errors.New("the origin does not know the first line of --edge-secret-file: give both the same, the origin first")
	}
	if secrets != nil {
		c.result("edge secret", err, "the origin knows it")
	}
	return nil
}

// askOrigin reports an empty list of hops to an origin, which refuses it in one way if it knows
// the secret and in another if not. It also gives how far the origin's clock is from this one.
func askOrigin(ctx context.Context, url string, secrets *voucher.Secrets) (known bool, apart time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+server.HopsPath, nil)
	if err != nil {
		return false, 0, err
	}
	if secrets != nil {
		vouch, err := voucher.ForOwn(secrets)
		if err != nil {
			return false, 0, err
		}
		vouch(req)
	}
	res, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		return false, 0, err
	}
	defer res.Body.Close()
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		apart = time.Since(at).Truncate(time.Second)
	}
	return res.StatusCode == http.StatusUnprocessableEntity, apart, nil
}
