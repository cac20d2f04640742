package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"webring/server/devchain"
)

// hangup has a process reload, and waits for a line about it that was not there before.
func (o *origin) hangup(said string) {
	o.t.Helper()
	before := strings.Count(o.log.String(), said)
	if err := o.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		o.t.Fatal(err)
	}
	eventually(o.t, "the line "+said, longEnough, func() bool { return strings.Count(o.log.String(), said) > before })
}

// replaceFile puts one file in the place of another, as those who renew certificates do.
func replaceFile(t *testing.T, path, by string) {
	t.Helper()
	text, err := os.ReadFile(by)
	if err != nil {
		t.Fatal(err)
	}
	next := path + ".next"
	if err := os.WriteFile(next, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, path); err != nil {
		t.Fatal(err)
	}
}

// While requests go on, on connections that are kept and on new ones, a certificate takes
// the place of another: no request fails, kept connections go on, and new ones are shown
// the new one. A key that does not belong to the certificate changes nothing.
func TestACertificateIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	cert, key, pool := certificate(t)
	nextCert, nextKey := writeCertificate(t, t.TempDir(), "127.0.0.1", time.Now().Add(-time.Hour), time.Now().Add(2*time.Hour))
	nextPool := x509.NewCertPool()
	listen := devchain.FreeAddress()
	o := &origin{t: t, data: folder(t), base: "https://" + listen}
	o.args = []string{"serve", "--dev", "--core", "native", "--scorer", "fixed:72", "--listen", listen, "--base-url", o.base, "--rate-limit", "0", "--tls-cert", cert, "--tls-key", key}
	o.boot()
	t.Cleanup(o.kill)
	both := pool.Clone()
	if text, err := os.ReadFile(nextCert); err != nil || !both.AppendCertsFromPEM(text) || !nextPool.AppendCertsFromPEM(text) {
		t.Fatal("no second certificate", err)
	}
	client := func(keeps bool) *http.Client {
		return &http.Client{Timeout: longEnough, CheckRedirect: noRedirects.CheckRedirect, Transport: &http.Transport{DisableKeepAlives: !keeps, TLSClientConfig: &tls.Config{RootCAs: both}}}
	}
	eventually(t, "an answer over TLS", longEnough, func() bool {
		res, err := client(false).Get(o.base + "/api")
		if err == nil {
			res.Body.Close()
		}
		return err == nil
	})
	// shown is the certificate that a new connection gets.
	shown := func() *x509.CertPool {
		conn, err := tls.Dial("tcp", listen, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		leaf := conn.ConnectionState().PeerCertificates[0]
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: nextPool}); err == nil {
			return nextPool
		}
		return pool
	}
	// expires holds the expiry in the metrics, to within the length of this test.
	expires := func(in time.Duration) {
		t.Helper()
		at := o.scrape()["webring_certificate_expiry_timestamp_seconds"]
		if left := time.Until(time.Unix(int64(at), 0)); left > in || left < in-30*time.Minute {
			t.Errorf("the certificate expires in %s by the metrics, and in %s", left, in)
		}
	}
	expires(time.Hour)
	kept, err := tls.Dial("tcp", listen, &tls.Config{RootCAs: both})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	ask := func() error {
		if _, err := fmt.Fprintf(kept, "GET /api HTTP/1.1\r\nHost: %s\r\n\r\n", listen); err != nil {
			return err
		}
		b := make([]byte, 16)
		kept.SetReadDeadline(time.Now().Add(longEnough))
		_, err := kept.Read(b)
		if err == nil && !bytes.HasPrefix(b, []byte("HTTP/1.1 200")) {
			err = fmt.Errorf("answered %q", b)
		}
		for n, more := 0, make([]byte, 64<<10); err == nil && !bytes.HasSuffix(more[:n], []byte("}")); {
			n, err = kept.Read(more)
		}
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	var answered [2]atomic.Int64
	for i := range 4 {
		kind := i % 2
		c := client(kind == 1)
		load.Go(func() {
			for ctx.Err() == nil {
				res, err := c.Get(o.base + "/api/categories")
				if err != nil || res.StatusCode != http.StatusOK {
					t.Errorf("under load: %v", err)
					return
				}
				res.Body.Close()
				answered[kind].Add(1)
			}
		})
	}
	flowing := func() {
		t.Helper()
		for kind := range answered {
			from := answered[kind].Load()
			eventually(t, "answers under load", longEnough, func() bool { return answered[kind].Load() > from+5 || t.Failed() })
		}
	}
	flowing()
	// The new certificate, and still the old key.
	replaceFile(t, cert, nextCert)
	o.hangup("all stays as it was")
	if shown() != pool {
		t.Error("a pair that does not match is shown")
	}
	flowing()
	replaceFile(t, key, nextKey)
	o.hangup("reloaded the certificate")
	if shown() != nextPool {
		t.Error("the certificate before is shown")
	}
	expires(2 * time.Hour)
	flowing()
	if err := ask(); err != nil {
		t.Errorf("the connection that was kept: %v", err)
	}
	stop()
	load.Wait()
	t.Logf("%d requests on new connections, %d on kept ones, none failed", answered[0].Load(), answered[1].Load())
	o.hangup("there is nothing to reload")
	o.stop()
}

// writeSecrets writes lines of 32 bytes each, by what each is made of.
func writeSecrets(t *testing.T, path string, lines ...[]byte) {
	t.Helper()
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintln(&text, hex.EncodeToString(line))
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The secret of origin and edge is rotated while a client asks through the edge for
// challenges: by the order that the handbook gives, each request is counted as the
// client's own and is taken as secure, and so is a payment at every step. In the wrong
// order the origin says so, and counts the edge.
func TestAnEdgeSecretIsRotatedInBothProcesses(t *testing.T) {
	t.Parallel()
	var old, next [32]byte
	rand.Read(old[:])
	rand.Read(next[:])
	dir := t.TempDir()
	atOrigin, atEdge := filepath.Join(dir, "origin"), filepath.Join(dir, "edge")
	writeSecrets(t, atOrigin, old[:])
	writeSecrets(t, atEdge, old[:])
	// The origin counts each client: were one request the edge's own, it would show.
	const limit = 100_000
	o := ring(t, "--core", "native", "--edge-secret-file", atOrigin, "--rate-limit", fmt.Sprint(limit))
	e := o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", atEdge, "--trusted-proxy", "127.0.0.1")
	client := []string{"X-Forwarded-For", "192.0.2.7", "X-Forwarded-Proto", "https"}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var load sync.WaitGroup
	var answered atomic.Int64
	load.Go(func() {
		for ctx.Err() == nil {
			r, err := e.try(http.MethodPost, "/api/register", []byte(`{"name":"Ada","url":"https://ada.dev/","kind":"agent"}`), append(client, "Content-Type", "application/json")...)
			if err != nil || r.Status != http.StatusPaymentRequired {
				t.Errorf("through the edge: %d %s, %v", r.Status, r.Body, err)
				return
			}
			answered.Add(1)
		}
	})
	members := 0
	// pays holds that a payment goes through the edge, and the load while there is one.
	pays := func(step string) {
		t.Helper()
		from := answered.Load()
		eventually(t, "answers", longEnough, func() bool { return answered.Load() > from+3 || ctx.Err() != nil || t.Failed() })
		members++
		body := fmt.Sprintf(`{"name":"Member %d","url":"https://member-%[1]d.dev/","kind":"agent"}`, members)
		if p := e.pay(wallet(t), "/api/register", body, client...); p.Status != http.StatusCreated {
			t.Errorf("%s: a payment: %d %s", step, p.Status, p.Body)
		}
	}
	const reloaded = "reloaded the edge secrets"
	pays("before")
	writeSecrets(t, atOrigin, next[:], old[:])
	o.hangup(reloaded)
	pays("the origin knows both")
	writeSecrets(t, atEdge, next[:], old[:])
	e.hangup(reloaded)
	pays("the edge uses the new one")
	writeSecrets(t, atOrigin, next[:])
	o.hangup(reloaded)
	writeSecrets(t, atEdge, next[:])
	e.hangup(reloaded)
	pays("the old one is gone")
	stop()
	load.Wait()
	if strings.Contains(o.log.String(), "counted as its peer's") {
		t.Errorf("a request was counted as the edge's own:\n%s", o.log)
	}
	// What was counted for the edge's address is this one request.
	r := o.get("/api")
	if left := r.Header.Get("RateLimit-Remaining"); left == "" || counted(t, limit, left) > 10 {
		t.Errorf("of %d, %s are left for the address that the edge comes from", limit, left)
	}
	t.Logf("%d requests and %d payments through the edge, none failed", answered.Load(), members)

	for _, wrong := range []string{"", "00\n", hex.EncodeToString(next[:]) + "\n" + hex.EncodeToString(next[:31]) + "\n", strings.Repeat(hex.EncodeToString(next[:])+"\n", 3)} {
		if err := os.WriteFile(atEdge, []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		e.hangup("all stays as it was")
	}
	if strings.Contains(e.log.String(), hex.EncodeToString(next[:])) {
		t.Error("the log holds a secret")
	}
	pays("after files that are wrong")
}

// counted is how many requests of a limit are gone.
func counted(t *testing.T, limit int, left string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(left, &n); err != nil {
		t.Fatal(err)
	}
	return limit - n
}

// A hangup has the file of --config read again. What can be reloaded is, what cannot is
// named, and a file that is wrong changes nothing, not even what is right in it.
func TestAHangupReadsTheConfigurationAgain(t *testing.T) {
	t.Parallel()
	config := configured(t, "rate-limit = 100\nfee = '2'\n")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	listen := devchain.FreeAddress()
	o := &origin{t: t, data: folder(t), base: "http://" + listen}
	o.args = []string{"serve", "--dev", "--core", "native", "--scorer", "fixed:72", "--listen", listen, "--base-url", o.base, "--config", config}
	o.launch()
	t.Cleanup(o.kill)
	limit := func(header ...string) string {
		t.Helper()
		r := o.get("/api/categories", header...)
		return r.Header.Get("RateLimit-Limit") + " " + r.Header.Get("RateLimit-Remaining")
	}
	if got := limit(); !strings.HasPrefix(got, "100 ") {
		t.Fatalf("the limit is %s", got)
	}
	write("rate-limit = 50\nfee = '3'\nname = 'Other'\n")
	o.hangup("takes a restart")
	o.logs(`settings="fee name"`)
	o.logs("reloaded the rate limit")
	if got := limit(); got != "50 49" {
		t.Errorf("the limit is %s", got)
	}
	write("rate-limit = 50\nfee = '2'\nlog-level = 'debug'\n")
	o.hangup(`reloaded the level of the log" now=debug`)
	if level, err := o.operate("log-level"); err != nil || level != "debug\n" {
		t.Errorf("the level is %s: %v", level, err)
	}
	write("rate-limit = 70\nfees = '3'\n")
	o.hangup("all stays as it was")
	if got := limit(); got != "50 48" || !strings.Contains(o.log.String(), config+`:2: \"fees\" is no setting`) {
		t.Errorf("the limit is %s\n%s", got, o.log)
	}
	write("rate-limit = -1\n")
	o.hangup("--rate-limit must not be negative")
	if got := limit(); got != "50 47" {
		t.Errorf("the limit is %s", got)
	}
	// A proxy that names clients in another field than is believed now may let through what
	// they write into that one.
	write("rate-limit = 50\nfee = '2'\ntrusted-proxy = ['127.0.0.1']\nclient-ip-header = 'CF-Connecting-IP'\n")
	o.hangup(`takes a restart" settings="client-ip-header trusted-proxy"`)
	noRedirects.CloseIdleConnections()
	if got := limit("X-Forwarded-For", "192.0.2.9"); got != "50 46" {
		t.Errorf("a proxy is believed in a field that it may not set: the limit is %s", got)
	}
	// A proxy that is trusted from now on, on connections from now on.
	write("rate-limit = 50\nfee = '2'\ntrusted-proxy = ['127.0.0.1']\n")
	o.hangup("reloaded the trusted proxies")
	noRedirects.CloseIdleConnections()
	if got := limit("X-Forwarded-For", "192.0.2.9"); got != "50 49" {
		t.Errorf("behind a proxy the limit is %s", got)
	}
	// What takes a restart is named until it is as it was.
	if n := strings.Count(o.log.String(), "takes a restart"); n != 2 {
		t.Errorf("named %d times:\n%s", n, o.log)
	}
	write("rate-limit = 0\n")
	o.hangup("takes a restart")
	if r := o.get("/api/categories"); r.Header.Get("RateLimit-Limit") != "" {
		t.Errorf("without a limit the answer says %v", r.Header)
	}
	if said := o.log.String(); !regexp.MustCompile(`settings=fee\n`).MatchString(said) {
		t.Errorf("%s", said)
	}
	o.stop()
}

// A new challenge key is taken by a hangup: challenges that are out are paid with, the
// previous key still believed, and new ones are made with the new key.
func TestAChallengeKeyIsRotatedByAHangup(t *testing.T) {
	t.Parallel()
	o := ring(t, "--core", "native")
	path := filepath.Join(o.data, "mpp-secret")
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"name":"Ada","url":"https://ada.dev/","kind":"agent"}`
	credential := o.sign(wallet(t), "/api/register", body)
	var next [32]byte
	rand.Read(next[:])
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(hex.EncodeToString(next[:]) + "\n" + string(old))
	o.hangup("reloaded the challenge keys")
	if r := o.post("/api/register", body, "Authorization", credential); r.Status != http.StatusCreated {
		t.Errorf("a challenge of before: %d %s", r.Status, r.Body)
	}
	second := strings.NewReplacer("Ada", "Bob", "ada", "bob").Replace(body)
	credential = o.sign(wallet(t), "/api/register", second)
	write(hex.EncodeToString(next[:]) + "\n")
	o.hangup("reloaded the challenge keys")
	if r := o.post("/api/register", second, "Authorization", credential); r.Status != http.StatusCreated {
		t.Errorf("a challenge of the new key: %d %s", r.Status, r.Body)
	}
	write("")
	o.hangup("all stays as it was")
	if said := o.log.String(); strings.Contains(said, hex.EncodeToString(next[:])) || strings.Contains(said, strings.TrimSpace(string(old))) {
		t.Error("the log holds a key")
	}
}

// A listener that shows no certificate, or one by ACME, cannot be given files while it
// runs: the log says so, and reloads the rest.
func TestTLSIsNotSwitchedByAHangup(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificate(t)
	config := configured(t, "rate-limit = 100\n")
	listen := devchain.FreeAddress()
	o := &origin{t: t, data: folder(t), base: "http://" + listen}
	o.args = []string{"serve", "--dev", "--core", "native", "--scorer", "fixed:72", "--listen", listen, "--base-url", o.base, "--config", config}
	o.launch()
	t.Cleanup(o.kill)
	text := fmt.Sprintf("rate-limit = 60\ntls-cert = '%s'\ntls-key = '%s'\nedge-secret-file = '%s'\n", cert, key, secretFile(t))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o.hangup(`takes a restart" settings="edge-secret-file tls-cert tls-key"`)
	if r := o.get("/api"); r.Header.Get("RateLimit-Limit") != "60" {
		t.Errorf("the limit is %s", r.Header.Get("RateLimit-Limit"))
	}
	if conn, err := net.Dial("tcp", listen); err != nil {
		t.Error(err)
	} else {
		conn.Close()
	}
}
