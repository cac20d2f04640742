package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"webring/server/devchain"
)

// make test takes a small ring.
var (
	edgeMembers = flag.Int("edge-members", 2000, "members of the ring that an edge starts with")
	edgeRings   = flag.String("edge-rings", "", "`folder` of synthetic rings that nobody has open, each in one named by its members: these are copied, where there are any, and not made anew")
)

// TestAnEdgeStartsSoon measures how long an edge takes to its first answer, as soon
// as there is an origin: from the network in an empty folder, with the compiled
// module at hand, and from disk. It never fetches every event.
func TestAnEdgeStartsSoon(t *testing.T) {
	t.Parallel()
	members := *edgeMembers
	listen := devchain.FreeAddress()
	o := &origin{t: t, data: t.TempDir(), base: "http://" + listen}
	o.args = []string{"serve", "--dev", "--scorer", "fixed:72", "--listen", listen, "--base-url", o.base, "--rate-limit", "0", "--capacity", strconv.Itoa(2 * members)}
	o.populate(members)
	o.launch()
	t.Cleanup(o.kill)
	key := o.verifier()

	listen = devchain.FreeAddress()
	e := &origin{t: t, data: t.TempDir(), base: "http://" + listen}
	e.args = []string{"edge", "--listen", listen, "--origin", o.base, "--origin-key", key, "--rate-limit", "0", "--drain", "0"}
	t.Cleanup(e.kill)
	booted := regexp.MustCompile(`msg="follow: booted" .*\bsnapshot=(\d+)`)
	fromASnapshot := func(e *origin) {
		t.Helper()
		eventually(t, "a line about the boot", time.Minute, func() bool { return booted.MatchString(e.log.String()) })
		if booted.FindStringSubmatch(e.log.String())[1] == "0" {
			t.Errorf("every event was fetched: the log says %s", e.log)
		}
	}
	var figures []string
	for _, start := range []struct {
		from, name       string
		hundred, million time.Duration // at most, for as many thousand members
	}{{"the network, in an empty folder", "empty", 3 * time.Second, 0}, {"the network", "network", 3 * time.Second, 0}, {"disk", "disk", time.Second, 1500 * time.Millisecond}} {
		if start.from == "the network" {
			if err := os.RemoveAll(filepath.Join(e.data, "replica")); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		e.launch()
		took, worked := time.Since(began), time.Duration(ticks(t, e.cmd.Process.Pid))*time.Second/100
		if total := at(t, e.get("/api/leaderboard?limit=1").document(t), "total"); total != float64(members) {
			t.Errorf("from %s: %v members", start.from, total)
		}
		if strings.Contains(e.log.String(), "serving the last good state from disk") != (start.from == "disk") {
			t.Errorf("from %s: the log says %s", start.from, e.log)
		}
		t.Logf("from %s: the first answer of %d members after %s and %s of processors, in %d MiB",
			start.from, members, took.Round(time.Millisecond), worked, e.memory()>>20)
		figures = append(figures, inMilliseconds(took, start.name), inMilliseconds(worked, start.name+"-processor"), fmt.Sprintf("%d %s-MiB", e.memory()>>20, start.name))
		// Of a machine that does much else nothing can be asked in a short run.
		most := map[int]time.Duration{100_000: start.hundred, 1_000_000: start.million}[members]
		if most > 0 && took > most {
			t.Errorf("from %s: %s", start.from, took)
		}
		e.kept()
		if start.from != "disk" {
			fromASnapshot(e)
		}
		e.kill()
	}
	snapshot := regexp.MustCompile(`(?m)^snapshot [0-9a-f]+ bytes (\d+) `).FindSubmatch(o.get("/sync/checkpoint").Body)
	if snapshot == nil {
		t.Fatalf("no snapshot in %s", o.get("/sync/checkpoint").Body)
	}
	t.Logf("a snapshot of %d members is a file of %s bytes", members, snapshot[1])
	measured("EdgeStart", members, append(figures, string(snapshot[1])+" snapshot-B")...)
}

// populate gives an origin that has yet to be launched a synthetic ring.
func (o *origin) populate(members int) {
	o.t.Helper()
	made := filepath.Join(*edgeRings, strconv.Itoa(members))
	head, err := os.ReadFile(filepath.Join(made, "head"))
	switch {
	case *edgeRings == "" || errors.Is(err, fs.ErrNotExist):
		err = run([]string{"seed", "--members", strconv.Itoa(members), "--data", o.data}, io.Discard)
	case err == nil:
		err = errors.Join(os.CopyFS(filepath.Join(o.data, "ledger"), os.DirFS(filepath.Join(made, "ledger"))),
			os.WriteFile(filepath.Join(o.data, "head"), head, 0o600))
	}
	if err != nil {
		o.t.Fatal(err)
	}
}

// measured prints figures in the format of Go's benchmarks, which cmd/bench reads,
// when somebody looks on.
func measured(name string, members int, figures ...string) {
	if testing.Verbose() {
		fmt.Printf("Benchmark%s/members=%d 1 %s\n", name, members, strings.Join(figures, " "))
	}
}

// inMilliseconds is a figure.
func inMilliseconds(d time.Duration, name string) string {
	return fmt.Sprintf("%.1f %s-ms", float64(d.Microseconds())/1000, name)
}
