package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"webring/server/ledger/cluster/etcdtest"
)

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
		is := stateOf(t, asking)
		if roleOf(t, asking, "bob") == RoleStandby || is.Refused["bob"] != err.Error() {
			t.Errorf("the ring says of it %+v", is)
		}
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
		t.Errorf("a node with the secret of before leads: %v", err)
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
	until(t, "the third bob has everything", func() bool { return third.Position() == log.at && there() })
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
