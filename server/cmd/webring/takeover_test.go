package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/server/devchain"
	"webring/server/ledger"
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

// leftEdge launches the edge of before, behind an origin, and has it fold all events.
func leftEdge(t *testing.T, data, key string, behind *origin) *origin {
	t.Helper()
	listen := devchain.FreeAddress()
	e := &origin{t: t, data: data, base: "http://" + listen}
	e.args = []string{"edge", "--listen", listen, "--origin", behind.base, "--origin-key", key, "--rate-limit", "0", "--drain", "0", "--replay"}
	e.launch()
	t.Cleanup(e.kill)
	return e
}

// leftKey is what edges of the origin of before pin.
const leftKey = "ring.test+24965b24+AcRo951+87wsQ5lOPJYMyhgeHDgHYFZMzh8hlIBozpYr"

// leftDigest is what the binary before gave as the digest of the state of its 9 events.
const leftDigest = "ea40e7ee6db277516e87902c43b79d47"

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

// ownAll has one member verified, the next one claimed and renamed, the next one moved, and
// the last one asleep.
func ownAll(f *founding, verified, claimed, moved, asleep string) {
	f.t.Helper()
	f.own(nil, func(now int64) core.Event { return &core.Verified{Stamp: now, Member: verified, Proof: core.ByLink} })
	f.own(nil, func(now int64) core.Event {
		return &core.Claimed{Stamp: now, Member: claimed, Owner: core.AccountOf("0x00000000000000000000000000000000000000aa"), Proof: core.ByFile}
	})
	f.own(&core.Texts{Name: core.Text{Value: "Another Name"}}, func(now int64) core.Event { return &core.Changed{Stamp: now, Member: claimed} })
	f.own(&core.Texts{URL: core.Text{Value: "https://moved.dev/"}}, func(now int64) core.Event {
		return &core.Moved{Stamp: now, Member: moved, Score: core.Score{Given: true, Value: 72, Provider: "fixed"}}
	})
	f.own(nil, func(now int64) core.Event { return &core.Asleep{Stamp: now, Member: asleep} })
}

// TestTakesOverWhatTheBinaryBeforeLeft holds that an operator can replace the binary:
// data folder, edge folder and backup go on.
func TestTakesOverWhatTheBinaryBeforeLeft(t *testing.T) {
	t.Parallel()
	const whole = "alpha-agent 4.75, beta-tools 3.50, gamma-pages 2.10, epsilon-late 1.00"
	o := leftOrigin(t, left(t, "data"))

	o.write(func(f *founding) {
		var got string
		f.books.View(func(v *ledger.View) { got = fmt.Sprintf("%x", v.State().Digest()) })
		if got != leftDigest {
			t.Errorf("the state has the digest %s, want %s", got, leftDigest)
		}
	})
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

	// The edge has a snapshot of an earlier version.
	e := leftEdge(t, left(t, "edge"), leftKey, o)
	if !strings.Contains(e.log.String(), "what is on disk is not used") {
		t.Errorf("the edge says\n%s", e.log)
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
	caughtUp := func() bool { return e.position() == o.position() && e.get("/api").Header.Get("Webring-Stale") == "" }
	eventually(t, "the edge behind the restored origin", time.Minute, caughtUp)

	// The history goes on with events that the binary before did not know.
	o.kill()
	o.write(func(f *founding) { ownAll(f, "alpha-agent", "beta-tools", "gamma-pages", "epsilon-late") })
	o.launch()
	eventually(t, "the edge at the new events", time.Minute, caughtUp)
	for target, want := range map[string]string{
		"/api/ring/alpha-agent":           `"verified":"link"`,
		"/api/ring/beta-tools":            `"owner":"0x00000000000000000000000000000000000000aa","claimed":true`,
		"/api/ring/gamma-pages":           `"url":"https://moved.dev/"`,
		"/api/ring/epsilon-late":          `"health":"asleep"`,
		"/api/ring/next?from=gamma-pages": `"slug":"alpha-agent"`,
	} {
		if body := string(e.get(target).Body); !strings.Contains(body, want) {
			t.Errorf("%s: %s", target, body)
		}
	}
	alike(t, o, e)
	if got := paidFor(t, e); got != whole {
		t.Errorf("with new events the edge shows %s, want %s", got, whole)
	}
	o.kill()
	if out, err := o.operate("verify"); err != nil || !strings.Contains(out, "everything agrees") {
		t.Errorf("with new events: %v\n%s", err, out)
	}
}
