package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"webring/server/devchain"
)

// deployed reads a file of server/deploy, with what it names replaced by what is there in
// a test. All of it must occur.
func deployed(t *testing.T, name string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replace); i += 2 {
		if !bytes.Contains(text, []byte(replace[i])) {
			t.Fatalf("%s does not hold %q", name, replace[i])
		}
	}
	return strings.NewReplacer(replace...).Replace(string(text))
}

// TestCaddyAsShipped runs the shipped configuration before two edges: TLS, HTTP/2, who
// the client is, the stream of checkpoints, and an edge that goes away.
func TestCaddyAsShipped(t *testing.T) {
	t.Parallel()
	secret, data, listen := secretFile(t), t.TempDir(), devchain.FreeAddress()
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		t.Fatal(err)
	}
	site := "localhost:" + port
	o := ring(t, "--edge-secret-file", secret, "--base-url", "https://"+site)
	edges := []*origin{}
	for range 2 {
		edges = append(edges, o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret, "--trusted-proxy", "127.0.0.1", "--rate-limit", "120"))
	}
	// Certificates are of an authority of Caddy's own, which nothing else is told of.
	config := "{\n\tadmin off\n\tlocal_certs\n\tskip_install_trust\n\tauto_https disable_redirects\n\tstorage file_system " + data + "\n}\n" +
		deployed(t, "caddy/Caddyfile", "ring.example.org", site,
			"127.0.0.1:8411", strings.TrimPrefix(edges[0].base, "http://"), "127.0.0.1:8412", strings.TrimPrefix(edges[1].base, "http://"))
	background(t, listen, config, "caddy", "run", "--adapter", "caddyfile", "--config")

	authority := x509.NewCertPool()
	eventually(t, "the certificate of Caddy's authority", longEnough, func() bool {
		root, err := os.ReadFile(filepath.Join(data, "pki", "authorities", "local", "root.crt"))
		return err == nil && authority.AppendCertsFromPEM(root)
	})
	// A client that is not the proxy itself.
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
	client := &http.Client{Timeout: patient, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authority}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return from.DialContext(ctx, "tcp4", listen) }}}
	send := func(method, path, body string) reply {
		t.Helper()
		req, err := http.NewRequest(method, "https://"+site+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Forwarded-For", "198.51.100.7")
		req.Header.Set("X-Forwarded-Proto", "http")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.ProtoMajor != 2 {
			t.Errorf("%s %s came by %s", method, path, res.Proto)
		}
		return reply{res.StatusCode, res.Header, text}
	}
	eventually(t, "an answer", longEnough, func() bool {
		res, err := client.Get("https://" + site + "/api")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})

	// An edge asks for payment only when its client is known to have come by TLS.
	if r := send(http.MethodPost, "/api/register", registration(t, nil)); r.Status != http.StatusPaymentRequired {
		t.Errorf("a registration gets %d, want 402: %s", r.Status, r.Body)
	}
	// The address that a stranger writes has no requests of its own: all are this client's.
	least := 120
	for range 8 {
		left, err := strconv.Atoi(send(http.MethodGet, "/api", "").Header.Get("RateLimit-Remaining"))
		if err != nil {
			t.Fatal(err)
		}
		least = min(least, left)
	}
	if least > 116 {
		t.Errorf("after nine requests to two edges, each has %d left for this client", least)
	}

	// A checkpoint comes as soon as it is there, not when the stream ends.
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+site+"/sync/checkpoint", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, 1)
	if _, err := io.ReadFull(res.Body, first); err != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		t.Errorf("the stream of checkpoints: %v, %s", err, res.Header)
	}
	res.Body.Close()

	// Each edge can go, and readers notice nothing.
	for _, e := range edges {
		e.kill()
		for range 20 {
			if r := send(http.MethodGet, "/api", ""); r.Status != http.StatusOK {
				t.Errorf("without an edge: %d %s", r.Status, r.Body)
			}
		}
		e.launch()
		eventually(t, "Caddy's look after an edge that came back", time.Minute, func() bool {
			left, err := strconv.Atoi(e.get("/api").Header.Get("RateLimit-Remaining"))
			return err == nil && left < 1200-3
		})
	}
}
