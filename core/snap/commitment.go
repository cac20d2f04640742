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

// Seal writes the commitments to t into e, with the salts in t. Texts to which such an
// event does not commit must be empty: see [core.CommitmentsOf].
func Seal(e core.Event, t *core.Texts) {
	for _, p := range pairs(e, t) {
		if p.commitment != nil {
			*p.commitment = commitment(p.text)
		}
	}
}

// Verify checks that texts are those that event commits to. Empty texts always
// pass: they may have been redacted, and some events have none.
// Errors wrap [ErrCommitment], [core.ErrEvent] or [core.ErrTexts].
func Verify(event, texts []byte) error {
	e, err := core.DecodeEvent(event)
	if err != nil {
		return err
	}
	return VerifyTexts(e, texts)
}

// VerifyTexts is [Verify] for an event that has been decoded.
func VerifyTexts(e core.Event, texts []byte) error {
	if len(texts) == 0 {
		return nil
	}
	if !core.CommitmentsOf(e).Some() {
		return &flaw{sentinel: ErrCommitment, detail: "the event has no texts"}
	}
	t, err := core.DecodeTexts(texts)
	if err != nil {
		return err
	}
	for _, p := range pairs(e, &t) {
		committed := core.Commitment{}
		if p.commitment != nil {
			committed = *p.commitment
		}
		if committed != commitment(p.text) {
			return &flaw{sentinel: ErrCommitment, detail: "the " + p.name + " is another"}
		}
	}
	return nil
}

type pair struct {
	name       string
	commitment *core.Commitment // nil if such an event does not commit to this text
	text       *core.Text
}

func pairs(e core.Event, t *core.Texts) [5]pair {
	c := core.CommitmentsOf(e)
	return [...]pair{
		{"name", c.Name, &t.Name},
		{"URL", c.URL, &t.URL},
		{"description", c.Description, &t.Description},
		{"report link", c.Report, &t.Report},
		{"reason", c.Words, &t.Words},
	}
}

func commitment(t *core.Text) core.Commitment {
	if t.Value == "" {
		return core.Commitment{}
	}
	return Commit(t.Salt, t.Value)
}
