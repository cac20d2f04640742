package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"webring/server/devchain"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
	"webring/server/ledger/cluster"
	"webring/server/ledger/cluster/etcdtest"
)

// clusterRing names the ring in etcd.
const clusterRing = "ring"

// testCluster is a ring of several origins, and the etcd through which they keep one ledger.
type testCluster struct {
	t     *testing.T
	etcd  *etcdtest.Cluster
	nodes []*origin
	only  *origin // what the ring began as
	keys  string  // the file that seals
}

// makeCluster makes a cluster of nodes named a, b, c…, which have yet to be launched. Its
// ring begins as that of an only origin, which is stopped. args are for all.
func makeCluster(t *testing.T, nodes int, args ...string) *testCluster {
	t.Helper()
	only := ring(t)
	only.runsAlone()
	only.stop()
	c := &testCluster{t: t, etcd: etcdtest.Start(t, etcdtest.Config{}), only: only}
	dir := t.TempDir()
	c.keys = filepath.Join(dir, "cluster-key")
	if err := cluster.NewKeyFile(c.keys); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(dir, "edge-secret")
	var bytes [32]byte
	rand.Read(bytes[:])
	writeSecrets(t, secret, bytes[:])
	for i := range nodes {
		name := string(rune('a' + i))
		listen := devchain.FreeAddress()
		o := &origin{t: t, data: only.data, base: "http://" + listen, recipient: only.recipient}
		// The ring stays that of the first origin: a later flag wins.
		o.args = append(append(append([]string{}, only.args...), "--listen", listen, "--edge-secret-file", secret,
			"--etcd", strings.Join(c.etcd.Endpoints(), ","), "--cluster-id", clusterRing, "--node", name, "--cluster-key-file", c.keys), args...)
		if i > 0 {
			o.data = t.TempDir()
			if err := os.CopyFS(o.data, os.DirFS(only.data)); err != nil {
				t.Fatal(err)
			}
			if err := closeToOthers(o.data); err != nil {
				t.Fatal(err)
			}
		}
		c.nodes = append(c.nodes, o)
	}
	c.begin(only.data)
	return c
}

// launch starts all nodes. The first one leads.
func (c *testCluster) launch() {
	c.t.Helper()
	for i, o := range c.nodes {
		o.launch()
		c.t.Cleanup(o.kill)
		if i == 0 {
			c.leader(o)
		}
	}
	c.leads(c.nodes[0])
}

// leads has a node lead that may have lost its lease, since the machine is busy.
func (c *testCluster) leads(o *origin) {
	c.t.Helper()
	if now, _ := c.leader(); now != o {
		c.handOver(o)
	}
}

// handOver has the leader hand over to a node.
func (c *testCluster) handOver(to *origin) {
	c.t.Helper()
	tool, err := cluster.Open(c.config("", ""))
	if err != nil {
		c.t.Fatal(err)
	}
	defer tool.Close()
	ctx, cancel := context.WithTimeout(context.Background(), longEnough)
	defer cancel()
	if err := tool.Handover(ctx, string(rune('a'+slices.Index(c.nodes, to)))); err != nil {
		c.t.Fatal(err)
	}
}

// runsAlone holds that nothing of a cluster runs in a process without --etcd. A process answers
// before the last of its goroutines has begun.
func (o *origin) runsAlone() {
	o.t.Helper()
	var stacks string
	eventually(o.t, "an origin at work", longEnough, func() bool {
		_, seen, err := o.watched("/debug/pprof/goroutine?debug=2")
		stacks = seen
		return err == nil && strings.Contains(stacks, "main.(*originNode).attend")
	})
	for _, of := range []string{"etcd", "grpc", "server.(*Node)", "ledger/cluster.", "publish.(*Relay)"} {
		if strings.Contains(stacks, of) {
			o.t.Errorf("without --etcd there runs %s:\n%s", of, stacks)
		}
	}
}

// closeToOthers gives copied files the modes that secrets need.
func closeToOthers(data string) error {
	var errs []error
	for _, name := range []string{"mpp-secret", "sync-key"} {
		errs = append(errs, os.Chmod(filepath.Join(data, name), 0o600))
	}
	return errors.Join(errs...)
}

// config is what a node named so says of itself to etcd; without a name, a tool.
func (c *testCluster) config(node, data string) cluster.Config {
	return cluster.Config{Endpoints: c.etcd.Endpoints(), Ring: clusterRing, Node: node, Dir: data, KeyFile: c.keys}
}

// begin makes the ring of a stopped origin one in etcd.
func (c *testCluster) begin(data string) {
	c.t.Helper()
	books, end := c.readLedger(data)
	at := books.Position()
	end()
	until, err := os.ReadFile(filepath.Join(data, "sync", "signed-until"))
	if err != nil {
		c.t.Fatal(err)
	}
	ms, err := strconv.ParseInt(strings.TrimSpace(string(until)), 10, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), longEnough)
	defer cancel()
	if err := cluster.Init(ctx, c.config("a", data), cluster.Start{At: at, Until: ms}); err != nil {
		c.t.Fatal(err)
	}
}

// readLedger opens the ledger of a stopped node.
func (c *testCluster) readLedger(data string) (books *ledger.Follower, end func()) {
	c.t.Helper()
	store, err := badgerstore.Open(storePath(data), slog.New(slog.DiscardHandler))
	if err != nil {
		c.t.Fatal(err)
	}
	o := options{data: data, capacity: 1_000_000}
	config := o.ledgerConfig()
	config.Store = store
	if books, err = ledger.Follow(config); err != nil {
		c.t.Fatal(err)
	}
	return books, func() {
		if err := errors.Join(books.Close(), store.Close()); err != nil {
			c.t.Error(err)
		}
	}
}

// role is what a running node says of itself, "" when it cannot be asked.
func (o *origin) role() cluster.Role {
	_, body, err := o.watched("/metrics")
	if err != nil {
		return ""
	}
	for _, r := range []cluster.Role{cluster.RoleLeader, cluster.RoleStandby, cluster.RoleRefused} {
		if strings.Contains(body, fmt.Sprintf("webring_cluster_role{role=%q} 1\n", string(r))) {
			return r
		}
	}
	return ""
}

// leader waits until exactly one of the nodes that are there leads, and gives it with the
// others.
func (c *testCluster) leader(there ...*origin) (leads *origin, others []*origin) {
	c.t.Helper()
	if there == nil {
		there = c.nodes
	}
	eventually(c.t, "a leader", longEnough, func() bool {
		leads, others = nil, nil
		for _, o := range there {
			switch o.role() {
			case cluster.RoleLeader:
				if leads != nil {
					return false
				}
				leads = o
			case cluster.RoleStandby:
				others = append(others, o)
			}
		}
		return leads != nil && len(others) == len(there)-1
	})
	return leads, others
}

// readers read from nodes all the time, and note each read that fails. A node that is ended
// on purpose is left out.
type readers struct {
	t      *testing.T
	reads  atomic.Int64
	absent []*atomic.Bool
	end    func()
}

// read starts readers of all nodes.
func (c *testCluster) read() *readers {
	r := &readers{t: c.t}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{}, len(c.nodes))
	client := &http.Client{Timeout: patient, Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	for range c.nodes {
		r.absent = append(r.absent, new(atomic.Bool))
	}
	for i, o := range c.nodes {
		go func() {
			defer func() { done <- struct{}{} }()
			for last := 0; ctx.Err() == nil; {
				absent := r.absent[i].Load()
				res, err := client.Get(o.base + "/api/leaderboard")
				if err == nil {
					res.Body.Close()
				}
				switch {
				case absent || r.absent[i].Load():
				case err != nil || res.StatusCode != http.StatusOK:
					c.t.Errorf("a read from node %d failed: %v", i, err)
					return
				case res.Header.Get("Webring-Seq") != "":
					at, _ := strconv.Atoi(res.Header.Get("Webring-Seq"))
					if at < last {
						c.t.Errorf("node %d went back from %d to %d", i, last, at)
					}
					last = at
				}
				r.reads.Add(1)
				pause(ctx, 5*time.Millisecond)
			}
		}()
	}
	r.end = func() {
		stop()
		for range c.nodes {
			<-done
		}
		client.CloseIdleConnections()
	}
	return r
}

// pause reports whether ctx has lasted for that long.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
