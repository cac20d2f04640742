package replica

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"webring/core/snap"
)

// A disk that takes its time holds up nothing that is shown, nor does it get to be
// written what would fill the memory until then.
func TestADiskIsNotWaitedFor(t *testing.T) {
	o := newOrigin(t)
	dir := onDisk(t, o)
	f := o.newReplica(func(c *Config) { c.Dir = dir })
	// Whoever opens this waits for a reader.
	pipe := filepath.Join(dir, "checkpoint.new")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, slug := range []string{"g", "h", "i"} {
		o.join(slug)
		if err := f.accept(t.Context(), o.sign()); err != nil {
			t.Fatal(err)
		}
		f.agrees(o)
	}
	f.accepting.Lock()
	f.persist(update{f.signed, make([]snap.Record, maxTail+1), false})
	f.accepting.Unlock()
	f.writes.mu.Lock()
	if next := f.writes.next; !f.writes.busy || next == nil || len(next.records) != 0 || !next.anew {
		t.Errorf("busy %v with %+v to come", f.writes.busy, next)
	}
	f.writes.mu.Unlock()
	reader, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	f.writes.writing.Wait() // a pipe cannot be synced, which is a disk that fails
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	f.store.resting = time.Time{}
	o.join("j")
	f.takes(o.sign())
	f = o.newReplica(func(c *Config) { c.Dir = dir })
	f.agrees(o)
}
