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

// Texts are what a [Joined] event commits to. They are kept beside the event,
// so that redaction can delete them while the hash of the event stands.
// An empty Value is a text that was not given.
type Texts struct {
	Name, URL, Description, Report Text
}

// ErrTexts is wrapped by every error about texts that are malformed or do not
// fit their event.
var ErrTexts = errors.New("core: malformed texts")

// AppendTexts appends the encoding of t to dst: the four texts in the order
// name, URL, description, report, each as
//
//	length (2 bytes, big endian) salt (16 bytes) value
//
// where a text that was not given is the length 0 alone.
// Redacted texts are no bytes at all. The caller bounds the values: beyond the limits of the
// interface they do not fold, and beyond 65535 bytes their lengths cannot be written.
func AppendTexts(dst []byte, t *Texts) []byte {
	for _, x := range t.all() {
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
	for _, x := range t.all() {
		l := r.take(2)
		if l == nil {
			return t, ErrTexts
		}
		if n := int(binary.BigEndian.Uint16(l)); n > 0 {
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

func (t *Texts) all() [4]*Text { return [4]*Text{&t.Name, &t.URL, &t.Description, &t.Report} }

// check compares the texts with their event and with the limits of the interface.
func (t *Texts) check(e *Joined) error {
	switch {
	case t.Name.Value == "" || utf8.RuneCountInString(t.Name.Value) > MaxName,
		utf8.RuneCountInString(t.Description.Value) > MaxDescription,
		len(t.Report.Value) > MaxReport,
		(t.Description.Value != "") != e.Description.Given(),
		(t.Report.Value != "") != e.Report.Given():
		return ErrTexts
	}
	return nil
}
