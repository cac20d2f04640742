package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
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

// authority signs certificates for this machine.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
	file string // its certificate, PEM
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool(), file: filepath.Join(t.TempDir(), "authority.pem")}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Rehearsal"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	var der []byte
	der, a.key = a.sign(template, template, nil)
	var err error
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	a.write(a.file, "CERTIFICATE", der)
	return a
}

// sign makes a key and its certificate, signed by the parent's key, or by itself.
func (a *authority) sign(template, parent *x509.Certificate, by *ecdsa.PrivateKey) (der []byte, key *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	if by == nil {
		by = key
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by); err != nil {
		a.t.Fatal(err)
	}
	return der, key
}

// issue writes a certificate of this serial number for localhost, and its key, and puts
// both into place at once each, as renewing programs do.
func (a *authority) issue(certFile, keyFile string, serial int64) {
	a.t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	der, key := a.sign(template, a.cert, a.key)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(certFile, "CERTIFICATE", der)
	a.write(keyFile, "PRIVATE KEY", secret)
}

func (a *authority) write(file, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(file+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		a.t.Fatal(err)
	}
}

// gateway is nginx with TLS before the nodes of a ring, and who comes to it: readers, and
// payers with the reference client.
type gateway struct {
	t         *testing.T
	dir       string
	site      string // https://localhost:PORT
	authority *authority
	reader    *http.Client
	payer     *devchain.Client
	nodes     []*origin
}

// newGateway gives a gateway that has yet to begin.
func newGateway(t *testing.T) *gateway {
	t.Helper()
	f := &gateway{t: t, dir: t.TempDir(), authority: newAuthority(t)}
	_, port, err := net.SplitHostPort(devchain.FreeAddress())
	if err != nil {
		t.Fatal(err)
	}
	f.site = "https://localhost:" + port
	f.reader = &http.Client{Timeout: patient, CheckRedirect: noRedirects.CheckRedirect,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.authority.pool}, ForceAttemptHTTP2: true}}
	c, _ := chain(t)
	if f.payer, err = devchain.StartClient(t.Context(), c.RPC, "NODE_EXTRA_CA_CERTS="+f.authority.file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.payer.Close)
	f.certify(1)
	return f
}

func (f *gateway) file(name string) string { return filepath.Join(f.dir, name) }

// certify gives nginx another certificate, which it has yet to read.
func (f *gateway) certify(serial int64) {
	f.authority.issue(f.file("cert.pem"), f.file("key.pem"), serial)
}

// begin starts nginx before these nodes.
func (f *gateway) begin(nodes ...*origin) {
	f.t.Helper()
	f.configure(nodes...)
	address := strings.TrimPrefix(f.site, "https://")
	background(f.t, address, fmt.Sprintf(`daemon off; user root; worker_processes 1; pid %[1]s/pid; error_log stderr crit;
events {}
http {
	access_log off;
	client_body_temp_path %[1]s/a; proxy_temp_path %[1]s/b; fastcgi_temp_path %[1]s/c; uwsgi_temp_path %[1]s/d; scgi_temp_path %[1]s/e;
	upstream ring {
		include %[1]s/nodes;
		keepalive 16;
	}
	server {
		listen %[2]s ssl http2;
		ssl_certificate %[1]s/cert.pem;
		ssl_certificate_key %[1]s/key.pem;
		location / {
			proxy_pass http://ring;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $host;
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_set_header X-Forwarded-Proto $scheme;
			proxy_buffering off;
			proxy_read_timeout 340s;
		}
	}
}
`, f.dir, strings.Replace(address, "localhost", "127.0.0.1", 1)), "nginx", "-e", "stderr", "-c")
	// The workers of a master that is killed would stay.
	f.t.Cleanup(func() {
		f.signal(syscall.SIGTERM)
		eventually(f.t, "the end of nginx", time.Minute, func() bool {
			_, err := os.Stat(f.file("pid"))
			return os.IsNotExist(err)
		})
	})
}

// configure says which nodes nginx is before, from its next reload on.
func (f *gateway) configure(nodes ...*origin) {
	f.t.Helper()
	f.nodes = nodes
	var lines strings.Builder
	for _, n := range nodes {
		fmt.Fprintf(&lines, "server %s max_fails=0;\n", strings.TrimPrefix(n.base, "http://"))
	}
	if err := os.WriteFile(f.file("nodes"), []byte(lines.String()), 0o600); err != nil {
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

// serial is that of the certificate which a new connection is shown.
func (f *gateway) serial() int64 {
	f.t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(f.site, "https://"), &tls.Config{RootCAs: f.authority.pool, ServerName: "localhost"})
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// read gets a document by way of nginx.
func (f *gateway) read(path string) (reply, error) {
	res, err := f.reader.Get(f.site + path)
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
	return f.payer.Pay(ctx, wallet(f.t).HexKey(), devchain.Request{Method: http.MethodPost, URL: f.site + path,
		Header: map[string]string{"Content-Type": "application/json"}, Body: []byte(body)})
}

// load reads, and so many pay, without a pause until the function that it gives is called,
// which says how much of both there was. The test fails if a read or a payment does.
func (f *gateway) load(slug string, payers int) (stop func() (reads, payments int64)) {
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
	for range payers {
		done.Go(func() {
			for ctx.Err() == nil {
				p, err := f.pay("/api/bid", `{"member":"`+slug+`","amount":"1.00"}`)
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
