package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"webring/edge/durable"
)

// readEvery is how often [CertificateFiles.Run] reads the files.
const readEvery = time.Minute

// CertificatePair is a certificate chain with its key.
type CertificatePair struct {
	cert  *tls.Certificate
	chain []byte // the files as they were read
	key   []byte
}

// ReadCertificate reads a pair of files in PEM. It refuses a key that does not belong to the
// certificate, and a key file that others than its owner can read. Errors name the flags
// of the two files, and repeat nothing of what they hold.
func ReadCertificate(certFile, keyFile string) (*CertificatePair, error) {
	chain, err := os.ReadFile(certFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert: %w", err)
	}
	key, err := durable.ReadSecret(keyFile)
	if err != nil {
		return nil, fmt.Errorf("--tls-key: %w", err)
	}
	cert, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
	}
	return &CertificatePair{&cert, chain, key}, nil
}

// Leaf is the certificate itself, without its chain.
func (p *CertificatePair) Leaf() *x509.Certificate { return p.cert.Leaf }

func (p *CertificatePair) equal(other *CertificatePair) bool {
	return bytes.Equal(p.chain, other.chain) && bytes.Equal(p.key, other.key)
}

// CertificateFiles shows the certificate of two files. It may be used concurrently.
type CertificateFiles struct {
	log *slog.Logger

	mu                sync.RWMutex
	pair              *CertificatePair
	certFile, keyFile string
	wrong             string // why the files could not be used when they were read last
}

// OpenCertificate reads the two files, as [ReadCertificate] does.
func OpenCertificate(certFile, keyFile string, log *slog.Logger) (*CertificateFiles, error) {
	pair, err := ReadCertificate(certFile, keyFile)
	return &CertificateFiles{log: log, pair: pair, certFile: certFile, keyFile: keyFile}, err
}

// Shows reports whether this pair is shown already.
func (f *CertificateFiles) Shows(p *CertificatePair) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.pair.equal(p)
}

// Use shows a pair that [ReadCertificate] has read from two files, and watches these files
// from now on.
func (f *CertificateFiles) Use(p *CertificatePair, certFile, keyFile string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pair, f.certFile, f.keyFile, f.wrong = p, certFile, keyFile, ""
}

// TLS is a configuration that shows the certificate.
func (f *CertificateFiles) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		f.mu.RLock()
		defer f.mu.RUnlock()
		return f.pair.cert, nil
	}}
}

// NotAfter is when the certificate expires.
func (f *CertificateFiles) NotAfter() time.Time {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.pair.Leaf().NotAfter
}

// Run reads the files every minute until ctx is done, and shows the new pair when they have
// changed. It logs once that files cannot be used.
func (f *CertificateFiles) Run(ctx context.Context) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f.read()
		case <-ctx.Done():
			return
		}
	}
}

func (f *CertificateFiles) read() {
	f.mu.RLock()
	certFile, keyFile := f.certFile, f.keyFile
	f.mu.RUnlock()
	pair, err := ReadCertificate(certFile, keyFile)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.certFile != certFile || f.keyFile != keyFile: // Use was called meanwhile
	case err != nil:
		if f.wrong != err.Error() {
			f.wrong = err.Error()
			f.log.Error("the certificate's files have changed and cannot be used: the one before is shown", "err", err)
		}
	default:
		if f.wrong = ""; !f.pair.equal(pair) {
			f.pair = pair
			f.log.Info("the certificate's files have changed, and are shown", "expires", pair.Leaf().NotAfter.UTC())
		}
	}
}
