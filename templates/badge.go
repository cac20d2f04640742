package templates

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Badge is a small picture that a member shows: it names the ring and the
// member's place in it. Its colours are literal, as no style sheet reaches it.
type Badge struct {
	Ring     string
	Name     string
	Position int
	Members  int
}

// longestRing is the most characters of a ring's name on a badge.
const longestRing = 28

// inXML replaces characters that XML cannot write. With one of them in it, nothing of
// a document would be shown.
func inXML(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\ufffe' || r == '\uffff' {
			return utf8.RuneError
		}
		return r
	}, s)
}

func (v Badge) text() string {
	name := []rune(v.Ring)
	if len(name) > longestRing {
		name = append(name[:longestRing-1], '…')
	}
	return string(name) + " · " + grouped(v.Position) + " of " + grouped(v.Members)
}

// length sets the width at which the text is drawn, because its natural width is not
// known here.
func (v Badge) length() string { return strconv.Itoa(7 * utf8.RuneCountInString(v.text())) }

func (v Badge) width() string { return strconv.Itoa(37 + 7*utf8.RuneCountInString(v.text()) + 10) }
