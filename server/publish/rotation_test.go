package publish_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"webring/core"
	"webring/core/snap"
	"webring/server/ledger/ledgertest"
	"webring/server/publish"
)

// signedWith says with which of the keys a note is signed.
func signedWith(t *testing.T, signed []byte, keys ...string) (by []string) {
	t.Helper()
	for _, key := range keys {
		v, err := note.NewVerifier(key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := note.Open(signed, note.VerifierList(v)); err == nil {
			by = append(by, key)
		}
	}
	return by
}

// The next key is announced under the present one, signs beside it, and then alone, over
// restarts too. The old one is destroyed.
func TestTheKeyOfAnOriginIsChanged(t *testing.T) {
	r := newRing(t, ledgertest.NewStore())
	first, next := r.key.Verifier(), ""
	restart := func() {
		t.Helper()
		r.close()
		r.open()
	}
	var since int64
	says := func(when, current, announced string, signers int) {
		t.Helper()
		for what, signed := range map[string][]byte{"keys": r.Keys(), "checkpoint": r.Checkpoint()} {
			all := []string{first}
			if next != "" {
				all = append(all, next)
			}
			by := signedWith(t, signed, all...)
			if len(by) != signers || by[len(by)-1] != current && by[0] != current {
				t.Errorf("%s: the %s are signed with %q", when, what, by)
			}
		}
		n, err := note.Open(r.Keys(), verifiers(t, current))
		if err != nil {
			t.Fatal(err)
		}
		keys, err := snap.ParseKeys(n.Text)
		if err != nil || keys.Current != current || keys.Next != announced || keys.Origin != "ring.test" || keys.Time < since {
			t.Errorf("%s: %+v, %v; at least at %d", when, keys, err, since)
		}
		since = keys.Time
	}
	says("at first", first, "", 1)
	if _, err := r.SwitchKey(0); !errors.Is(err, publish.ErrNoNext) {
		t.Errorf("the key is changed to none: %v", err)
	}

	changed, id := r.Changed(), string(r.Checkpoint())
	var err error
	if _, next, err = r.Announce(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("followers are not told at once")
	}
	if string(r.Checkpoint()) == id {
		t.Error("the checkpoint stays")
	}
	says("announced", first, next, 2)
	if _, again, err := r.Announce(); err != nil || again != next {
		t.Errorf("announced twice: %s, %v", again, err)
	}
	r.join("a")
	r.present()
	says("a checkpoint later", first, next, 2)
	restart()
	says("after a restart", first, next, 2)
	if info, err := os.Stat(r.config.NextPath); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of the next key: %v, %v", info.Mode(), err)
	}

	if _, err := r.SwitchKey(publish.LearnTime); !errors.Is(err, publish.ErrTooSoon) {
		t.Errorf("a switch at once: %v", err)
	}
	if current, err := r.SwitchKey(0); err != nil || current != next {
		t.Fatalf("%s, %v", current, err)
	}
	says("changed", next, "", 1)
	if _, err := os.Stat(r.config.NextPath); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of the next key is still there: %v", err)
	}
	restart()
	says("changed, after a restart", next, "", 1)

	// The ledger tells of each change, once, and of the end of one that a crash cut short.
	tells := func(want ...core.Keys) {
		t.Helper()
		var got []core.Keys
		for _, record := range r.all(0, r.present().Size) {
			if e, err := core.DecodeEvent(record.Event); err != nil {
				t.Fatal(err)
			} else if keys, is := e.(*core.Keys); is {
				got = append(got, core.Keys{Current: keys.Current, Next: keys.Next})
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the ledger tells of %+v, want %+v", got, want)
		}
	}
	changes := []core.Keys{{Current: first, Next: next}, {Current: next}}
	tells(changes...)
	_, third, err := r.Announce()
	if err != nil {
		t.Fatal(err)
	}
	r.close()
	if err := os.Rename(r.config.NextPath, r.config.KeyPath); err != nil {
		t.Fatal(err)
	}
	r.open()
	tells(append(changes, core.Keys{Current: next, Next: third}, core.Keys{Current: third})...)
}

// A next key of another origin is refused, and so is a file that is none.
func TestANextKeyIsOfTheSameOrigin(t *testing.T) {
	r := newRing(t, ledgertest.NewStore())
	c := r.config
	c.NextPath = filepath.Join(t.TempDir(), "key")
	if _, err := publish.OpenKey(c.NextPath, "other.test"); err != nil {
		t.Fatal(err)
	}
	if _, err := publish.New(c); err == nil {
		t.Error("a key of another origin is announced")
	}
	path := filepath.Join(t.TempDir(), "key")
	if key, err := publish.ReadNext(path); key != nil || err != nil {
		t.Errorf("%v, %v without a file", key, err)
	}
	if err := os.WriteFile(path, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := publish.ReadNext(path); err == nil {
		t.Error("a file that is no key is read")
	}
}

func verifiers(t *testing.T, key string) note.Verifiers {
	t.Helper()
	v, err := note.NewVerifier(key)
	if err != nil {
		t.Fatal(err)
	}
	return note.VerifierList(v)
}
