package server

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// Readiness finds out a writer that hangs in a commit, and does not hang with it.
func TestReadinessFindsOutAWriterThatHangs(t *testing.T) {
	t.Parallel()
	goOn, hangs := make(chan struct{}), make(chan struct{})
	books, err := ledger.Open(ledger.Config{Store: ledgertest.NewStore(), HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: 1, Failpoint: func(at string) {
		if at == "commit" {
			close(hangs)
			<-goOn
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := checkWriter(books); err != nil || !strings.Contains(found, "0 events") {
		t.Errorf("%s, %v", found, err)
	}
	done := make(chan error, 1)
	go func() {
		done <- books.Do(context.Background(), func(tx *ledger.Tx) error { return tx.SetScanned("coin:1", time.Now()) })
	}()
	<-hangs
	for books.Stuck() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := checkWriter(books); err == nil || !strings.Contains(err.Error(), "has not come to its end") {
		t.Errorf("while it hangs: %v", err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := checkWriter(books); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := books.Close(); err != nil {
		t.Error(err)
	}
	if _, err := checkWriter(books); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("once it has ended: %v", err)
	}
}
