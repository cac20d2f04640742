package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// seededOrigin starts an origin on a ring of a few members.
func seededOrigin(t *testing.T) *origin {
	t.Helper()
	o := prepare(t, nil, "--core", "native")
	if err := run([]string{"seed", "--members", "10", "--data", o.data}, io.Discard); err != nil {
		t.Fatal(err)
	}
	o.launch()
	t.Cleanup(o.kill)
	return o
}

// TestAnOriginWhoseLedgerBrokeEnds: whoever watches over it starts another one, which
// can tell what is stored. Here no file may be written to any more, and so no table of
// the store can be made either.
func TestAnOriginWhoseLedgerBrokeEnds(t *testing.T) {
	t.Parallel()
	o := seededOrigin(t)
	if out, err := o.operate("members", "remove", o.first(), "--reason", "test"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := unix.Prlimit(o.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{}, nil); err != nil {
		t.Fatal(err)
	}
	if out, err := o.operate("members", "remove", o.first(), "--reason", "test"); err == nil {
		t.Errorf("a removal that is not stored: %s", out)
	}
	o.waitGone()
	// The log says it at once, and the process when it ends.
	if code := o.cmd.ProcessState.ExitCode(); code != 1 || strings.Count(o.log.String(), "ledger: the writer has ended: write the head") < 2 {
		t.Errorf("it ended with %d:\n%s", code, o.log)
	}
	o.launch()
	if out, err := o.operate("verify"); err != nil || !strings.Contains(out, "everything agrees") {
		t.Errorf("the next start: %v\n%s", err, out)
	}
}

// TestAStopEndsWhateverTheStoreWaitsFor: without its folder the store can make no
// table of what it holds, and tries again for ever.
func TestAStopEndsWhateverTheStoreWaitsFor(t *testing.T) {
	t.Parallel()
	o := seededOrigin(t)
	if out, err := o.operate("members", "remove", o.first(), "--reason", "test"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := string(o.get("/api/leaderboard").Body)
	away := o.data + "-away"
	if err := os.Rename(o.data, away); err != nil {
		t.Fatal(err)
	}
	if err := o.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	o.waitGone()
	if code := o.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(o.log.String(), "webring: the files of the ledger could not be closed") {
		t.Errorf("it ended with %d:\n%s", code, o.log)
	}
	if err := os.Rename(away, o.data); err != nil {
		t.Fatal(err)
	}
	o.launch()
	if got := string(o.get("/api/leaderboard").Body); got != want {
		t.Errorf("the next start shows %s\nwant %s", got, want)
	}
}

// first names the first member of the ring.
func (o *origin) first() string {
	o.t.Helper()
	r := o.get("/api/leaderboard")
	if r.Status != http.StatusOK {
		o.t.Fatalf("%d %s", r.Status, r.Body)
	}
	return at(o.t, r.document(o.t), "leaderboard", 0, "slug").(string)
}
