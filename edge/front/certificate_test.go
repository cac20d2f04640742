package front

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// writePair writes a self-signed certificate and its key into files in a folder.
func writePair(t *testing.T, dir string, until time.Time) (certFile, keyFile string) {
	t.Helper()
	public, key, _ := ed25519.GenerateKey(nil)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: until}
	der, err := x509.CreateCertificate(nil, template, template, public, key)
	secret, keyErr := x509.MarshalPKCS8PrivateKey(key)
	if err = errors.Join(err, keyErr); err != nil {
		t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certFile, keyFile
}

// Files that change are shown at the next look. While they do not belong together, or
// others can read the key, the pair before is shown, and the log says it once.
func TestFilesAreShownWhenTheyChange(t *testing.T) { synctest.Test(t, testFilesAreShown) }

func testFilesAreShown(t *testing.T) {
	dir := t.TempDir()
	first := time.Now().Add(time.Hour).Truncate(time.Second)
	certFile, keyFile := writePair(t, dir, first)
	var said bytes.Buffer
	f, err := OpenCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	go f.Run(t.Context())
	look := func() {
		time.Sleep(readEvery)
		synctest.Wait()
	}
	shown := func() time.Time {
		t.Helper()
		c, err := f.TLS().GetCertificate(nil)
		if err != nil || !c.Leaf.NotAfter.Equal(f.NotAfter()) {
			t.Fatalf("%v: %s is shown, and %s told of", err, c.Leaf.NotAfter, f.NotAfter())
		}
		return c.Leaf.NotAfter
	}
	look()
	if got := shown(); !got.Equal(first) || said.Len() > 0 {
		t.Errorf("%s is shown; log: %s", got, &said)
	}
	second := first.Add(time.Hour)
	other := t.TempDir()
	otherCert, otherKey := writePair(t, other, second)
	if err := os.Rename(otherCert, certFile); err != nil {
		t.Fatal(err)
	}
	look()
	look()
	if got := shown(); !got.Equal(first) || strings.Count(said.String(), "cannot be used") != 1 {
		t.Errorf("%s is shown; log: %s", got, &said)
	}
	if err := os.Rename(otherKey, keyFile); err != nil {
		t.Fatal(err)
	}
	look()
	if got := shown(); !got.Equal(second) || !strings.Contains(said.String(), "are shown") {
		t.Errorf("%s is shown; log: %s", got, &said)
	}
	if err := os.Chmod(keyFile, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCertificate(certFile, keyFile); err == nil || !strings.Contains(err.Error(), "--tls-key") || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key for all: %v", err)
	}
}
