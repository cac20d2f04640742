package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"webring/server/devchain"
)

// gateway is nginx with TLS before the edges of a ring, configured as shipped, and who comes
// to it: readers, and payers with the reference client.
type gateway struct {
	t       *testing.T
	dir     string
	address string
	certs   [][2]string // files of certificates and their keys, of which it has one at a time
	trusted *x509.CertPool
	reader  *http.Client
	payer   *devchain.Client
	edges   []*origin
}

// newGateway gives a gateway that has yet to begin.
func newGateway(t *testing.T) *gateway {
	t.Helper()
	f := &gateway{t: t, dir: t.TempDir(), address: devchain.FreeAddress(), trusted: x509.NewCertPool()}
	var all []byte
	for range 2 {
		cert, key, _ := certificate(t)
		text, err := os.ReadFile(cert)
		if err != nil {
			t.Fatal(err)
		}
		f.certs, all = append(f.certs, [2]string{cert, key}), append(all, text...)
	}
	f.trusted.AppendCertsFromPEM(all)
	bundle := f.file("trusted.pem")
	if err := os.WriteFile(bundle, all, 0o600); err != nil {
		t.Fatal(err)
	}
	f.reader = &http.Client{Timeout: patient, CheckRedirect: noRedirects.CheckRedirect,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.trusted}, ForceAttemptHTTP2: true}}
	c, _ := chain(t)
	var err error
	if f.payer, err = devchain.StartClient(t.Context(), c.RPC, "NODE_EXTRA_CA_CERTS="+bundle); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.payer.Close)
	f.certify(0)
	return f
}

func (f *gateway) site() string { return "https://" + f.address }

func (f *gateway) file(name string) string { return filepath.Join(f.dir, name) }

// certify puts one of the certificates where nginx looks when it is started or reloaded.
func (f *gateway) certify(n int) {
	f.t.Helper()
	for i, name := range []string{"cert.pem", "key.pem"} {
		text, err := os.ReadFile(f.certs[n][i])
		if err != nil {
			f.t.Fatal(err)
		}
		if err := os.WriteFile(f.file(name), text, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// certified says which of the certificates a new connection is shown.
func (f *gateway) certified() int {
	f.t.Helper()
	conn, err := tls.Dial("tcp", f.address, &tls.Config{RootCAs: f.trusted})
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	for n, files := range f.certs {
		pair, err := tls.LoadX509KeyPair(files[0], files[1])
		if err != nil {
			f.t.Fatal(err)
		}
		if bytes.Equal(pair.Certificate[0], conn.ConnectionState().PeerCertificates[0].Raw) {
			return n
		}
	}
	return -1
}

// begin starts nginx before these edges.
func (f *gateway) begin(edges ...*origin) {
	f.t.Helper()
	f.configure(edges...)
	background(f.t, f.address, fmt.Sprintf(`daemon off; user root; worker_processes 1; pid %[1]s/pid; error_log stderr crit;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	include %[1]s/ring.conf;
}
`, f.dir), "nginx", "-e", "stderr", "-c")
	// The workers of a master that is killed would stay.
	f.t.Cleanup(func() {
		f.signal(syscall.SIGTERM)
		eventually(f.t, "the end of nginx", time.Minute, func() bool {
			_, err := os.Stat(f.file("pid"))
			return os.IsNotExist(err)
		})
	})
}

// configure says which edges nginx is before, from its next reload on.
func (f *gateway) configure(edges ...*origin) {
	f.t.Helper()
	f.edges = edges
	const server, rest = "server %s max_fails=1 fail_timeout=2s;\n", "    "
	var more strings.Builder
	for _, e := range edges[1:] {
		fmt.Fprintf(&more, server+rest, strings.TrimPrefix(e.base, "http://"))
	}
	text := deployed(f.t, "nginx/ring.conf",
		fmt.Sprintf(server, "10.0.0.12:8402"), more.String(), "10.0.0.11:8402", strings.TrimPrefix(edges[0].base, "http://"),
		"listen 443 ", "listen "+f.address+" ", "listen 80;", "listen "+devchain.FreeAddress()+";", "ring.example.org;", "127.0.0.1;",
		"/etc/nginx/ring.example.org.pem", f.file("cert.pem"), "/etc/nginx/ring.example.org.key", f.file("key.pem"))
	if err := os.WriteFile(f.file("ring.conf"), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *gateway) signal(s syscall.Signal) {
	f.t.Helper()
	text, err := os.ReadFile(f.file("pid"))
	if err != nil {
		f.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		f.t.Fatal(err)
	}
	if err := syscall.Kill(pid, s); err != nil {
		f.t.Fatal(err)
	}
}

// reload has nginx read its configuration and certificates again.
func (f *gateway) reload() { f.signal(syscall.SIGHUP) }

// read gets a document by way of nginx.
func (f *gateway) read(path string) (reply, error) {
	res, err := f.reader.Get(f.site() + path)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, text}, err
}

// pay has the reference client pay by way of nginx.
func (f *gateway) pay(path, body string) (devchain.Payment, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return f.payer.Pay(ctx, wallet(f.t).HexKey(), devchain.Request{Method: http.MethodPost, URL: f.site() + path,
		Header: map[string]string{"Content-Type": "application/json"}, Body: []byte(body)})
}

// load reads and pays without a pause until the function that it gives is called, which
// says how much of both there was. The test fails if a read or a payment does. Each payer may
// lose one connection: nginx closes those that it keeps when it is configured anew.
func (f *gateway) load(slug string) (stop func() (reads, payments int64)) {
	ctx, cancel := context.WithCancel(f.t.Context())
	var done sync.WaitGroup
	var reads, payments atomic.Int64
	for _, path := range []string{"/next?from=" + slug, "/api/ring", "/api/leaderboard", "/"} {
		done.Go(func() {
			for ctx.Err() == nil {
				r, err := f.read(path)
				if err != nil || r.Status != http.StatusOK && r.Status != http.StatusFound {
					f.t.Errorf("a read failed: GET %s: %d %v %s", path, r.Status, err, r.Body)
					return
				}
				reads.Add(1)
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	for range 2 {
		done.Go(func() {
			for lost := false; ctx.Err() == nil; {
				p, err := f.pay("/api/bid", `{"member":"`+slug+`","amount":"1.00"}`)
				if err != nil && strings.Contains(err.Error(), "fetch failed") && !lost {
					lost = true
					continue
				}
				if err != nil || p.Status != http.StatusOK {
					f.t.Errorf("a payment failed: %d %v %s", p.Status, err, p.Body)
					return
				}
				payments.Add(1)
			}
		})
	}
	return func() (int64, int64) {
		cancel()
		done.Wait()
		return reads.Load(), payments.Load()
	}
}
