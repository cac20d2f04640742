package front

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
)

// ACMEConfig says of which authority certificates come, and for which names. Hosts and
// Cache are needed.
type ACMEConfig struct {
	Hosts []string
	// Email is where the authority writes to, "" for nowhere.
	Email string
	// Directory is the URL of the authority's directory, [acme.LetsEncryptURL] when "".
	Directory string
	// CAFile holds the certificates, in PEM, by which the authority itself is known;
	// "" stands for those of the system.
	CAFile string
	// Cache is the folder of account, keys and certificates. It is made when there is
	// something to be kept.
	Cache string
	// HTTPListen is where challenges of the kind HTTP-01 are answered, "" for nowhere:
	// those of the kind TLS-ALPN-01 are answered by the listener that shows the
	// certificates.
	HTTPListen string
	Log        *slog.Logger
}

// ACME shows certificates that an authority issues, and has them renewed when two thirds
// of their time are over. It may be used concurrently.
type ACME struct {
	cfg     ACMEConfig
	manager *autocert.Manager
	http    net.Listener // nil without HTTPListen
}

// NewACME prepares what [ACME.Run] has issued. The caller agrees to the terms of the
// authority.
func NewACME(cfg ACMEConfig) (*ACME, error) {
	client, err := cfg.client()
	if err != nil {
		return nil, err
	}
	a := &ACME{cfg: cfg, manager: &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(cfg.Cache), HostPolicy: autocert.HostWhitelist(cfg.Hosts...),
		Email: cfg.Email, Client: client,
	}}
	if cfg.HTTPListen != "" {
		if a.http, err = net.Listen("tcp", cfg.HTTPListen); err != nil {
			return nil, fmt.Errorf("acme-http-listen: %w", err)
		}
	}
	return a, nil
}

// client asks the authority.
func (cfg *ACMEConfig) client() (*acme.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second}
	if cfg.CAFile != "" {
		text, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("acme-ca-file: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("acme-ca-file: %s holds no certificate in PEM", cfg.CAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	}
	directory := cfg.Directory
	if directory == "" {
		directory = acme.LetsEncryptURL
	}
	return &acme.Client{DirectoryURL: directory, UserAgent: "webring", HTTPClient: &http.Client{Transport: transport, Timeout: time.Minute}}, nil
}

// Reach asks the authority for its directory, and says whether it is one.
func (cfg *ACMEConfig) Reach(ctx context.Context) error {
	client, err := cfg.client()
	if err != nil {
		return err
	}
	d, err := client.Discover(ctx)
	if err == nil && d.OrderURL == "" {
		err = errors.New("it is no directory of ACME")
	}
	return err
}

// TLS is a configuration that shows the certificates, and answers challenges.
func (a *ACME) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: a.certificate, NextProtos: []string{acme.ALPNProto}}
}

// certificate gives the manager what it can see of a client that speaks TLS 1.3: that it
// takes ECDSA. The manager looks for that among the suites of TLS 1.2, and would have
// another certificate issued for a client which names none of those.
func (a *ACME) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if slices.Contains(hello.SupportedVersions, tls.VersionTLS13) {
		known := *hello
		known.CipherSuites = append(slices.Clone(hello.CipherSuites), tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)
		hello = &known
	}
	return a.manager.GetCertificate(hello)
}

// NotAfter is when the first of the certificates expires, the zero time while one is
// missing.
func (a *ACME) NotAfter() (first time.Time) {
	for _, host := range a.cfg.Hosts {
		text, err := a.manager.Cache.Get(context.Background(), host)
		if err != nil {
			return time.Time{}
		}
		pair, err := tls.X509KeyPair(text, text)
		if err != nil {
			return time.Time{}
		}
		if at := pair.Leaf.NotAfter; first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first
}

// Run has the certificates issued, and renewed until ctx is done: the listener must be
// answering by now, since the authority asks it. Where that fails the log says why, and
// it is tried again.
func (a *ACME) Run(ctx context.Context) {
	stop := a.answerHTTP()
	defer stop()
	for _, host := range a.cfg.Hosts {
		go a.obtain(ctx, host)
	}
	<-ctx.Done()
}

// Authorities allow a few failures an hour; this is how long the next try waits.
const (
	firstPause = 2 * time.Minute
	mostPause  = time.Hour
)

// obtain has a certificate issued, unless there is one. From then on the manager renews
// it.
func (a *ACME) obtain(ctx context.Context, host string) {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		cert, err := a.certificate(&tls.ClientHelloInfo{ServerName: host, SupportedVersions: []uint16{tls.VersionTLS13}})
		if err == nil {
			a.cfg.Log.Info("there is a certificate by ACME", "host", host, "expires", cert.Leaf.NotAfter.UTC())
			return
		}
		a.cfg.Log.Error("no certificate by ACME", "host", host, "err", err, "again in", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// answerHTTP answers challenges where HTTPListen says, and sends all else to https. It
// gives what ends that.
func (a *ACME) answerHTTP() (stop func()) {
	if a.http == nil {
		return func() {}
	}
	challenges := a.manager.HTTPHandler(nil)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The manager knows hosts without a port, and an authority may ask at any.
		if host, _, err := net.SplitHostPort(r.Host); err == nil {
			r.Host = host
		}
		challenges.ServeHTTP(w, r)
	}), ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(a.cfg.Log.Handler(), slog.LevelDebug)}
	go s.Serve(a.http)
	return func() { s.Close() }
}
