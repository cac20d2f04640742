package follow

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"webring/core/snap"
)

// signer is a key of the origin.
type signer struct {
	note.Signer
	word string // its verifier
}

func newSigner(t testing.TB, name string) signer {
	t.Helper()
	secret, word, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := note.NewSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	return signer{s, word}
}

// own is the key that the origin begins with.
func (o *fakeOrigin) own() signer { return signer{o.signer, o.key} }

// say signs which keys there are.
func say(t *testing.T, by signer, ms int64, current, next string, more ...note.Signer) []byte {
	t.Helper()
	text := snap.Keys{Origin: "ring.test", Time: ms, Current: current, Next: next}.Text()
	signed, err := note.Sign(&note.Note{Text: text}, append([]note.Signer{by.Signer}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// signedBy is the newest checkpoint under these keys.
func (o *fakeOrigin) signedBy(keys ...signer) []byte {
	o.t.Helper()
	o.sign()
	var signers []note.Signer
	for _, k := range keys {
		signers = append(signers, k.Signer)
	}
	signed, err := note.Sign(&note.Note{Text: o.at.Text()}, signers...)
	if err != nil {
		o.t.Fatal(err)
	}
	return signed
}

// refuses holds that a checkpoint is not taken for its signature.
func (f *follower) refuses(what string, signed []byte) {
	f.t.Helper()
	if err := f.accept(f.t.Context(), signed); !errors.Is(err, ErrSignature) {
		f.t.Errorf("%s: %v", what, err)
	}
}

// The origin's key changes: announced, alone, and the old one worth nothing, over restarts
// too, though it stays pinned.
func TestTheOriginChangesItsKey(t *testing.T) {
	o := newOrigin(t)
	old, next, last := o.own(), newSigner(t, "ring.test"), newSigner(t, "ring.test")
	dir := t.TempDir()
	in := func(c *Config) { c.Dir = dir }
	o.sign()
	f := o.booted(in)
	f.refuses("a key that nobody announced", o.signedBy(next))
	f.takes(o.signedBy(old, next)) // the second signature changes nothing

	announced := say(t, old, 10, old.word, next.word, next)
	if err := f.keys.learn(announced); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(f.Keys(), announced) {
		t.Error("the signed keys are not passed on")
	}
	f.takes(o.signedBy(old, next))
	f.takes(o.signedBy(next))
	f.takes(o.signedBy(old)) // not given up yet

	// A restart has learned it, too.
	f = o.newReplica(in)
	f.agrees(o)
	f.takes(o.signedBy(next))

	alone := say(t, next, 5, next.word, "") // later by its key, whatever the time
	if err := f.keys.learn(alone); err != nil {
		t.Fatal(err)
	}
	gone := func(f *follower) {
		t.Helper()
		f.refuses("the key that was given up", o.signedBy(old))
		for what, keys := range map[string][]byte{
			"what was announced":               announced,
			"something newer by the old key":   say(t, old, 99, old.word, last.word),
			"itself, from the old key":         say(t, old, 99, next.word, last.word),
			"the old key, announced by nobody": say(t, old, 99, old.word, ""),
		} {
			if err := f.keys.learn(keys); err == nil {
				t.Errorf("%s is learned", what)
			}
		}
		f.takes(o.signedBy(next))
		f.takes(o.signedBy(old, next))
		if !bytes.Equal(f.Keys(), alone) {
			t.Errorf("other keys are passed on: %s", f.Keys())
		}
	}
	gone(f)
	f = o.newReplica(in)
	gone(f)
	if log := f.log.String(); !strings.Contains(log, "given_up="+old.word) || !strings.Contains(log, "give_instead="+next.word) {
		t.Errorf("the log does not say which key to pin: %s", log)
	}
	// Pinned together with the new one, it is worth nothing either.
	f = o.newReplica(in, func(c *Config) { c.Keys = []string{old.word, next.word} })
	gone(f)

	// A second change goes on from there.
	if err := errors.Join(f.keys.learn(say(t, next, 20, next.word, last.word)), f.keys.learn(say(t, last, 30, last.word, ""))); err != nil {
		t.Fatal(err)
	}
	f = o.newReplica(in)
	f.takes(o.signedBy(last))
	f.refuses("the first key", o.signedBy(old))
	f.refuses("the second key", o.signedBy(next))
}

// What one key signs later counts, so that a key that was announced can be withdrawn.
func TestANextKeyIsWithdrawn(t *testing.T) {
	o := newOrigin(t)
	old, next := o.own(), newSigner(t, "ring.test")
	o.sign()
	f := o.booted()
	announced := say(t, old, 10, old.word, next.word, next)
	if err := errors.Join(f.keys.learn(announced), f.keys.learn(say(t, old, 11, old.word, ""))); err != nil {
		t.Fatal(err)
	}
	if err := f.keys.learn(announced); err != nil {
		t.Errorf("keys of earlier: %v", err)
	}
	f.refuses("a key that was withdrawn", o.signedBy(next))
	f.takes(o.signedBy(old))
}

// An edge that was off while the key changed says what to do.
func TestAnEdgeThatMissedTheChangeSaysSo(t *testing.T) {
	o := newOrigin(t)
	next := newSigner(t, "ring.test")
	o.sign()
	f := o.booted()
	if err := f.keys.learn(say(t, next, 10, next.word, "")); err == nil {
		t.Error("a key vouches for itself")
	}
	err := f.accept(t.Context(), o.signedBy(next))
	hash := strings.Join(strings.Split(next.word, "+")[:2], "+")
	if !errors.Is(err, ErrSignature) || !strings.Contains(err.Error(), hash) || !strings.Contains(err.Error(), "--origin-key") {
		t.Errorf("%v", err)
	}
	f = o.newReplica(func(c *Config) { c.Keys = []string{next.word} })
	f.takes(o.signedBy(next))
}

// An edge that was off while the key changed, and is given both keys, follows: what it has
// learned before says nothing of the new one.
func TestAKeyThatIsPinnedLaterCounts(t *testing.T) {
	o := newOrigin(t)
	old, next, last := o.own(), newSigner(t, "ring.test"), newSigner(t, "ring.test")
	dir := t.TempDir()
	pinned := func(keys ...signer) func(*Config) {
		return func(c *Config) {
			c.Dir, c.Keys = dir, nil
			for _, k := range keys {
				c.Keys = append(c.Keys, k.word)
			}
		}
	}
	o.sign()
	f := o.booted(pinned(old))
	before := say(t, old, 10, old.word, "")
	if err := f.keys.learn(before); err != nil {
		t.Fatal(err)
	}

	f = o.newReplica(pinned(old, next))
	f.agrees(o)
	f.takes(o.signedBy(next))
	if strings.Contains(f.log.String(), "given up") {
		t.Errorf("the log says of a key that was never in use: %s", f.log)
	}
	if err := f.keys.learn(say(t, next, 20, next.word, "")); err != nil {
		t.Fatal(err)
	}
	f.refuses("the key that was given up", o.signedBy(old))

	// The same with a key that was given up for certain.
	f = o.newReplica(pinned(old, next, last))
	f.refuses("the key that was given up before", o.signedBy(old))
	f.takes(o.signedBy(last))

	// What the origin says decides in the end, and may be what it has said before.
	if err := f.keys.learn(say(t, next, 20, next.word, "")); err != nil {
		t.Fatal(err)
	}
	f.refuses("a key that the origin does not name", o.signedBy(last))
	f.takes(o.signedBy(next))
}

// Keys that are not what they say are not taken, nor is a file that is none.
func TestOtherKeysAreRefused(t *testing.T) {
	o := newOrigin(t)
	old, next, foreign := o.own(), newSigner(t, "ring.test"), newSigner(t, "other.test")
	dir := t.TempDir()
	o.sign()
	f := o.booted(func(c *Config) { c.Dir = dir })
	checkpoint := o.signedBy(old)
	bent := bytes.Replace(say(t, old, 10, old.word, next.word), []byte("time 10"), []byte("time 11"), 1)
	for what, keys := range map[string][]byte{
		"nothing": nil, "a checkpoint": checkpoint, "an altered text": bent,
		"a stranger's":            say(t, next, 10, next.word, old.word),
		"a stranger's about ours": say(t, next, 10, old.word, next.word),
		"ours about a stranger's": say(t, old, 10, next.word, ""),
		"those of another origin": say(t, foreign, 10, foreign.word, ""),
		"half a key":              say(t, old, 10, old.word, "ring.test+00000000+AAAA"),
	} {
		if err := f.keys.learn(keys); err == nil {
			t.Errorf("%s is learned", what)
		}
	}
	if f.Keys() != nil {
		t.Errorf("%s is passed on", f.Keys())
	}
	if err := os.WriteFile(filepath.Join(dir, keysName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	f = o.newReplica(func(c *Config) { c.Dir = dir })
	if !strings.Contains(f.log.String(), "the keys on disk cannot be read") {
		t.Errorf("the log says nothing of a damaged file: %s", f.log)
	}
	f.takes(o.signedBy(old))
	for _, pinned := range [][]string{nil, {old.word, foreign.word}} {
		if _, err := newKeyring(pinned, "", f.Replica.log); err == nil {
			t.Errorf("%q can be pinned", pinned)
		}
	}
}

// A replica asks for the keys by itself: at its start, and when a checkpoint is signed with
// others than it knows.
func TestKeysAreLearnedWhenCheckpointsShowThem(t *testing.T) {
	o := newOrigin(t)
	old, next := o.own(), newSigner(t, "ring.test")
	serve := func(keys, checkpoint []byte) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.files["/sync/keys"], o.signed = keys, checkpoint
		close(o.changed)
		o.changed = make(chan struct{})
	}
	first := say(t, old, 1, old.word, "")
	serve(first, o.signedBy(old))
	f := o.newReplica()
	defer f.following(t)()
	learned := func(keys []byte) {
		t.Helper()
		for late := time.Now().Add(20 * time.Second); !bytes.Equal(f.Keys(), keys); time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("not learned: %s\n%s", keys, f.log)
			}
		}
	}
	learned(first)
	announced := say(t, old, 2, old.word, next.word, next)
	serve(announced, o.signedBy(old, next))
	learned(announced)
	alone := say(t, next, 3, next.word, "")
	serve(alone, o.signedBy(next))
	learned(alone)
	for late := time.Now().Add(20 * time.Second); f.Checkpoint() == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("nothing is shown")
		}
	}
	f.agrees(o)
	f.refuses("the old key", o.signedBy(old))
	if n := o.questions("/sync/keys"); n > 6 {
		t.Errorf("the keys were asked for %d times", n)
	}
}
