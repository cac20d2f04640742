package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"webring/server/backup"
	"webring/server/sites/score/local"
)

// plugged is a disk whose power can be cut: what was not synced is gone then.
type plugged struct {
	t          *testing.T
	image, dir string
}

func newPlugged(t *testing.T) *plugged {
	t.Helper()
	p := &plugged{t, filepath.Join(t.TempDir(), "image"), t.TempDir()}
	if err := errors.Join(os.WriteFile(p.image, nil, 0o600), os.Truncate(p.image, 1<<30)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", p.image).CombinedOutput(); err != nil {
		t.Skipf("needs a disk of its own, which mkfs.ext4 makes (%v): install e2fsprogs\n%s", err, out)
	}
	if err := p.plug(); err != nil {
		t.Skipf("needs to mount a disk of its own: run it as root, in a container with the capability SYS_ADMIN and loop devices: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(p.dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return p
}

// plug mounts the disk. It is not to sync by itself what replaces a file.
func (p *plugged) plug() error {
	out, err := exec.Command("mount", "-t", "ext4", "-o", "loop,noauto_da_alloc", p.image, p.dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// cut cuts the power, and gives it back.
func (p *plugged) cut() {
	p.t.Helper()
	const shutdown, withoutJournal = 0x8004587d, 2 // EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH
	f, err := os.Open(p.dir)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := errors.Join(unix.IoctlSetPointerInt(int(f.Fd()), shutdown, withoutJournal), f.Close()); err != nil {
		p.t.Fatal(err)
	}
	// A process that another test is starting has our files until it runs its own program.
	busy := func() bool { return errors.Is(unix.Unmount(p.dir, 0), unix.EBUSY) }
	for deadline := time.Now().Add(time.Minute); busy(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatal("the disk is still in use")
		}
	}
	if err := p.plug(); err != nil {
		p.t.Fatal(err)
	}
}

// keysAndReport makes a backup of a ledger with a report and keys. It gives the report its id.
func keysAndReport(t *testing.T, keys []backup.File, r *local.Report) (path string) {
	t.Helper()
	books, closeBooks, err := openLedger(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := local.Open(books, nil).Put(r); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	err = backup.Write(&text, books, keys)
	path = filepath.Join(t.TempDir(), "backup.tar")
	if err := errors.Join(err, closeBooks(), os.WriteFile(path, text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWhatIsRestoredOutlastsAPowerCut: whoever has read that it is restored may remove
// the backup, and edges know no other key.
func TestWhatIsRestoredOutlastsAPowerCut(t *testing.T) {
	t.Parallel()
	disk := newPlugged(t)
	keys := []backup.File{{Name: "mpp-secret", Data: []byte("one key")}, {Name: "sync-key", Data: []byte("another key")}}
	r := local.Report{URL: "https://a.dev/"}
	file := keysAndReport(t, keys, &r)
	data := filepath.Join(disk.dir, "rings", "one")
	if err := run([]string{"restore", file, "--data", data, "--alone"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	disk.cut()
	for _, k := range keys {
		if text, err := os.ReadFile(filepath.Join(data, k.Name)); err != nil || !bytes.Equal(text, k.Data) {
			t.Errorf("%s holds %q, %v", k.Name, text, err)
		}
	}
	books, closeBooks, err := openLedger(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	reports := local.Open(books, nil)
	if got, err := reports.Get(r.ID); err != nil || got.URL != r.URL {
		t.Errorf("the report is %+v, %v", got, err)
	}
	if err := closeBooks(); err != nil {
		t.Error(err)
	}
	if err := run([]string{"verify", "--data", data}, io.Discard); err != nil {
		t.Error(err)
	}
}

// TestASeededRingOutlastsAPowerCut, as what serve writes into it does.
func TestASeededRingOutlastsAPowerCut(t *testing.T) {
	t.Parallel()
	disk := newPlugged(t)
	data := filepath.Join(disk.dir, "rings", "one")
	if err := run([]string{"seed", "--members", "10", "--data", data}, io.Discard); err != nil {
		t.Fatal(err)
	}
	disk.cut()
	var out bytes.Buffer
	if err := run([]string{"verify", "--data", data}, &out); err != nil || !strings.Contains(out.String(), " 10 members") {
		t.Errorf("%v\n%s", err, &out)
	}
}
