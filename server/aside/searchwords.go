package aside

import (
	"math/bits"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"webring/core"
)

const (
	// mostWords is how many words of a member are found.
	mostWords = 24
	// mostAsked is how many words a search may have, and longest how many code points.
	mostAsked, longest = 8, 100
)

// fold gives text without what a search ignores: case, accents and other marks that do not
// take room, and compatible forms of letters.
func fold(text string) string {
	ascii := true
	for i := range len(text) {
		ascii = ascii && text[i] < utf8.RuneSelf
	}
	if ascii {
		return strings.ToLower(text)
	}
	bare := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFKD.String(text))
	return norm.NFC.String(cases.Fold().String(bare))
}

// appendWords appends the folded words of text.
func appendWords(dst []string, text string) []string {
	return append(dst, strings.FieldsFunc(fold(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.Is(unicode.Mc, r)
	})...)
}

// wordsOf gives the words by which a member is found, each once.
func wordsOf(m *core.Member) []string {
	words := appendWords(nil, m.Slug)
	if u, err := url.Parse(m.URL); err == nil {
		host := strings.TrimPrefix(u.Hostname(), "www.")
		words = appendWords(words, host)
		if readable, err := idna.ToUnicode(host); err == nil && readable != host {
			words = appendWords(words, readable)
		}
	}
	words = appendWords(words, m.Name)
	slices.Sort(words)
	words = slices.Compact(words)
	return words[:min(len(words), mostWords)]
}

// asked gives the words of a search. It reports false for what is no search.
func asked(q string) (words []string, ok bool) {
	if utf8.RuneCountInString(q) > longest {
		return nil, false
	}
	words = appendWords(nil, q)
	return words, len(words) > 0 && len(words) <= mostAsked
}

// meet says whether each word of a search begins a word of a member.
func meet(asked, words []string) bool {
	for _, w := range asked {
		if !slices.ContainsFunc(words, func(own string) bool { return strings.HasPrefix(own, w) }) {
			return false
		}
	}
	return true
}

// rowSet is a set of rows, a bit for each.
type rowSet []uint64

func newRowSet(rows int) rowSet { return make(rowSet, (rows+63)/64) }

// reach gives the set with room for a row.
func (s rowSet) reach(o core.Ordinal) rowSet {
	if n := int(o)/64 + 1 - len(s); n > 0 {
		s = append(s, make(rowSet, n)...)
	}
	return s
}

// has says whether a row is in the set. A row without room is not.
func (s rowSet) has(o core.Ordinal) bool {
	return int(o)/64 < len(s) && s[o/64]&(1<<(o%64)) != 0
}

func (s rowSet) add(o core.Ordinal)  { s[o/64] |= 1 << (o % 64) }
func (s rowSet) drop(o core.Ordinal) { s[o/64] &^= 1 << (o % 64) }

// keep drops what is not in other.
func (s rowSet) keep(other rowSet) {
	for i := range s {
		s[i] &= other[i]
	}
}

// rows ranges over the rows in order.
func (s rowSet) rows(yield func(core.Ordinal) bool) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			if !yield(core.Ordinal(64*i + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}
