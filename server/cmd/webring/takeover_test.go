package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"webring/server/devchain"
)

// left unpacks what the binary before this one left on disk; see testdata/before.
func left(t *testing.T, name string) (path string) {
	t.Helper()
	dir := folder(t)
	archive := filepath.Join("testdata", "before", name+".tar.gz")
	if out, err := exec.Command("tar", "--no-same-owner", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	path = filepath.Join(dir, name)
	if compiled := filepath.Join(dir, "core"); name != "backup" {
		if err := os.Rename(compiled, filepath.Join(path, "core")); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// leftOrigin gives the origin of before, to be launched on a folder.
func leftOrigin(t *testing.T, data string) *origin {
	t.Helper()
	listen := devchain.FreeAddress()
	o := &origin{t: t, data: data, base: "http://" + listen}
	o.args = []string{"serve", "--dev", "--scorer", "fixed:72", "--listen", listen, "--base-url", "http://ring.test", "--rate-limit", "0", "--capacity", "1000"}
	return o
}

// leftEdge launches the edge of before, behind an origin that need not run yet.
func leftEdge(t *testing.T, data, key string, behind *origin) *origin {
	t.Helper()
	listen := devchain.FreeAddress()
	e := &origin{t: t, data: data, base: "http://" + listen}
	e.args = []string{"edge", "--listen", listen, "--origin", behind.base, "--origin-key", key, "--rate-limit", "0", "--drain", "0"}
	e.launch()
	t.Cleanup(e.kill)
	return e
}

// leftKey is what edges of the origin of before pin.
const leftKey = "ring.test+24965b24+AcRo951+87wsQ5lOPJYMyhgeHDgHYFZMzh8hlIBozpYr"

// paidFor gives what was paid for each member, in the order of the ring.
func paidFor(t *testing.T, o *origin) string {
	t.Helper()
	var board struct {
		Leaderboard []struct {
			Slug string `json:"slug"`
			Paid string `json:"paid_total_usd"`
		} `json:"leaderboard"`
	}
	var ring struct {
		Members []struct {
			Slug string `json:"slug"`
		} `json:"members"`
	}
	for target, into := range map[string]any{"/api/leaderboard": &board, "/api/ring": &ring} {
		if err := json.Unmarshal(o.get(target).Body, into); err != nil {
			t.Fatal(err)
		}
	}
	paid := map[string]string{}
	for _, m := range board.Leaderboard {
		paid[m.Slug] = m.Paid
	}
	var all []string
	for _, m := range ring.Members {
		all = append(all, m.Slug+" "+paid[m.Slug])
	}
	return strings.Join(all, ", ")
}

// TestTakesOverWhatTheBinaryBeforeLeft holds that an operator can replace the binary:
// data folder, edge folder and backup go on.
func TestTakesOverWhatTheBinaryBeforeLeft(t *testing.T) {
	t.Parallel()
	const atEight = "alpha-agent 4.75, beta-tools 3.50, gamma-pages 2.10"
	const whole = atEight + ", epsilon-late 1.00"
	o := leftOrigin(t, left(t, "data"))

	// The edge comes first, without an origin, and with a core that it once fetched.
	data := left(t, "edge")
	fetched := filepath.Join(data, "replica", "core-"+strings.Repeat("5e", 32))
	if err := os.WriteFile(fetched, []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := leftEdge(t, data, leftKey, o)
	if got := paidFor(t, e); e.position() != "8" || got != atEight {
		t.Errorf("the edge shows %s at %s, want %s\n%s", got, e.position(), atEight, e.log)
	}
	if !strings.Contains(e.log.String(), "serving the last good state from disk") {
		t.Errorf("the edge says\n%s", e.log)
	}
	if _, err := os.Lstat(fetched); err == nil {
		t.Error("a fetched core is still there")
	}

	o.launch()
	t.Cleanup(o.kill)
	if got := paidFor(t, o); got != whole {
		t.Errorf("the origin shows %s, want %s", got, whole)
	}
	events := o.position() // 9, and one that says how payments reach the ring now
	if key := o.verifier(); key != leftKey {
		t.Errorf("the origin's key is %s", key)
	}
	if r := o.get("/api/ring/delta-gone"); r.Status != http.StatusGone && r.Status != http.StatusNotFound || strings.Contains(string(r.Body), "Delta") {
		t.Errorf("a redacted member: %d %s", r.Status, r.Body)
	}
	alike(t, o, e)
	e.kept()

	backup := left(t, "backup") + ".tar"
	if out, err := o.operate("verify", backup); err != nil || !strings.Contains(out, "everything agrees") || !strings.Contains(out, "7 events") {
		t.Errorf("the backup: %v\n%s", err, out)
	}
	o.kill()
	restored := filepath.Join(t.TempDir(), "data")
	if out, err := o.operate("restore", backup, "--data", restored, "--from", e.base); err != nil || !strings.Contains(out, "3 events that the backup lacked") {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, data := range []string{o.data, restored} {
		o.data = data
		if out, err := o.operate("verify"); err != nil || !strings.Contains(out, "everything agrees") || !strings.Contains(out, events+" events") {
			t.Errorf("%s: %v\n%s", data, err, out)
		}
	}
	o.launch()
	if got := paidFor(t, o); got != whole {
		t.Errorf("the restored origin shows %s, want %s", got, whole)
	}
	eventually(t, "the edge behind the restored origin", time.Minute, func() bool { return e.position() == o.position() && e.get("/api").Header.Get("Webring-Stale") == "" })
}
