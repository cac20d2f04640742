package main

import (
	"crypto/x509"
	"os"
	"testing"
	"time"

	"webring/server/certs/certstest"
)

// certificate makes one for this machine, valid for a test.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	certFile, keyFile = certstest.Write(t, t.TempDir(), "127.0.0.1", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	text, err := os.ReadFile(certFile)
	pool = x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal("no certificate", err)
	}
	return certFile, keyFile, pool
}
