package form

import (
	"regexp"
	"strings"
	"testing"
)

func TestSlugIsMadeFromTheName(t *testing.T) {
	for _, c := range []struct{ name, host, want string }{
		{"Acme", "acme.com", "acme"},
		{"Acme  Agents, Inc.", "acme.com", "acme-agents-inc"},
		{"--Acme--", "acme.com", "acme"},
		{"Bob's Bots", "x.com", "bob-s-bots"},
		{"Ångström Łódź Straße", "x.com", "angstrom-lodz-strasse"},
		{"ﬁne ① ½ 𝔘nicode", "x.com", "fine-1-1-2-unicode"},
		{"北京", "x.com", "bei-jing"},
		{"Ελλάδα", "x.com", "ellada"},
		{"Привет", "x.com", "privet"},
		{"한국", "x.com", "hangug"},
		{"🚀", "rocket.example.com", "rocket-example-com"},
		{"!!!", "xn--bcher-kva.de", "xn-bcher-kva-de"},
		{"", "", "member"},
		{"next", "x.com", "next"},
		{strings.Repeat("a", 60), "x.com", strings.Repeat("a", 48)},
		{strings.Repeat("a", 47) + " b", "x.com", strings.Repeat("a", 47)},
	} {
		if got := SlugBase(c.name, c.host); got != c.want {
			t.Errorf("SlugBase(%q, %q) = %q, want %q", c.name, c.host, got, c.want)
		}
	}
}

func TestSlugIsNeitherReservedNorTaken(t *testing.T) {
	long := strings.Repeat("a", 48)
	for _, c := range []struct {
		base  string
		taken []string
		want  string
	}{
		{"acme", nil, "acme"},
		{"acme", []string{"acme"}, "acme-2"},
		{"acme", []string{"acme", "acme-2", "acme-3"}, "acme-4"},
		{"acme", []string{"acme-2"}, "acme"},
		{"next", nil, "next-2"},
		{"prev", nil, "prev-2"},
		{"random", []string{"random-2"}, "random-3"},
		{long, []string{long}, long[:46] + "-2"},
		{long[:45] + "-bc", []string{long[:45] + "-bc"}, long[:45] + "-2"},
	} {
		taken := map[string]bool{}
		for _, s := range c.taken {
			taken[s] = true
		}
		if got := UniqueSlug(c.base, func(s string) bool { return taken[s] }); got != c.want || len(got) > 48 {
			t.Errorf("UniqueSlug(%q, %v) = %q, want %q", c.base, c.taken, got, c.want)
		}
	}
}

func FuzzSlugBase(f *testing.F) {
	form := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	for _, s := range []string{"Acme", "北京 🚀", "\xff--\x00", "İ½"} {
		f.Add(s, "a.com")
	}
	f.Fuzz(func(t *testing.T, name, host string) {
		slug := SlugBase(name, host)
		if !form.MatchString(slug) || len(slug) > 48 {
			t.Fatalf("SlugBase(%q, %q) = %q", name, host, slug)
		}
		if slug != SlugBase(slug, host) {
			t.Fatalf("slug of %q is %q", slug, SlugBase(slug, host))
		}
		taken := map[string]bool{slug: true, slug + "-2": true}
		next := UniqueSlug(slug, func(s string) bool { return taken[s] })
		if !form.MatchString(next) || len(next) > 48 || taken[next] {
			t.Fatalf("UniqueSlug(%q) = %q", slug, next)
		}
	})
}
