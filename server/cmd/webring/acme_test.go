package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/server/devchain"
)

// acmeFolder is the module of the authority that these tests run.
var acmeFolder = filepath.Join("..", "..", "..", "edge", "front", "acmetest")

// buildAuthority builds the authority once, and the name server that it asks. Where its module
// cannot be had, the test says so and how to get it.
var buildAuthority = sync.OnceValues(func() (reason string, err error) {
	download := exec.Command("go", "mod", "download")
	download.Dir = acmeFolder
	if out, err := download.CombinedOutput(); err != nil {
		return fmt.Sprintf("needs the module github.com/letsencrypt/pebble/v2, which cannot be had: run go mod download in edge/front/acmetest where a module proxy can be reached: %v: %s", err, out), nil
	}
	const of = "github.com/letsencrypt/pebble/v2/cmd/"
	build := exec.Command("go", "build", "-o", shared.dir+string(filepath.Separator), of+"pebble", of+"pebble-challtestsrv")
	build.Dir = acmeFolder
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return "", nil
})

// pebble is a running authority.
type pebble struct {
	directory, caFile, management string
	stop                          func()
	log                           *logBuffer
}

// startPebble runs an authority whose certificates hold for so long, and that looks for
// names on this machine, at these ports.
func startPebble(t *testing.T, tlsAt, httpAt string, life time.Duration) *pebble {
	t.Helper()
	binary(t)
	reason, err := buildAuthority()
	if err != nil {
		t.Fatal(err)
	}
	if reason != "" {
		t.Skip(reason)
	}
	port := func(address string) int {
		_, p, err := net.SplitHostPort(address)
		n, e := strconv.Atoi(p)
		if err != nil || e != nil {
			t.Fatal(address, err, e)
		}
		return n
	}
	cert, key, pool := certificate(t)
	at, management, names, control := devchain.FreeAddress(), devchain.FreeAddress(), devchain.FreeAddress(), devchain.FreeAddress()
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": at, "managementListenAddress": management, "certificate": cert, "privateKey": key, "tlsPort": port(tlsAt), "httpPort": port(httpAt),
		"keyAlgorithm": "ecdsa", "profiles": map[string]any{"default": map[string]any{"description": "of a test", "validityPeriod": int(life.Seconds())}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pebble.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	p := &pebble{directory: "https://" + at + "/dir", caFile: cert, management: "https://" + management, log: &logBuffer{}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	p.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(p.stop)
	for _, command := range [][]string{
		{"pebble-challtestsrv", "-dnsserver", names, "-management", control, "-http01", "", "-https01", "", "-tlsalpn01", "", "-doh", "", "-defaultIPv4", "127.0.0.1", "-defaultIPv6", ""},
		{"pebble", "-config", file, "-dnsserver", names},
	} {
		c := exec.CommandContext(ctx, filepath.Join(shared.dir, command[0]), command[1:]...)
		c.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1")
		c.Stdout, c.Stderr = p.log, p.log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		running.Go(func() { _ = c.Wait() })
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	eventually(t, "the authority", longEnough, func() bool {
		res, err := client.Get(p.directory)
		if err == nil {
			res.Body.Close()
		}
		return err == nil
	})
	return p
}

// roots are those that the authority's certificates end in.
func (p *pebble) roots(t *testing.T) *x509.CertPool {
	t.Helper()
	ca, err := os.ReadFile(p.caFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	res, err := client.Get(p.management + "/roots/0")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("%v: %s", err, text)
	}
	return roots
}

const acmeHost = "ring.test"

// shake speaks TLS with a node, as a client that asks for the host.
func shake(listen string, roots *x509.CertPool) (*tls.Conn, error) {
	return tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", listen, &tls.Config{ServerName: acmeHost, RootCAs: roots})
}

// askOn asks on a connection that is kept.
func askOn(conn net.Conn) error {
	conn.SetDeadline(time.Now().Add(longEnough))
	if _, err := fmt.Fprintf(conn, "GET /random HTTP/1.1\r\nHost: %s\r\n\r\n", acmeHost); err != nil {
		return err
	}
	b := make([]byte, 64<<10)
	n, err := conn.Read(b)
	if err == nil && !bytes.HasPrefix(b[:n], []byte("HTTP/1.1 ")) {
		err = fmt.Errorf("answered %q", b[:n])
	}
	return err
}

// certified waits until an origin has a certificate.
func (o *origin) certified(p *pebble) {
	o.t.Helper()
	for late := time.Now().Add(longEnough); ; time.Sleep(20 * time.Millisecond) {
		switch said := o.log.String(); {
		case strings.Contains(said, "there is a certificate by ACME"):
			return
		case strings.Contains(said, "no certificate by ACME"), time.Now().After(late):
			o.t.Fatalf("there is no certificate:\n%s\n%s", said, p.log)
		}
	}
}

// An origin has a certificate issued by a real authority, which asks its TLS listener
// itself; a check asks whether the authority is there; and the next start shows the same
// one without an authority.
func TestACertificateByACME(t *testing.T) {
	t.Parallel()
	listen := devchain.FreeAddress()
	p := startPebble(t, listen, devchain.FreeAddress(), 90*24*time.Hour)
	o := &origin{t: t, data: folder(t), base: "https://" + acmeHost}
	o.args = []string{"serve", "--dev", "--core", "native", "--scorer", "fixed:72", "--listen", listen, "--base-url", o.base,
		"--acme-host", acmeHost, "--acme-email", "ops@ring.test", "--acme-directory", p.directory, "--acme-ca-file", p.caFile}
	said := checked(t, nil, nil, append(o.args, "--data", o.data)...)
	if !strings.Contains(said, "ok     acme             "+p.directory+" answers") {
		t.Errorf("%s", said)
	}
	o.boot()
	t.Cleanup(o.kill)
	o.certified(p)
	roots := p.roots(t)
	conn, err := shake(listen, roots)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, o.log, p.log)
	}
	defer conn.Close()
	if err := askOn(conn); err != nil {
		t.Error(err)
	}
	serial := conn.ConnectionState().PeerCertificates[0].SerialNumber
	if at, until := o.scrape()["webring_certificate_expiry_timestamp_seconds"], conn.ConnectionState().PeerCertificates[0].NotAfter; at != float64(until.Unix()) {
		t.Errorf("the certificate expires at %.0f by the metrics, and at %d", at, until.Unix())
	}
	// What is of TLS 1.3 alone is shown the same.
	modern, err := tls.Dial("tcp", listen, &tls.Config{ServerName: acmeHost, RootCAs: roots, MinVersion: tls.VersionTLS13})
	if err != nil {
		t.Fatal(err)
	}
	defer modern.Close()
	if got := modern.ConnectionState().PeerCertificates[0].SerialNumber; got.Cmp(serial) != 0 {
		t.Errorf("another certificate was issued, %s beside %s", got, serial)
	}
	if _, err := tls.Dial("tcp", listen, &tls.Config{ServerName: "other.test", RootCAs: roots}); err == nil {
		t.Error("there is a certificate for a name that is not the ring's")
	}
	info, err := os.Stat(filepath.Join(o.data, "acme"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info, err)
	}
	o.hangup("there is nothing to reload")
	o.stop()
	p.stop()
	o.boot()
	eventually(t, "the same certificate", longEnough, func() bool {
		conn, err := shake(listen, roots)
		if err != nil {
			return false
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Cmp(serial) == 0
	})
	o.stop()
}

// Where the authority cannot reach the TLS listener it asks by HTTP, and a certificate is
// renewed in time, without a connection that ends for it.
func TestACertificateByACMEIsRenewed(t *testing.T) {
	t.Parallel()
	listen, byHTTP := devchain.FreeAddress(), devchain.FreeAddress()
	const life = 30 * time.Second
	p := startPebble(t, devchain.FreeAddress(), byHTTP, life) // nothing listens for TLS there
	o := &origin{t: t, data: folder(t), base: "https://" + acmeHost}
	o.args = []string{"serve", "--dev", "--core", "native", "--scorer", "fixed:72", "--listen", listen, "--base-url", o.base,
		"--acme-host", acmeHost, "--acme-directory", p.directory, "--acme-ca-file", p.caFile, "--acme-http-listen", byHTTP}
	o.boot()
	t.Cleanup(o.kill)
	o.certified(p)
	roots := p.roots(t)
	kept, err := shake(listen, roots)
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, o.log, p.log)
	}
	defer kept.Close()
	first := kept.ConnectionState().PeerCertificates[0]
	began := time.Now()
	var next *x509.Certificate
	eventually(t, "another certificate", longEnough, func() bool {
		if err := askOn(kept); err != nil {
			t.Fatalf("the connection that was kept: %v", err)
		}
		conn, err := shake(listen, roots)
		if err != nil {
			t.Fatalf("%s after the first: %v", time.Since(began), err)
		}
		defer conn.Close()
		next = conn.ConnectionState().PeerCertificates[0]
		return next.SerialNumber.Cmp(first.SerialNumber) != 0
	})
	if !next.NotAfter.After(first.NotAfter) || time.Now().After(first.NotAfter) {
		t.Errorf("one until %s came %s after one until %s", next.NotAfter, time.Since(began), first.NotAfter)
	}
	t.Logf("renewed %s after the first, which held for %s", time.Since(began).Round(time.Second), life)
	// All else is sent to https.
	res, err := noRedirects.Get("http://" + byHTTP + "/next?from=x")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if to := res.Header.Get("Location"); res.StatusCode != http.StatusFound || !strings.HasPrefix(to, "https://") || !strings.HasSuffix(to, "/next?from=x") {
		t.Errorf("%d to %s", res.StatusCode, to)
	}
	o.stop()
}
