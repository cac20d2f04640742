package tlog

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Contradiction is evidence that a log has signed two histories: two checkpoints that cannot
// both be of one log to which entries are only added. It stands alone. Whoever has the log's
// verifiers can check it.
//
// As an error it says so.
type Contradiction struct {
	// Keys are the verifiers of the keys that signed the checkpoints, as far as they are known.
	Keys []string
	// Earlier and Later are the signed checkpoints. Later has at least as many entries.
	Earlier, Later []byte
	// If Later has more entries, Root is the root of its first ones, as many as Earlier has, and
	// Proof is the consistency proof from there to Later. The root of Earlier is another.
	Root  tlog.Hash
	Proof tlog.TreeProof
}

const (
	contradictionForm = "webring/contradiction/v1"
	// MaxContradiction is longer than any text of a contradiction that [ParseContradiction] takes.
	MaxContradiction = 64 << 10
)

// ErrEvidence is wrapped by every error that says that evidence does not show a contradiction.
var ErrEvidence = errors.New("no evidence of a contradiction")

// Error says what the log did.
func (c *Contradiction) Error() string {
	name, _, _ := strings.Cut(string(c.Earlier), "\n")
	return name + " has signed two histories: two checkpoints contradict each other"
}

// Text is the file of a contradiction:
//
//	webring/contradiction/v1
//	key {verifier}
//	root {root of the first entries of the later checkpoint, base64}
//	{hash of the consistency proof, base64}
//
//	{the earlier checkpoint, as it was signed}
//
//	{the later one}
//
// There may be two lines with a key, or none. The lines of root and proof are absent if both have the same
// number of entries.
func (c *Contradiction) Text() []byte {
	var b strings.Builder
	b.WriteString(contradictionForm + "\n")
	for _, key := range c.Keys {
		b.WriteString("key " + key + "\n")
	}
	if c.Root != (tlog.Hash{}) {
		b.WriteString("root " + c.Root.String() + "\n")
	}
	for _, hash := range c.Proof {
		b.WriteString(hash.String() + "\n")
	}
	b.WriteString("\n" + string(c.Earlier) + "\n" + string(c.Later))
	return []byte(b.String())
}

// ParseContradiction reads the file of a contradiction, in its one spelling. It checks nothing
// else. Errors wrap [ErrEvidence].
func ParseContradiction(text []byte) (*Contradiction, error) {
	parts := strings.Split(string(text), "\n\n")
	if len(text) > MaxContradiction || len(parts) != 5 {
		return nil, fmt.Errorf("%w: not a file of one", ErrEvidence)
	}
	c := &Contradiction{Earlier: []byte(parts[1] + "\n\n" + parts[2] + "\n"), Later: []byte(parts[3] + "\n\n" + parts[4])}
	for _, line := range strings.Split(parts[0], "\n")[1:] {
		if key, ok := strings.CutPrefix(line, "key "); ok {
			c.Keys = append(c.Keys, key)
			continue
		}
		word, root := strings.CutPrefix(line, "root ")
		hash, err := tlog.ParseHash(word)
		if err != nil {
			return nil, fmt.Errorf("%w: malformed hash", ErrEvidence)
		}
		if root {
			c.Root = hash
		} else {
			c.Proof = append(c.Proof, hash)
		}
	}
	if string(c.Text()) != string(text) {
		return nil, fmt.Errorf("%w: not in its one spelling", ErrEvidence)
	}
	return c, nil
}

// Check checks that c shows a contradiction between checkpoints that these keys have signed, and
// gives both. Errors wrap [ErrEvidence].
func (c *Contradiction) Check(keys note.Verifiers) (earlier, later Checkpoint, err error) {
	earlier, err = openExactly(c.Earlier, keys)
	if err == nil {
		later, err = openExactly(c.Later, keys)
	}
	if err != nil {
		return earlier, later, fmt.Errorf("%w: %w", ErrEvidence, err)
	}
	switch {
	case earlier.Origin != later.Origin:
		err = errors.New("the checkpoints are of two logs")
	case later.N < earlier.N || earlier.N == 0:
		err = errors.New("the later checkpoint has fewer entries, or the earlier one has none")
	case later.N == earlier.N && later.Hash == earlier.Hash:
		err = errors.New("the checkpoints have the same root")
	case later.N == earlier.N && (len(c.Proof) > 0 || c.Root != tlog.Hash{}):
		err = errors.New("a proof where none is needed")
	case later.N == earlier.N:
		return earlier, later, nil
	case c.Root == earlier.Hash:
		err = errors.New("the later checkpoint continues the earlier one")
	default:
		err = tlog.CheckTree(c.Proof, later.N, later.Hash, earlier.N, c.Root)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrEvidence, err)
	}
	return earlier, later, err
}

// Continues checks that one checkpoint continues another, both as they were signed by keys with
// these verifiers. hashes gives the hashes of the one with more entries. The error is a
// [*Contradiction] if it does not, or says why that cannot be known.
func Continues(later, earlier []byte, verifiers []string, hashes func(tlog.Tree) tlog.HashReader) error {
	keys, err := Keys(verifiers...)
	if err != nil {
		return err
	}
	to, err := OpenCheckpoint(later, keys)
	if err != nil {
		return err
	}
	at, err := OpenCheckpoint(earlier, keys)
	if err != nil {
		return err
	}
	if to.N < at.N {
		earlier, later, at, to = later, earlier, to, at
	}
	c := &Contradiction{Keys: verifiers, Earlier: earlier, Later: later}
	switch {
	case at.N == 0:
		return nil
	case to.N == at.N && to.Hash == at.Hash:
		return nil
	case to.N > at.N:
		hashes := hashes(to.Tree)
		if c.Root, err = tlog.TreeHash(at.N, hashes); err != nil || c.Root == at.Hash {
			return err
		}
		if c.Proof, err = tlog.ProveTree(to.N, at.N, hashes); err != nil {
			return err
		}
	}
	if _, _, err := c.Check(keys); err != nil {
		return err
	}
	return c
}

// openExactly is [OpenCheckpoint] for a file that is evidence: it refuses signatures in another
// spelling than their own, which [note.Open] reads.
func openExactly(signed []byte, keys note.Verifiers) (Checkpoint, error) {
	_, signatures, _ := strings.Cut(string(signed), "\n\n")
	for line := range strings.Lines(signatures) {
		word := line[strings.LastIndexByte(line, ' ')+1:]
		if _, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(word, "\n")); err != nil {
			return Checkpoint{}, fmt.Errorf("tlog: a signature is misspelled: %w", err)
		}
	}
	return OpenCheckpoint(signed, keys)
}

// Keys gives the keys of logs by their verifiers.
func Keys(verifiers ...string) (note.Verifiers, error) {
	var keys []note.Verifier
	for _, word := range verifiers {
		key, err := note.NewVerifier(word)
		if err != nil {
			return nil, fmt.Errorf("tlog: the key of a log: %w", err)
		}
		keys = append(keys, key)
	}
	return note.VerifierList(keys...), nil
}
