package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"webring/server/devchain"
	"webring/server/ledger"
	"webring/server/ledger/synthetic"
)

func TestSeedLeavesALedgerAsItIs(t *testing.T) {
	// A head that has seen a transaction keeps whoever lost the ledger from signing
	// another history.
	lost := t.TempDir()
	books, end, err := openLedger(lost, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = books.Do(t.Context(), func(tx *ledger.Tx) error { return tx.SetScanned("network", time.Unix(1, 0)) })
	if err := errors.Join(err, end()); err != nil {
		t.Fatal(err)
	}
	head, err := os.ReadFile(filepath.Join(lost, "head"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		text []byte
	}{{"ledger", []byte("mine")}, {"head", []byte("mine")}, {"head", head}} {
		dir := t.TempDir()
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, c.text, 0o600); err != nil {
			t.Fatal(err)
		}
		err := run([]string{"seed", "--members", "10", "--data", dir}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "holds a ledger already") {
			t.Errorf("with %s there: %v", c.name, err)
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, c.text) {
			t.Errorf("%s is now %q, %v", c.name, b, err)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("the folder has %v, %v", entries, err)
		}
	}
}

// TestSeedThatEndsBetweenItsStepsLeavesNoRing: another one starts afresh, and serve begins
// an empty ring.
func TestSeedThatEndsBetweenItsStepsLeavesNoRing(t *testing.T) {
	data := t.TempDir()
	if err := synthetic.Install(t.TempDir(), data); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("without a ledger to be placed: %v", err)
	}
	if entries, err := os.ReadDir(data); err != nil || len(entries) != 1 || entries[0].Name() != "head" {
		t.Fatalf("the folder has %v, %v", entries, err)
	}
	if err := run([]string{"seed", "--members", "10", "--data", data}, io.Discard); err != nil {
		t.Errorf("another one: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(data, "ledger")); err != nil {
		t.Fatal(err)
	}
	books, end, err := openLedger(data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := books.Size(); n != 0 {
		t.Errorf("a ring of %d events is served", n)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

// TestSeedLeavesALedgerThatCameMeanwhile: two may be under way at a time.
func TestSeedLeavesALedgerThatCameMeanwhile(t *testing.T) {
	work, data := t.TempDir(), t.TempDir()
	for _, dir := range []string{work, data} {
		if err := os.Mkdir(filepath.Join(dir, "ledger"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := synthetic.Install(work, data); !errors.Is(err, os.ErrExist) {
		t.Errorf("a ledger took the place of another: %v", err)
	}
}

// TestSeedThatDoesNotComeToItsEndLeavesNoRing: the next one starts afresh, and nothing
// serves what it made.
func TestSeedThatDoesNotComeToItsEndLeavesNoRing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		end    os.Signal // as soon as there is something in the folder
		stays  int
	}{
		"refused by the system": {script: "ulimit -f 40; ", stays: 0},
		"interrupted":           {end: os.Interrupt, stays: 0},
		"killed":                {end: os.Kill, stays: 1},
	} {
		data := t.TempDir()
		made := exec.Command("sh", "-c", c.script+`exec "$0" seed --members 3000000 --data "$1"`, binary(t), data)
		if err := made.Start(); err != nil {
			t.Fatal(err)
		}
		defer made.Process.Kill() // in case the test ends before it
		if c.end != nil {
			eventually(t, "the beginning of a ring", time.Minute, func() bool {
				found, err := filepath.Glob(filepath.Join(data, "*", "*"))
				return err != nil || len(found) > 0
			})
			if err := made.Process.Signal(c.end); err != nil {
				t.Fatal(err)
			}
		}
		if err := made.Wait(); err == nil {
			t.Fatalf("%s: it came to its end", name)
		}
		entries, err := os.ReadDir(data)
		if err != nil || len(entries) != c.stays {
			t.Errorf("%s: the folder has %v, %v", name, entries, err)
		}
		if err := os.Mkdir(filepath.Join(data, restoring+"1"), 0o700); err != nil { // of a restore that was killed
			t.Fatal(err)
		}
		c.stays++
		out, err := invoke(t, "seed", "--members", "10", "--data", data).CombinedOutput()
		if err != nil || strings.Count(string(out), "webring: removed ") != c.stays {
			t.Errorf("%s: the next one: %v\n%s", name, err, out)
		}
	}
}

func TestSeedRefusesWhatIsNoNumberOfMembers(t *testing.T) {
	for _, n := range []string{"0", "-1", "x", "50000001"} {
		if err := run([]string{"seed", "--members", n, "--data", t.TempDir()}, io.Discard); err == nil {
			t.Errorf("--members %s was taken", n)
		}
	}
}

func TestASyntheticRingSaysSoAndIsServed(t *testing.T) {
	o := &origin{t: t, data: t.TempDir()}
	listen := devchain.FreeAddress()
	o.base = "http://" + listen
	o.args = []string{"serve", "--dev", "--scorer", "fixed:72", "--listen", listen, "--base-url", o.base, "--rate-limit", "0"}
	var out bytes.Buffer
	if err := run([]string{"seed", "--members", "500", "--data", o.data}, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "500 members, 802 events") {
		t.Errorf("seed said %q", &out)
	}
	o.launch()
	t.Cleanup(o.kill)
	if doc := o.get("/api").document(t); doc["synthetic"] != true {
		t.Errorf("the directory says %v", doc["synthetic"])
	}
	if body := o.get("/").Body; !bytes.Contains(body, []byte("This ring is synthetic.")) {
		t.Errorf("the home page says %s", body)
	}
	// What the page shows is bounded, and this ring is beyond all of its bounds.
	if n := len(o.get("/", "Accept-Encoding", "br").Body); n == 0 || n > 30<<10 {
		t.Errorf("the home page has %d bytes", n)
	}
	if total := at(t, o.get("/api/leaderboard?limit=1").document(t), "total"); total != 500.0 {
		t.Errorf("%v members", total)
	}
	o.stop()
}
