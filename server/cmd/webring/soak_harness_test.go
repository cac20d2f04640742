package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	clientv3 "go.etcd.io/etcd/client/v3"

	"webring/server/devchain"
	"webring/server/devchain/faults"
	"webring/server/ledger/cluster"
	"webring/server/ledger/cluster/etcdtest"
)

// faultyCluster is a ring of three origins on three members of etcd with three edges, each a
// process of its own, and links between all of them.
type faultyCluster struct {
	t       *testing.T
	ring    string // its name in etcd
	secrets string // file of the edge secret
	seal    string // file of the sealing key
	key     string // what edges pin
	gas     string // file of the gas account's key
	payees  struct{ tempo, evm common.Address }

	etcd  *etcdtest.Cluster
	still [3]bool          // which members are paused
	doors [][]*faults.Link // of each node, to each member

	nodes  []*process
	fronts []*faults.Link // of each node, for the other nodes
	edges  []*process
	ways   [][]*faults.Link // of each edge, to each node
	chains []*faults.Proxy  // of each node, both networks
	evm    *devchain.Chain  // nil without it

	witness *cluster.Cluster // sees what is in etcd, whatever nodes see
	client  *clientv3.Client
	seen    *seen
	full    func(full bool) // fills the disk of the last node, or frees it; nil without one
}

// faultyOptions say what is left out, and what is added.
type faultyOptions struct {
	nodes, edges int
	evm          bool
	disk         func(t *testing.T) (dir string, full func(bool)) // where the last node keeps its data; nil for a folder
	env          []string                                         // of all nodes
	clocks       func(node int) string                            // how far ahead each node's clock is; nil for not at all
	delay        time.Duration                                    // of everything between members of etcd, in each direction
	args         []string                                         // of all nodes
	early        func(*faultyCluster)                             // what happens before the only origin becomes a cluster
}

// process is an origin or an edge that is killed and started while others use it.
type process struct {
	*origin
	name     string
	starts   atomic.Int64 // how often it was started
	stranger *http.Client // keeps no connections
	down     bool         // for whoever kills and starts
	paused   bool
}

func newProcess(name string, o *origin) *process {
	return &process{origin: o, name: name, stranger: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: noRedirects.CheckRedirect}}
}

// source names the process of the moment, or that which is about to begin.
func (p *process) source() string {
	return p.name + ", start " + strconv.FormatInt(p.starts.Load(), 10)
}

// begin starts the process and waits until it answers.
func (p *process) begin() {
	p.t.Helper()
	p.starts.Add(1) // before it answers anybody
	p.launch()
	p.down, p.paused = false, false
}

// end kills the process.
func (p *process) end() {
	p.kill()
	p.down = true
}

// pause stops the process without ending it, and goOn lets it run again.
func (p *process) pause() {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	p.paused = true
}

func (p *process) goOn() {
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	p.paused = false
}

// where is the position that the process shows.
func (p *process) where(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, longEnough)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+"/api", nil)
	if err != nil {
		return 0, err
	}
	res, err := p.stranger.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return 0, err
	}
	if res.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("GET /api: %s", res.Status)
	}
	return strconv.ParseUint(res.Header.Get("Webring-Seq"), 10, 64)
}

// newLink starts a link that ends with the test.
func newLink(t *testing.T, make func(string) (*faults.Link, error), target string) *faults.Link {
	t.Helper()
	l, err := make(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}
