package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"
	"unicode"

	"webring/edge"
	"webring/edge/clientaddr"
	"webring/server/durable"
)

// shellFlags say how the shell meets the outside, at the origin and at an edge.
type shellFlags struct {
	listen          string
	rateLimit       int
	trustedProxies  list
	clientIPHeader  string
	tlsCert, tlsKey string
	contact         string
}

// usualClientIPHeader is the field that most proxies write.
const usualClientIPHeader = "X-Forwarded-For"

func (f *shellFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8402", "`address` to listen on")
	fs.IntVar(&f.rateLimit, "rate-limit", 120, "`requests` a minute for each client; 0 for no limit")
	fs.Var(&f.trustedProxies, "trusted-proxy", "`network` or address of proxies that are believed when they say for whom they ask, or unix for peers on a socket (repeatable)")
	fs.StringVar(&f.clientIPHeader, "client-ip-header", usualClientIPHeader, "`field` in which trusted proxies name the client: X-Forwarded-For, Forwarded, or one that holds a single address, such as CF-Connecting-IP; the proxies must set it themselves, and no other is believed")
	fs.StringVar(&f.tlsCert, "tls-cert", "", "`file` with the TLS certificate chain")
	fs.StringVar(&f.tlsKey, "tls-key", "", "`file` with the TLS key")
	fs.StringVar(&f.contact, "contact", "", "`address` for security reports, mailto: or https:, published in security.txt")
}

func (f *shellFlags) validate() error {
	switch {
	case f.rateLimit < 0:
		return errors.New("--rate-limit must not be negative")
	case f.clientIPHeader != usualClientIPHeader && len(f.trustedProxies) == 0:
		return errors.New("--client-ip-header: only trusted proxies are believed when they name a client; name them with --trusted-proxy")
	case (f.tlsCert == "") != (f.tlsKey == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case f.contact != "" && !isContact(f.contact):
		return fmt.Errorf("--contact %q is neither a mailto: nor an https: address", f.contact)
	}
	return nil
}

// isContact says whether s can stand in a line of security.txt (RFC 9116).
func isContact(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "mailto" && u.Opaque != "" || u.Scheme == "https" && u.Host != "") && !strings.ContainsFunc(s, unicode.IsSpace)
}

// fill puts what the flags say into the shell's configuration.
func (f *shellFlags) fill(cfg *edge.Config) (err error) {
	cfg.RateLimit, cfg.Contact = f.rateLimit, f.contact
	if cfg.TrustedProxies, err = clientaddr.ParseProxies(f.trustedProxies); err != nil {
		return fmt.Errorf("--trusted-proxy: %w", err)
	}
	if err := cfg.TrustedProxies.NameClientsIn(f.clientIPHeader); err != nil {
		return fmt.Errorf("--client-ip-header: %w", err)
	}
	if f.tlsCert == "" {
		return nil
	}
	chain, err := os.ReadFile(f.tlsCert)
	if err != nil {
		return fmt.Errorf("--tls-cert: %w", err)
	}
	key, err := durable.ReadSecret(f.tlsKey)
	if err != nil {
		return fmt.Errorf("--tls-key: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	cfg.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return nil
}
