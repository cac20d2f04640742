package main

import (
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"webring/server/devchain/faults"
)

// rehearsals is raised by server/deploy/rehearse.
var rehearsals = flag.Int("rehearsal.rounds", 1, "upgrades of a whole ring under load")

// TestRehearsal does to a ring what its operator does to one, in the handbook's order:
// an origin, two edges, and nginx with TLS before them, as processes on this machine.
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
	o := start(t, "--tempo-rpc", node.URL, "--edge-secret-file", secret, "--base-url", f.site)
	key := o.verifier()
	another := func() *origin {
		return o.follow(t, key, "--edge-secret-file", secret, "--trusted-proxy", "127.0.0.1")
	}
	f.begin(another(), another())
	p, err := f.pay("/api/register", `{"name":"First","url":"https://first.dev/","kind":"agent"}`)
	if err != nil || p.Status != http.StatusCreated {
		t.Fatalf("%d %v %s", p.Status, err, p.Body)
	}
	if r, err := f.read("/api/ring/first"); err != nil || r.Status != http.StatusOK {
		t.Fatalf("what was paid for is not shown: %d %v %s", r.Status, err, r.Body)
	}

	t.Log("an edge is added, and a certificate replaced, under load")
	stop := f.load("first", 2)
	third := another()
	f.configure(append(f.nodes, third)...)
	f.certify(2)
	f.reload()
	eventually(t, "the new certificate", time.Minute, func() bool { return f.serial() == 2 })

	upgraded := filepath.Join(t.TempDir(), "webring")
	if out, err := exec.Command("go", "build", "-ldflags=-X main.buildVersion=upgraded", "-o", upgraded, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	upgrade := func(nodes ...*origin) {
		for _, n := range nodes {
			n.stop()
			n.program = upgraded
			n.launch()
		}
	}
	for round := range *rehearsals {
		t.Logf("upgrade %d of %d: edges under load of readers and payers, then the origin under that of readers", round+1, *rehearsals)
		upgrade(f.nodes...)
		reads, payments := stop()
		stop = f.load("first", 0)
		upgrade(o)
		more, _ := stop()
		t.Logf("under load: %d and %d reads, %d payments", reads, more, payments)
		if reads < 100 || more < 100 || payments < 3 {
			t.Error("that is too little load to believe")
		}
		stop = f.load("first", 2)
	}
	stop()
	o.confirmed()
	o.balanced()
	alike(t, append([]*origin{o}, f.nodes...)...)

	t.Log("a member is hidden, and shown again")
	for _, step := range []struct {
		word   string
		status int
	}{{"hide", http.StatusNotFound}, {"unhide", http.StatusOK}} {
		if out, err := o.operate("members", step.word, "first", "--reason", "a rehearsal"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, e := range f.nodes {
			eventually(t, step.word+" at every edge", time.Minute, func() bool { return e.get("/api/ring/first").Status == step.status })
		}
	}

	t.Log("a backup, restored beside the running ring and verified")
	file, beside := filepath.Join(t.TempDir(), "backup.tar"), filepath.Join(t.TempDir(), "data")
	if out, err := o.operate("backup", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := o.operate("verify", file); err != nil || !strings.Contains(out, "everything agrees") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := o.operate("restore", file, "--data", beside, "--from", f.nodes[0].base); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := o.operate("verify", "--data", beside); err != nil || !strings.Contains(out, "everything agrees") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(beside, "sync-key")); err != nil {
		t.Errorf("the key that edges pin did not come back: %v", err)
	}
}
