package core

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"

	"webring/core/flat"
)

// Text is a word of a member with the salt of its commitment.
type Text struct {
	Salt  [16]byte
	Value string
}

// Texts are what a [Joined], [Changed] or [Moved] event commits to, or, Words alone, what the
// reason of a [Removed], [Hidden] or [Shown] one does. They are kept apart
// from the event, so that redaction can delete them and the hash of the event stays.
// An empty Value is a text that was not given.
type Texts struct {
	Name, URL, Description, Report Text
	Words                          Text // see [Why]
}

// ErrTexts is wrapped by every error about texts that are malformed or do not
// fit their event.
var ErrTexts = errors.New("core: malformed texts")

// AppendTexts appends the encoding of t to dst: the four texts in the order
// name, URL, description, report, and the words of a reason, each as
//
//	length (2 bytes, big endian) salt (16 bytes) value
//
// where a text that was not given is the length 0 alone, and words that were not given are nothing.
// Redacted texts are no bytes at all. The caller bounds the values: beyond the limits of the
// interface they do not fold, and beyond 65535 bytes their lengths cannot be written.
func AppendTexts(dst []byte, t *Texts) []byte {
	for i, x := range t.all() {
		if i == wordsAt && x.Value == "" {
			break
		}
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(x.Value)))
		if x.Value != "" {
			dst = append(append(dst, x.Salt[:]...), x.Value...)
		}
	}
	return dst
}

// DecodeTexts reads all of b. It does not check that the texts match the commitments of an
// event: the snap package does.
func DecodeTexts(b []byte) (t Texts, err error) { return decodeTexts(b, false) }

// decodeTexts is [DecodeTexts], and says whether the values are to alias b.
func decodeTexts(b []byte, aliases bool) (t Texts, err error) {
	if len(b) > MaxTexts {
		return t, ErrTexts
	}
	r := reader{rest: b}
	for i, x := range t.all() {
		if i == wordsAt && len(r.rest) == 0 {
			break
		}
		l := r.take(2)
		if l == nil {
			return t, ErrTexts
		}
		n := int(binary.BigEndian.Uint16(l))
		if n == 0 && i == wordsAt {
			return t, ErrTexts
		}
		if n > 0 {
			copy(x.Salt[:], r.take(len(x.Salt)))
			v := r.take(n)
			if r.failed || !utf8.Valid(v) {
				return t, ErrTexts
			}
			if x.Value = flat.View(v); !aliases {
				x.Value = strings.Clone(x.Value)
			}
		}
	}
	if len(r.rest) != 0 {
		return t, ErrTexts
	}
	return t, nil
}

// wordsAt is the number of [Texts.Words] in the order of the texts.
const wordsAt = 4

func (t *Texts) all() [5]*Text {
	return [...]*Text{&t.Name, &t.URL, &t.Description, &t.Report, wordsAt: &t.Words}
}

// Commitments are those of an event to its texts; nil where it never has one, and zero
// where a text was not given.
type Commitments struct {
	Name, URL, Description, Report, Words *Commitment
}

// CommitmentsOf gives the commitments of an event, which alias it.
func CommitmentsOf(e Event) (c Commitments) {
	switch e := e.(type) {
	case *Joined:
		return Commitments{Name: &e.Name, URL: &e.URL, Description: &e.Description, Report: &e.Report}
	case *Changed:
		return Commitments{Name: &e.Name, Description: &e.Description}
	case *Moved:
		return Commitments{URL: &e.URL, Report: &e.Report}
	case *Removed:
		return Commitments{Words: &e.Words}
	case *Hidden:
		return Commitments{Words: &e.Words}
	case *Shown:
		return Commitments{Words: &e.Words}
	}
	return c
}

// All gives them in the order of the texts: see [AppendTexts].
func (c Commitments) All() [5]*Commitment {
	return [...]*Commitment{c.Name, c.URL, c.Description, c.Report, wordsAt: c.Words}
}

// Some says whether a text is committed to: then the event has texts until they
// are redacted.
func (c Commitments) Some() bool {
	for _, x := range c.All() {
		if x != nil && x.Given() {
			return true
		}
	}
	return false
}

// check compares the texts with their event and with the limits of the interface.
func (t *Texts) check(c Commitments) error {
	texts := t.all()
	for i, x := range c.All() {
		if given := x != nil && x.Given(); given != (texts[i].Value != "") {
			return ErrTexts
		}
	}
	switch {
	case longer(t.Name.Value, MaxName), longer(t.Description.Value, MaxDescription), len(t.Report.Value) > MaxReport, len(t.Words.Value) > MaxNote:
		return ErrTexts
	case t.URL.Value != "" && !isCanonical(t.URL.Value):
		return &reason{ErrTexts, "URL is not canonical"}
	}
	return nil
}

// textsOf reads the texts of an event. They alias b, and are absent when b is empty.
func textsOf(c Commitments, b []byte) (t Texts, absent bool, err error) {
	if len(b) == 0 {
		return t, c.Some(), nil
	}
	if !c.Some() {
		return t, false, &reason{ErrTexts, "the event has none"}
	}
	if t, err = decodeTexts(b, true); err == nil {
		err = t.check(c)
	}
	return t, false, err
}
