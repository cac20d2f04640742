package follow

import (
	"errors"
	"os"
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
	for err == nil {
		writer.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		_, err = writer.Write(make([]byte, 1<<10))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	writer.SetWriteDeadline(time.Time{})
	f.store.journal.Close()
	f.store.journal = writer
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
