package tlog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// The example of tlog-cosignature, with keys that are its own.
const example = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"

func seeded(t testing.TB, name string, n byte, at int64) *Cosigner {
	t.Helper()
	c, err := NewCosigner(FormatCosigner(name, bytes.Repeat([]byte{n}, 32))+"\n", func() time.Time { return time.Unix(at, 0) })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheckpoints(t *testing.T) {
	c, err := ParseCheckpoint(example)
	if err != nil || c.Text() != example || c.N != 20852163 || c.Origin != "example.com/behind-the-sofa" {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, wrong := range []string{"", "a\n1\n", "a\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=", strings.Replace(example, "208", "0208", 1),
		strings.Replace(example, "208", "-208", 1), strings.Replace(example, "=\n", "\n", 1), example + "\n", "\n" + example, strings.Replace(example, "2I=", "2J=", 1)} {
		if c, err := ParseCheckpoint(wrong); err == nil {
			t.Errorf("%q is %+v", wrong, c)
		}
	}
	if c, err := ParseCheckpoint(example + "an extension\n"); err != nil || c.N != 20852163 {
		t.Errorf("with an extension: %+v, %v", c, err)
	}
}

func TestCosignatures(t *testing.T) {
	c := seeded(t, "witness.example/w1", 1, 1679315147)
	signed, err := note.Sign(&note.Note{Text: example}, c)
	if err != nil {
		t.Fatal(err)
	}
	key, err := NewWitnessKey(c.Verifier())
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(signed, note.VerifierList(key))
	if err != nil || cosignedAt(n.Sigs[0]).Unix() != 1679315147 {
		t.Fatalf("%v", err)
	}
	if key.Verify([]byte(example+"x"), nil) || key.Verify([]byte(strings.Replace(example, "2", "3", 1)), make([]byte, 72)) {
		t.Error("another text is signed")
	}
	for _, wrong := range []string{"", "a+b", strings.Replace(c.Verifier(), "w1", "w2", 1), c.Verifier()[:len(c.Verifier())-4], "PRIVATE+KEY+" + c.Verifier()} {
		if _, err := NewWitnessKey(wrong); err == nil {
			t.Errorf("%q is a key", wrong)
		}
	}
	for _, wrong := range []string{"", c.Verifier(), strings.Replace(FormatCosigner("a", make([]byte, 32)), "+a+", "+b+", 1)} {
		if _, err := NewCosigner(wrong, time.Now); err == nil || wrong != "" && strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestPolicies(t *testing.T) {
	_, log, err := note.GenerateKey(nil2{}, "example.com/behind-the-sofa")
	if err != nil {
		t.Fatal(err)
	}
	var w []string
	for n := range byte(6) {
		w = append(w, seeded(t, fmt.Sprintf("w.test/%d", n), n+1, 100+int64(n)).Verifier())
	}
	keys := fmt.Sprintf("witness X1 %s\nwitness X2 %s https://x2.test/w/\nwitness X3\t%s\nwitness Y1 %s\nwitness Y2 %s\n", w[0], w[1], w[2], w[3], w[4])
	groups := "# two levels\ngroup X 2 X1 X2 X3\n\n group Y any Y1 Y2 \ngroup all-of all X Y\nquorum all-of\n"
	p, err := ParsePolicy([]byte(keys + groups))
	if err != nil {
		t.Fatal(err)
	}
	if p.Witnesses[1].URL != "https://x2.test/w" || p.Witnesses[2].Name != "X3" {
		t.Errorf("%+v", p.Witnesses)
	}
	for _, c := range []struct {
		by []byte
		ok bool
	}{{nil, false}, {[]byte{1, 2}, false}, {[]byte{1, 4}, false}, {[]byte{1, 2, 4}, true}, {[]byte{3, 2, 5}, true}, {[]byte{1, 2, 6}, false}, {[]byte{1, 2, 3, 4, 5}, true}} {
		var signers []note.Signer
		for _, n := range c.by {
			signers = append(signers, seeded(t, fmt.Sprintf("w.test/%d", n-1), n, 99+int64(n)))
		}
		signed := []byte(example + "\n— someone AAAAAAA=\n")
		if signers != nil {
			if signed, err = note.Sign(&note.Note{Text: example}, signers...); err != nil {
				t.Fatal(err)
			}
		}
		by, err := p.Check(signed)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrQuorum) || len(by) != len(c.by)-len(slices.DeleteFunc(slices.Clone(c.by), func(n byte) bool { return n != 6 })) {
			t.Errorf("%v: %v, %v", c.by, by, err)
		}
	}
	for rule, wrong := range map[string]string{
		"no quorum":         keys,
		"two quorums":       keys + "quorum X1\nquorum X2\n",
		"an unknown name":   keys + "quorum Z\n",
		"defined below":     "quorum X1\n" + keys,
		"a name twice":      keys + "witness X1 " + w[5] + "\nquorum X1\n",
		"a key twice":       keys + "witness Z " + w[0] + "\nquorum X1\n",
		"a log twice":       "log " + log + "\nlog " + log + "\nquorum none\n",
		"none as a name":    "witness none " + w[0] + "\nquorum none\n",
		"in two groups":     keys + "group A any X1\ngroup B any X1\nquorum A\n",
		"twice in a group":  keys + "group A all X1 X1\nquorum A\n",
		"more than there":   keys + "group A 3 X1 X2\nquorum A\n",
		"none needed":       keys + "group A 0 X1 X2\nquorum A\n",
		"a leading zero":    keys + "group A 01 X1 X2\nquorum A\n",
		"an empty group":    keys + "group A any\nquorum A\n",
		"a log as witness":  "witness A " + log + "\nquorum A\n",
		"a witness as log":  "log " + w[0] + "\nquorum none\n",
		"a carriage return": "quorum none\r\n",
		"something else":    "monitor A\nquorum none\n",
	} {
		if _, err := ParsePolicy([]byte(wrong)); err == nil {
			t.Errorf("%s is a policy", rule)
		}
	}
	p, err = ParsePolicy([]byte("log " + log + " https://log.test\nquorum none\n"))
	if err != nil || len(p.Logs()) != 1 {
		t.Fatal(err)
	}
	if _, err := p.Check([]byte(example + "\n— someone AAAAAAA=\n")); err == nil || errors.Is(err, ErrQuorum) {
		t.Errorf("unsigned by the log: %v", err)
	}
}

// nil2 is no randomness.
type nil2 struct{}

func (nil2) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestSignaturesAreAdded(t *testing.T) {
	a, b := seeded(t, "a", 1, 5), seeded(t, "b", 2, 6)
	signed, err := note.Sign(&note.Note{Text: example}, a)
	if err != nil {
		t.Fatal(err)
	}
	more, err := note.Sign(&note.Note{Text: example}, b, a)
	if err != nil {
		t.Fatal(err)
	}
	lines := more[len(example)+1:]
	both, err := AddSignatures(signed, lines, note.VerifierList(a.Key(), b.Key()))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := note.Open(both, note.VerifierList(a.Key(), b.Key())); err != nil || len(n.Sigs) != 2 || bytes.Count(both, []byte("— ")) != 2 {
		t.Errorf("%s: %v", both, err)
	}
	if _, err := AddSignatures(signed, lines, note.VerifierList(seeded(t, "c", 3, 7).Key())); err == nil {
		t.Error("of no known witness")
	}
	if _, err := AddSignatures([]byte(strings.Replace(string(signed), "208", "209", 1)), lines, note.VerifierList(b.Key())); err == nil {
		t.Error("of another text")
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte("witness a w.test/0+00000000+BA==\nquorum a\n"))
	f.Add([]byte("# nothing\nquorum none\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := ParsePolicy(b); err == nil {
			_, _ = p.Check([]byte(example + "\n— someone AAAAAAA=\n"))
		}
	})
}

func FuzzCheckpoint(f *testing.F) {
	f.Add(example)
	f.Add("a\n0\n" + tlog.Hash{}.String() + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseCheckpoint(text); err == nil && !strings.HasPrefix(text, c.Text()) {
			t.Errorf("%q is %q", text, c.Text())
		}
	})
}
