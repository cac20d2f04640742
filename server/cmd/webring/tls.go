package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/acme"

	"webring/edge/front"
)

// tlsFlags say which certificate the listener shows, if it speaks TLS.
type tlsFlags struct {
	cert, key                            string
	hosts                                list
	email, directory, caFile, httpListen string
}

func (f *tlsFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.cert, "tls-cert", "", "`file` with the TLS certificate chain; the process reads it again when it changes")
	fs.StringVar(&f.key, "tls-key", "", "`file` with the TLS key")
	fs.Var(&f.hosts, "acme-host", "host `name` to get a certificate for by ACME; by giving one you agree to the authority's terms (repeatable)")
	fs.StringVar(&f.email, "acme-email", "", fileOnly+"`address` that the authority writes to")
	fs.StringVar(&f.directory, "acme-directory", acme.LetsEncryptURL, fileOnly+"`URL` of the authority's directory")
	fs.StringVar(&f.caFile, "acme-ca-file", "", fileOnly+"`file` with the certificates, in PEM, that prove the authority itself (default: those of the system)")
	fs.StringVar(&f.httpListen, "acme-http-listen", "", fileOnly+"`address` to answer challenges by HTTP; other requests are redirected to https")
}

func (f *tlsFlags) validate() error {
	given := func(name, value string) error {
		if len(f.hosts) > 0 || value == "" {
			return nil
		}
		return fmt.Errorf("%s is for --acme-host, which is missing", name)
	}
	errs := []error{given("acme-email", f.email), given("acme-ca-file", f.caFile), given("acme-http-listen", f.httpListen)}
	if f.directory != acme.LetsEncryptURL {
		errs = append(errs, given("acme-directory", f.directory))
	}
	switch {
	case (f.cert == "") != (f.key == ""):
		errs = append(errs, errors.New("--tls-cert and --tls-key go together"))
	case f.cert != "" && len(f.hosts) > 0:
		errs = append(errs, errors.New("--tls-cert and --acme-host: a certificate comes from files or by ACME; leave one of the two out"))
	}
	if u, err := url.Parse(f.directory); err != nil || u.Scheme != "https" || u.Host == "" {
		errs = append(errs, errors.New("acme-directory must be an https URL"))
	}
	for _, host := range f.hosts {
		_, notAddress := netip.ParseAddr(host)
		if notAddress == nil || !strings.Contains(strings.Trim(host, "."), ".") || strings.HasSuffix(host, ".") || strings.ContainsAny(host, "*:/ ") {
			errs = append(errs, fmt.Errorf("--acme-host %q must be a host name with a dot inside, without a star or port", host))
		}
	}
	return errors.Join(errs...)
}

// given says whether the listener speaks TLS.
func (f *tlsFlags) given() bool { return f.cert != "" || len(f.hosts) > 0 }

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
	case len(f.hosts) > 0:
		return front.NewACME(f.acme(data, log))
	}
	return nil, nil
}

func (f *tlsFlags) acme(data string, log *slog.Logger) front.ACMEConfig {
	return front.ACMEConfig{Hosts: f.hosts, Email: f.email, Directory: f.directory, CAFile: f.caFile,
		Cache: filepath.Join(data, "acme"), HTTPListen: f.httpListen, Log: log}
}

// reloadTLS prepares to show what the files hold now.
func reloadTLS(now certificates, next *tlsFlags) (change, error) {
	files, ok := now.(*front.CertificateFiles)
	if !ok || next.cert == "" {
		return change{}, errRestart
	}
	pair, err := front.ReadCertificate(next.cert, next.key)
	if err != nil || files.Shows(pair) {
		return change{}, err
	}
	return change{said: "it expires " + pair.Leaf().NotAfter.UTC().Format(time.RFC3339), apply: func() error {
		files.Use(pair, next.cert, next.key)
		return nil
	}}, nil
}
