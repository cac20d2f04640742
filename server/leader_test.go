package server

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/paid"
)

// stops is a network that does not answer until the start is told to stop.
type stops struct {
	paid.Method
	stop func()
}

func (stops) Network() string { return "stops:1" }

func (s stops) Clock(ctx context.Context) (time.Time, error) {
	s.stop()
	<-ctx.Done()
	return time.Time{}, ctx.Err()
}

func TestAStopEndsTheWaitForANetwork(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	books, err := ledger.Open(ledger.Config{Store: ledgertest.NewStore(), HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer books.Close()
	o := &Origin{Config: Config{Ledger: ledger.Config{Now: time.Now}}}
	if err := o.askTheTime(ctx, books, []paid.Method{stops{stop: stop}}, 0, true); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
