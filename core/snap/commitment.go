package snap

import (
	"crypto/sha256"
	"errors"

	"webring/core"
)

// ErrCommitment is wrapped by the errors of [Verify] about texts that are not
// the ones an event commits to.
var ErrCommitment = errors.New("snap: texts do not match the event")

// Commit gives SHA-256(salt ‖ text). A text that was not given has the zero
// commitment, which is not the hash of the empty text.
func Commit(salt [16]byte, text string) core.Commitment {
	return sha256.Sum256(append(salt[:], text...))
}

// Seal writes the commitments to t into e, with the salts in t.
func Seal(e *core.Joined, t *core.Texts) {
	for _, p := range pairs(e, t) {
		*p.commitment = commitment(p.text)
	}
}

// Verify checks that texts are those that event commits to. Empty texts always
// pass: those of a registration may have been redacted, and other events have none.
// Errors wrap [ErrCommitment], [core.ErrEvent] or [core.ErrTexts].
func Verify(event, texts []byte) error {
	e, err := core.DecodeEvent(event)
	if err != nil {
		return err
	}
	if len(texts) == 0 {
		return nil
	}
	joined, ok := e.(*core.Joined)
	if !ok {
		return &flaw{sentinel: ErrCommitment, detail: "only a registration has texts"}
	}
	t, err := core.DecodeTexts(texts)
	if err != nil {
		return err
	}
	for _, p := range pairs(joined, &t) {
		if *p.commitment != commitment(p.text) {
			return &flaw{sentinel: ErrCommitment, detail: "the " + p.name + " is another"}
		}
	}
	return nil
}

type pair struct {
	name       string
	commitment *core.Commitment
	text       *core.Text
}

func pairs(e *core.Joined, t *core.Texts) [4]pair {
	return [4]pair{
		{"name", &e.Name, &t.Name},
		{"URL", &e.URL, &t.URL},
		{"description", &e.Description, &t.Description},
		{"report link", &e.Report, &t.Report},
	}
}

func commitment(t *core.Text) core.Commitment {
	if t.Value == "" {
		return core.Commitment{}
	}
	return Commit(t.Salt, t.Value)
}
