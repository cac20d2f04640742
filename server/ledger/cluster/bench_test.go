package cluster

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
	"webring/server/ledger/cluster/etcdtest"
)

var benchDelay = flag.Duration("commit.delay", 2*time.Millisecond, "how long what a member of etcd sends to another takes in BenchmarkCommit")

// BenchmarkCommit measures durable transactions of a ledger, each with 2 KB of rows: of one
// caller, and of 64 that call at once. Three members of etcd run on this machine.
func BenchmarkCommit(b *testing.B) {
	e := etcdtest.Start(b, etcdtest.Config{Delay: *benchDelay})
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { benchCommit(b, e, callers) })
	}
}

func benchCommit(b *testing.B, e *etcdtest.Cluster, callers int) {
	dir := b.TempDir()
	store, err := badgerstore.Open(filepath.Join(dir, "ledger"), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	head := filepath.Join(dir, "head")
	if err := ledger.BeginHead(head); err != nil {
		b.Fatal(err)
	}
	var groups atomic.Int64
	f, err := ledger.Follow(ledger.Config{Store: store, HeadPath: head, Capacity: 10, Committed: func(time.Duration, error) { groups.Add(1) }})
	if err != nil {
		b.Fatal(err)
	}
	c := config(b, e, "ada")
	begun(b, c, f.Position())
	term := elected(b, opened(b, c), f)
	books, err := f.Lead(term.Store(store))
	if err != nil {
		b.Fatal(err)
	}
	defer books.Close()
	value := some(2000)
	var next atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var calling sync.WaitGroup
	b.ResetTimer()
	for range callers {
		calling.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				began := time.Now()
				err := books.Do(context.Background(), func(tx *ledger.Tx) error { return tx.Put(ledger.Reports, fmt.Sprint(n%1000), value) })
				if err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	calling.Wait()
	b.StopTimer()
	slices.Sort(took)
	if len(took) > 0 {
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(len(took))/float64(groups.Load()), "commits/group")
		b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "commits/s")
	}
}
