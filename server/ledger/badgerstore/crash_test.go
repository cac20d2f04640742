package badgerstore_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// A process that dies around a commit leaves the transaction whole or not at
// all, and the ledger opens and goes on either way.
func TestCrashAroundACommitLeavesAllOrNothing(t *testing.T) {
	for _, c := range []struct {
		point  string
		stored bool
	}{{"commit", false}, {"head", true}, {"publish", true}} {
		t.Run(c.point, func(t *testing.T) {
			live, crashed := t.TempDir(), t.TempDir()
			armed := false
			s, err := badgerstore.Open(filepath.Join(live, storeName), slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			l, err := ledger.Open(ledger.Config{Store: s, HeadPath: filepath.Join(live, headName), Capacity: 1000,
				Failpoint: func(name string) {
					// What has been written is in the files, synced or not:
					// a copy is what a killed process leaves.
					if armed && name == c.point {
						copyFolder(t, live, crashed)
						armed = false
					}
				}})
			if err != nil {
				t.Fatal(err)
			}
			fill(t, l, 0)
			before, size := digestRows(t, s), l.Size()
			armed = true
			bid := &core.Bid{Stamp: lastStamp(t, l), Member: "member-0-1", Amount: 500}
			err = l.Do(context.Background(), func(tx *ledger.Tx) error {
				_, err := tx.Append(bid, nil)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			after := digestRows(t, s)
			if err := errors.Join(l.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}

			s, l = openFolder(t, crashed)
			want := map[bool]string{false: before, true: after}[c.stored]
			if got := digestRows(t, s); got != want {
				t.Errorf("after a crash at %q the rows are neither those before nor those after", c.point)
			}
			if got := l.Size() - size; got != map[bool]uint64{false: 0, true: 1}[c.stored] {
				t.Errorf("after a crash at %q there are %d more events", c.point, got)
			}
			fill(t, l, 1)
			if err := errors.Join(l.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
			s, l = openFolder(t, crashed)
			if err := errors.Join(l.Close(), s.Close()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func lastStamp(t *testing.T, l *ledger.Ledger) (stamp int64) {
	t.Helper()
	l.View(func(v *ledger.View) { stamp = v.State().LastStamp() })
	return stamp
}

// What a crash leaves of a file that was being removed does not stop the next
// start.
func TestEmptyFilesOfACrashAreCleared(t *testing.T) {
	dir, want := makeFolder(t, 2)
	for _, name := range []string{"00099.mem", "000099.vlog"} {
		if err := writeFolder(dir, map[string]file{filepath.Join(storeName, name): {}}, damage{}); err != nil {
			t.Fatal(err)
		}
	}
	mustAccept(t, dir, want)
}
