package deploy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"webring/server/devchain"
	"webring/server/ledger/cluster/etcdtest"
)

// The configuration of etcd starts a member that answers those who have a certificate, and
// nobody else. That of a node reaches it.
func TestEtcdIsForThoseWithACertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificates(t, dir)
	client, peer, metrics := devchain.FreeAddress(), devchain.FreeAddress(), devchain.FreeAddress()
	text, err := os.ReadFile("etcd.yml")
	if err != nil {
		t.Fatal(err)
	}
	replace := []string{"10.0.0.1:2379", client, "10.0.0.1:2380", peer, "127.0.0.1:2381", metrics,
		",b=https://10.0.0.2:2380,c=https://10.0.0.3:2380", "", "/etc/webring", dir, "/var/lib/webring-etcd", dir}
	for i := 0; i < len(replace); i += 2 {
		if !bytes.Contains(text, []byte(replace[i])) {
			t.Fatalf("etcd.yml does not hold %q", replace[i])
		}
	}
	config := filepath.Join(dir, "etcd.yml")
	if err := os.WriteFile(config, []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(etcdtest.Binary(t), "--config-file", config)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	end := func() { cmd.Process.Kill(); <-ended }
	t.Cleanup(end)

	pool := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(dir, "etcd-ca.crt"))
	if err != nil || !pool.AppendCertsFromPEM(ca) {
		t.Fatal("no authority", err)
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(dir, "etcd-client.crt"), filepath.Join(dir, "etcd-client.key"))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(url string, certs ...tls.Certificate) (string, error) {
		c := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: certs}}}
		res, err := c.Get(url)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		return string(body), err
	}
	var body string
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if body, err = ask("https://"+client+"/health", own); err == nil && strings.Contains(body, `"health":"true"`) {
			break
		}
		if time.Since(began) > 2*time.Minute {
			end()
			t.Fatalf("etcd does not answer: %v %s\n%s", err, body, &said)
		}
	}
	for _, address := range []string{client, peer} {
		if body, err := ask("https://" + address + "/version"); err == nil {
			t.Errorf("%s answers somebody without a certificate: %s", address, body)
		}
	}
	askAsNode(t, dir, client)
	if body, err := ask("http://" + metrics + "/metrics"); err != nil || !strings.Contains(body, "\netcd_server_quota_backend_bytes 4.294967296e+09\n") || !strings.Contains(body, "\netcd_mvcc_db_total_size_in_bytes ") {
		t.Errorf("the metrics lack what the alerts need: %v", err)
	}
}

// askAsNode has the program ask etcd with what the configuration of a node says.
func askAsNode(t *testing.T, dir, etcd string) {
	t.Helper()
	program := filepath.Join(dir, "webring")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/webring").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	origin, err := os.ReadFile("origin.toml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("cluster.toml")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "origin.toml")
	replaced := strings.NewReplacer("10.0.0.1:2379", etcd, "10.0.0.2:2379", etcd, "10.0.0.3:2379", etcd, "/etc/webring", dir).Replace(string(origin) + string(text))
	if err := os.WriteFile(config, []byte(replaced), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ word, says string }{{"key", "holds a new key"}, {"status", "there is no ring ring in this etcd cluster"}} {
		if out, _ := exec.Command(program, "cluster", c.word, "--config", config, "--data", dir).CombinedOutput(); !strings.Contains(string(out), c.says) {
			t.Errorf("webring cluster %s: %s", c.word, out)
		}
	}
}

// certificates makes an authority, and a certificate of it for etcd and one for a node.
func certificates(t *testing.T, dir string) {
	t.Helper()
	sign := func(serial int64, name string, by *x509.Certificate, byKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		t.Helper()
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
		if by == nil {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
			by, byKey = c, key
		}
		der, err := x509.CreateCertificate(rand.Reader, c, by, &key.PublicKey, byKey)
		if err != nil {
			t.Fatal(err)
		}
		secret, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		for file, block := range map[string]*pem.Block{name + ".crt": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
			if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return c, key
	}
	ca, caKey := sign(1, "etcd-ca", nil, nil)
	sign(2, "etcd-server", ca, caKey)
	sign(3, "etcd-client", ca, caKey)
}
