package badgerstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// A disk that somebody else fills does not end the process that commits to it:
// there is room for what comes until that is seen.
func TestDiskThatOthersFillTakesCommits(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Skipf("needs to mount a file system of its own (%v): run it as root, in a container with the capability SYS_ADMIN", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	for session := range 2 {
		s, l := openFolder(t, dir)
		fill(t, l, 2*session)
		filler := fillDisk(t, dir)
		fill(t, l, 2*session+1)
		if err := errors.Join(os.Remove(filler), l.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	s, l := openFolder(t, dir)
	if n := l.Size(); n != 33 {
		t.Errorf("%d events are there", n)
	}
	if err := errors.Join(l.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
}

// fillDisk leaves not a page of room on the disk of dir, and names the file that
// takes it.
func fillDisk(t *testing.T, dir string) (filler string) {
	t.Helper()
	filler = filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4<<10))
	}
	if !errors.Is(err, unix.ENOSPC) || f.Close() != nil {
		t.Fatal(err)
	}
	return filler
}

// TestDiskThatFillsUpLosesNothing writes to a small disk until it is
// full, in a process that does not look before it writes: it ends, as it must.
// With room again, the ledger opens with all that was answered for, and goes on.
func TestDiskThatFillsUpLosesNothing(t *testing.T) {
	if dir := os.Getenv(fullVariable); dir != "" {
		fullChild(t, dir)
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=48m"); err != nil {
		t.Skipf("needs to mount a file system of its own (%v): run it as root, in a container with the capability SYS_ADMIN", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self, "-test.run=^TestDiskThatFillsUpLosesNothing$")
	c.Env = append(os.Environ(), fullVariable+"="+dir)
	out, ended := c.Output()
	answered := strings.Count(string(out), "\n")
	if ended == nil || answered == 0 {
		t.Fatalf("%d bids were answered for, and then: %v", answered, ended)
	}
	t.Logf("%d bids until the disk was full; then: %v", answered, ended)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=512m"); err != nil {
		t.Fatal(err)
	}
	s, l := openFolder(t, dir)
	defer s.Close()
	defer l.Close()
	// The last one may be stored without an answer.
	if n := int(l.Size()) - 1 - 1; n != answered && n != answered+1 {
		t.Errorf("%d bids are there, and %d were answered for", n, answered)
	}
	if a, err := l.Audit(t.Context()); err != nil || len(a.Findings) > 0 {
		t.Errorf("%v %+v", err, a)
	}
	fill(t, l, 1)
}

// fullVariable makes the test write to a ledger in a folder until it
// cannot.
const fullVariable = "WEBRING_TEST_FULL"

func fullChild(t *testing.T, dir string) {
	_, l := openFolder(t, dir)
	for i := 0; ; i++ {
		err := l.Do(context.Background(), func(tx *ledger.Tx) (err error) {
			switch i {
			case 0:
				_, err = tx.Append(&core.Rules{Stamp: tx.Stamp(), Name: "Ring", BaseURL: "http://ring.test", Fee: 100, MinBid: 100, Grace: 10, Decay: 10}, nil)
			case 1:
				_, err = tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: "member", Kind: core.Agent, Category: "general", Fee: 100},
					&core.Texts{Name: core.Text{Value: "member"}, URL: core.Text{Value: "https://member.org"}})
			default:
				r := &ledger.Reservation{ID: fmt.Sprint("bid-", i), State: ledger.Reserved, Operation: ledger.OperationBid, Member: "member", Cents: 100,
					ReplayKeys: []string{fmt.Sprint("tx-", i)}, Body: make([]byte, 16<<10)}
				if err := tx.Reserve(r); err != nil {
					return err
				}
				r.Seq, err = tx.Append(&core.Bid{Stamp: tx.Stamp(), Member: "member", Amount: 100}, nil)
				if err == nil {
					r.State = ledger.Applied
					err = tx.Update(r)
				}
			}
			return err
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		if i > 1 {
			fmt.Println(i)
		}
	}
}

// A disk without room for what is to be kept refuses the start in words, takes
// nothing of the room that there is, and is not called damage.
func TestStartOnAFullDiskIsRefusedAndLeavesTheStore(t *testing.T) {
	base, want := makeFolder(t, 3)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("needs to mount a file system of its own (%v): run it as root, in a container with the capability SYS_ADMIN", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	copyFolder(t, base, dir)
	found := readFolder(t, dir)
	filler := fillDisk(t, dir)
	for range 2 {
		_, err := badgerstore.Open(filepath.Join(dir, storeName), slog.New(slog.DiscardHandler))
		if err == nil || errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), "no space left") {
			t.Fatalf("on a full disk: %v", err)
		}
		left, err := os.ReadDir(filepath.Join(dir, storeName))
		if err != nil || len(left) != len(found)-1 {
			t.Errorf("%d files are left of %d, %v", len(left), len(found)-1, err)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(readFolder(t, dir), found, file.equal) {
		t.Error("the refusal left another folder")
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=512m"); err != nil {
		t.Fatal(err)
	}
	mustAccept(t, dir, want)
}

// A process that may not open as many files as it needs says so: the files are
// whole, and to restore older ones would lose payments.
func TestTooFewFilesAreNotCalledDamage(t *testing.T) {
	base, want := makeFolder(t, 3)
	dir := t.TempDir()
	copyFolder(t, base, dir)
	used, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var whole unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &whole); err != nil {
		t.Fatal(err)
	}
	refused, lack := 0, 0
	for more := range 12 {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(len(used) + more), Max: whole.Max}); err != nil {
			t.Fatal(err)
		}
		s, err := badgerstore.Open(filepath.Join(dir, storeName), slog.New(slog.DiscardHandler))
		if errs := unix.Setrlimit(unix.RLIMIT_NOFILE, &whole); errs != nil {
			t.Fatal(errs)
		}
		switch {
		case err == nil:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		case errors.Is(err, ledger.ErrDamaged):
			t.Errorf("with %d more files: %v", more, err)
		default:
			refused++
		}
		if err != nil && strings.Contains(err.Error(), "does not let it be opened") {
			lack++
		}
	}
	if refused == 0 || lack == 0 {
		t.Errorf("%d starts were refused, %d of them by Badger", refused, lack)
	}
	mustOpen(t, dir, want)
}

// A process whose files may not grow as large as Badger makes them says that, of a
// store that is there and of a new one.
func TestTooSmallFilesAreNotCalledDamage(t *testing.T) {
	base, want := makeFolder(t, 3)
	dir := t.TempDir()
	copyFolder(t, base, dir)
	var whole unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &whole); err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{"what is there": filepath.Join(dir, storeName), "a new store": filepath.Join(t.TempDir(), "new")} {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 16 << 20, Max: whole.Max}); err != nil {
			t.Fatal(err)
		}
		_, err := badgerstore.Open(folder, slog.New(slog.DiscardHandler))
		if errs := unix.Setrlimit(unix.RLIMIT_FSIZE, &whole); errs != nil {
			t.Fatal(errs)
		}
		if err == nil || errors.Is(err, ledger.ErrDamaged) || !strings.Contains(err.Error(), "file too large") {
			t.Errorf("%s: %v", name, err)
		}
	}
	mustOpen(t, dir, want)
}
