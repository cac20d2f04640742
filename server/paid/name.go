package paid

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// NamePolicy refuses names with words by which a member would pass for the ring, or claim
// what only the ring can say (server/README.md, "Members"): "official", "verified",
// "admin", "rank" with a number, and the ring's own name. It is read-only and safe for
// concurrent use.
type NamePolicy struct {
	// Allow are words, or sequences of words, that names may hold nevertheless.
	Allow []string
}

// titles are the reserved words that are the same in every ring.
var titles = []string{"official", "verified", "admin"}

// Validate reports the first entry that allows nothing.
func (p NamePolicy) Validate() error {
	for _, allowed := range p.Allow {
		if len(words(allowed)) == 0 {
			return fmt.Errorf("allowed name %q has neither a letter nor a digit", allowed)
		}
	}
	return nil
}

// check refuses a name that holds a reserved word, in the ring with this name. Its
// errors go on after the name of the field.
func (p NamePolicy) check(name, ring string) error {
	// The slug is shown too, and spells in ASCII what the name spells in any script.
	for _, text := range [...]string{name, slugify(name)} {
		if err := p.checkWords(p.cut(words(text)), ring); err != nil {
			return err
		}
	}
	return nil
}

// cut gives the words with each allowed one replaced by an empty one.
func (p NamePolicy) cut(all []string) []string {
	left := slices.Clone(all)
	for _, allowed := range p.Allow {
		together := joined(allowed)
		for i := range all {
			clear(left[i : i+begins(all[i:], together)])
		}
	}
	return left
}

func (p NamePolicy) checkWords(all []string, ring string) error {
	number := slices.ContainsFunc(all, func(w string) bool { return strings.IndexFunc(w, unicode.IsNumber) == 0 })
	own := joined(ring)
	for i := range all {
		for _, title := range titles {
			if begins(all[i:], joined(title)) > 0 {
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

// begins says how many words at the beginning of all spell together, which [joined] has
// folded, wherever spaces divide them; 0 if they do not.
func begins(all []string, together string) int {
	for n, word := range all {
		rest, ok := strings.CutPrefix(together, alike.Replace(word))
		switch {
		case !ok || word == "":
			return 0
		case rest == "":
			return n + 1
		}
		together = rest
	}
	return 0
}

// joined gives the words of a text without spaces, folded by [alike].
func joined(text string) string { return alike.Replace(strings.Join(words(text), "")) }

// words gives the words of a text without regard to case, accents and compatibility
// forms. Letters and digits are words apart.
func words(text string) []string {
	folded := norm.NFKD.String(cases.Fold().String(norm.NFKD.String(text)))
	var all []string
	var last rune // of the word before, 0 behind what separates words
	for _, r := range folded {
		switch {
		case unicode.Is(unicode.M, r):
		case !unicode.IsLetter(r) && !unicode.IsNumber(r):
			last = 0
		case last == 0 || unicode.IsNumber(last) != unicode.IsNumber(r):
			all = append(all, string(r))
			last = r
		default:
			all[len(all)-1] += string(r)
			last = r
		}
	}
	return all
}

// alike writes one letter for those that most fonts draw as one: the commonest of
// Latin, Cyrillic and Greek, and two digits. It is a hurdle and no proof: Unicode's
// list of confusables has thousands.
var alike = func() *strings.Replacer {
	var pairs []string
	for _, group := range [...]string{"aаαɑ", "bв", "cс", "dԁ", "eеε", "gɡ", "hнһ", "i1lıіιӏ", "jј", "kкκ", "mм",
		"o0оοօ", "pрρ", "sѕ", "tтτ", "vνѵ", "wԝ", "xхχ", "yуγ"} {
		letters := strings.Split(group, "")
		for _, other := range letters[1:] {
			pairs = append(pairs, other, letters[0])
		}
	}
	return strings.NewReplacer(pairs...)
}()
