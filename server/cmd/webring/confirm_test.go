package main

import (
	big "encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
	away := filepath.Join(o.data, "sync-key")
	if err := os.Rename(away, away+"-away"); err != nil {
		t.Fatal(err)
	}
	said := checked(t, nil, nil, append(o.args, "--data", o.data, "--base-url", "http://other.example")...)
	for _, want := range []string{"wrong  ledger ", "this ring is at " + o.base, away + " is missing"} {
		if !strings.Contains(said, want) {
			t.Errorf("--check beside the origin: want %q in\n%s", want, said)
		}
	}
	if err := os.Rename(away+"-away", away); err != nil {
		t.Fatal(err)
	}
	o.stop()
	o.refuses([]string{"--base-url", "http://other.example"}, "--base-url is http://other.example, and this ring is at "+o.base, "--confirm base-url")
	o.refuses([]string{"--base-url", "http://other.example", "--confirm", "keys,user"}, "--confirm base-url")
	o.refuses([]string{"--confirm", "everything"}, `--confirm "everything" is none of`)
	for _, name := range []string{"sync-key", "mpp-secret"} {
		away := filepath.Join(o.data, name)
		if err := os.Rename(away, away+"-away"); err != nil {
			t.Fatal(err)
		}
		o.refuses(nil, away+" is missing, and the ledger has events", "tar -xf BACKUP -C '"+o.data+"' "+name, "--confirm keys")
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

// TestAStartRefusesFilesOfAnotherUser where they matter: what root leaves in the folder of a service, the service cannot
// open. Other files may stand there, and root may have a folder that another user has mounted.
func TestAStartRefusesFilesOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files to another user")
	}
	const service = 4242
	o := start(t, "--core", "native")
	o.stop()
	for _, dir := range []string{shared.dir, filepath.Dir(o.data)} { // so that another user can come there
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]fs.FileMode{"notes.txt": 0o600, ".snapshot": 0o700 | fs.ModeDir, "clock": 0o644} {
		path, err := filepath.Join(o.data, name), error(nil)
		if mode.IsDir() {
			err = os.Mkdir(path, mode.Perm())
		} else {
			err = os.WriteFile(path, nil, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	foreign := []string{"notes.txt", ".snapshot", "clock"}
	for _, c := range []struct {
		what         string
		folder, all  int
		others       []string // of the other user
		runs         int
		says         []string // none if it may start
		neverSuggest string
	}{
		{"root in the service's folder", service, service, nil, 0, []string{"run webring as 4242, the owner of the folder", "chown -R 4242 '" + o.data + "'", "add --confirm user to every start"}, "start once"},
		{"root, and one file is the service's", service, 0, []string{"sync-key"}, 0, []string{"sync-key belongs to 4242"}, "chown -R 0"},
		{"root in a folder that another user has mounted", service, 0, foreign, 0, nil, ""},
		{"root in its own folder with a file of another user", 0, 0, []string{"head"}, 0, nil, ""},
		{"the service in a folder of root", 0, 0, nil, service, []string{o.data + " belongs to root", "cannot open it", "chown -R 4242 '" + o.data + "'"}, "run webring as"},
		{"the service, and root made the head", service, service, []string{"head"}, service, []string{"head belongs to root", "chown -R 4242 '" + o.data + "'"}, "--confirm"},
		{"the service, and root made a table", service, service, []string{filepath.Join("ledger", "MANIFEST")}, service, []string{"MANIFEST belongs to root"}, "--confirm"},
		{"a third user in the service's folder", service, service, nil, 4343, []string{"run webring as 4242"}, "chown -R 4343"},
		{"the service, and root has left notes, a copy and its word for the clock", service, service, foreign, service, nil, ""},
	} {
		err := filepath.WalkDir(o.data, func(path string, _ fs.DirEntry, err error) error {
			owner, name := c.all, strings.TrimPrefix(path, o.data+"/")
			switch {
			case path == o.data:
				owner = c.folder
			case slices.Contains(c.others, name):
				owner = service - owner
			}
			return errors.Join(err, os.Lchown(path, owner, -1))
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, flags := range [][]string{{"--check"}, {}} {
			if len(c.says) == 0 && len(flags) == 0 {
				continue // it would serve on
			}
			cmd := exec.Command(binary(t), append(append(slices.Clone(o.args), "--data", o.data), flags...)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(c.runs), Gid: uint32(c.runs)}}
			out, err := cmd.CombinedOutput()
			if (err == nil) != (len(c.says) == 0) || c.neverSuggest != "" && strings.Contains(string(out), c.neverSuggest) {
				t.Errorf("%s, %v: %v\n%s", c.what, flags, err, out)
			}
			for _, want := range c.says {
				if !strings.Contains(string(out), want) {
					t.Errorf("%s, %v: want %q in\n%s", c.what, flags, want, out)
				}
			}
		}
		if c.runs == 0 && c.all == service {
			o.refuses(nil, c.says...)
			args := o.args
			o.args = append(slices.Clone(args), "--confirm", "user")
			o.launch()
			o.stop()
			o.args = args
		}
	}
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
