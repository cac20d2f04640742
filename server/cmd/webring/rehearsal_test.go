package main

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"webring/server/devchain"
	"webring/server/devchain/faults"
)

// rehearsals is raised by server/deploy/rehearse.
var rehearsals = flag.Int("rehearsal.rounds", 1, "upgrades of a whole ring under load")

// TestRehearsal does to a ring what its operator does to one, in the handbook's order:
// an origin on a socket that outlives it, two edges, and nginx with TLS before them.
func TestRehearsal(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	node, err := faults.New(c.RPC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	f, secret := newGateway(t), secretFile(t)

	t.Log("a first deployment, and a payment through it")
	watch := devchain.FreeAddress()
	o := activated(t, "--tempo-rpc", node.URL, "--edge-secret-file", secret, "--admin-listen", watch, "--drain", "3s")
	o.args = append(o.args, "--base-url", f.site())
	o.launch()
	t.Cleanup(o.kill)
	key := o.verifier()
	another := func() *origin {
		return o.follow(t, key, "--edge-secret-file", secret, "--trusted-proxy", "127.0.0.1", "--drain", "6s")
	}
	f.begin(another(), another())
	p, err := f.pay("/api/register", `{"name":"First","url":"https://first.dev/","kind":"agent"}`)
	if err != nil || p.Status != http.StatusCreated {
		t.Fatalf("%d %v %s", p.Status, err, p.Body)
	}
	if r, err := f.read("/api/ring/first"); err != nil || r.Status != http.StatusOK {
		t.Fatalf("what was paid for is not shown: %d %v %s", r.Status, err, r.Body)
	}

	t.Log("under load, an edge is added, and a certificate replaced")
	stop := f.load("first")
	f.configure(append(f.edges, another())...)
	f.certify(1)
	f.reload()
	eventually(t, "the new certificate", time.Minute, func() bool { return f.certified() == 1 })

	upgraded := filepath.Join(t.TempDir(), "webring")
	if out, err := exec.Command("go", "build", "-ldflags=-X main.buildVersion=upgraded", "-o", upgraded, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for round := range *rehearsals {
		t.Logf("under load, upgrade %d of %d: the edges, one after the other, then the origin", round+1, *rehearsals)
		for _, n := range append(slices.Clone(f.edges), o) {
			n.stop()
			n.program = upgraded
			n.launch()
			eventually(t, "readiness", time.Minute, func() bool { ready, _ := n.readiness(); return ready })
		}
	}
	reads, payments := stop()
	t.Logf("under load: %d reads, %d payments", reads, payments)
	if reads < 500 || payments < 5 {
		t.Error("that is too little load to believe")
	}
	o.confirmed()
	o.balanced()
	alike(t, append([]*origin{o}, f.edges...)...)

	t.Log("a member is hidden, and shown again")
	for _, step := range []struct {
		word   string
		status int
	}{{"hide", http.StatusNotFound}, {"unhide", http.StatusOK}} {
		if out, err := o.operate("members", step.word, "first", "--reason", "a rehearsal"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, e := range f.edges {
			eventually(t, step.word+" at every edge", time.Minute, func() bool { return e.get("/api/ring/first").Status == step.status })
		}
	}

	t.Log("a backup is restored beside the running ring and verified")
	file, beside := filepath.Join(t.TempDir(), "backup.tar"), filepath.Join(t.TempDir(), "data")
	for _, step := range [][]string{{"backup", file}, {"verify", file}, {"restore", file, "--data", beside, "--from", f.edges[0].base}, {"verify", "--data", beside}} {
		out, err := o.operate(step...)
		if err != nil || step[0] == "verify" && !strings.Contains(out, "everything agrees") {
			t.Fatalf("%s: %v\n%s", step[0], err, out)
		}
	}
	if _, err := os.Stat(filepath.Join(beside, "sync-key")); err != nil {
		t.Errorf("the key that edges pin did not come back: %v", err)
	}

	t.Log("a frozen chain is noticed though nobody pays: by readiness, and by an alert")
	firing := watching(t, watch)
	if firing != nil && len(firing()) > 0 {
		t.Errorf("alerts of a ring in order: %v", firing())
	}
	node.Follow(faults.All(faults.Frozen))
	frozen := time.Now()
	eventually(t, "readiness to end", time.Minute, func() bool { ready, _ := o.readiness(); return !ready })
	t.Logf("not ready after %v", time.Since(frozen).Round(time.Second))
	if firing != nil {
		eventually(t, "the alert", longEnough, func() bool { return slices.Contains(firing(), "ChainFrozen") })
	}
	node.Follow(faults.Pass)
	eventually(t, "readiness again", time.Minute, func() bool { ready, _ := o.readiness(); return ready })
	if firing != nil {
		eventually(t, "the end of the alert", longEnough, func() bool { return len(firing()) == 0 })
	}
}

// watching runs Prometheus, as shipped but faster, on an origin's metrics. What it gives
// says which alerts fire; it is nil where Prometheus is missing.
func watching(t *testing.T, admin string) (firing func() []string) {
	t.Helper()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Log("no alert is looked for: prometheus is not there; apt install prometheus")
		return nil
	}
	dir, address := t.TempDir(), devchain.FreeAddress()
	rules := filepath.Join(dir, "alerts.yml")
	if err := os.WriteFile(rules, []byte(deployed(t, "prometheus/alerts.yml", "for: 30s", "for: 2s")), 0o600); err != nil {
		t.Fatal(err)
	}
	background(t, address, deployed(t, "prometheus/prometheus.yml", "interval: 15s", "interval: 1s", "- alerts.yml", "- "+rules,
		`"127.0.0.1:8403"`, `"`+admin+`"`, `"127.0.0.1:18411", "127.0.0.1:18412"`, ""),
		"prometheus", "--storage.tsdb.path="+dir, "--web.listen-address="+address, "--log.level=error", "--config.file")
	ask := func(path string, result any) {
		t.Helper()
		res, err := noRedirects.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(result); err != nil && res.StatusCode == http.StatusOK {
			t.Fatal(err)
		}
	}
	eventually(t, "metrics in Prometheus", time.Minute, func() bool {
		var found struct{ Data struct{ Result []any } }
		ask("/api/v1/query?query=webring_ready==1", &found)
		return len(found.Data.Result) == 1
	})
	return func() (names []string) {
		t.Helper()
		var said struct {
			Data struct {
				Alerts []struct {
					State  string
					Labels struct {
						Name string `json:"alertname"`
					}
				}
			}
		}
		ask("/api/v1/alerts", &said)
		for _, a := range said.Data.Alerts {
			if a.State == "firing" {
				names = append(names, a.Labels.Name)
			}
		}
		return names
	}
}
