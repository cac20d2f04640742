package form

import (
	"strconv"
	"strings"

	"github.com/mozillazg/go-unidecode"
	"golang.org/x/text/unicode/norm"

	"webring/core"
)

// reservedSlugs are path segments at the place of {slug} in /api/ring/{slug} that mean something
// else.
var reservedSlugs = map[string]bool{"next": true, "prev": true, "random": true}

// SlugBase derives the slug that a member would like to have from its name, or
// from the host of its URL when the name has no letter or digit that can be
// spelled in ASCII (core/README.md, "Identity"). The result matches
// ^[a-z0-9]+(-[a-z0-9]+)*$ and has at most [core.MaxSlug] bytes; it may be
// reserved or taken.
func SlugBase(name, host string) string {
	for _, text := range []string{name, host} {
		if slug := Slugify(text); slug != "" {
			return slug
		}
	}
	// A host without letters and digits does not exist; a slug must.
	return "member"
}

// Slugify decomposes (NFKD), transliterates, lower-cases, and joins what is
// left of letters and digits with hyphens.
func Slugify(text string) string {
	ascii := strings.ToLower(unidecode.Unidecode(norm.NFKD.String(text)))
	words := strings.FieldsFunc(ascii, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
	return cutSlug(strings.Join(words, "-"), core.MaxSlug)
}

// UniqueSlug gives base, or base with the first of "-2", "-3" and so on that
// makes it neither reserved nor taken, shortened so that all of it fits
// [core.MaxSlug]. taken must also know the slugs of removed members, and must
// be false for some number.
func UniqueSlug(base string, taken func(string) bool) string {
	slug := base
	for n := 2; reservedSlugs[slug] || taken(slug); n++ {
		suffix := "-" + strconv.Itoa(n)
		slug = cutSlug(base, core.MaxSlug-len(suffix)) + suffix
	}
	return slug
}

// cutSlug shortens slug to at most n bytes without leaving a hyphen at its end.
func cutSlug(slug string, n int) string {
	if len(slug) > n {
		slug = slug[:n]
	}
	return strings.TrimRight(slug, "-")
}
