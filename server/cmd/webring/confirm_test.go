package main

import (
	big "encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// refuses boots an origin with more flags, and fails the test unless the start and --check refuse it in these words.
// Nothing in its folder changes.
func (o *origin) refuses(flags []string, words ...string) {
	o.t.Helper()
	args := o.args
	defer func() { o.args = args }()
	o.args = append(slices.Clone(args), flags...)
	before := owned(o.t, o.data)
	o.boot()
	o.waitGone()
	checked := checked(o.t, []string{o.data}, nil, append(o.args, "--data", o.data)...)
	for what, said := range map[string]string{"a start": o.log.String(), "--check": checked} {
		for _, w := range words {
			if !strings.Contains(said, w) {
				o.t.Errorf("%s %v: want %q in\n%s", what, flags, w, said)
			}
		}
	}
	if after := owned(o.t, o.data); !slices.Equal(before, after) {
		o.t.Errorf("%v: the folder had %v, and has %v", flags, before, after)
	}
}

// owned names the files in a folder that say what ring it is.
func owned(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSocket == 0 {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestAStartRefusesWhatOthersKnowTheRingBy unless it is confirmed: a start by hand without the ring's settings points all
// edges to this machine, and one without its keys is another ring.
func TestAStartRefusesWhatOthersKnowTheRingBy(t *testing.T) {
	t.Parallel()
	o := start(t, "--core", "native", "--name", "First")
	key := o.verifier()
	o.stop()
	o.refuses([]string{"--base-url", "http://other.example"}, "--base-url is http://other.example, and this ring is at "+o.base, "--confirm base-url")
	o.refuses([]string{"--base-url", "http://other.example", "--confirm", "keys,user"}, "--confirm base-url")
	o.refuses([]string{"--confirm", "everything"}, `--confirm "everything" is none of`)
	for _, name := range []string{"sync-key", "mpp-secret"} {
		away := filepath.Join(o.data, name)
		if err := os.Rename(away, away+"-away"); err != nil {
			t.Fatal(err)
		}
		o.refuses(nil, away+" is missing, and the ledger has events", "tar -xf BACKUP "+name, "--confirm keys")
		if err := os.Rename(away+"-away", away); err != nil {
			t.Fatal(err)
		}
	}
	args := o.args
	o.args = append(slices.Clone(args), "--name", "Second", "--fee", "2.00")
	o.launch()
	if o.verifier() != key {
		t.Error("another key signs")
	}
	for _, want := range []string{"rule=name from=First to=Second", `rule="fee, in cents" from=100 to=200`} {
		o.says(0, want)
	}
	o.stop()
	if strings.Contains(o.log.String(), "rule=base-url") || strings.Count(o.log.String(), "has changed") != 2 {
		t.Errorf("%s", o.log)
	}
	// Confirmed, both changes are made.
	if err := os.Remove(filepath.Join(o.data, "sync-key")); err != nil {
		t.Fatal(err)
	}
	o.args = append(slices.Clone(args), "--base-url", "http://other.example", "--confirm", "base-url", "--confirm", "keys")
	o.launch()
	if o.verifier() == key {
		t.Error("the old key signs")
	}
	o.says(0, "rule=base-url from="+o.base+" to=http://other.example")
}

// TestAStartRefusesFilesOfAnotherUser: root can write anywhere, and what it leaves the service cannot open.
func TestAStartRefusesFilesOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files to another user")
	}
	const other = 4242
	o := start(t, "--core", "native")
	o.stop()
	give := func(path string, to int) {
		t.Helper()
		if err := os.Chown(path, to, -1); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{o.data, filepath.Join(o.data, "head"), filepath.Join(o.data, "ledger", "MANIFEST")} {
		give(path, other)
		right := "root"
		if path == o.data {
			right = "4242"
		}
		o.refuses(nil, path+" belongs to the user 4242, and this process runs as root", "chown -R "+right+" '"+o.data+"'", "--confirm user")
		give(path, 0)
	}
	empty := t.TempDir()
	give(empty, other)
	for _, command := range [][]string{o.args, {"edge", "--origin", o.base, "--origin-key", "x", "--listen", unlisted}} {
		if said := refusal(t, nil, append(slices.Clone(command), "--data", empty)...); !strings.Contains(said, "belongs to the user 4242") {
			t.Errorf("%v: %s", command, said)
		}
	}
	if left := owned(t, empty); len(left) > 0 {
		t.Errorf("a refused start leaves %v", left)
	}
	give(o.data, other)
	o.args = append(o.args, "--confirm", "user")
	o.launch()
}

// TestWhatANewerVersionWroteIsNoDamage: the remedy for damage would lose payments.
func TestWhatANewerVersionWroteIsNoDamage(t *testing.T) {
	t.Parallel()
	number := func(prefix byte, n uint64) []byte { return big.BigEndian.AppendUint64([]byte{prefix}, n) }
	for _, c := range []struct {
		what string
		rows func(at ledger.Position) ledger.Batch
		says string
	}{
		{"an event", func(at ledger.Position) ledger.Batch {
			return ledger.Batch{string(append(number('e', at.Size), 0)): {1, 99, 0},
				string(number('t', at.Serial+1)): append(number(0, at.Size+1)[1:], at.Root[:]...)}
		}, "event 2: core: an event of a kind that this version does not know: a newer version wrote it; install that version again"},
		{"an event in a later format", func(at ledger.Position) ledger.Batch {
			return ledger.Batch{string(append(number('e', at.Size), 0)): {2, 1, 0},
				string(number('t', at.Serial+1)): append(number(0, at.Size+1)[1:], at.Root[:]...)}
		}, "event 2: core: an event of a kind that this version does not know"},
		{"rows", func(ledger.Position) ledger.Batch { return ledger.Batch{"Zed": {1}} },
			"rows of a kind that this version does not know: a newer version wrote them; install that version again"},
	} {
		o := start(t, "--core", "native")
		o.stop()
		store, err := badgerstore.Open(storePath(o.data), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		f, err := ledger.Follow(ledger.Config{Store: store, HeadPath: filepath.Join(o.data, "head"), Capacity: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(store.Commit(c.rows(f.Position())), f.Close(), store.Close()); err != nil {
			t.Fatal(err)
		}
		o.refuses(nil, c.says)
		out, err := o.operate("verify")
		if err == nil || !strings.Contains(out, c.says) || strings.Contains(out+o.log.String(), "restore") {
			t.Errorf("%s: %v %s\n%s", c.what, err, out, o.log)
		}
	}
}
