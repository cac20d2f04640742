package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"webring/core"
	"webring/server/backup"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// books is a ledger with some members.
func books(t testing.TB, members int) *ledger.Ledger {
	t.Helper()
	return booksOn(t, ledgertest.NewStore(), members)
}

// booksOn makes one transaction for the rules and one for each member.
func booksOn(t testing.TB, store ledger.Store, members int) *ledger.Ledger {
	t.Helper()
	l, err := ledger.Open(ledger.Config{Store: store, HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	err = l.Do(context.Background(), func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Rules{Stamp: tx.Stamp(), Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Grace: 1, Decay: 1}, nil)
		return err
	})
	for n := 1; n <= members && err == nil; n++ {
		err = join(l, n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// join adds a member, and a row that is in no event.
func join(l *ledger.Ledger, n int) error {
	return l.Do(context.Background(), func(tx *ledger.Tx) error {
		name := fmt.Sprint("m-", n)
		if err := tx.Put(ledger.Reports, name, bytes.Repeat([]byte{byte(n)}, 200)); err != nil {
			return err
		}
		_, err := tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: name, Kind: core.Agent, Category: "general", Fee: 100},
			&core.Texts{Name: core.Text{Value: name}, URL: core.Text{Value: "https://" + name + ".dev"}})
		return err
	})
}

var keys = []backup.File{{Name: "mpp-secret", Data: []byte("one\n")}, {Name: "sync-key", Data: []byte("two\n")}}

func write(t testing.TB, l *ledger.Ledger) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := backup.Write(&b, l, keys); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// restore makes a ledger of a backup.
func restore(t testing.TB, b []byte) (l *ledger.Ledger, files []backup.File, err error) {
	t.Helper()
	store, head := ledgertest.NewStore(), filepath.Join(t.TempDir(), "head")
	keep := func(f backup.File) error {
		files = append(files, f)
		return nil
	}
	r := backup.Read(bytes.NewReader(b), keep)
	if err := ledger.Restore(store, head, r.Next); err != nil {
		return nil, nil, err
	}
	if l, err = ledger.Open(ledger.Config{Store: store, HeadPath: head, Capacity: 10_000}); err == nil {
		t.Cleanup(func() { l.Close() })
	}
	return l, files, err
}

// What is restored is the ledger that was written, keys and all.
func TestBackupComesBackWhole(t *testing.T) {
	l := books(t, 300)
	got, files, err := restore(t, write(t, l))
	if err != nil {
		t.Fatal(err)
	}
	size, root := l.Root()
	if gotSize, gotRoot := got.Root(); gotSize != size || gotRoot != root {
		t.Errorf("%d events with root %v, want %d with %v", gotSize, gotRoot, size, root)
	}
	if fmt.Sprint(files) != fmt.Sprint(keys) {
		t.Errorf("files: %q", files)
	}
	a, err := got.Audit(context.Background())
	if err != nil || len(a.Findings) != 0 || a.Members != 300 || a.Paid != 30_000 {
		t.Errorf("%+v, %v", a, err)
	}
}

// A backup that was cut off or altered anywhere restores nothing.
func TestDamagedBackupIsRefused(t *testing.T) {
	b := write(t, books(t, 20))
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		cut := b[:random.IntN(len(b)-2048)] // behind the end there is only padding
		if _, _, err := restore(t, cut); !errors.Is(err, backup.ErrDamaged) {
			t.Errorf("cut at %d: %v", len(cut), err)
		}
	}
	whole, _, err := restore(t, b)
	if err != nil {
		t.Fatal(err)
	}
	size, root := whole.Root()
	for range 300 {
		bent := bytes.Clone(b)
		at := random.IntN(len(bent))
		bent[at] ^= 1 << random.IntN(8)
		// A bit of the padding, or of a time, changes nothing that is restored.
		got, files, err := restore(t, bent)
		if err == nil {
			if gotSize, gotRoot := got.Root(); gotSize != size || gotRoot != root || fmt.Sprint(files) != fmt.Sprint(keys) {
				t.Errorf("a flipped bit at %d was restored", at)
			}
		}
	}
}

func ignore(backup.File) error { return nil }

// Bytes that are no backup are refused, whatever they are.
func FuzzRead(f *testing.F) {
	f.Add(write(f, books(f, 2)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := backup.Read(bytes.NewReader(b), ignore)
		for {
			_, more, err := r.Next()
			if err != nil && !errors.Is(err, backup.ErrDamaged) {
				t.Fatal(err)
			}
			if err != nil || !more {
				return
			}
		}
	})
}
