package form

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// cleanText gives the form in which names and descriptions are kept
// (server/HANDBOOK.md, "Members"): NFC, without control characters (Cc), format
// characters (Cf) and all else that is not drawn, and without white space at either
// end. A control character that stands for white space, and a line or paragraph
// separator, becomes a space unless one is there already, so that words on two lines
// do not grow together. Direction marks are format characters, so no name reorders the page
// that shows it. Joiners and the other invisible parts of an emoji stay where they change
// what is drawn: see [keeps].
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
		case ignorable(r) && !unicode.Is(binders, r):
		default:
			b.WriteRune(r)
			spaced = unicode.IsSpace(r)
		}
	}
	// After the removal: what stood apart may compose now. What binds nothing goes the same
	// way, and with it what it kept apart, until all that is left binds something.
	clean := norm.NFC.String(b.String())
	for pass := 0; ; pass++ {
		kept := bound(clean, pass < maxPasses)
		if kept == clean {
			return strings.TrimFunc(clean, unicode.IsSpace), true
		}
		clean = norm.NFC.String(kept)
	}
}

// ignorable says whether r is a control or format character, or has the derived property
// Default_Ignorable_Code_Point (Unicode, DerivedCoreProperties.txt).
func ignorable(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

const (
	zwnj, zwj    = '\u200c', '\u200d'
	asEmoji      = '\ufe0f' // the variation selector that asks for an emoji
	keycap       = '\u20e3'
	blackFlag    = '\U0001f3f4'
	firstTag     = '\U000e0020'
	endOfTags    = '\U000e007f'
	maxPasses    = 4 // through one text; what binds something in the fifth goes, too
	maxSyllable  = 16
	firstSkin    = '\U0001f3fb'
	lastSkin     = '\U0001f3ff'
	firstRegion  = '\U0001f1e6' // of the letters that flags are made of
	lastRegion   = '\U0001f1ff'
	flagsOfParts = "gbeng gbsct gbwls" // regions with flags that are emoji (UTS 51, annex C)
)

// binders are the characters that are not drawn themselves and may change what is drawn.
var binders = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: zwnj, Hi: zwj, Stride: 1}, {Lo: asEmoji, Hi: asEmoji, Stride: 1}},
	R32: []unicode.Range32{{Lo: firstTag, Hi: endOfTags, Stride: 1}},
}

// bound gives s without the binders that change nothing; without any if some is not set.
func bound(s string, some bool) string {
	if strings.IndexFunc(s, func(r rune) bool { return unicode.Is(binders, r) }) < 0 {
		return s
	}
	all := []rune(s)
	kept := make([]rune, 0, len(all))
	for i := 0; i < len(all); i++ {
		switch {
		case !unicode.Is(binders, all[i]):
			kept = append(kept, all[i])
		case !some:
		case all[i] >= firstTag:
			end := i
			for end < len(all) && all[end] >= firstTag && all[end] < endOfTags {
				end++
			}
			if end < len(all) && all[end] == endOfTags && len(kept) > 0 && kept[len(kept)-1] == blackFlag && isFlag(all[i:end]) {
				kept = append(kept, all[i:end+1]...)
				i = end
			}
		case keeps(kept, all[i], all[i+1:]):
			kept = append(kept, all[i])
		}
	}
	return string(kept)
}

// isFlag says whether tags spell a region that has a flag.
func isFlag(tags []rune) bool {
	var name strings.Builder
	for _, r := range tags {
		name.WriteByte(byte(r - firstTag + ' '))
	}
	return slices.Contains(strings.Fields(flagsOfParts), name.String())
}

// keeps says whether a joiner or selector changes what is drawn between what stands before
// and after it:
//
//   - in a sequence of emoji, or after a character that it makes one (UTS 51)
//   - a joiner between letters that join, or next to a virama, as scripts of South Asia and
//     of Arabic spell with them (UAX 31, 2.3; package idna has its rules from RFC 5892)
//   - a joiner before a virama, as Bengali and Kannada spell RA (The Unicode Standard, 12.2)
func keeps(before []rune, r rune, after []rune) bool {
	if len(before) == 0 {
		return false
	}
	last, next := before[len(before)-1], rune(0)
	if len(after) > 0 {
		next = after[0]
	}
	switch {
	case r == asEmoji:
		return pictograph(last) || next == keycap && strings.ContainsRune("0123456789#*", last)
	case r == zwj && pictograph(next):
		return last == asEmoji || last >= firstSkin && last <= lastSkin || last == endOfTags || pictograph(last)
	}
	first, end := len(before), 0
	for first > 0 && len(before)-first < maxSyllable && unicode.In(before[first-1], unicode.L, unicode.M) {
		first--
	}
	// A word does not begin with a mark.
	for first < len(before) && unicode.Is(unicode.M, before[first]) {
		first++
	}
	for end < len(after) && end < maxSyllable && unicode.In(after[end], unicode.L, unicode.M) {
		end++
	}
	switch {
	case first == len(before), r == zwnj && end == 0:
		return false
	case r == zwj && end > 0 && unicode.Is(unicode.M, next):
		return isVirama(next) && unicode.Is(unicode.L, last) && end > 1 && unicode.Is(unicode.L, after[1])
	}
	return joins(string(before[first:]) + string(r) + string(after[:end]))
}

// isVirama says whether r is one. A joiner is good after each.
func isVirama(r rune) bool { return unicode.Is(unicode.M, r) && joins("\u0915"+string(r)+string(zwj)) }

// joins says whether the joiners of a word mean something there.
func joins(word string) bool {
	_, err := contextual.ToUnicode(word)
	return err == nil
}

var contextual = idna.New(idna.CheckJoiners(true))

// pictograph says whether r is a symbol that can be an emoji, or a part of one. Letters of
// flags need nothing to bind them.
func pictograph(r rune) bool {
	switch {
	case r >= firstRegion && r <= lastRegion:
		return false
	case r >= 0x2190 && r <= 0x2bff || r >= 0x1f000 && r <= 0x1faff:
		return unicode.In(r, unicode.So, unicode.Sm)
	}
	return strings.ContainsRune("\u00a9\u00ae\u203c\u2049\u2122\u2139\u3030\u303d\u3297\u3299", r)
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
