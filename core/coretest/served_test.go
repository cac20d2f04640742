package coretest

import (
	"bytes"
	"fmt"
	"testing"

	"webring/core"
	"webring/core/api"
)

// targets are requests of every kind, for members that are there and others.
func targets(st *core.State) []string {
	list := []string{"/api", "/api/ring", "/api/ring?limit=2&offset=1&kind=agent", "/api/ring?page=2&limit=3&category=tools",
		"/api/ring/next", "/api/ring/prev?kind=mcp", "/api/ring/random", "/api/ring/random?from=alpha-0&category=general",
		"/api/categories", "/api/widget", "/api/widget?from=a.com", "/api/leaderboard", "/api/leaderboard?limit=3&page=2",
		"/next?from=nobody", "/prev?from=https://a.com/foo/bar", "/random?kind=website", "/nothing", "/api/ring/nobody"}
	for o := range min(st.Rows(), 6) {
		slug := st.Member(core.Ordinal(o)).Slug
		list = append(list, "/api/ring/"+slug, "/api/ring/next?from="+slug, "/prev?kind=agent&from="+slug, "/api/widget?from="+slug)
	}
	return list
}

// served is everything that a host can see of a state: answers with their
// validators, and what the writer asks.
func served(st *core.State) []byte {
	var b bytes.Buffer
	if st.Rules() == nil {
		return nil
	}
	var r api.Response
	for _, target := range targets(st) {
		api.Serve(st, []byte(target), 0x9E3779B97F4A7C15, &r)
		fmt.Fprintf(&b, "%s %d %d %d seq=%d %d..%d unknown=%t location=%s next=%s prev=%s\n%s\n", target, r.Status, r.Media, r.Validity,
			r.Seq, r.Since, r.Until, r.Unknown, r.Location, r.Next, r.Prev, r.Body)
	}
	paid, voided := st.Books()
	fmt.Fprintln(&b, st.Seq(), st.Clock(), st.LastStamp(), st.Len(), st.Rows(), paid, voided, st.JoinAtFirst(), st.AppendRanked(nil, 0, st.Len()), st.Categories())
	return b.Bytes()
}

// differ shows the first line in which two served states differ.
func differ(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	g, w := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(g), len(w)) {
		if !bytes.Equal(g[i], w[i]) {
			t.Errorf("%s:\n got %s\nwant %s", what, g[i], w[i])
			return
		}
	}
	t.Errorf("%s: %d lines, want %d", what, len(g), len(w))
}
