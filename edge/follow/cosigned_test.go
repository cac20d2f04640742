package follow

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/mod/sumdb/note"
	xtlog "golang.org/x/mod/sumdb/tlog"

	"webring/edge/tlog"
)

// cosigner is the nth witness of a test.
func cosigner(t testing.TB, n byte) *tlog.Cosigner {
	t.Helper()
	c, err := tlog.NewCosigner(tlog.FormatCosigner(fmt.Sprintf("witness.test/%d", n), bytes.Repeat([]byte{n}, 32)), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// twoOf is a policy that asks for both of two witnesses.
func twoOf(t testing.TB) *tlog.Policy {
	t.Helper()
	p, err := tlog.ParsePolicy(fmt.Appendf(nil, "witness a %s\nwitness b %s\ngroup both all a b\nquorum both\n", cosigner(t, 1).Verifier(), cosigner(t, 2).Verifier()))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// cosign has the origin give what it has signed last as cosigned by these witnesses.
func (o *fakeOrigin) cosign(bend func(*tlog.Checkpoint), by ...byte) []byte {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	c := tlog.Checkpoint{Origin: "ring.test", Tree: xtlog.Tree{N: int64(o.at.Size), Hash: o.at.Root}}
	if bend != nil {
		bend(&c)
	}
	signers := []note.Signer{o.signer}
	for _, n := range by {
		signers = append(signers, cosigner(o.t, n))
	}
	signed, err := note.Sign(&note.Note{Text: c.Text()}, signers...)
	if err != nil {
		o.t.Fatal(err)
	}
	joined := JoinCosigned(o.signed, signed)
	o.files["/sync/cosigned"] = joined
	return joined
}

func TestOnlyWhatThePolicyAsksForIsShown(t *testing.T) {
	o := newOrigin(t)
	o.sign()
	dir := t.TempDir()
	policed := func(c *Config) { c.Policy, c.Dir = twoOf(t), dir }
	f := o.newReplica(policed)
	other := func(c *tlog.Checkpoint) { c.Hash[0] ^= 1 }
	for _, c := range []struct {
		rule   string
		signed []byte
		want   error
	}{
		{"a statement alone", o.signed, ErrWitnesses},
		{"no witness", o.cosign(nil), ErrWitnesses},
		{"one of two", o.cosign(nil, 2), ErrWitnesses},
		{"a stranger as the second", o.cosign(nil, 1, 3), ErrWitnesses},
		{"another root", o.cosign(other, 1, 2), ErrWitnesses},
		{"another size", o.cosign(func(c *tlog.Checkpoint) { c.N++ }, 1, 2), ErrWitnesses},
		{"both", o.cosign(nil, 1, 2), nil},
	} {
		if err := f.accept(t.Context(), c.signed); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.rule, err)
		}
		if f.Replica.shown != nil != (c.want == nil) {
			t.Errorf("%s: shown %v", c.rule, f.Replica.shown != nil)
		}
	}
	f.writes.writing.Wait()
	f.agrees(o)
	if !bytes.Equal(f.Checkpoint(), o.signed) || f.Cosigned() == nil {
		t.Errorf("it passes on %q and %q", f.Checkpoint(), f.Cosigned())
	}
	// A restart shows it again, and asks for the cosignatures again.
	o.newReplica(policed).agrees(o)
	// A replica without a policy reads the same folder.
	o.newReplica(func(c *Config) { c.Dir = dir }).agrees(o)
}

// What was shown before there was a policy is not shown, and nothing before it is.
func TestANewPolicyIsForWhatIsOnDiskToo(t *testing.T) {
	o := newOrigin(t)
	o.sign()
	early := o.cosign(nil, 1, 2)
	o.join("a")
	o.sign()
	dir := t.TempDir()
	o.booted(func(c *Config) { c.Dir = dir })
	f := o.newReplica(func(c *Config) { c.Policy, c.Dir = twoOf(t), dir })
	if f.Replica.shown != nil {
		t.Error("what no witness has cosigned is shown")
	}
	if err := f.accept(t.Context(), early); !errors.Is(err, ErrShrunk) {
		t.Errorf("an earlier checkpoint: %v", err)
	}
	f.takes(o.cosign(nil, 1, 2))
	f.agrees(o)
}

// While witnesses lag, readers see the last good state, which becomes stale.
func TestWitnessesThatLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOrigin(t)
		o.sign()
		o.cosign(nil, 1, 2)
		f := o.newReplica(func(c *Config) { c.Policy = twoOf(t) })
		defer f.following(t)()
		time.Sleep(2 * time.Second)
		f.agrees(o)
		before := f.get("/api/ring")
		o.join("a")
		o.sign()
		o.cosign(nil, 1)
		time.Sleep(2 * time.Minute)
		if f.get("/api/ring") != before || f.Stale() || f.Position() != 1 {
			t.Errorf("stale %v, at %d: %s", f.Stale(), f.Position(), f.get("/api/ring"))
		}
		time.Sleep(time.Minute)
		if !f.Stale() {
			t.Error("fresh without cosignatures")
		}
		if n := strings.Count(f.log.String(), "not cosigned as the policy requires"); n == 0 || n > 4 {
			t.Errorf("the log tells it %d times", n)
		}
		o.sign()
		o.cosign(nil, 1, 2)
		time.Sleep(3 * time.Second)
		f.agrees(o)
		if f.Stale() {
			t.Error("stale")
		}
	})
}

func FuzzCutCosigned(f *testing.F) {
	f.Add([]byte("a\n\n— b c\n\nd\n\n— e f\n"))
	f.Add([]byte("a\n\n\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		statement, cosigned, ok := CutCosigned(b)
		if ok && !bytes.Equal(JoinCosigned(statement, cosigned), b) || !ok && !bytes.Equal(statement, b) {
			t.Errorf("%q: %q and %q", b, statement, cosigned)
		}
	})
}
