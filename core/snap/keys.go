package snap

import (
	"strconv"
	"strings"

	"webring/core"
)

// Keys is what an origin signs about the keys that sign its checkpoints: which one does,
// and, while the key is being changed, which one is going to. The present key signs it.
// A follower that trusts that key trusts the next one from then on, and when the next one
// says that it is the present one, trusts no other.
type Keys struct {
	// Origin names the ledger, as in a [Checkpoint].
	Origin string
	// Time is when it was signed, in milliseconds since 1970, UTC. What a key signs
	// later takes the place of what it signed before.
	Time int64
	// Current and Next are verifiers, name+hash+key; Next is "" unless a key is announced.
	Current, Next string
}

// maxKeys is longer than any text of keys, and maxVerifier than any verifier, in bytes.
const (
	maxVerifier = maxOrigin + 64
	maxKeys     = 2*maxVerifier + maxOrigin + 64
)

// Text returns the text to sign. It has the last line only when a key is announced. It cannot
// be mistaken for the text of a checkpoint, where the second line is a number:
//
//	ring.example.org
//	keys
//	time {milliseconds}
//	current {verifier}
//	next {verifier}
//
// Keys have this one text. [ParseKeys] refuses the text of keys with fields beyond their
// bounds.
func (k Keys) Text() string {
	b := make([]byte, 0, 512)
	b = append(append(b, k.Origin...), "\nkeys\ntime "...)
	b = append(strconv.AppendInt(b, k.Time, 10), "\ncurrent "...)
	b = append(append(b, k.Current...), '\n')
	if k.Next != "" {
		b = append(append(append(b, "next "...), k.Next...), '\n')
	}
	return string(b)
}

// ParseKeys reads the text of keys, in its one spelling. The caller has verified the
// signature, and reads the verifiers: they are known to be of this origin, and no more.
// Errors wrap [ErrKeys].
func ParseKeys(text string) (Keys, error) {
	malformed := func(what string) (Keys, error) {
		return Keys{}, &flaw{sentinel: ErrKeys, detail: what}
	}
	body, ended := strings.CutSuffix(text, "\n")
	lines := strings.Split(body, "\n")
	if !ended || len(text) > maxKeys || len(lines) < 4 || len(lines) > 5 {
		return malformed("lines")
	}
	p := fields{ok: true}
	k := Keys{Origin: lines[0]}
	p.line(lines[2], "time")
	k.Time = int64(p.number(p.next()))
	p.line(lines[3], "current")
	k.Current = p.next()
	if len(lines) == 5 {
		p.line(lines[4], "next")
		if k.Next = p.next(); !isVerifier(k.Next, k.Origin) || k.Next == k.Current {
			return malformed("next key")
		}
	}
	switch {
	case !ValidOrigin(k.Origin):
		return malformed("origin")
	case !p.ok || k.Time > core.MaxStamp:
		return malformed("fields")
	case !isVerifier(k.Current, k.Origin):
		return malformed("current key")
	case k.Text() != text:
		return malformed("spelling")
	}
	return k, nil
}

// isVerifier says whether a word can be a verifier of an origin.
func isVerifier(word, origin string) bool {
	rest, ok := strings.CutPrefix(word, origin+"+")
	return ok && len(word) <= maxVerifier && strings.IndexByte(rest, '+') > 0
}
