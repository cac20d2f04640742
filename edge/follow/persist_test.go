package follow

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"webring/core/snap"
)

// A slow disk does not hold up what is shown, and what waits to be written is bounded.
func TestADiskIsNotWaitedFor(t *testing.T) {
	o := newOrigin(t)
	dir := onDisk(t, o)
	f := o.newReplica(func(c *Config) { c.Dir = dir })
	// Writes to a full pipe wait.
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{4 << 10, 1} {
		for err = nil; err == nil; {
			writer.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			_, err = writer.Write(make([]byte, size))
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
	writer.SetWriteDeadline(time.Time{})
	f.store.journal.Close()
	f.store.journal = writer
	taken := func() bool {
		f.writes.mu.Lock()
		defer f.writes.mu.Unlock()
		return f.writes.next == nil
	}
	for i, slug := range []string{"g", "h", "i"} {
		o.join(slug)
		if err := f.accept(t.Context(), o.sign()); err != nil {
			t.Fatal(err)
		}
		f.agrees(o)
		for i == 0 && !taken() { // from then on it waits for the disk
			runtime.Gosched()
		}
	}
	f.accepting.Lock()
	f.persist(update{f.signed, make([]snap.Record, maxTail+1), false})
	f.accepting.Unlock()
	f.writes.mu.Lock()
	if next := f.writes.next; !f.writes.busy || next == nil || len(next.records) != 0 || !next.anew {
		t.Errorf("busy %v with %+v to come", f.writes.busy, next)
	}
	f.writes.mu.Unlock()
	if err := reader.Close(); err != nil { // a disk that fails
		t.Fatal(err)
	}
	f.writes.writing.Wait()
	f.store.resting = time.Time{}
	o.join("j")
	f.takes(o.sign())
	f = o.newReplica(func(c *Config) { c.Dir = dir })
	f.agrees(o)
}
