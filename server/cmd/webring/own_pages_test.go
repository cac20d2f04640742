package main

import (
	"crypto/x509"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"testing"

	"webring/server/sites/fetch"
	"webring/server/sites/score/exemplar"
	"webring/server/sites/score/local"
)

// TestOwnPagesAreReadyForAgents has the ring's own scorer look at the ring, at an edge behind
// a proxy that speaks TLS. What the ring asks of sites it does itself, once its operator has
// set a contact and a privacy policy.
func TestOwnPagesAreReadyForAgents(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := start(t, "--base-url", "https://ring.scored.test", "--tempo-rpc", c.RPC, "--privacy", "https://www.scored.test/privacy", "--report", "mailto:abuse@scored.test")
	e := o.follow(t, o.verifier(), "--trusted-proxy", "127.0.0.1")
	alike(t, o, e)
	to, err := url.Parse(e.base)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}}
	operator := &exemplar.Site{Name: "Operator", About: "Who runs the ring."}
	front, err := exemplar.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "www.scored.test" {
			operator.ServeHTTP(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}), "*.scored.test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.Close)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(front.Roots)
	client := fetch.New(fetch.Config{Map: map[string]netip.AddrPort{"*.scored.test": front.Addr}, Roots: roots})
	t.Cleanup(client.Close)
	r, err := local.New(client, requiredScore, nil, nil).Scan(t.Context(), "https://ring.scored.test/")
	if err != nil {
		t.Fatal(err)
	}
	if r.Score != local.MaxScore {
		t.Errorf("%s", r.Markdown())
	}
}
