package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"webring/server/devchain"
	"webring/server/ledger/cluster"
	"webring/server/ledger/cluster/etcdtest"
)

// A single origin becomes a cluster, takes in a node from a backup while payments go on,
// renews the key that seals, hands over, redacts a member, and is a single origin again, on
// the other machine. All that was paid is in its books.
func TestAnOriginBecomesAClusterAndASingleOneAgain(t *testing.T) {
	t.Parallel()
	a := ring(t)
	b := &bidder{t: t, slug: a.join("Ada", "agent", "2"), paid: 300}
	a.stop()
	c := &testCluster{t: t, etcd: etcdtest.Start(t, etcdtest.Config{}), only: a}
	secret := filepath.Join(t.TempDir(), "edge-secret")
	writeSecrets(t, secret, []byte("0123456789abcdef0123456789abcdef"))
	through := func(e *etcdtest.Cluster) []string {
		return []string{"--etcd", strings.Join(e.Endpoints(), ","), "--cluster-id", clusterRing}
	}
	reach, single := through(c.etcd), a.args
	node := func(name, data string) *origin {
		listen := devchain.FreeAddress()
		o := &origin{t: t, data: data, base: "http://" + listen, recipient: a.recipient}
		o.args = append(append(append([]string{}, single...), "--listen", listen, "--edge-secret-file", secret, "--node", name), reach...)
		c.nodes = append(c.nodes, o)
		return o
	}
	command := func(o *origin, word string, rest ...string) string {
		t.Helper()
		out, err := o.operate(append(append([]string{"cluster", word}, rest...), reach...)...)
		if err != nil {
			t.Fatalf("cluster %s: %v: %s", word, err, out)
		}
		return out
	}
	refused := func(o *origin, says string, words ...string) {
		t.Helper()
		if out, err := o.operate(append(append([]string{"cluster"}, words...), reach...)...); err == nil || !strings.Contains(out, says) {
			t.Errorf("cluster %s: %v: %s", words, err, out)
		}
	}

	// It begins with what the origin has, and makes the key that seals.
	empty := &origin{t: t, data: t.TempDir()}
	refused(empty, "holds no ledger", "init", "--node", "a")
	key := filepath.Join(a.data, secretName)
	aside := filepath.Join(t.TempDir(), secretName)
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	move(key, aside)
	refused(a, key+" is missing", "init", "--node", "a")
	if exists(filepath.Join(a.data, sealName)) || exists(filepath.Join(a.data, cluster.MarkerName)) {
		t.Error("a command that was refused has begun a cluster")
	}
	move(aside, key)
	if out := command(a, "init", "--node", "a"); !strings.Contains(out, sealName+" seals what lies in etcd") || !strings.Contains(out, "is the node a of the ring") {
		t.Errorf("cluster init: %s", out)
	}
	a = node("a", a.data)
	a.launch()
	t.Cleanup(a.kill)
	c.leader()
	b.bid(a, "at the only node")
	gone := a.join("Eve", "agent", "")
	b.paid += 100

	// A second node, of a backup that was made while payments go on.
	if out := command(a, "add", "b"); !strings.Contains(out, "make a backup of any node now") {
		t.Errorf("cluster add: %s", out)
	}
	refused(a, "there is a node b already", "add", "b")
	b.bid(a, "before the backup")
	file := filepath.Join(t.TempDir(), "backup.tar")
	if out, err := a.operate("backup", file); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b.bid(a, "after the backup")
	data := filepath.Join(t.TempDir(), "data")
	if out, err := a.operate("restore", file, "--data", data, "--alone"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	second := node("b", data)
	right, err := os.ReadFile(filepath.Join(data, secretName))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, content []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(data, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// With another secret it is refused, and everybody is told.
	write(secretName, []byte(strings.Repeat("0f", 32)+"\n"))
	second.launch()
	t.Cleanup(second.kill)
	eventually(t, "a node with another secret is refused", longEnough, func() bool {
		ready, rows := second.readiness()
		return !ready && second.role() == cluster.RoleRefused && strings.Contains(rows["role"].Detail, secretName)
	})
	if out := command(a, "status"); !strings.Contains(out, "\nb     refused ") || !strings.Contains(out, "\nb is refused: ") || !strings.Contains(out, secretName+" (fingerprint ") {
		t.Errorf("cluster status: %s", out)
	}
	if out, err := invoke(t, append(slices.Clone(second.args), "--check", "--data", data)...).CombinedOutput(); err == nil || !strings.Contains(string(out), secretName+" of this node is not that of the ring") {
		t.Errorf("a check: %v: %s", err, out)
	}
	second.stop()
	write(secretName, right)
	second.launch()
	leads := func(o *origin, name string) {
		t.Helper()
		if now, _ := c.leader(); now != o { // on a busy machine a lease can run out
			command(o, "handover", name)
		}
	}
	leads(a, "a")
	b.bid(second, "through the node that was added")
	refused(second, a.base, "leave") // it does not lead

	// The key that seals is renewed: when all nodes have the new one, the leader seals with it.
	seals := func() string {
		_, after, _ := strings.Cut(command(a, "status"), "\nkey ")
		id, _, _ := strings.Cut(after, " seals; ")
		return id
	}
	before := seals()
	if out := command(a, "key"); !strings.Contains(out, "has a new key above the previous one") {
		t.Errorf("cluster key: %s", out)
	}
	refused(a, "delete the second one", "key")
	keys, err := os.ReadFile(filepath.Join(a.data, sealName))
	if err != nil {
		t.Fatal(err)
	}
	write(sealName, keys)
	eventually(t, "the new key seals", longEnough, func() bool { return before != "" && seals() != before })
	if out := command(a, "handover", "b"); !strings.Contains(out, "b leads") {
		t.Errorf("cluster handover: %s", out)
	}
	b.bid(second, "after the hand-over")
	b.bid(a, "passed on after the hand-over")
	if strings.Contains(a.log.String(), "the ledger is read anew") {
		t.Error("a node that handed over has read its whole ledger anew")
	}
	if out, err := second.operate("members", "remove", gone, "--redact", "--reason", "test"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	// What all nodes have is no longer in etcd, and every node says that it has all.
	var out string
	all := func() {
		t.Helper()
		eventually(t, "an etcd without what all nodes have", longEnough, func() bool {
			out = command(a, "status")
			if !strings.Contains(out, "b leads; ") || !strings.Contains(out, " 0 bytes of the tail") {
				return false
			}
			// Each node says every second how far it is.
			for _, line := range strings.Split(strings.TrimSpace(out), "\n")[2:4] {
				if fields := strings.Fields(line); len(fields) < 3 || !strings.Contains(out, "at transaction "+fields[2]+",") {
					return false
				}
			}
			return true
		})
	}
	all()
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 5 || !strings.HasSuffix(lines[4], "nothing in etcd needs an older one") {
		t.Fatalf("cluster status: %s", out)
	}
	for i, want := range [][2]string{{"a", "standby"}, {"b", "leader"}} {
		fields := strings.Fields(lines[2+i])
		if len(fields) != 5 || fields[0] != want[0] || fields[1] != want[1] || fields[4] != c.nodes[i].base || !strings.Contains(out, "at transaction "+fields[2]+",") {
			t.Errorf("cluster status: %s", out)
		}
	}

	// etcd is lost, and another one takes its place. Then that one is lost, and an old copy of
	// the first comes back, which has less than the nodes.
	renew := func(e *etcdtest.Cluster, force ...string) {
		t.Helper()
		a.stop()
		second.stop()
		before := len(reach)
		reach = through(e)
		if force != nil {
			refused(second, "--force", "init", "--node", "b")
		}
		command(second, "init", append([]string{"--node", "b"}, force...)...)
		command(a, "init", "--node", "a")
		for _, o := range []*origin{second, a} {
			o.args = append(o.args[:len(o.args)-before:len(o.args)-before], reach...)
			o.launch()
			if o == second {
				c.leader(second)
			}
		}
		leads(second, "b")
		b.bid(a, "through another etcd")
		all()
	}
	renew(etcdtest.Start(t, etcdtest.Config{}))
	renew(c.etcd, "--force")
	refused(a, "b leads", "remove", "b")
	command(a, "remove", "a")
	refused(a, `no node "x"`, "remove", "x")
	eventually(t, "a node that was removed", longEnough, func() bool { return a.role() == cluster.RoleRefused })
	a.stop()

	// The node that leads stays as the single origin, also if it is lost in the middle of that.
	marker, err := os.ReadFile(filepath.Join(data, cluster.MarkerName))
	if err != nil {
		t.Fatal(err)
	}
	for half := true; ; half = false {
		if out := command(second, "leave"); !strings.Contains(out, "is a single origin again") {
			t.Errorf("cluster leave: %s", out)
		}
		second.stop()
		if !half {
			break
		}
		write(cluster.MarkerName, marker)
		second.launch()
		eventually(t, "a node that has to finish", longEnough, func() bool {
			_, rows := second.readiness()
			return strings.Contains(rows["role"].Detail, "run webring cluster leave once more")
		})
	}
	second.args = append(append([]string{}, single...), "--listen", strings.TrimPrefix(second.base, "http://"))
	second.launch()
	refused(second, "is a single one", "leave")
	b.bid(second, "at the single origin")
	if got := second.received(); got != b.paid {
		t.Errorf("the ring has got %d cents, and members paid %d", got, b.paid)
	}
	if out, err := second.operate("verify"); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := second.operate("version"); err != nil || !strings.Contains(out, fmt.Sprintf("paid %d.00 USD", b.paid/100)) {
		t.Errorf("%v: the books do not have what was paid, %d cents: %s", err, b.paid, out)
	}
	if r := second.get("/api/ring/" + gone); r.Status != http.StatusGone && r.Status != http.StatusNotFound {
		t.Errorf("a member who was removed: %d %s", r.Status, r.Body)
	}
	second.stop()
}
