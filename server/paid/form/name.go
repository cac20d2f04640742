package form

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mtibben/confusables"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// NamePolicy refuses names with words by which a member would pass for the ring, or claim
// what only the ring can say (server/HANDBOOK.md, "Members"): "official", "verified",
// "admin", "rank" with a number, a check mark, and the ring's own name. Categories are refused
// with the same words, but for a ring's name of one word: a ring called Agents can have a
// category agents. It is read-only and safe for concurrent use.
type NamePolicy struct {
	// Allow are words, or sequences of words, that names may hold nevertheless.
	Allow []string
}

// titles are the reserved words that are the same in every ring, with a misspelling that readers overlook.
var titles = []string{"official", "offical", "verified", "admin", check}

// check is the word that stands for each of checks. It reads as if the ring had verified
// the member.
const (
	check  = "\u2713"
	checks = "\u2713\u2714\u2705\u2611\U0001f5f8\U0001f5f9\U0001f5f5\U0001f5f6\u237b\U00010102\U0001fbb1"
)

// Validate reports the first entry that allows nothing.
func (p NamePolicy) Validate() error {
	for _, allowed := range p.Allow {
		if len(words(allowed)) == 0 {
			return fmt.Errorf("allowed name %q has neither a letter nor a digit nor a check mark", allowed)
		}
	}
	return nil
}

// check refuses a name that holds a reserved word, in the ring with this name. Its
// errors go on after the name of the field.
func (p NamePolicy) check(name, ring string) error {
	// The slug is shown too, and spells in ASCII what the name spells in any script.
	for _, text := range append(readings(name), Slugify(name)) {
		if err := p.checkWords(p.cut(words(text)), ring); err != nil {
			return err
		}
	}
	return nil
}

// In gives the check of names and categories in the ring with this name. Its errors go on
// after the name of the field.
func (p NamePolicy) In(ring string) func(field, text string) error {
	return func(field, text string) error {
		if field == "category" && len(words(ring)) < 2 {
			return p.check(text, "")
		}
		return p.check(text, ring)
	}
}

// cut gives the words with each allowed one replaced by an empty one.
func (p NamePolicy) cut(all []word) []word {
	left := slices.Clone(all)
	for _, allowed := range p.Allow {
		for _, text := range readings(allowed) {
			together := Fold(text)
			for i := range all {
				clear(left[i : i+begins(all[i:], together)])
			}
		}
	}
	return left
}

func (p NamePolicy) checkWords(all []word, ring string) error {
	number := slices.ContainsFunc(all, func(w word) bool { return w.number })
	own := Fold(ring)
	for i := range all {
		for _, title := range titles {
			switch {
			case begins(all[i:], Fold(title)) == 0:
			case title == check:
				return errors.New("must not hold a check mark: it would read as if the ring had verified the member")
			default:
				return fmt.Errorf("must not hold the word %q: it would read as if the ring said so", title)
			}
		}
		switch {
		case number && begins(all[i:], "rank") > 0:
			return errors.New(`must not hold the word "rank" with a number: it would read as if the ring said so`)
		case begins(all[i:], own) > 0:
			return errors.New("must not hold the name of the ring")
		}
	}
	return nil
}

// begins says how many words at the beginning of all spell together, which [Fold] has
// given, wherever spaces divide them; 0 if they do not.
func begins(all []word, together string) int {
	together = pairs.Replace(together)
	for n, spelled := 0, ""; n < len(all) && all[n].spelled != ""; n++ {
		// A pair of letters can be divided, too.
		spelled += all[n].spelled
		switch pair := pairs.Replace(spelled); {
		case pair == together:
			return n + 1
		case len(pair) > len(together)+1:
			return 0
		}
	}
	return 0
}

// Fold gives the words of a text without spaces, in the form in which words are compared:
// without case, accents and the forms of letters.
func Fold(text string) string {
	var b strings.Builder
	for _, w := range words(text) {
		b.WriteString(w.spelled)
	}
	return b.String()
}

// Phrases gives each word of some texts, and each sequence of words up to a length in bytes,
// as [Fold] spells it in each of the readings, and with one letter for two that look like it.
func Phrases(longest int, texts ...string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, text := range texts {
			for _, reading := range readings(text) {
				all := words(reading)
				for i := range all {
					for n, together := i, ""; n < len(all) && len(together) < longest; n++ {
						together += all[n].spelled
						if !yield(together) || !yield(pairs.Replace(together)) {
							return
						}
					}
				}
			}
		}
	}
}

// word is a run of letters, or of digits.
type word struct {
	spelled string // without regard to case, accents and forms of letters: see spell
	number  bool
}

// words gives the words of a text. Letters and digits are words apart, and so are letters of
// East Asia, before and after which no space is written, and others. Each check mark is one.
func words(text string) (all []word) {
	var letters []rune // of the word that is being read
	end := func() {
		if len(letters) > 0 {
			all = append(all, word{fold(letters), unicode.IsNumber(letters[0])})
			letters = letters[:0]
		}
	}
	for _, r := range norm.NFKD.String(text) {
		r = boxed(r)
		if unicode.Is(unicode.Mc, r) { // some look like letters of their own
			if like := confusables.Skeleton(string(r)); like != "" && isASCII(like) {
				r = rune(like[0])
			}
		}
		switch {
		case unicode.In(r, unicode.M, unicode.Cf):
		case strings.ContainsRune(checks, r):
			end()
			all = append(all, word{spelled: check})
		case !unicode.IsLetter(r) && !unicode.IsNumber(r):
			end()
		default:
			if len(letters) > 0 && (unicode.IsNumber(letters[0]) != unicode.IsNumber(r) || eastAsian(letters[0]) != eastAsian(r)) {
				end()
			}
			letters = append(letters, r)
		}
	}
	end()
	return all
}

func eastAsian(r rune) bool {
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo)
}

// fold spells a word in small letters of ASCII if all its letters look like some, so that no
// other alphabet disguises a word. A word that has others is folded without them: its
// letters are those of its own alphabet.
func fold(letters []rune) string {
	var b strings.Builder
	for _, r := range letters {
		if !latin(&b, r) {
			folded := norm.NFKD.String(cases.Fold().String(string(letters)))
			return alike.Replace(strings.Map(func(r rune) rune {
				if unicode.Is(unicode.M, r) {
					return -1
				}
				return r
			}, folded))
		}
	}
	return b.String()
}

// latin appends the ASCII letters or digits that r looks like, by Unicode's table of
// confusable characters (UTS 39) and by what that leaves out. It says false if there are none.
func latin(b *strings.Builder, r rune) bool {
	for _, form := range [...]string{string(r), cases.Fold().String(string(r))} {
		plain := alike.Replace(strings.ToLower(alike.Replace(form)))
		if !isASCII(plain) {
			plain = confusables.Skeleton(form)
			// A mark, which some letters have, is no letter.
			plain = strings.Map(func(r rune) rune {
				if unicode.Is(unicode.M, r) || r == '\'' {
					return -1
				}
				return r
			}, plain)
			plain = alike.Replace(strings.ToLower(alike.Replace(plain)))
		}
		if plain != "" && isASCII(plain) {
			b.WriteString(plain)
			return true
		}
	}
	return false
}

// readings gives a text as it is, and as it is drawn. [Fold] decomposes letters and folds their case
// before it looks what they are like, so a lunate sigma is a sigma there, and readers see a c. A long s is
// read as an s and as an f.
func readings(text string) (all []string) {
	all = append(all, text)
	for _, text := range [...]string{norm.NFD.String(text), strings.ReplaceAll(norm.NFD.String(text), "\u017f", "s")} {
		var b strings.Builder
		for _, r := range text {
			if r >= utf8.RuneSelf && unicode.In(r, unicode.L, unicode.N) {
				b.WriteString(drawn(string(r)))
			} else {
				b.WriteRune(r)
			}
		}
		if !slices.Contains(all, b.String()) {
			all = append(all, b.String())
		}
	}
	return all
}

// drawn gives the ASCII letters or digits that a letter is drawn like: by the skeleton of UTS 39 and by
// folding, in turn until nothing changes. It gives the letter itself if there are none.
func drawn(letter string) string {
	seen := []string{letter}
	for {
		like := strings.Map(func(r rune) rune {
			if unicode.Is(unicode.M, r) || r == '\'' {
				return -1
			}
			return r
		}, confusables.Skeleton(drawnLike.Replace(letter)))
		if plain := strings.ToLower(like); isASCII(plain) && plain != "" {
			return plain
		}
		if letter = cases.Fold().String(like); letter == "" || slices.Contains(seen, letter) {
			return seen[0]
		}
		seen = append(seen, letter)
	}
}

// drawnLike writes letters of ASCII for those that the table of UTS 39 leaves out or takes for others, and that
// are read as these in a word of Latin letters. It may grow: what is stored was not folded by it.
var drawnLike = replacer("aⲀⲁΛɅʌ", "bⲃ", "eⲈⲉ", "fҒғᖷꟻ", "hⲏ", "iᏆꮖⲓ", "kⲕҜҝ", "mⲙ", "nИиᴎⲛ\U0001033d", "rЯяᴙ", "tⲧ", "xⲭ", "yⲩ")

func isASCII(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// boxed gives the letter in a box or a disc, for which Unicode has no compatible form.
func boxed(r rune) rune {
	for _, first := range [...]rune{'\U0001f150', '\U0001f170', firstRegion} {
		if r >= first && r < first+26 {
			return 'A' + r - first
		}
	}
	return r
}

// pairs writes one letter for two that are drawn like it.
var pairs = strings.NewReplacer("vv", "w", "rn", "m")

// alike writes one letter for those that most fonts draw as one: the commonest of
// Latin, Cyrillic and Greek, and two digits. What is stored of the blocklist was folded by it,
// so what it writes for a letter stays. The second part of a group is what UTS 39
// leaves out: small capitals, and syllables of Canada that are written for letters.
var alike = replacer("aаαɑᴀᗩᴬ", "bвʙ", "cсᴄᑕᑢ", "dԁᴅ", "eеεᴇᕮ", "fꜰᖴ", "gɡɢ", "hнһʜ", "i1lıіιӏɪʟ", "jјᴊ", "kкκᴋĸ", "mмᴍʍ", "nɴᑎ",
	"o0оοօᴏᓍ", "pрρᴘ", "qǫᑫ", "rʀᖇ", "sѕꜱᔕ", "tтτᴛ", "uᴜᑌ", "vνѵᴠ", "wԝᴡᗯ", "xхχ᙭", "yуγʏ", "zᴢᘔ")

// replacer writes the first letter of each group for the others.
func replacer(groups ...string) *strings.Replacer {
	var all []string
	for _, group := range groups {
		letters := strings.Split(group, "")
		for _, other := range letters[1:] {
			all = append(all, other, letters[0])
		}
	}
	return strings.NewReplacer(all...)
}
