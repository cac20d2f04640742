package badgerstore_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"webring/core"
	"webring/server/ledger"
)

// TestDiskThatFillsUpLosesNothing writes to a disk of a few megabytes until it is
// full, in a process that does not look before it writes: it ends, as it must.
// With room again, the ledger opens with all that was answered for, and goes on.
func TestDiskThatFillsUpLosesNothing(t *testing.T) {
	if dir := os.Getenv(fullVariable); dir != "" {
		fullChild(t, dir)
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
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
