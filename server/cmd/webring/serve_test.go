package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestASecondSignalEndsAStartAtOnce: the first one lets it come to its end, which
// takes long for a large ring, and here for ever.
func TestASecondSignalEndsAStartAtOnce(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := syscall.Mkfifo(secret, 0o600); err != nil {
		t.Fatal(err)
	}
	o := prepare(t, nil, "--core", "native", "--mpp-secret-file", secret)
	o.boot()
	t.Cleanup(o.kill)
	var held *os.File
	eventually(t, "a start that reads the secret", 30*time.Second, func() (begun bool) {
		// No other end, no file: this does not wait for one.
		f, err := os.OpenFile(secret, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		held = f
		return err == nil
	})
	defer held.Close()
	eventually(t, "the end", 20*time.Second, func() (ended bool) {
		_ = o.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-o.gone:
			return true
		default:
			return false
		}
	})
	if status := o.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() {
		t.Errorf("it ended with %d:\n%s", status.ExitStatus(), o.log)
	}
}
