package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/common"

	"webring/core"
	"webring/core/snap"
	"webring/server"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/pay/evm"
	"webring/server/pay/mpp"
	"webring/server/pay/tempo"
	"webring/server/sites/fetch"
	"webring/server/sites/score"
	"webring/server/sites/score/local"
)

// options are the flags of `webring serve`.
type options struct {
	data, baseURL, name, realm string
	names                      list

	mppSecretFile, edgeSecretFile string
	gasKeyFile                    string
	witnessPolicy                 string
	gasBudget                     big.Int
	tempo                         tempo.Config
	evm                           evm.Config   // without GasKey
	score                         score.Config // without Header
	sites                         sitesFlags
	fee, minBid                   cents
	grace, decay                  time.Duration
	capacity                      int
	snapshotEvery                 uint64
	skipAsleep                    bool
	policies                      policyFlags
	operator                      operatorFlags
	look                          lookFlags
	shell                         shellFlags
	core                          coreFlags
	cluster                       clusterFlags

	clock  func() time.Time // of the process; nil stands for time.Now
	stamps *ledger.Clock    // says what may be stamped by it; nil: everything
}

func (o *options) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring serve", flag.ContinueOnError)
	fs.StringVar(&o.data, "data", "./data", "`folder` of the ledger; the start makes it if it is missing")
	fs.StringVar(&o.baseURL, "base-url", "http://127.0.0.1:8402", "`URL` of the ring for clients; all links begin with it, and a proxy must strip its path")
	fs.StringVar(&o.name, "name", "Webring", "`name` of the ring")
	fs.Var(&o.names, "allow-name", fileOnly+"`words` that names of members and categories may contain although they are reserved")
	fs.StringVar(&o.realm, "realm", "", fileOnly+"`host` name in payment challenges (default: the host of the base URL)")
	fs.StringVar(&o.mppSecretFile, "mpp-secret-file", "", "`file` with the challenge key: a line of at least 64 hex digits, then the previous key, then retired keys, which only prove payments already made (default: mpp-secret in the data folder)")
	fs.StringVar(&o.edgeSecretFile, "edge-secret-file", "", edgeSecretUsage)
	fs.StringVar(&o.witnessPolicy, "witness-policy", "", "`file` with the witnesses that are asked to cosign the ledger, in the format of C2SP tlog-policy")
	o.defineOffers(fs)
	fs.StringVar(&o.score.Spec, "scorer", local.Provider, "`service` that scores sites: local, http, or with --dev fixed:N")
	fs.StringVar(&o.score.URL, "score-url", "", fileOnly+"scorer http: `URL` of the question, with {url} or {host}")
	fs.StringVar(&o.score.Pointer, "score-pointer", "", fileOnly+"scorer http: JSON `pointer` to the score, from 0 to 100, in the answer")
	fs.StringVar(&o.score.ReportPointer, "report-pointer", "", fileOnly+"scorer http: JSON `pointer` to the report link in the answer")
	o.sites.define(fs)
	o.fee, o.minBid = 100, 100
	fs.Var(&o.fee, "fee", "registration fee in `USD`")
	fs.Var(&o.minBid, "min-bid", "lowest bid in `USD`")
	o.grace, o.decay = 30*day, 90*day
	fs.Var((*duration)(&o.grace), "grace", "`time` after a bid until its value decays")
	fs.Var((*duration)(&o.decay), "decay", "`time` in which the value of a bid decays to nothing")
	fs.IntVar(&o.capacity, "capacity", 1_000_000, "`members` that can ever join")
	fs.Uint64Var(&o.snapshotEvery, "snapshot-every", 10_000, fileOnly+"`events` between two snapshots for edges")
	fs.BoolVar(&o.skipAsleep, "skip-asleep", true, fileOnly+"traversal skips members with a site that does not answer")
	o.policies.define(fs)
	o.operator.define(fs)
	o.look.define(fs)
	o.shell.define(fs)
	o.core.define(fs, "native")
	o.cluster.define(fs)
	fs.StringVar(&o.cluster.Advertise, "advertise", "", fileOnly+"`URL` by which other nodes and edges reach this one (default: the address that it listens on)")
	return fs
}

// mistakes are those in the settings of a process.
type mistakes []error

// when adds a mistake if it is one.
func (m *mistakes) when(wrong bool, format string, args ...any) {
	if wrong {
		*m = append(*m, fmt.Errorf(format, args...))
	}
}

// validate checks what the flags say together.
func (o *options) validate() error {
	base, err := ringURL(o.baseURL)
	if err != nil {
		return err
	}
	o.baseURL = base.String()
	if o.realm == "" {
		o.realm = base.Hostname()
	}
	var wrong mistakes
	wrong.when(!o.sites.dev && strings.HasPrefix(o.score.Spec, "fixed:"), "--scorer fixed:N scores nothing and needs --dev")
	wrong.when(o.fee < 1 || o.minBid < 1, "--fee and --min-bid must be at least 0.01")
	wrong.when(o.grace < 0 || o.grace%time.Second != 0 || o.grace/time.Second > core.MaxWindow, "--grace must be whole seconds, up to a hundred years")
	wrong.when(o.decay < time.Second || o.decay%time.Second != 0 || o.decay/time.Second > core.MaxWindow, "--decay must be whole seconds, from one to a hundred years")
	wrong.when(o.snapshotEvery < 1, "snapshot-every must be at least 1")
	wrong.when(o.capacity < 1 || o.capacity > 50_000_000, "--capacity must be from 1 to 50000000")
	wrong.when(o.tempo.RPC != "" && o.tempo.Recipient == (common.Address{}), "--tempo-rpc needs --tempo-recipient, the account to be paid")
	wrong.when(o.evm.RPC != "" && (o.evm.Recipient == (common.Address{}) || o.gasKeyFile == ""), "--evm-rpc needs --evm-recipient, the account to be paid, and --evm-gas-key-file, the account that submits")
	if least := new(big.Int).Lsh(evm.Most(o.evm.MaxFee), 2); o.evm.RPC != "" && o.gasBudget.Sign() != 0 {
		wrong.when(o.gasBudget.Cmp(least) < 0, "evm-gas-budget must be at least %d, four times what a payment may cost at evm-max-fee, or 0 for no limit", least)
	}
	wrong.when(o.cluster.given() && o.edgeSecretFile == "", "--edge-secret-file is needed with --etcd: nodes of a cluster know each other by it")
	if len(o.offers()) > 0 {
		wrong.when(onlyHere(base.Hostname()) && !o.sites.dev, "--base-url %q reaches no further than this machine, and nobody else could pay: give the URL under which clients reach the ring, or --dev", o.baseURL)
		err := mpp.CheckRealm(o.realm)
		wrong.when(err != nil, "realm %q: %w", o.realm, err)
	}
	o.inDevelopment()
	return errors.Join(append(wrong, checkName(o.name), o.namePolicy().Validate(), o.policies.validate(), o.look.validate(), o.operator.validate(), o.shell.validate(), o.core.validate(), o.sites.validate(), o.cluster.validate())...)
}

// inDevelopment sets the defaults that --dev changes.
func (o *options) inDevelopment() {
	if o.sites.dev && !o.shell.given("drain") {
		o.shell.drain = 0
	}
}

// ringURL reads the base URL, in the canonical spelling, which members' URLs have, too.
func ringURL(raw string) (*url.URL, error) {
	canonical, err := core.AppendURL(nil, []byte(raw))
	switch {
	case errors.Is(err, core.ErrURLHost):
		return nil, fmt.Errorf("--base-url %q: %w; one in other letters is written as in the domain name system, as xn--bcher-kva.example", raw, err)
	case err != nil:
		return nil, fmt.Errorf("--base-url %q: %w", raw, err)
	case strings.ContainsAny(raw, "?#"):
		return nil, fmt.Errorf("--base-url %q: the url must end before the query or fragment", raw)
	}
	base, err := url.Parse(strings.TrimRight(string(canonical), "/"))
	if err != nil {
		return nil, fmt.Errorf("--base-url: %w", err)
	}
	if name := server.KeyName(base); !snap.ValidOrigin(name) {
		return nil, fmt.Errorf("--base-url %q: edges would know this origin as %q, which must be up to 256 characters without a plus sign", raw, name)
	}
	return base, nil
}

// onlyHere says whether a host leads every machine to itself.
func onlyHere(host string) bool {
	if at, err := netip.ParseAddr(host); err == nil {
		at = at.Unmap()
		return at.IsLoopback() || at.IsUnspecified()
	}
	host = strings.TrimSuffix(host, ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// checkName holds the ring's name to what members' names are held to, and to the
// form in which those are kept.
func checkName(name string) error {
	if !utf8.ValidString(name) {
		return errors.New("--name is not valid UTF-8")
	}
	body, err := json.Marshal(map[string]string{"name": name, "url": "https://my-agent.dev/", "kind": core.Agent.String()})
	if err != nil {
		return err
	}
	member, err := form.ParseRegister(body, form.SitePolicy{}.Canonical, nil, 1)
	var input *form.Problem
	switch {
	case errors.As(err, &input):
		return fmt.Errorf("--name %s", input.Fields[0].Detail)
	case err != nil:
		return err
	case member.Name != name:
		return fmt.Errorf("--name %q has spaces around it, control or format characters, or is not NFC; write it as %q", name, member.Name)
	}
	return nil
}

// namePolicy says which words members' names may not hold.
func (o *options) namePolicy() form.NamePolicy { return form.NamePolicy{Allow: o.names} }

// policyFlags name the operator's own pages. They are part of the rules, so that every
// edge shows the same.
type policyFlags struct{ core.Policies }

func (f *policyFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.Terms, "terms", "", "`URL` of the terms of service, which every page links to")
	fs.StringVar(&f.Privacy, "privacy", "", "`URL` of the privacy policy, which every page links to")
	fs.StringVar(&f.Report, "report", "", "`address` where visitors report a member, mailto: or a URL; links from a member's page add its slug")
}

func (f *policyFlags) validate() error {
	var wrong mistakes
	for _, page := range [...]struct {
		flag, address string
		mail          bool
	}{{"--terms", f.Terms, false}, {"--privacy", f.Privacy, false}, {"--report", f.Report, true}} {
		what := "an http: or https: URL"
		if page.mail {
			what = "a mailto:, http: or https: address"
		}
		wrong.when(page.address != "" && !isPolicy(page.address, page.mail), "%s %q is not %s of at most %d bytes", page.flag, page.address, what, core.MaxNote)
	}
	return errors.Join(wrong...)
}

// operatorFlags say who runs the ring. They are part of the rules, so that every edge shows the same.
type operatorFlags struct{ core.Operator }

func (f *operatorFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.Name, "operator-name", "", fileOnly+"`name` of the person or organisation that runs the ring, on every page")
	fs.StringVar(&f.Contact, "operator-contact", "", fileOnly+"`address` of the operator, mailto: or a URL, on every page")
	fs.StringVar(&f.Payee, "operator-payee", "", fileOnly+"`name` of who receives the payments, on every page")
}

func (f *operatorFlags) validate() error {
	var wrong mistakes
	for _, words := range [...]struct{ key, value string }{{"operator-name", f.Name}, {"operator-payee", f.Payee}} {
		bad := !utf8.ValidString(words.value) || utf8.RuneCountInString(words.value) > core.MaxName || strings.ContainsFunc(words.value, unicode.IsControl) ||
			strings.TrimSpace(words.value) != words.value
		wrong.when(bad, "%s must be one line of up to %d characters, without spaces around it", words.key, core.MaxName)
	}
	wrong.when(f.Contact != "" && !isPolicy(f.Contact, true), "operator-contact %q is not a mailto:, http: or https: address of at most %d bytes", f.Contact, core.MaxNote)
	return errors.Join(wrong...)
}

// isPolicy says whether an address can stand on every page.
func isPolicy(address string, mail bool) bool {
	u, err := url.Parse(address)
	switch {
	case err != nil || len(address) > core.MaxNote || strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r > '~' }):
		return false
	case strings.HasPrefix(address, "mailto:"):
		return mail && strings.Contains(u.Opaque, "@")
	}
	return (strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://")) && u.Hostname() != "" && u.User == nil
}

func storePath(data string) string { return filepath.Join(data, "ledger") }

// ledgerConfig says how the ledger in the data folder is kept, without its store.
func (o *options) ledgerConfig() ledger.Config {
	return ledger.Config{HeadPath: filepath.Join(o.data, "head"), Capacity: o.capacity, Now: o.now, Clock: o.stamps}
}

// now is the present instant.
func (o *options) now() time.Time {
	if o.clock == nil {
		return time.Now()
	}
	return o.clock()
}

// sitesFlags say which sites may join, and where they are fetched from. All of
// them are for development but the addresses that are the operator's own.
type sitesFlags struct {
	fetchMap, own list
	resolver      string
	dev           bool
}

func (f *sitesFlags) define(fs *flag.FlagSet) {
	fs.Var(&f.fetchMap, "fetch-map", "`HOST=ADDR:PORT` to fetch a host from; *.HOST is every name below it; needs --dev (repeatable)")
	fs.Var(&f.own, "own-address", fileOnly+"public `address` of your other machines, which is never fetched from (repeatable)")
	fs.StringVar(&f.resolver, "resolver", "", fileOnly+"`ADDR:PORT` of the name server for names of sites (default: the system's)")
	fs.BoolVar(&f.dev, "dev", false, "allow --scorer fixed:N and --fetch-map, for development")
}

func (f *sitesFlags) validate() error {
	if !f.dev && len(f.fetchMap) > 0 {
		return errors.New("--fetch-map fetches from addresses that are not public and needs --dev")
	}
	_, err := f.fetch()
	return errors.Join(err, f.policy().Validate())
}

// policy admits the hosts that are mapped.
func (f *sitesFlags) policy() (p form.SitePolicy) {
	for _, m := range f.fetchMap {
		host, _, _ := strings.Cut(m, "=")
		p.AllowHosts = append(p.AllowHosts, host)
	}
	return p
}

// fetch is the configuration of the client that reads strangers' sites.
func (f *sitesFlags) fetch() (fetch.Config, error) {
	cfg := fetch.Config{Map: map[string]netip.AddrPort{}}
	for _, m := range f.fetchMap {
		host, to, err := fetch.ParseMap(m)
		if err != nil {
			return cfg, fmt.Errorf("--fetch-map: %w", err)
		}
		cfg.Map[host] = to
	}
	for _, a := range f.own {
		own, err := netip.ParseAddr(a)
		if err != nil {
			return cfg, fmt.Errorf("own-address %q is not an address", a)
		}
		cfg.Own = append(cfg.Own, own)
	}
	if f.resolver != "" {
		at, err := netip.ParseAddrPort(f.resolver)
		if err != nil {
			return cfg, fmt.Errorf("resolver %q is not an address and a port, such as 127.0.0.1:53", f.resolver)
		}
		cfg.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at.String())
		}}
	}
	return cfg, nil
}

// scorer is what the scorer is made of.
func (o *options) scorer() (score.Config, error) {
	c := o.score
	var err error
	c.Header, err = score.HeaderFromEnviron(os.Environ())
	return c, err
}
