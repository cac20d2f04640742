package main

import (
	"context"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/server/devchain"
	"webring/server/ledger/cluster"
	"webring/server/ledger/cluster/etcdtest"
)

var addedMembers = flag.Int("added.members", 2000, "members of the ring to which TestANodeIsAddedWhileBidsArePaid adds a node")

// A node is added to a ring that has many members from a backup, as the handbook says, while
// bids are paid and pages read. No read fails, no bid is lost, and at the end both nodes
// answer the same.
func TestANodeIsAddedWhileBidsArePaid(t *testing.T) {
	t.Parallel()
	const allows = 15 * time.Minute // what a million members need on a busy machine
	network, _ := chain(t)
	a := prepare(t, nil, "--tempo-rpc", network.RPC)
	// A restore of a million members takes longer than other commands may.
	operate := func(o *origin, words ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), allows)
		defer cancel()
		cmd := exec.CommandContext(ctx, binary(t), words...)
		cmd.Env = append(os.Environ(), "WEBRING_DATA="+o.data)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", words, err, out)
		}
	}
	operate(a, "seed", "--members", strconv.Itoa(*addedMembers))
	a.launch() // makes the keys
	a.stop()
	e := etcdtest.Start(t, etcdtest.Config{})
	secret := filepath.Join(t.TempDir(), "edge-secret")
	writeSecrets(t, secret, []byte("0123456789abcdef0123456789abcdef"))
	reach := []string{"--etcd", strings.Join(e.Endpoints(), ","), "--cluster-id", clusterRing}
	single := a.args
	node := func(name, data string) *origin {
		listen := devchain.FreeAddress()
		o := &origin{t: t, data: data, base: "http://" + listen, recipient: a.recipient}
		t.Cleanup(func() {
			if t.Failed() {
				text := o.log.String()
				t.Logf("%s ends with:\n%s", name, text[max(0, len(text)-20_000):])
			}
		})
		o.args = append(append(append([]string{}, single...), "--listen", listen, "--edge-secret-file", secret, "--node", name), reach...)
		return o
	}
	operate(a, append([]string{"cluster", "init", "--node", "a"}, reach...)...)
	a = node("a", a.data)
	a.boot()
	t.Cleanup(a.kill)
	leads := func(o *origin, role cluster.Role) {
		t.Helper()
		eventually(t, string(role), allows, func() bool { return o.role() == role })
	}
	leads(a, cluster.RoleLeader)

	// Buyers bid, and readers read, at all nodes that follow.
	var nodes atomic.Pointer[[]*origin]
	nodes.Store(&[]*origin{a})
	slugs := a.get("/api/ring?limit=4").document(t)["members"].([]any)
	var bids, reads atomic.Int64
	end := make(chan struct{})
	var group sync.WaitGroup
	during := func(work func(turn int) bool) {
		group.Go(func() {
			for turn := 0; ; turn++ {
				select {
				case <-end:
					return
				default:
					if !work(turn) {
						return
					}
				}
			}
		})
	}
	for i := range 4 {
		buyer := &bidder{t: t, slug: slugs[i].(map[string]any)["slug"].(string)}
		during(func(turn int) bool {
			there := *nodes.Load()
			buyer.bid(there[turn%len(there)], "while a node is added")
			bids.Add(1)
			return true
		})
	}
	during(func(turn int) bool {
		there := *nodes.Load()
		r, err := there[turn%len(there)].try(http.MethodGet, "/api/leaderboard?limit=100", nil)
		if err != nil || r.Status != http.StatusOK {
			t.Errorf("a read: %v, %d", err, r.Status)
			return false
		}
		reads.Add(1)
		return true
	})
	began := time.Now()
	took := func(what string) {
		t.Logf("%s after %s: %d bids paid, %d reads", what, time.Since(began).Round(100*time.Millisecond), bids.Load(), reads.Load())
	}
	eventually(t, "bids", allows, func() bool { return t.Failed() || bids.Load() >= 8 })

	operate(a, append([]string{"cluster", "add", "b"}, reach...)...)
	file := filepath.Join(t.TempDir(), "backup.tar")
	took("before the backup")
	operate(a, "backup", file)
	took("backup")
	data := filepath.Join(t.TempDir(), "data")
	operate(a, "restore", file, "--data", data, "--alone")
	took("restored")
	b := node("b", data)
	b.boot()
	t.Cleanup(b.kill)
	leads(b, cluster.RoleStandby)
	took("follows")
	nodes.Store(&[]*origin{a, b})
	with := bids.Load()
	eventually(t, "bids through both", allows, func() bool { return t.Failed() || bids.Load() >= with+16 })
	operate(b, append([]string{"cluster", "handover", "b"}, reach...)...)
	leads(b, cluster.RoleLeader)
	with = bids.Load()
	eventually(t, "bids after the hand-over", allows, func() bool { return t.Failed() || bids.Load() >= with+16 })
	took("end")
	close(end)
	group.Wait()
	for _, o := range []*origin{a, b} {
		t.Logf("%s has %d MiB of memory", o.base, o.memory()>>20)
	}
	if got := b.received(); got != 100*bids.Load() {
		t.Errorf("the ring has got %d cents, and %d bids were answered", got, bids.Load())
	}
	// Both have the same; times pass between two answers.
	eventually(t, "both nodes answer the same", allows, func() bool {
		return string(a.get("/api/leaderboard?limit=100").Body) == string(b.get("/api/leaderboard?limit=100").Body)
	})
	b.stop()
	a.stop()
}
