package certs

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

// watched is how often [Files.Run] looks at the files.
const watched = time.Minute

// Pair is a certificate chain with its key.
type Pair struct {
	cert  *tls.Certificate
	chain []byte // the files as they were read
	key   []byte
}

// Read reads a pair of files in PEM. It refuses a key that does not belong to the
// certificate, and a key file that others than its owner can read. Errors name the flags
// of the two files, and repeat nothing of what they hold.
func Read(certFile, keyFile string) (*Pair, error) {
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
	return &Pair{&cert, chain, key}, nil
}

// Leaf is the certificate itself, without its chain.
func (p *Pair) Leaf() *x509.Certificate { return p.cert.Leaf }

// Files shows the certificate of two files. It may be used concurrently.
type Files struct {
	log  *slog.Logger
	tick <-chan time.Time // for tests; nil outside of them

	mu                sync.RWMutex
	pair              *Pair
	certFile, keyFile string
	seen              [2]stamp // of the files, when they were read last
}

// stamp tells versions of a file apart.
type stamp struct{ info os.FileInfo } // nil without a file

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info}
}

func (s stamp) is(other stamp) bool {
	if s.info == nil || other.info == nil {
		return s.info == other.info
	}
	return os.SameFile(s.info, other.info) && s.info.Size() == other.info.Size() && s.info.ModTime().Equal(other.info.ModTime())
}

// Open reads the two files, as [Read] does.
func Open(certFile, keyFile string, log *slog.Logger) (*Files, error) {
	seen := [2]stamp{stampOf(certFile), stampOf(keyFile)}
	pair, err := Read(certFile, keyFile)
	return &Files{log: log, pair: pair, certFile: certFile, keyFile: keyFile, seen: seen}, err
}

// Shows reports whether this pair is shown already.
func (f *Files) Shows(p *Pair) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return bytes.Equal(f.pair.chain, p.chain) && bytes.Equal(f.pair.key, p.key)
}

// Use shows what [Read] has read of two files, and what they will hold later.
func (f *Files) Use(p *Pair, certFile, keyFile string) {
	seen := [2]stamp{stampOf(certFile), stampOf(keyFile)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pair, f.certFile, f.keyFile, f.seen = p, certFile, keyFile, seen
}

// TLS is a configuration that shows the certificate.
func (f *Files) TLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		f.mu.RLock()
		defer f.mu.RUnlock()
		return f.pair.cert, nil
	}}
}

// NotAfter is when the certificate expires.
func (f *Files) NotAfter() time.Time {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.pair.Leaf().NotAfter
}

// Run looks at the files every minute until ctx is done, and shows what has changed. Of
// files that cannot be used the log tells once.
func (f *Files) Run(ctx context.Context) {
	tick := f.tick
	if tick == nil {
		ticker := time.NewTicker(watched)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-tick:
			f.look()
		case <-ctx.Done():
			return
		}
	}
}

// look shows what the files hold, if they have changed.
func (f *Files) look() {
	f.mu.RLock()
	certFile, keyFile, before := f.certFile, f.keyFile, f.seen
	f.mu.RUnlock()
	seen := [2]stamp{stampOf(certFile), stampOf(keyFile)}
	if seen[0].is(before[0]) && seen[1].is(before[1]) {
		return
	}
	pair, err := Read(certFile, keyFile)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.certFile != certFile || f.keyFile != keyFile {
		return // others have taken their place
	}
	f.seen = seen
	if err != nil {
		f.log.Error("the certificate's files have changed and cannot be used: the one before is shown", "err", err)
		return
	}
	f.pair = pair
	f.log.Info("the certificate's files have changed, and are shown", "expires", pair.Leaf().NotAfter.UTC())
}
