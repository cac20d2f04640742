package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"webring/server/paid/form"
	"webring/server/sites/fetch"
	"webring/server/sites/score"
	"webring/server/sites/score/local"
)

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

// scoreFlags say which service scores sites, and how to ask it.
type scoreFlags struct{ spec, url, pointer, reportAt string }

func (f *scoreFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.spec, "scorer", local.Provider, "`service` that scores sites: local, http, or with --dev fixed:N")
	fs.StringVar(&f.url, "score-url", "", fileOnly+"scorer http: `URL` of the question, with {url} or {host}")
	fs.StringVar(&f.pointer, "score-pointer", "", fileOnly+"scorer http: JSON `pointer` to the score, from 0 to 100, in the answer")
	fs.StringVar(&f.reportAt, "report-pointer", "", fileOnly+"scorer http: JSON `pointer` to the report link in the answer")
}

func (f *scoreFlags) fixed() bool { return strings.HasPrefix(f.spec, "fixed:") }

// config is what the scorer is made of.
func (f *scoreFlags) config() (score.Config, error) {
	header, err := score.HeaderFromEnviron(os.Environ())
	return score.Config{Spec: f.spec, URL: f.url, Pointer: f.pointer, ReportPointer: f.reportAt, Header: header}, err
}
