package card

import (
	"cmp"
	"strings"
	"unicode"

	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"

	"webring/static"
)

// face is the face of all words.
var face = parse()

func parse() *sfnt.Font {
	f, err := sfnt.Parse(static.FaceTTF)
	if err != nil {
		panic(err) // the face is a part of the binary
	}
	return f
}

// setter sets words. It is for one goroutine.
type setter struct{ buffer sfnt.Buffer }

// spelled gives a member's words as far as the face can set them. Symbols that it lacks, such
// as emoji, and characters that show nothing are left out; when it lacks a letter, a digit or
// a mark, there is nothing that could be left out, and ok is false.
func (s *setter) spelled(text string) (_ string, ok bool) {
	var b strings.Builder
	for _, r := range text {
		i, err := face.GlyphIndex(&s.buffer, r)
		switch {
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case unicode.Is(unicode.Mn, r) && r >= '\ufe00' && r <= '\ufe0f', unicode.Is(unicode.Cf, r), unicode.IsControl(r):
		case unicode.IsMark(r):
			return "", false // the face does not say where marks go
		case err == nil && i != 0:
			b.WriteRune(r)
			ok = ok || unicode.IsLetter(r) || unicode.IsDigit(r)
		case unicode.IsLetter(r) || unicode.IsNumber(r):
			return "", false
		}
	}
	return strings.Join(strings.Fields(b.String()), " "), ok
}

// scripts are those that people know by another word than Unicode's.
var scripts = map[string]string{"Han": "Chinese or Japanese", "Hangul": "Korean letters", "Hiragana": "Japanese", "Katakana": "Japanese"}

// writtenIn says in which script the first letter is that the face lacks. Without one, the text is
// made of symbols, or of letters with marks that the face cannot place.
func (s *setter) writtenIn(text string) string {
	for _, r := range text {
		if unicode.IsMark(r) && (r < '\ufe00' || r > '\ufe0f') {
			return "letters with marks"
		}
		if i, err := face.GlyphIndex(&s.buffer, r); err == nil && i != 0 || !unicode.IsLetter(r) {
			continue
		}
		for name, table := range unicode.Scripts {
			if unicode.Is(table, r) && name != "Common" {
				return cmp.Or(scripts[name], strings.ReplaceAll(name, "_", " ")+" letters")
			}
		}
	}
	return "symbols or emoji"
}

// width is that of a line, in 1/64 of a unit.
func (s *setter) width(text string, size float64) (width fixed.Int26_6) {
	s.each(text, size, func(_ sfnt.GlyphIndex, _, end fixed.Int26_6) { width = end })
	return width
}

// each gives the glyphs of a line, with where each begins and ends.
func (s *setter) each(text string, size float64, f func(i sfnt.GlyphIndex, from, to fixed.Int26_6)) {
	ppem := fixed.Int26_6(size * 64)
	var x fixed.Int26_6
	var before sfnt.GlyphIndex
	for _, r := range text {
		i, err := face.GlyphIndex(&s.buffer, r)
		if err != nil || i == 0 {
			continue
		}
		if k, err := face.Kern(&s.buffer, before, i, ppem, font.HintingNone); err == nil && before != 0 {
			x += k
		}
		advance, err := face.GlyphAdvance(&s.buffer, i, ppem, font.HintingNone)
		if err != nil {
			continue
		}
		f(i, x, x+advance)
		x, before = x+advance, i
	}
}

// Where a line is, relative to its point.
const (
	start = iota
	centre
)

// line returns the outline of a line of text with its base line at y.
func (s *setter) line(text string, size, x, y float64, align int) *outline {
	o, from := new(outline), at(x, y)
	if align == centre {
		from.X -= s.width(text, size) / 2
	}
	s.each(text, size, func(i sfnt.GlyphIndex, x, _ fixed.Int26_6) {
		segments, err := face.LoadGlyph(&s.buffer, i, fixed.Int26_6(size*64), nil)
		if err != nil {
			return
		}
		move := fixed.Point26_6{X: from.X + x, Y: from.Y}
		for _, g := range segments {
			switch g.Op {
			case sfnt.SegmentOpMoveTo:
				o.moveTo(g.Args[0].Add(move))
			case sfnt.SegmentOpLineTo:
				o.lineTo(g.Args[0].Add(move))
			case sfnt.SegmentOpQuadTo:
				o.curveTo(g.Args[0].Add(move), g.Args[1].Add(move))
			case sfnt.SegmentOpCubeTo:
				o.curveTo(g.Args[0].Add(move), g.Args[1].Add(move), g.Args[2].Add(move))
			}
		}
	})
	return o
}

// wrap breaks a text into lines of at most so many units, at spaces, and inside a word that
// is longer than a line. whole says whether the text fits into so many lines; if not, the
// last of them ends in an ellipsis.
func (s *setter) wrap(text string, size, width float64, lines int) (_ []string, broken, whole bool) {
	limit := fixed.Int26_6(width * 64)
	var all []string
	line := ""
	for _, word := range strings.Fields(text) {
		joined := strings.TrimPrefix(line+" "+word, " ")
		if s.width(joined, size) <= limit {
			line = joined
			continue
		}
		if line != "" {
			all = append(all, line)
		}
		for s.width(word, size) > limit && len(all) < lines {
			cut := s.fits(word, size, limit)
			all, word, broken = append(all, word[:cut]), word[cut:], true
		}
		if line = word; len(all) >= lines {
			break
		}
	}
	if line != "" {
		all = append(all, line)
	}
	if len(all) <= lines {
		return all, broken, true
	}
	last := all[lines-1] + "…"
	for runes := []rune(all[lines-1]); s.width(last, size) > limit && len(runes) > 1; {
		runes = runes[:len(runes)-1]
		last = strings.TrimRight(string(runes), " ") + "…"
	}
	return append(all[:lines-1], last), broken, false
}

// fits gives how many bytes of a word fit into a line: at least its first character, and up
// to a character after which words are broken, if the second half of the line has one.
func (s *setter) fits(word string, size float64, limit fixed.Int26_6) int {
	good, before := 0, 0
	for i := range word {
		if i == 0 {
			continue
		}
		width := s.width(word[:i], size)
		if width > limit {
			return cmp.Or(good, before, i)
		}
		if before = i; strings.ContainsRune(".-/_", rune(word[i-1])) && 2*width > limit {
			good = i
		}
	}
	return cmp.Or(good, len(word))
}
