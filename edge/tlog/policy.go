package tlog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// Policy says which logs and witnesses are trusted, and which of the witnesses must have cosigned
// a checkpoint. It is a file in the format of C2SP tlog-policy.
type Policy struct {
	// Witnesses are those that the file names, in its order.
	Witnesses []PolicyWitness

	logs   []note.Verifier
	words  []string // of logs
	quorum func(signed map[string]bool) bool
}

// PolicyWitness is a witness that a policy names.
type PolicyWitness struct {
	Name string // in the policy
	URL  string // the prefix of its add-checkpoint, "" if the file has none
	Key  note.Verifier
}

// Witness is a witness that has cosigned a checkpoint, and when it did.
type Witness struct {
	Name string // in the policy
	Time time.Time
}

// ErrQuorum says that a checkpoint lacks cosignatures that the policy requires.
var ErrQuorum = errors.New("tlog: the policy's quorum of witnesses has not cosigned this checkpoint")

// maxPolicy bounds how many logs, witnesses and groups a policy may have in all.
const maxPolicy = 256

// ParsePolicy reads a policy.
func ParsePolicy(text []byte) (*Policy, error) {
	p := &Policy{}
	rules := map[string]func(map[string]bool) bool{}
	member := map[string]bool{} // names that a group has
	var keys []string           // public keys, of which none may come twice
	for i, line := range strings.Split(string(text), "\n") {
		wrong := func(format string, args ...any) error {
			return fmt.Errorf("tlog: line %d of the policy: %w", i+1, fmt.Errorf(format, args...))
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return nil, wrong("a control character")
		}
		words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if len(rules)+len(p.logs) >= maxPolicy {
			return nil, wrong("a policy may have %d logs, witnesses and groups", maxPolicy)
		}
		name, n := "", len(words)-1
		if n > 0 {
			name = words[1]
		}
		defined := func() error {
			if name == "none" || rules[name] != nil {
				return wrong("the name %q is taken", name)
			}
			return nil
		}
		once := func(vkey string) error {
			_, key, _ := strings.Cut(vkey, "+")
			_, key, _ = strings.Cut(key, "+")
			if slices.Contains(keys, words[0]+key) {
				return wrong("the same key again")
			}
			keys = append(keys, words[0]+key)
			return nil
		}
		switch kind := words[0]; {
		case kind == "log" && (n == 1 || n == 2):
			key, err := note.NewVerifier(name)
			if err != nil {
				return nil, wrong("%w", err)
			}
			if err := once(name); err != nil {
				return nil, err
			}
			p.logs, p.words = append(p.logs, key), append(p.words, name)
		case kind == "witness" && (n == 2 || n == 3):
			key, err := NewWitnessKey(words[2])
			if err != nil {
				return nil, wrong("%w", err)
			}
			if err := errors.Join(defined(), once(words[2])); err != nil {
				return nil, err
			}
			w := PolicyWitness{Name: name, Key: key}
			if n == 3 {
				w.URL = strings.TrimRight(words[3], "/")
			}
			p.Witnesses = append(p.Witnesses, w)
			rules[name] = func(signed map[string]bool) bool { return signed[name] }
		case kind == "group" && n >= 3:
			members := words[3:]
			least, err := strconv.Atoi(words[2])
			switch {
			case words[2] == "all":
				least = len(members)
			case words[2] == "any":
				least = 1
			case err != nil || strconv.Itoa(least) != words[2] || least < 1 || least > len(members):
				return nil, wrong("%q is neither all, any nor a number up to %d", words[2], len(members))
			}
			if err := defined(); err != nil {
				return nil, err
			}
			var of []func(map[string]bool) bool
			for _, m := range members {
				if rules[m] == nil || member[m] {
					return nil, wrong("%q is not defined above, or is in a group already", m)
				}
				member[m] = true
				of = append(of, rules[m])
			}
			rules[name] = func(signed map[string]bool) bool {
				found := 0
				for _, rule := range of {
					if rule(signed) {
						found++
					}
				}
				return found >= least
			}
		case kind == "quorum" && n == 1:
			if p.quorum != nil {
				return nil, wrong("a second quorum")
			}
			if p.quorum = rules[name]; name == "none" {
				p.quorum = func(map[string]bool) bool { return true }
			}
			if p.quorum == nil {
				return nil, wrong("%q is not defined above", name)
			}
		default:
			return nil, wrong("neither a log, a witness, a group nor a quorum")
		}
	}
	if p.quorum == nil {
		return nil, errors.New("tlog: the policy has no quorum line")
	}
	return p, nil
}

// Logs are the keys of the logs that the policy names, in the format of signed notes.
func (p *Policy) Logs() []string { return p.words }

// Check says which witnesses of the policy have cosigned a checkpoint. The error wraps [ErrQuorum]
// if they are too few. If the policy names logs, one of them must have signed the checkpoint;
// otherwise the caller has to see to that.
func (p *Policy) Check(signed []byte) (by []Witness, err error) {
	keys := slices.Clone(p.logs)
	for _, w := range p.Witnesses {
		keys = append(keys, w.Key)
	}
	n, err := note.Open(signed, note.VerifierList(keys...))
	unknown, none := errors.AsType[*note.UnverifiedNoteError](err)
	switch {
	case none:
		n = unknown.Note
	case err != nil:
		return nil, err
	}
	c, err := ParseCheckpoint(n.Text)
	if err != nil {
		return nil, err
	}
	of := func(key note.Verifier) func(note.Signature) bool {
		return func(s note.Signature) bool { return s.Name == key.Name() && s.Hash == key.KeyHash() }
	}
	if len(p.logs) > 0 && !slices.ContainsFunc(p.logs, func(log note.Verifier) bool {
		return log.Name() == c.Origin && slices.ContainsFunc(n.Sigs, of(log))
	}) {
		return nil, fmt.Errorf("tlog: no log of the policy has signed this checkpoint of %q", c.Origin)
	}
	names := map[string]bool{}
	for _, w := range p.Witnesses {
		if i := slices.IndexFunc(n.Sigs, of(w.Key)); i >= 0 {
			by, names[w.Name] = append(by, Witness{w.Name, cosignedAt(n.Sigs[i])}), true
		}
	}
	if !p.quorum(names) {
		return by, ErrQuorum
	}
	return by, nil
}

// Witnessed says of how many events a checkpoint is that the witnesses of the policy have cosigned,
// and when the last of them did; 0 if too few have.
func (p *Policy) Witnessed(signed []byte) (size int64, at time.Time) {
	by, err := p.Check(signed)
	if err != nil {
		return 0, at
	}
	text, _, _ := strings.Cut(string(signed), "\n\n")
	c, err := ParseCheckpoint(text + "\n")
	if err != nil {
		return 0, at
	}
	for _, w := range by {
		if w.Time.After(at) {
			at = w.Time
		}
	}
	return c.N, at
}

// AddSignatures adds signature lines to a signed note: those that verify, of keys that have not
// signed it before. Lines of other keys are ignored.
func AddSignatures(signed, lines []byte, keys note.Verifiers) ([]byte, error) {
	text, sigs, ok := bytes.Cut(signed, []byte("\n\n"))
	if !ok {
		return nil, errCheckpoint
	}
	n, err := note.Open(slices.Concat(text, []byte("\n\n"), lines), keys)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(signed)
	for _, s := range n.Sigs {
		line := fmt.Appendf(nil, "— %s %s\n", s.Name, s.Base64)
		if !bytes.Contains(sigs, line) {
			out = append(out, line...)
		}
	}
	return out, nil
}
