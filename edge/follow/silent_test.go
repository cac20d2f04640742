package follow

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// silent is a core that gives no snapshot, as when none of its instances works.
type silent struct{ Core }

func (silent) Snapshot() []byte { return nil }

func TestACoreWithoutSnapshotChangesNothingOnDisk(t *testing.T) {
	o := newOrigin(t)
	dir := onDisk(t, o)
	kept := o.tree.Size()
	f := o.newReplica(func(c *Config) { c.Dir = dir })
	f.Replica.shown = silent{f.Replica.shown}
	if err := f.store.close(); err != nil { // so that a new pair is due
		t.Fatal(err)
	}
	o.join("late")
	f.takes(o.sign())
	if log := f.log.String(); !strings.Contains(log, "cannot be kept on disk") {
		t.Errorf("the log says %s", log)
	}
	o.leave(true)
	again := o.newReplica(func(c *Config) { c.Dir = dir })
	if size := again.Position(); size != kept {
		t.Errorf("from disk: %d, and %d were kept", size, kept)
	}
}

func TestASilentCoreIsNotReopened(t *testing.T) {
	o := newOrigin(t)
	o.join("a")
	o.sign()
	f := o.booted()
	f.Replica.shown = silent{f.Replica.shown}
	if _, err := f.reopen(t.Context()); !errors.Is(err, errNoSnapshot) {
		t.Errorf("reopened: %v", err)
	}
}

// Before anything is shown, nothing is stale, and nothing since 1970.
func TestNothingIsStaleBeforeTheFirstCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		o.leave(true)
		f := o.newReplica()
		defer f.following(t)()
		time.Sleep(3 * time.Minute)
		if log := f.log.String(); strings.Contains(log, "stale") || strings.Contains(log, "1970") {
			t.Errorf("the log says %s", log)
		}
	})
}
