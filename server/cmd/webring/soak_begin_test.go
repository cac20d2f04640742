package main

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"webring/server/devchain"
	"webring/server/devchain/faults"
	"webring/server/ledger"
	"webring/server/ledger/cluster"
	"webring/server/ledger/cluster/etcdtest"
)

// startFaulty has a single origin with three founders become a cluster, as the handbook
// says, and starts all watching of it.
func startFaulty(t *testing.T, o faultyOptions) *faultyCluster {
	t.Helper()
	c := &faultyCluster{t: t, ring: "ring-" + strconv.FormatUint(rand.Uint64(), 36), secrets: secretFile(t), seal: filepath.Join(t.TempDir(), "seal-key")}
	if err := cluster.NewKeyFile(c.seal); err != nil {
		t.Fatal(err)
	}
	c.startEtcd(o)
	c.begin(o)
	for _, n := range c.nodes[1:] {
		c.add(n)
	}
	for _, e := range c.edges {
		e.begin()
	}
	for _, p := range append(append([]*process{}, c.nodes...), c.edges...) {
		c.seen.checkpoints(p, c.key)
		c.seen.positions(p)
	}
	return c
}

// startEtcd starts the members.
func (c *faultyCluster) startEtcd(o faultyOptions) {
	c.t.Helper()
	c.etcd = etcdtest.Start(c.t, etcdtest.Config{Delay: o.delay})
	client, err := clientv3.New(clientv3.Config{Endpoints: c.etcd.Endpoints(), Logger: zap.NewNop(), DialTimeout: longEnough})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { client.Close() })
	c.client = client
}

// begin makes the origins. The first one begins alone, and the others have its backup.
func (c *faultyCluster) begin(o faultyOptions) {
	t := c.t
	t.Helper()
	tempo, _ := chain(t)
	c.gas = filepath.Join(t.TempDir(), "gas-key")
	gas, err := crypto.GenerateKey()
	if err == nil {
		err = os.WriteFile(c.gas, []byte(hex.EncodeToString(crypto.FromECDSA(gas))+"\n"), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if o.evm {
		c.evm = baseChain(t)
		if err := c.evm.Call(t.Context(), nil, "anvil_setBalance", crypto.PubkeyToAddress(gas.PublicKey), (*hexutil.Big)(new(big.Int).Mul(ether, big.NewInt(100)))); err != nil {
			t.Fatal(err)
		}
		payee, err := crypto.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		c.payees.evm = crypto.PubkeyToAddress(payee.PublicKey)
	}
	payee, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	c.payees.tempo = crypto.PubkeyToAddress(payee.PublicKey)

	site := "http://" + devchain.FreeAddress()
	for i := range o.nodes {
		c.addNode(i, o, tempo, site)
	}
	first := c.nodes[0]
	cluster := first.args
	first.args = c.alone(0)
	first.begin()
	for i := range 3 {
		first.join(fmt.Sprintf("Founder %d", i), "agent", "")
	}
	first.confirmed()
	c.key = first.verifier()
	for i := range o.edges {
		c.addEdge(i)
	}
	c.seen = newSeen()
	t.Cleanup(c.seen.close)
	if o.early != nil {
		o.early(c)
	}
	first.stop()
	first.args = cluster
	c.operate(first, "init")
	c.watch()
	first.begin()
	c.led()
}

// alone are the flags of a node that is the only origin.
func (c *faultyCluster) alone(i int) []string {
	all := c.nodes[i].args
	return slices.Clip(all[:len(all)-len(c.clusterArgs(i))])
}

// add adds a node to a ring that serves, with a backup of another one.
func (c *faultyCluster) add(n *process) {
	t := c.t
	t.Helper()
	c.operate(n, "add", n.name)
	backup := filepath.Join(t.TempDir(), "backup.tar")
	if out, err := c.led().operate("backup", backup); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := n.operate("restore", backup, "--data", n.data, "--alone"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	n.begin()
}

// remove has a node that was killed be none of the ring any more.
func (c *faultyCluster) remove(n *process) {
	c.t.Helper()
	eventually(c.t, "another leader than "+n.name, longEnough, func() bool { return c.led() != n })
	c.operate(n, "remove", n.name)
}

// addNode prepares an origin with its links.
func (c *faultyCluster) addNode(i int, o faultyOptions, tempo *devchain.Chain, site string) {
	t := c.t
	t.Helper()
	var doors []*faults.Link
	for _, m := range c.etcd.Members {
		doors = append(doors, newLink(t, faults.NewLink, m.Client.Address))
	}
	c.doors = append(c.doors, doors)
	listen := devchain.FreeAddress()
	c.fronts = append(c.fronts, newLink(t, faults.NewLink, listen))
	proxy := chainProxy(t, tempo.RPC)
	c.chains = append(c.chains, proxy)
	n := &origin{t: t, data: filepath.Join(t.TempDir(), "data"), base: "http://" + listen, recipient: c.payees.tempo, env: o.env}
	if o.clocks != nil {
		n.env = append(append([]string{}, o.env...), "WEBRING_TEST_CLOCK="+o.clocks(i))
	}
	n.args = append([]string{"serve", "--dev", "--scorer", "fixed:72", "--core", "native", "--listen", listen, "--base-url", site, "--rate-limit", "0",
		"--tempo-rpc", proxy.URL, "--tempo-recipient", c.payees.tempo.Hex(), "--edge-secret-file", c.secrets, "--drain", "0"}, o.args...)
	if o.evm {
		proxy := chainProxy(t, c.evm.RPC)
		c.chains = append(c.chains, proxy)
		n.args = append(n.args, "--evm-rpc", proxy.URL, "--evm-recipient", c.payees.evm.Hex(), "--evm-gas-key-file", c.gas, "--evm-depth", "2")
	}
	if i == o.nodes-1 && o.disk != nil {
		var dir string
		if dir, c.full = o.disk(t); c.full != nil {
			n.data = filepath.Join(dir, "data")
		}
	}
	n.args = append(n.args, c.clusterArgs(i)...)
	p := newProcess(fmt.Sprintf("node-%d", i), n)
	c.nodes = append(c.nodes, p)
	t.Cleanup(func() {
		if p.cmd != nil {
			p.goOn()
			p.kill()
		}
	})
}

// chainProxy starts a proxy before a payment network that ends with the test.
func chainProxy(t *testing.T, rpc string) *faults.Proxy {
	t.Helper()
	proxy, err := faults.New(rpc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}

// etcdArgs are the flags by which a node reaches etcd.
func (c *faultyCluster) etcdArgs(i int) []string {
	var endpoints []string
	for _, d := range c.doors[i] {
		endpoints = append(endpoints, d.Address)
	}
	return []string{"--etcd", strings.Join(endpoints, ","), "--cluster-id", c.ring, "--node", fmt.Sprintf("node-%d", i), "--cluster-key-file", c.seal}
}

// clusterArgs are the flags that make an origin one of the cluster.
func (c *faultyCluster) clusterArgs(i int) []string {
	return append(c.etcdArgs(i), "--advertise", "http://"+c.fronts[i].Address)
}

// operate runs a command of the cluster's operator on a node.
func (c *faultyCluster) operate(n *process, args ...string) {
	c.t.Helper()
	if out, err := n.operate(append(append([]string{"cluster"}, args...), c.etcdArgs(c.index(n))...)...); err != nil {
		c.t.Fatalf("webring cluster %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// addEdge prepares an edge with its links.
func (c *faultyCluster) addEdge(i int) {
	t := c.t
	t.Helper()
	var ways []*faults.Link
	listen := devchain.FreeAddress()
	e := &origin{t: t, data: folder(t), base: "http://" + listen, recipient: c.payees.tempo}
	e.args = []string{"edge", "--core", "native", "--listen", listen, "--origin-key", c.key, "--rate-limit", "0", "--drain", "0", "--edge-secret-file", c.secrets}
	for k := range c.nodes {
		// Each edge begins with another node.
		l := newLink(t, faults.NewLink, strings.TrimPrefix(c.nodes[(i+k)%len(c.nodes)].base, "http://"))
		ways = append(ways, l)
		e.args = append(e.args, "--origin", "http://"+l.Address)
	}
	c.ways = append(c.ways, ways)
	p := newProcess(fmt.Sprintf("edge-%d", i), e)
	c.edges = append(c.edges, p)
	t.Cleanup(func() {
		if p.cmd != nil {
			p.kill()
		}
	})
}

// watch begins to see what happens in etcd and what goes to the payment networks.
func (c *faultyCluster) watch() {
	t := c.t
	t.Helper()
	var err error
	if c.witness, err = cluster.Open(cluster.Config{Endpoints: c.etcd.Endpoints(), Ring: c.ring, KeyFile: c.seal, Node: "witness"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.seen.close()
		c.witness.Close()
	})
	if err := c.withBooks(c.nodes[0], func(books *ledger.Ledger) error {
		c.seen.Begin = ledger.Batch{}
		return books.Rows(func(r ledger.Row) error {
			c.seen.Begin[string(r.Key)] = append([]byte{}, r.Value...)
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	if c.seen.at, err = c.witness.Current(t.Context()); err != nil {
		t.Fatal(err)
	}
	// As a node, the witness keeps what it has not seen from being trimmed.
	c.seen.all.Go(func() {
		for c.seen.ctx.Err() == nil {
			_ = c.witness.Admit(c.seen.ctx, c.seen.Position()) // it fails while etcd does
			pause(c.seen.ctx, time.Second)
		}
	})
	c.seen.writes(c.client, c.ring)
	c.seen.leader = func() string { l, _ := c.witness.Leader(); return l.Node }
	c.seen.all.Go(func() {
		err := c.witness.Follow(c.seen.ctx, c.seen)
		c.seen.with(func() { c.seen.ended = err })
	})
	each := len(c.chains) / len(c.nodes)
	for i, proxy := range c.chains {
		c.seen.broadcasts(c.nodes[i/each].name, proxy, c.witness.Current)
	}
}
