package static

import (
	"regexp"
	"testing"
)

func TestAPathChangesWithItsContent(t *testing.T) {
	one, two := named("x", "css", "text/css", []byte("a")), named("x", "css", "text/css", []byte("b"))
	if one.Path == two.Path || one.ETag == two.ETag {
		t.Errorf("%s and %s", one.Path, two.Path)
	}
	if again := named("x", "css", "text/css", []byte("a")); again.Path != one.Path || again.ETag != one.ETag {
		t.Errorf("%s became %s", one.Path, again.Path)
	}
}

func TestAssets(t *testing.T) {
	form := regexp.MustCompile(`^/static/[a-z]+-[0-9a-f]{16}\.[a-z]+$`)
	for _, a := range Assets() {
		if !form.MatchString(a.Path) || len(a.Body) == 0 || a.Type == "" {
			t.Errorf("%s, %s, %d bytes", a.Path, a.Type, len(a.Body))
		}
	}
}
