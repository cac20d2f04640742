package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"webring/server/ledger"
	"webring/server/ledger/cluster/etcdtest"
)

// chain commits transactions that follow each other.
type chain struct {
	t  testing.TB
	at ledger.Position
}

func (c *chain) commit(s *Store, n, size int) {
	c.t.Helper()
	for range n {
		b, next := group(c.at, some(size))
		if err := s.Commit(b); err != nil {
			c.t.Fatal(err)
		}
		c.at = next
	}
}

// standing takes part in the background, until the test or stop ends it.
func standing(t *testing.T, c *Cluster, own Follower) (ended <-chan error, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	result, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		term, err := c.Stand(ctx, own)
		if term != nil {
			err = errors.Join(errors.New("the node was elected"), term.Close())
		}
		result <- err
	}()
	stop = func() { cancel(); <-over }
	t.Cleanup(stop)
	return result, stop
}

// stateOf asks for the state of a ring.
func stateOf(t testing.TB, c *Cluster) Status {
	t.Helper()
	s, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The tail is bounded: without a standby nothing is trimmed and there is no room in the end;
// what one has is trimmed, and a node that needs what is trimmed is told so.
func testTrimming(t *testing.T, e *etcdtest.Cluster) {
	c := config(t, e, "ada")
	c.tailBound = 100_000
	begun(t, c, beginning)
	ada, bob := newFolder(), newFolder()
	term := elected(t, opened(t, c), ada)
	s, log := term.Store(ada), &chain{t, beginning}
	for term.Room() == nil {
		log.commit(s, 1, 5_000)
		if log.at.Serial > 30 {
			t.Fatal("the tail has no bound")
		}
	}
	asking := opened(t, c.as(""))
	if is := stateOf(t, asking); is.Trimmed != 0 || is.TailBytes < 100_000 {
		t.Errorf("without a standby: %+v", is)
	}
	if err := opened(t, c.as("cas")).Admit(t.Context(), beginning); err != nil {
		t.Fatal(err)
	}
	_, stop := standing(t, opened(t, c.as("bob")), bob)
	until(t, "there is room again", func() bool { return term.Room() == nil })
	if is := stateOf(t, asking); is.Trimmed == 0 || bob.Position().Serial < is.Trimmed {
		t.Errorf("bob is at %d: %+v", bob.Position().Serial, is)
	}
	if _, err := asking.members.clients[0].Get(t.Context(), asking.keys.group(1), clientv3.WithRev(1)); err == nil {
		t.Error("etcd's history was not compacted")
	}
	if err := opened(t, c.as("")).Follow(t.Context(), newFolder()); !errors.Is(err, ErrTooOld) {
		t.Errorf("a node without anything: %v", err)
	}
	if _, err := opened(t, c.as("dan")).Stand(t.Context(), newFolder()); !errors.Is(err, ErrTooOld) {
		t.Errorf("a node without anything stands: %v", err)
	}
	dan := func(n Node) bool { return n.Name == "dan" }
	if err := Init(t.Context(), c.as("dan"), Start{At: beginning}); !errors.Is(err, ErrTooOld) || slices.ContainsFunc(stateOf(t, asking).Nodes, dan) {
		t.Errorf("a node without anything begins: %v", err)
	}
	if err := opened(t, c.as("dan")).Admit(t.Context(), beginning); !errors.Is(err, ErrTooOld) {
		t.Errorf("what is trimmed was kept for a node: %v", err)
	}

	// A removed node is refused until it is admitted.
	if err := asking.Remove(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	stop()
	if _, err := opened(t, c.as("bob")).Stand(t.Context(), bob); !errors.Is(err, ErrRefused) {
		t.Errorf("a removed node stands: %v", err)
	}
	if err := asking.Remove(t.Context(), "nobody"); err == nil {
		t.Error("a node that does not exist was removed")
	}
	begun(t, c.as("bob"), bob.Position())
	if all := stateOf(t, asking).Nodes; !slices.ContainsFunc(all, func(n Node) bool { return n.Name == "bob" && n.Joining && n.Serial == bob.Position().Serial }) {
		t.Errorf("bob is to join: %+v", all)
	}
	ended, _ := standing(t, opened(t, c.as("bob")), bob)
	log.commit(s, 1, 10)
	until(t, "bob follows again", func() bool { return bob.Position() == log.at })
	select {
	case err := <-ended:
		t.Errorf("bob: %v", err)
	default:
	}
}

// An etcd that takes no writes is found before anything is lost.
func testAlarm(t *testing.T, e *etcdtest.Cluster) {
	c := config(t, e, "ada")
	begun(t, c, beginning)
	in, ada := opened(t, c), newFolder()
	term := elected(t, in, ada)
	log := &chain{t, beginning}
	log.commit(term.Store(ada), 1, 10)
	client := in.members.clients[0]
	maintenance := pb.NewMaintenanceClient(client.ActiveConnection())
	resp, err := maintenance.Status(t.Context(), &pb.StatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: resp.Header.MemberId, Alarm: pb.AlarmType_NOSPACE}
	if _, err := maintenance.Alarm(t.Context(), alarm); err != nil {
		t.Fatal(err)
	}
	disarm := func() {
		alarm.Action = pb.AlarmRequest_DEACTIVATE
		if _, err := maintenance.Alarm(context.Background(), alarm); err != nil {
			t.Error(err)
		}
	}
	defer disarm()
	until(t, "there is no room", func() bool { return term.Room() != nil })
	if err := term.Room(); !strings.Contains(err.Error(), "NOSPACE") || !strings.Contains(err.Error(), "etcdctl alarm disarm") {
		t.Errorf("Room = %v", err)
	}
	if err := term.Err(); err != nil {
		t.Errorf("the term ended with %v", err)
	}
	disarm()
	until(t, "there is room again", func() bool { return term.Room() == nil })
	log.commit(term.store, 1, 10)

	// Nobody is elected without space, and nodes say why.
	alarm.Action = pb.AlarmRequest_ACTIVATE
	if _, err := maintenance.Alarm(t.Context(), alarm); err != nil {
		t.Fatal(err)
	}
	if err := term.Close(); err != nil {
		t.Fatal(err)
	}
	led := make(chan *Term, 1)
	go func() {
		term, _ := in.Stand(t.Context(), ada)
		led <- term
	}()
	until(t, "the reason why nobody leads", func() bool {
		err := in.Trouble()
		return err != nil && strings.Contains(err.Error(), "etcdctl alarm disarm")
	})
	disarm()
	if term = <-led; term == nil || in.Trouble() != nil {
		t.Fatalf("with space, nobody leads: %v", in.Trouble())
	}
	if err := term.Close(); err != nil {
		t.Error(err)
	}
}

// A ring begins, ends and begins again; a data folder belongs to one ring and one node.
func testBeginnings(t *testing.T, e *etcdtest.Cluster) {
	c := config(t, e, "ada")
	c.Dir = t.TempDir()
	ada := newFolder()
	if _, err := opened(t, c).Stand(t.Context(), ada); !errors.Is(err, ErrRefused) {
		t.Fatalf("a ring that does not exist: %v", err)
	}
	begun(t, c, beginning)
	m, err := ReadMarker(c.Dir)
	if err != nil || m.Ring != c.Ring || m.Node != "ada" || m.Etcd == 0 {
		t.Errorf("the marker is %+v, %v", m, err)
	}
	for name, change := range map[string]func(*Config){
		"another ring": func(c *Config) { c.Ring += "x" },
		"another node": func(c *Config) { c.Node = "bob" },
	} {
		other := c
		change(&other)
		if _, err := Open(other); !errors.Is(err, ErrRefused) {
			t.Errorf("%s opens the folder: %v", name, err)
		}
	}
	strange := m
	strange.Etcd++
	if err := strange.write(c.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := opened(t, c).Stand(t.Context(), ada); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "etcd cluster") {
		t.Errorf("another etcd cluster: %v", err)
	}
	if err := m.write(c.Dir); err != nil {
		t.Fatal(err)
	}

	log := &chain{t, beginning}
	term := elected(t, opened(t, c), ada)
	log.commit(term.Store(ada), 3, 10)
	if err := term.MoveUntil(t.Context(), 5000); err != nil {
		t.Fatal(err)
	}
	// A node that has more than etcd, or something else, is refused; by force it begins anew.
	more := newFolder()
	more.at.Store(&ledger.Position{Serial: 9, Size: 9})
	other := newFolder()
	other.at.Store(&ledger.Position{Serial: 3, Size: 3})
	for name, own := range map[string]*folder{"more than etcd": more, "something else": other} {
		if _, err := opened(t, c.as("bob").in("")).Stand(t.Context(), own); !errors.Is(err, ErrRefused) {
			t.Errorf("a node with %s stands: %v", name, err)
		}
		if err := Init(t.Context(), c.as("bob").in(t.TempDir()), Start{At: own.Position()}); !errors.Is(err, ErrRefused) {
			t.Errorf("a node with %s begins: %v", name, err)
		}
	}
	// The lease runs out while it is ended, and another node is elected: the ring goes on.
	in := opened(t, c.as("").in(""))
	client := in.members.clients[0]
	if _, err := client.Delete(t.Context(), in.keys.leader()); err != nil {
		t.Fatal(err)
	}
	bob := ada.copy() // or the tail could be trimmed before it is registered
	next := elected(t, opened(t, c.as("bob").in("")), bob)
	if !next.Confirm(t.Context()) || term.Confirm(t.Context()) || term.Live() {
		t.Error("which of two leads is not told right")
	}
	if err := term.Leave(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("a ring that another leads was ended: %v", err)
	}
	if is := stateOf(t, in); is.Tombstone || is.Leader.Node != "bob" {
		t.Errorf("it should go on: %+v", is)
	}
	if err := next.Resign(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	term = elected(t, opened(t, c), ada)
	term.Store(ada)
	if err := term.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if is := stateOf(t, opened(t, c)); !is.Tombstone || is.Single != "ada" || is.Leader.Node != "" || is.Until != 5000 {
		t.Errorf("after the end: %+v", is)
	}
	if err := RemoveMarker(c.Dir); err != nil {
		t.Fatal(err)
	}
	for node, says := range map[string]string{"ada": "this one", "bob": "which is ada"} {
		if _, err := opened(t, c.as(node).in("")).Stand(t.Context(), ada); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), says) {
			t.Errorf("after the end, %s stands: %v", node, err)
		}
	}
	if _, err := ReadMarker(c.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the end, there is a marker: %v", err)
	}
	// The single origin has gone on, and becomes a cluster again.
	b, at := group(log.at, []byte("alone"))
	if err := ada.Commit(b); err != nil {
		t.Fatal(err)
	}
	log.at = at
	begun(t, c, log.at)
	again := elected(t, opened(t, c), ada)
	if again.Until() < 5000 {
		t.Errorf("signing begins at %d", again.Until())
	}
	log.commit(again.Store(ada), 1, 10)
	// etcd is restored from an old copy.
	if _, err := client.Put(t.Context(), in.keys.head(), string(head{at: beginning}.encode())); err != nil {
		t.Fatal(err)
	}
	b, _ = group(log.at, nil)
	if err := again.store.Commit(b); !errors.Is(err, ErrLost) {
		t.Errorf("a commit to an etcd that has gone back = %v", err)
	}
	again.Close()
	if _, err := opened(t, c).Stand(t.Context(), ada); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("etcd has gone back, and a node stands: %v", err)
	}
	if err := Init(t.Context(), c, Start{At: log.at, Force: true}); err != nil {
		t.Fatal(err)
	}
	last := elected(t, opened(t, c), ada)
	log.commit(last.Store(ada), 1, 10)

	// The ring begins anew from a node that lacks what another one has, and goes on beyond that.
	// What the other one has more is not in it, so that node does not take part.
	bobs := c.as("bob").in(t.TempDir())
	bob = ada.copy()
	ended, stop := standing(t, opened(t, bobs), bob)
	log.commit(last.store, 2, 10)
	until(t, "bob has everything", func() bool { return bob.Position() == log.at })
	stop()
	<-ended
	behind := log.at
	behind.Serial, behind.Size = behind.Serial-1, behind.Size-1
	if err := Init(t.Context(), c, Start{At: behind, Force: true}); err != nil {
		t.Fatal(err)
	}
	last.Close()
	log.at = behind
	cas := newFolder()
	cas.at.Store(&behind)
	log.commit(elected(t, opened(t, c), cas).Store(cas), 3, 10)
	if _, err := opened(t, bobs).Stand(t.Context(), bob); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "anew") {
		t.Errorf("a node with transactions that the ring has others in place of: %v", err)
	}
	if err := Init(t.Context(), bobs, Start{At: bob.Position()}); !errors.Is(err, ErrRefused) {
		t.Errorf("it is added: %v", err)
	}
}

// in is the configuration with another data folder.
func (c Config) in(dir string) Config {
	c.Dir = dir
	return c
}

// A node without the ring's key is refused. A new key seals when all have it, and the old one
// is needed until nothing is left of what it has sealed.
func testKeys(t *testing.T, e *etcdtest.Cluster) {
	c := config(t, e, "ada")
	begun(t, c, beginning)
	bobs := c.as("bob")
	bobs.KeyFile = keyFile(t)
	if err := Init(t.Context(), bobs, Start{At: beginning}); !errors.Is(err, ErrRefused) {
		t.Errorf("a node with another key joins: %v", err)
	}
	if _, err := opened(t, bobs).Stand(t.Context(), newFolder()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), bobs.KeyFile) {
		t.Errorf("a node with another key stands: %v", err)
	}
	read := func(path string) []byte {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	write := func(path string, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	old := read(c.KeyFile)
	bobs.KeyFile = filepath.Join(t.TempDir(), "key")
	write(bobs.KeyFile, old)
	ada, bob := newFolder(), newFolder()
	term := elected(t, opened(t, c), ada)
	s, log := term.Store(ada), &chain{t, beginning}
	ended, _ := standing(t, opened(t, bobs), bob)
	log.commit(s, 3, 100)
	asking := opened(t, c.as(""))
	before := stateOf(t, asking).Key

	next := keyFile(t)
	both := slices.Concat(read(next), old)
	write(c.KeyFile, both)
	until(t, "ada has two keys", func() bool {
		i := slices.IndexFunc(stateOf(t, asking).Nodes, func(n Node) bool { return n.Name == "ada" && len(n.Keys) == 2 })
		return i >= 0
	})
	log.commit(s, 3, 100)
	if is := stateOf(t, asking); is.Key != before || is.OldKey {
		t.Errorf("one of two nodes has the new key: %+v", is)
	}
	write(bobs.KeyFile, both)
	until(t, "the new key seals", func() bool { return stateOf(t, asking).Key != before })
	log.commit(s, 3, 100)
	until(t, "nothing is left of the old key", func() bool { log.commit(s, 1, 10); return !stateOf(t, asking).OldKey })
	write(c.KeyFile, read(next))
	write(bobs.KeyFile, read(next))
	log.commit(s, 3, 100)
	until(t, "both have everything", func() bool { return ada.Position() == log.at && bob.Position() == log.at })
	same(t, ada, bob)
	select {
	case err := <-ended:
		t.Errorf("bob: %v", err)
	default:
	}
}

// What trimming leaves.
func TestTrimTo(t *testing.T) {
	const own = "own"
	node := func(name string, serial uint64, role Role) Node { return Node{Name: name, Serial: serial, Role: role} }
	joining := node("new", 5, RoleGone)
	joining.Joining = true
	for _, c := range []struct {
		what  string
		nodes []Node
		long  bool
		want  uint64
	}{
		{"nobody else", []Node{node(own, 9, RoleLeader)}, true, 0},
		{"the least", []Node{node("a", 7, RoleStandby), node("b", 4, RoleStandby)}, false, 4},
		{"not beyond its own", []Node{node("a", 30, RoleStandby)}, false, 20},
		{"one is gone", []Node{node("a", 15, RoleStandby), node("b", 4, RoleGone)}, false, 4},
		{"one is gone, and the tail long", []Node{node("a", 15, RoleStandby), node("b", 4, RoleGone)}, true, 15},
		{"all are gone", []Node{node("a", 15, RoleGone)}, true, 15},
		{"one joins", []Node{node("a", 15, RoleStandby), joining}, false, 5},
		{"only one that joins", []Node{joining}, false, 0},
		{"only one that joins, and the tail long", []Node{joining}, true, 0},
		{"one needs a backup", []Node{node("a", 15, RoleStandby), node("b", 1, RoleGone)}, false, 15},
		{"one needs a backup, and is refused", []Node{node("a", 15, RoleStandby), node("b", 1, RoleRefused)}, false, 15},
		{"one is refused, and the tail long", []Node{node("a", 15, RoleStandby), node("b", 16, RoleRefused)}, true, 15},
		{"only one that needs a backup", []Node{node("b", 1, RoleGone)}, true, 0},
		{"what one told last is late", []Node{node("a", 15, RoleStandby), node("b", 1, RoleStandby)}, false, 1},
	} {
		if got := trimTo(c.nodes, own, 2, 20, c.long); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

func TestANewNodeHoldsTheTailFromWhatBackupsHave(t *testing.T) {
	s := Status{Head: ledger.Position{Serial: 90}, Trimmed: 70, Nodes: []Node{
		{Name: "a", Serial: 90}, {Name: "b", Serial: 80}, {Name: "c", Serial: 20, Role: RoleGone}}}
	if got := s.BackedUp(); got != 80 {
		t.Errorf("the new node is registered at %d, want 80: what is below 70 is trimmed already", got)
	}
}

// knows are the secrets of a node, which change while it runs.
type knows struct {
	atomic.Pointer[map[string][]string]
}

func (k *knows) set(secrets ...string) {
	var prints []string
	for _, s := range secrets {
		prints = append(prints, Fingerprint("secret", []byte(s)))
	}
	k.Store(&map[string][]string{"secret": prints, "same": {Fingerprint("same", []byte("same"))}})
}

func (c Config) knowing(k *knows) Config {
	c.Shared = func() map[string][]string { return *k.Load() }
	return c
}

// roleOf is what etcd says of a node, "" if it knows none of that name.
func roleOf(t *testing.T, c *Cluster, node string) Role {
	t.Helper()
	for _, n := range stateOf(t, c).Nodes {
		if n.Name == node {
			return n.Role
		}
	}
	return ""
}

// A node that does not know the secret by which the leader works is refused, and says so in etcd,
// also after either has changed. The leader changes it while it leads.
func testShared(t *testing.T, e *etcdtest.Cluster) {
	var adas, bobs knows
	adas.set("one")
	bobs.set("two")
	c := config(t, e, "ada")
	begun(t, c, beginning)
	ada, bob := newFolder(), newFolder()
	term := elected(t, opened(t, c.knowing(&adas)), ada)
	s, log := term.Store(ada), &chain{t, beginning}
	log.commit(s, 1, 10)
	asking := opened(t, c.as(""))
	one, two := Fingerprint("secret", []byte("one")), Fingerprint("secret", []byte("two"))
	if is := stateOf(t, asking); is.Shared["secret"] != one || len(one) != 16 || one == two || is.Lacks(*bobs.Load())[0] != "secret" || is.Lacks(*adas.Load()) != nil {
		t.Errorf("the ring's secrets: %+v", is)
	}
	other := opened(t, c.as("bob").knowing(&bobs))
	refused := func(err error) {
		t.Helper()
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "secret (fingerprint ") || strings.Contains(err.Error(), "same") {
			t.Errorf("a node with another secret: %v", err)
		}
		until(t, "the ring says that it is refused", func() bool {
			if roleOf(t, asking, "bob") != RoleStandby && stateOf(t, asking).Refused["bob"] == err.Error() {
				return true
			}
			_, err = other.Stand(t.Context(), bob) // a node says it once each time: etcd may have been too slow
			return false
		})
	}
	_, err := other.Stand(t.Context(), bob)
	refused(err)

	bobs.set("two", "one")
	ended, _ := standing(t, other, bob)
	until(t, "bob follows", func() bool { return roleOf(t, asking, "bob") == RoleStandby })
	if is := stateOf(t, asking); is.Refused != nil {
		t.Errorf("it is still refused: %+v", is)
	}
	adas.set("two", "one")
	until(t, "the new secret is that of the ring", func() bool { return stateOf(t, asking).Shared["secret"] == two })
	log.commit(s, 1, 10)
	until(t, "bob has everything", func() bool { return bob.Position() == log.at })
	bobs.set("one")
	refused(<-ended)

	// Who leads next must know the secret, too, and then its own counts.
	bobs.set("two")
	adas.set("one")
	if err := term.Resign(t.Context(), "bob"); err != nil {
		t.Fatal(err)
	}
	if _, err := opened(t, c.knowing(&adas)).Stand(t.Context(), ada); !errors.Is(err, ErrRefused) {
		t.Errorf("a node with the previous secret leads: %v", err)
	}
	elected(t, opened(t, c.as("bob").knowing(&bobs)), bob)
}

// A second process with the name of a node is refused. On a copy of the folder, marker included,
// the one that came first is.
func testTwice(t *testing.T, e *etcdtest.Cluster) {
	c := config(t, e, "ada")
	begun(t, c, beginning)
	ada, bob := newFolder(), newFolder()
	s, log := elected(t, opened(t, c), ada).Store(ada), &chain{t, beginning}
	log.commit(s, 1, 10)
	bobs := c.as("bob").in(t.TempDir())
	begun(t, bobs, beginning)
	first := opened(t, bobs)
	ended, _ := standing(t, first, bob)
	asking := opened(t, c.as(""))
	there := func() bool { return roleOf(t, asking, "bob") == RoleStandby }
	until(t, "bob is there", there)
	_, err := opened(t, c.as("bob").in(t.TempDir())).Stand(t.Context(), newFolder())
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--node") {
		t.Errorf("a second bob: %v", err)
	}
	if is := stateOf(t, asking); !there() || is.Refused["bob"] != err.Error() {
		t.Errorf("the ring says %+v", is)
	}
	log.commit(s, 1, 10)
	until(t, "the first bob has everything", func() bool { return bob.Position() == log.at })

	marker, err := os.ReadFile(filepath.Join(bobs.Dir, MarkerName))
	if err != nil {
		t.Fatal(err)
	}
	copies := bobs.in(t.TempDir())
	if err := os.WriteFile(filepath.Join(copies.Dir, MarkerName), marker, 0o600); err != nil {
		t.Fatal(err)
	}
	third := bob.copy()
	over, stop := standing(t, opened(t, copies), third)
	until(t, "the first bob is refused", func() bool {
		log.commit(s, 1, 10)
		select {
		case err = <-ended:
			return true
		default:
			return false
		}
	})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "copy") {
		t.Errorf("the first bob ended with %v", err)
	}
	until(t, "the third bob has everything", func() bool {
		select {
		case err := <-over:
			t.Fatalf("the third bob ended with %v", err)
		default:
		}
		return third.Position() == log.at && there()
	})
	again, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := first.Stand(again, bob); !errors.Is(err, ErrRefused) {
		t.Errorf("the first bob comes again: %v", err)
	}
	stop()
	<-over
	// A process that was killed is followed by another at once.
	_, stop = standing(t, opened(t, copies), third)
	log.commit(s, 1, 10)
	until(t, "it has everything", func() bool { return third.Position() == log.at })
	stop()
}
