package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"webring/server/ledger"
	"webring/server/ledger/cluster/etcdtest"
	"webring/server/ledger/ledgertest"
)

// beginning is where a ledger is without transactions.
var beginning = ledger.Position{Root: sha256.Sum256(nil)}

// group makes the rows of a transaction that follows one, with content of its own: the row
// of the transaction, which is as the ledger writes it, and rows that the next ones overwrite.
func group(after ledger.Position, content []byte) (ledger.Batch, ledger.Position) {
	at := ledger.Position{Serial: after.Serial + 1, Size: after.Size + 1, Root: sha256.Sum256(append(after.Root[:], content...))}
	return ledger.Batch{
		string(binary.BigEndian.AppendUint64([]byte("t"), at.Serial)): append(binary.BigEndian.AppendUint64(nil, at.Size), at.Root[:]...),
		string(binary.BigEndian.AppendUint64([]byte("e"), at.Serial)): content,
		"last":                        content,
		"even"[:2+int(at.Serial%2)*2]: nil,
	}, at
}

// folder is what a node keeps: a store that knows its position.
type folder struct {
	*ledgertest.Store
	at atomic.Pointer[ledger.Position]
}

func newFolder() *folder {
	f := &folder{Store: ledgertest.NewStore()}
	f.at.Store(&beginning)
	return f
}

// copy has the rows of f, as a restored backup of it has.
func (f *folder) copy() *folder {
	all, to := ledger.Batch{}, newFolder()
	f.Scan(nil, nil, func(key, value []byte) error {
		all[string(key)] = bytes.Clone(value)
		return nil
	})
	to.Store.Commit(all)
	to.at.Store(f.at.Load())
	return to
}

func (f *folder) Position() ledger.Position { return *f.at.Load() }

func (f *folder) Commit(b ledger.Batch) error {
	if err := f.Store.Commit(b); err != nil {
		return err
	}
	f.find()
	return nil
}

// find sets the position to that of the last transaction.
func (f *folder) find() {
	at := beginning
	f.Scan([]byte("t"), binary.BigEndian.AppendUint64([]byte("t"), f.Position().Serial), func(key, value []byte) error {
		at, _ = ledger.Batch{string(key): append([]byte{}, value...)}.Position()
		return nil
	})
	f.at.Store(&at)
}

func (f *folder) Apply(b ledger.Batch) error {
	if at, err := b.Position(); err != nil || at.Serial != f.Position().Serial+1 {
		return errors.Join(err, errors.New("the transaction does not follow"))
	}
	return f.Commit(b)
}

// keyFile makes a key file for a test.
func keyFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := NewKeyFile(path); err != nil {
		t.Fatal(err)
	}
	return path
}

var rings atomic.Int64

// config is that of a node of a new ring. Its lease is one that a busy machine renews in time.
func config(t testing.TB, e *etcdtest.Cluster, node string) Config {
	return Config{Endpoints: e.Endpoints(), Ring: fmt.Sprintf("ring-%d", rings.Add(1)), Node: node, Advertise: "http://" + node + ".test",
		KeyFile: keyFile(t), lease: 4 * time.Second, Log: slog.New(slog.NewTextHandler(testLog{t}, nil))}
}

// as is the configuration of another node of the ring.
func (c Config) as(node string) Config {
	c.Node, c.Advertise = node, "http://"+node+".test"
	return c
}

type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	if os.Getenv("CLUSTER_LOG") != "" {
		os.Stderr.Write(b)
	}
	return len(b), nil
}

// opened is a node's view of the ring.
func opened(t testing.TB, c Config) *Cluster {
	t.Helper()
	cluster, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cluster.Close() })
	return cluster
}

// begun makes the ring in etcd.
func begun(t testing.TB, c Config, at ledger.Position) {
	t.Helper()
	if err := Init(t.Context(), c, Start{At: at}); err != nil {
		t.Fatal(err)
	}
}

// elected waits until a node leads.
func elected(t testing.TB, c *Cluster, own Follower) *Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	term, err := c.Stand(ctx, own)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { term.Close() })
	return term
}

// follower follows in the background until the test ends.
func follower(t testing.TB, c *Cluster, own Follower) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Follow(ctx, own) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Follow = %v", err)
		}
	})
}

// until waits for a condition.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatalf("after a minute: not %s", what)
		}
	}
}

// same compares the rows of two stores.
func same(t testing.TB, a, b ledger.Store) {
	t.Helper()
	rows := func(s ledger.Store) (all []string) {
		if err := s.Scan(nil, nil, func(key, value []byte) error {
			all = append(all, string(key)+"="+string(value))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	one, other := rows(a), rows(b)
	if len(one) != len(other) {
		t.Fatalf("%d rows here, %d there", len(one), len(other))
	}
	for i := range one {
		if one[i] != other[i] {
			t.Fatalf("row %q here, %q there", one[i], other[i])
		}
	}
}

// some gives random bytes, which do not compress.
func some(n int) []byte {
	b := make([]byte, n)
	rnd := rand.NewChaCha8([32]byte{byte(n)})
	rnd.Read(b)
	return b
}
