package main

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"strings"

	"webring/core"
)

// policyFlags name the operator's own pages. They are part of the rules, so that every
// edge shows the same.
type policyFlags struct{ core.Policies }

func (f *policyFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.Terms, "terms", "", "`URL` of the terms of service, http or https; it stands on every page and in the documents, at every edge")
	fs.StringVar(&f.Privacy, "privacy", "", "`URL` of the privacy policy, shown likewise")
	fs.StringVar(&f.Report, "report", "", "`address` where visitors report a member, mailto:, https: or http:, shown likewise; the page of a member leads there with the member's slug, as the subject of a letter or in the parameter member")
}

func (f *policyFlags) validate() error {
	var errs []error
	for _, page := range [...]struct {
		flag, address string
		mail          bool
	}{{"--terms", f.Terms, false}, {"--privacy", f.Privacy, false}, {"--report", f.Report, true}} {
		if page.address != "" && !isPolicy(page.address, page.mail) {
			what := "an http: or https: URL"
			if page.mail {
				what = "a mailto:, http: or https: address"
			}
			errs = append(errs, fmt.Errorf("%s %q is not %s of at most %d bytes", page.flag, page.address, what, core.MaxNote))
		}
	}
	return errors.Join(errs...)
}

// isPolicy says whether an address can stand on every page.
func isPolicy(address string, mail bool) bool {
	u, err := url.Parse(address)
	switch {
	case err != nil || len(address) > core.MaxNote || strings.ContainsFunc(address, unprintable):
		return false
	case strings.HasPrefix(address, "mailto:"):
		return mail && strings.Contains(u.Opaque, "@")
	}
	return (strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://")) && u.Hostname() != "" && u.User == nil
}

// unprintable says whether a URL holds r as an escape only.
func unprintable(r rune) bool { return r <= ' ' || r > '~' }
