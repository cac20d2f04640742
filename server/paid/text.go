package paid

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// cleanText gives the form in which names and descriptions are kept
// (server/README.md, "Members"): NFC, without control characters (Cc), format
// characters (Cf) and all else that is not drawn, and without white space at either
// end. A control character that stands for white space, and a line or paragraph
// separator, becomes a space unless one is there already, so that words on two lines
// do not grow together. Joiners inside emoji and direction marks are format characters, so
// no name reorders the page that shows it, and no two names differ only by an invisible
// character.
//
// It reports false when s is not UTF-8. cleanText(cleanText(s)) = cleanText(s).
func cleanText(s string) (string, bool) {
	if !utf8.ValidString(s) {
		return "", false
	}
	var b strings.Builder
	b.Grow(len(s))
	spaced := true
	for _, r := range s {
		switch {
		case unicode.IsSpace(r) && unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp):
			if !spaced {
				b.WriteByte(' ')
			}
			spaced = true
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
			// With Cf, the last two are all of the derived property
			// Default_Ignorable_Code_Point (Unicode, DerivedCoreProperties.txt).
		default:
			b.WriteRune(r)
			spaced = unicode.IsSpace(r)
		}
	}
	// After the removal: what stood apart may compose now.
	return strings.TrimFunc(norm.NFC.String(b.String()), unicode.IsSpace), true
}

// blanks are letters and symbols that are drawn as nothing though Unicode does not
// list them as ignorable: the empty Braille pattern, a notehead, and two Egyptian
// hieroglyphs.
const blanks = "\u2800\U0001d159\U00013441\U00013442"

// visible reports whether a reader sees anything of s, which is clean: a letter, a digit, a
// punctuation mark or a symbol that is not blank. Spaces do not count, nor do
// marks, which need something to stand on.
func visible(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && !strings.ContainsRune(blanks, r)
	})
}

// codePoints is the length of s as limits count it.
func codePoints(s string) int { return utf8.RuneCountInString(s) }
