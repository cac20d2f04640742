package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/server/paid"
	"webring/server/sites/fetch"
	"webring/server/sites/score"
	"webring/server/sites/score/local"
	"webring/server/sites/siteproof"
)

// What challenges may name is less than what the store of reports keeps, however many scans
// are asked for, and stays for as long as it may be paid for.
func TestReportsStayWhileChallengesNameThem(t *testing.T) {
	if named := score.KeptFor(40, 40) + paid.ChallengeLife; named+localLimits.Ask >= local.InChallenges {
		t.Errorf("a report is named for %s, and kept for %s", named, local.InChallenges)
	}
	minutes := int(local.InChallenges/time.Minute) + 1
	if scans := minutes * localLimits.InAll; scans >= local.MaxDrafts {
		t.Errorf("%d scans may be made in %d minutes, and %d drafts are stored", scans, minutes, local.MaxDrafts)
	}
}

// What a site shows in its file is read in the name of the client that asks: one that had all
// that it may have keeps no other from reading it.
func TestMemberSitesAreReadForEachClient(t *testing.T) {
	const account = "0x1111111111111111111111111111111111111111"
	token := strings.Repeat("A", 48)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == siteproof.File {
			fmt.Fprintln(w, token+"\n"+account)
		}
	}))
	defer site.Close()
	client := fetch.New(fetch.Config{Map: map[string]netip.AddrPort{"site.dev": netip.MustParseAddrPort(site.Listener.Addr().String())},
		Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("no name server is asked in this test")
		}}})
	defer client.Close()
	s := memberSites{client}
	at, err := s.Place("http://site.dev/")
	if err != nil {
		t.Fatal(err)
	}
	named := func(client string) bool {
		all, known := s.Accounts(t.Context(), client, "http://site.dev/")
		is := slices.Contains(all, core.AccountOf(account))
		if !is && known {
			t.Fatal("a site that was not read is taken for one that names no account")
		}
		return is
	}
	const greedy, other = "198.51.100.1", "203.0.113.1"
	for n := 0; named(greedy); n++ {
		if n == 1000 {
			t.Fatal("a client has no limit")
		}
	}
	if seen := s.Look(t.Context(), greedy, at, token); seen.RetryAfter <= 0 || seen.Proof != 0 {
		t.Errorf("a client that had too much: %+v", seen)
	}
	if seen := s.Look(t.Context(), other, at, token); seen.Proof != core.ByFile || !named(other) {
		t.Errorf("another client: %+v, the account is read: %t", seen, named(other))
	}
}
