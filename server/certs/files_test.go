package certs

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"webring/server/certs/certstest"
)

// Files that change are shown at the next look. While they do not belong together, or
// others can read the key, the pair before is shown, and the log says it once.
func TestFilesAreShownWhenTheyChange(t *testing.T) {
	dir := t.TempDir()
	first := time.Now().Add(time.Hour).Truncate(time.Second)
	certFile, keyFile := certstest.Write(t, dir, "ring.test", time.Now(), first)
	var said bytes.Buffer
	f, err := Open(certFile, keyFile, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	tick := make(chan time.Time)
	f.tick = tick
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		f.Run(ctx)
		close(ended)
	}()
	look := func() {
		tick <- time.Now()
		tick <- time.Now() // the look before is over by now
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
	otherCert, otherKey := certstest.Write(t, other, "ring.test", time.Now(), second)
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
	if _, err := Read(certFile, keyFile); err == nil || !strings.Contains(err.Error(), "--tls-key") || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key for all: %v", err)
	}
	stop()
	<-ended
}
