package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"webring/server"
	"webring/server/ledger/badgerstore"
	"webring/server/paid"
	"webring/server/publish"
	"webring/server/sites/score"
	"webring/server/sites/score/local"
	"webring/wasm/module"
)

func waiting() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// checkOrigin checks what `webring serve` needs with these arguments.
func checkOrigin(args []string, out io.Writer) error {
	o, c := new(options), &checks{out: out}
	if !c.configuration(o.flags(), args) {
		return c.end()
	}
	if !c.fail("flags", o.validate()) {
		c.ok("flags", "%q at %s", o.name, o.baseURL)
	}
	c.folder(o.data, server.PayFloor)
	running := c.ledger(o.data)
	c.keys(o)
	c.cluster(o)
	host := ""
	base, err := url.Parse(o.baseURL)
	if err == nil && base.Scheme == "https" {
		host = base.Hostname()
	}
	c.front(&o.shell, o.data, host, running)
	offers := o.offers()
	if f := &o.shell; len(offers) > 0 && host != "" && f.tls.cert == "" && len(f.tls.hosts) == 0 && len(f.trustedProxies) == 0 {
		c.fail("tls", errors.New("payments are taken over TLS alone: give --tls-cert and --tls-key, --acme-host, or --trusted-proxy for what speaks TLS before this ring"))
	}
	c.core(&o.core)
	c.scorer(o)
	c.payments(o, offers)
	return c.end()
}

// ledger looks at the ledger without opening it, and reports whether an origin has it.
func (c *checks) ledger(data string) (running bool) {
	var s server.Status
	err := operator(data).ask(http.MethodGet, "/status", nil, &s)
	if err == nil {
		c.note("ledger", "an origin runs on %s, at %d events: its ledger is locked, and was not looked at", data, s.Events)
		return true
	}
	dir := filepath.Join(data, "ledger")
	lock, err := badgerstore.Lock(dir)
	switch {
	case err == nil:
		lock.Close()
		c.ok("ledger", "%s is there, and nobody has it open; webring verify recomputes it", dir)
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
	if all, err := readEdgeSecrets(path); !c.fail("edge secret", err) {
		c.ok("edge secret", "%s holds secrets: %d", path, len(all))
	}
}

// core checks that this binary has the core that is asked for.
func (c *checks) core(f *coreFlags) {
	if f.kind != "wasm" {
		c.ok("core", "%s", f.kind)
		return
	}
	digest, err := module.Digest()
	if err != nil {
		c.fail("core", fmt.Errorf("%w, or use --core native", err))
		return
	}
	c.ok("core", "wasm, sha256:%x", digest)
}

// scorer checks who scores sites, and that a service answers at its address.
func (c *checks) scorer(o *options) {
	if o.score.spec == local.Provider {
		c.ok("scorer", "this ring looks at sites itself")
		return
	}
	config, err := o.score.config()
	var s score.Scorer
	if err == nil {
		s, err = score.New(config)
	}
	if c.fail("scorer", err) {
		return
	}
	address := score.Address(s)
	if address == "" {
		c.note("scorer", "%s scores nothing, and is for development", o.score.spec)
		return
	}
	ctx, cancel := waiting()
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		c.fail("scorer", fmt.Errorf("--scorer %s: %w: correct its URL, or have this machine reach it", o.score.spec, err))
		return
	}
	conn.Close()
	c.ok("scorer", "%s answers at %s", o.score.spec, address)
}

// payments checks each node, its chain, its token, its clock, and who is paid.
func (c *checks) payments(o *options, offers []offer) {
	if len(offers) == 0 {
		c.note("payments", "none are taken: give --tempo-rpc and --tempo-recipient, or --evm-rpc and what it needs")
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
			c.ok(what, "the node of %s-rpc is on chain %d, with the token %s", f.flags, f.chain, f.token.String())
			c.clock(ctx, what, f.flags, methods[i])
		}
		cancel()
		if f.recipient == f.token {
			c.fail(what, fmt.Errorf("%s-recipient is the token itself, and money sent there is lost: give an account", f.flags))
		} else if f.recipient != (address{}) {
			c.ok(what, "%s is paid", f.recipient.String())
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
