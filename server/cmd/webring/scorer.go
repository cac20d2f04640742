package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"webring/core"
	"webring/edge/share"
	"webring/server"
	"webring/server/ledger"
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

// remote makes the scorer of a service, or the one of fixed:N.
func (f *scoreFlags) remote() (score.Scorer, error) {
	header, err := score.HeaderFromEnviron(os.Environ())
	if err != nil {
		return nil, err
	}
	return score.New(score.Config{Spec: f.spec, URL: f.url, Pointer: f.pointer, ReportPointer: f.reportAt, Header: header})
}

// sitesScorer is the scorer with what belongs to it.
type sitesScorer struct {
	registrations, drafts *score.Guard

	reports *local.Store // of the local scorer, even if another one is asked now
	log     *slog.Logger
}

// Limits of the local scorer. The folder of reports must have room for all that challenges
// may name.
var localLimits = score.Limits{Pass: requiredScore, InAll: 180, Ask: local.WaitTime + local.ScanTime + 2*local.TurnTime + 2*time.Second}

// draftsInAll is how many drafts are scored in a minute. It is less than for registrations,
// because a check costs its client nothing.
const draftsInAll = 40

// openScorer makes the scorer that the flags name.
func openScorer(o *options, sites *fetch.Client, books *server.Books, log *slog.Logger) (*sitesScorer, error) {
	s := &sitesScorer{log: log, reports: local.Open(books, rests)}
	if o.score.spec == local.Provider {
		limits := localLimits
		limits.Past = share.NewPast()
		scorer := local.New(sites, requiredScore, limits.Past, func(r *local.Report) (string, error) {
			if err := s.reports.Put(r); err != nil {
				return "", err
			}
			return o.baseURL + server.ReportsPath + r.ID, nil
		})
		s.registrations = score.NewGuard(scorer, limits)
	} else {
		f := &o.score
		scorer, err := f.remote()
		if err != nil {
			return nil, err
		}
		limits := score.Limits{Pass: requiredScore}
		if f.fixed() {
			limits.InAll = -1 // there is no service to spare
		}
		s.registrations = score.NewGuard(scorer, limits)
	}
	s.drafts = s.registrations
	if !o.score.fixed() {
		s.drafts = s.registrations.Beside(draftsInAll)
	}
	return s, nil
}

// sweep removes old reports until ctx ends. At the start and once a day it also looks for
// reports that a member's score no longer rests on.
func (s *sitesScorer) sweep(ctx context.Context) {
	const every = 5 * time.Minute
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		if err := s.reports.Sweep(ctx, n%int(24*time.Hour/every) == 0); err != nil && ctx.Err() == nil {
			s.log.Error("reports cannot be cleared up", "err", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// rests says whether a member's score, or an open payment, rests on the report of a site.
func rests(v *ledger.View, id, url string) bool {
	key := core.AppendKey(nil, []byte(url))
	if at, ok := v.State().Holder(key); ok && strings.HasSuffix(v.State().Member(at).Report, server.ReportsPath+id) {
		return true
	}
	_, pending := v.URLPending(string(key))
	return pending
}
