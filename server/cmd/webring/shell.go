package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/crypto/acme"

	"webring/edge"
	"webring/edge/front"
	"webring/server"
	"webring/server/admin"
)

// shellFlags say how the shell meets the outside, at the origin and at an edge.
type shellFlags struct {
	check          bool
	listen         string
	adminListen    string
	rateLimit      int
	trustedProxies list
	clientIPHeader string
	tls            tlsFlags
	contact        string
	hub            string
	logs           logFlags
	drain          time.Duration // for how long a process that was told to stop accepts connections
	confirmed      list
	set            *flag.FlagSet // where these settings are defined
}

// Defaults.
const (
	usualAdmin = "127.0.0.1:8403"
	// A balancer that asks for readiness every few seconds has taken the node out by then.
	usualDrain = 10 * time.Second
)

// usualClientIPHeader is the field that most proxies write.
const usualClientIPHeader = "X-Forwarded-For"

func (f *shellFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8402", "`address` to listen on")
	f.set = fs
	fs.Var(&configFile{}, configName, "`file` in TOML with settings by their names; flags and environment come first")
	fs.BoolVar(&f.check, checkFlag, false, "check everything that a start needs, print a list, and change nothing; it may run while a process uses the same folder")
	fs.Var(&f.confirmed, confirmFlag, "`what` this start may do although it is refused: base-url, keys or user")
	fs.StringVar(&f.adminListen, "admin-listen", usualAdmin, "`address` of /healthz, /readyz, /metrics and /debug/pprof/; keep strangers away from it; if the default is taken, the next free port; empty for no listener and no metrics")
	fs.IntVar(&f.rateLimit, "rate-limit", 120, "`requests` a minute for each client; 0 for no limit")
	fs.Var(&f.trustedProxies, "trusted-proxy", "`network` or address of proxies that may name the client's address, or unix for peers on a socket (repeatable)")
	fs.StringVar(&f.clientIPHeader, "client-ip-header", usualClientIPHeader, fileOnly+"`field` in which trusted proxies name the client: X-Forwarded-For, Forwarded, or one with a single address, such as CF-Connecting-IP; the proxies must set it themselves")
	f.tls.define(fs)
	f.logs.define(fs)
	f.drain = usualDrain
	fs.Var((*duration)(&f.drain), "drain", "`time` to go on accepting requests after SIGTERM, while /readyz already says no; 0 with serve --dev unless given")
	fs.StringVar(&f.contact, "contact", "", "`address` for security reports, mailto: or https:, published in security.txt")
	fs.StringVar(&f.hub, "websub-hub", "", "`URL` of a WebSub hub; feeds name it, and an origin tells it of news")
}

func (f *shellFlags) validate() error {
	var wrong mistakes
	wrong.when(f.rateLimit < 0, "--rate-limit must not be negative")
	wrong.when(f.drain < 0, "--drain must not be negative")
	for _, what := range f.confirmed {
		wrong.when(what != server.ConfirmBaseURL && what != server.ConfirmKeys && what != server.ConfirmUser, "--confirm %q is none of base-url, keys and user", what)
	}
	wrong.when(f.clientIPHeader != usualClientIPHeader && len(f.trustedProxies) == 0, "client-ip-header: only trusted proxies are believed when they name a client; name them with --trusted-proxy")
	wrong.when(f.contact != "" && !isContact(f.contact), "--contact %q is neither a mailto: nor an https: address", f.contact)
	if f.hub != "" {
		u, err := url.Parse(f.hub)
		wrong.when(err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "", "--websub-hub %q is not an http: or https: URL", f.hub)
	}
	return errors.Join(append(wrong, f.tls.validate(), f.logs.validate())...)
}

// given says whether a setting has been set by flag, environment or file.
func (f *shellFlags) given(name string) (is bool) {
	f.set.Visit(func(x *flag.Flag) { is = is || x.Name == name })
	return is
}

// open listens for clients.
func (f *shellFlags) open() (net.Listener, error) { return net.Listen("tcp", f.listen) }

// isContact says whether s can stand in a line of security.txt (RFC 9116).
func isContact(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "mailto" && u.Opaque != "" || u.Scheme == "https" && u.Host != "") && !strings.ContainsFunc(s, unicode.IsSpace)
}

// fill puts what the flags say into the shell's configuration, and gives the
// certificates that are to be kept fresh, nil without TLS.
func (f *shellFlags) fill(cfg *edge.Config, data string, watch *admin.Server, log *slog.Logger) (certificates, error) {
	cfg.Hub = f.hub
	cfg.RateLimit, cfg.Contact, cfg.Version, cfg.Count = f.rateLimit, f.contact, thisBuild().version, f.adminListen != ""
	var err error
	if cfg.TrustedProxies, err = f.proxies(); err != nil {
		return nil, err
	}
	certificates, err := f.tls.open(data, log)
	if err == nil && certificates != nil {
		cfg.TLS = certificates.TLS()
		watch.Add(admin.Certificates{NotAfter: certificates.NotAfter})
	}
	return certificates, err
}

// proxies gives the proxies that are believed.
func (f *shellFlags) proxies() (front.Proxies, error) {
	p, err := front.ParseProxies(f.trustedProxies)
	if err != nil {
		return p, fmt.Errorf("--trusted-proxy: %w", err)
	}
	if err := p.NameClientsIn(f.clientIPHeader); err != nil {
		return p, fmt.Errorf("client-ip-header: %w", err)
	}
	return p, nil
}

// front gives the flags that [reloadFront] needs.
func (o *options) front() (*shellFlags, string) { return &o.shell, o.edgeSecretFile }

// listenAdmin listens for the operator. If the operator gave no address and another process has the
// usual port, it takes the next free one, so that several processes run on one machine.
func (f *shellFlags) listenAdmin() (net.Listener, error) {
	l, err := net.Listen("tcp", f.adminListen)
	host, port, _ := net.SplitHostPort(f.adminListen)
	for next, _ := strconv.Atoi(port); !f.given("admin-listen") && errors.Is(err, syscall.EADDRINUSE) && next < math.MaxUint16; {
		next++
		l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(next)))
	}
	return l, err
}

// watch opens the second listener, if the flags ask for one. Nil stands for none.
func (f *shellFlags) watch(passed passedSockets, log *slog.Logger) (*admin.Server, error) {
	b := thisBuild()
	switch {
	case f.adminListen == "" && len(passed[adminSocket]) > 0:
		return nil, errors.New("a socket was passed for health and metrics, and --admin-listen is empty: give it any address (it is not used), or pass no such socket")
	case f.adminListen == "":
		return nil, nil
	}
	listeners, err := passed.listen(adminSocket, f.listenAdmin, log)
	if err != nil {
		return nil, fmt.Errorf("--admin-listen: %w", err)
	}
	if at := listeners[0].Addr().String(); !f.given("admin-listen") && at != f.adminListen && len(passed[adminSocket]) == 0 {
		log.Warn("another process has the usual address for metrics, so this one has the next free port; give --admin-listen to keep one address", "address", at)
	}
	return admin.Serve(listeners, admin.Build{Version: b.version, Revision: b.revision}, log), nil
}

// tlsFlags say which certificate the listener shows, if it speaks TLS.
type tlsFlags struct {
	cert, key string
	acme      front.ACMEConfig // without Cache and Log
}

func (f *tlsFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.cert, "tls-cert", "", "`file` with the TLS certificate chain; the process reads it again when it changes")
	fs.StringVar(&f.key, "tls-key", "", "`file` with the TLS key")
	fs.Var((*list)(&f.acme.Hosts), "acme-host", "host `name` to get a certificate for by ACME; by giving one you agree to the authority's terms (repeatable)")
	fs.StringVar(&f.acme.Email, "acme-email", "", fileOnly+"`address` that the authority writes to")
	fs.StringVar(&f.acme.Directory, "acme-directory", acme.LetsEncryptURL, fileOnly+"`URL` of the authority's directory")
	fs.StringVar(&f.acme.CAFile, "acme-ca-file", "", fileOnly+"`file` with the certificates, in PEM, that prove the authority itself (default: those of the system)")
	fs.StringVar(&f.acme.HTTPListen, "acme-http-listen", "", fileOnly+"`address` to answer challenges by HTTP; other requests are redirected to https")
}

func (f *tlsFlags) validate() error {
	var wrong mistakes
	given := func(name string, is bool) {
		wrong.when(is && len(f.acme.Hosts) == 0, "%s is for --acme-host, which is missing", name)
	}
	given("acme-email", f.acme.Email != "")
	given("acme-ca-file", f.acme.CAFile != "")
	given("acme-http-listen", f.acme.HTTPListen != "")
	given("acme-directory", f.acme.Directory != acme.LetsEncryptURL)
	wrong.when((f.cert == "") != (f.key == ""), "--tls-cert and --tls-key go together")
	wrong.when(f.cert != "" && len(f.acme.Hosts) > 0, "--tls-cert and --acme-host: a certificate comes from files or by ACME; leave one of the two out")
	u, err := url.Parse(f.acme.Directory)
	wrong.when(err != nil || u.Scheme != "https" || u.Host == "", "acme-directory must be an https URL")
	for _, host := range f.acme.Hosts {
		_, notAddress := netip.ParseAddr(host)
		wrong.when(notAddress == nil || !strings.Contains(strings.Trim(host, "."), ".") || strings.HasSuffix(host, ".") || strings.ContainsAny(host, "*:/ "), "--acme-host %q must be a host name with a dot inside, without a star or port", host)
	}
	return errors.Join(wrong...)
}

// given says whether the listener speaks TLS.
func (f *tlsFlags) given() bool { return f.cert != "" || len(f.acme.Hosts) > 0 }

// certificates are those that the listener shows: see [front.CertificateFiles] and [front.ACME].
type certificates interface {
	TLS() *tls.Config
	NotAfter() time.Time
	// Run keeps them fresh until ctx is done. The listener answers by then.
	Run(ctx context.Context)
}

// open returns the certificates, nil when the listener speaks no TLS. Certificates from ACME
// are kept in the data folder.
func (f *tlsFlags) open(data string, log *slog.Logger) (certificates, error) {
	switch {
	case f.cert != "":
		return front.OpenCertificate(f.cert, f.key, log)
	case len(f.acme.Hosts) > 0:
		return front.NewACME(f.authority(data, log))
	}
	return nil, nil
}

// authority is how certificates are got by ACME.
func (f *tlsFlags) authority(data string, log *slog.Logger) front.ACMEConfig {
	c := f.acme
	c.Cache, c.Log = filepath.Join(data, "acme"), log
	return c
}
