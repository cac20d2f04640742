package edge

import (
	"image"
	"image/png"
	"regexp"
	"strings"
	"testing"

	"webring/static"
)

// The picture that a page names for previews is there, as large as it says.
func TestPagesNameTheirCards(t *testing.T) {
	s := serve(t, Config{Core: newRing(t)})
	image1200 := regexp.MustCompile(`<meta property="og:image" content="https://ring\.example(/[^"]*)">`)
	for path, card := range map[string]string{"/": "/card.png", "/members/alpha": "/cards/alpha.png"} {
		named := image1200.FindStringSubmatch(s.Get(path).Body)
		if named == nil || named[1] != card {
			t.Errorf("%s names %q, want %s", path, named, card)
			continue
		}
		r := s.Get(card)
		wantFields(t, r, "Content-Type", "image/png", "Vary", "")
		if age := r.Header.Get("Cache-Control"); !strings.HasPrefix(age, "public, max-age=") {
			t.Errorf("%s: %s", card, age)
		}
		if m, err := png.Decode(strings.NewReader(r.Body)); err != nil || m.Bounds() != image.Rect(0, 0, 1200, 630) {
			t.Errorf("%s: %v, %v", card, m, err)
		}
		wantCommon(t, r)
	}
	if r := s.Get("/members/alpha"); !strings.Contains(r.Body, `<meta property="og:image:alt" content="Alpha &amp; Co (alpha.example) has rank 1 of 3 in Test &lt;Ring&gt;.">`) {
		t.Error("the card is not described")
	}
	if m, err := png.Decode(strings.NewReader(s.Get("/badge/alpha.png").Body)); err != nil || m.Bounds() != image.Rect(0, 0, 88, 31) {
		t.Errorf("the button: %v, %v", m, err)
	}
	for _, icon := range static.Icons {
		if r := s.Get(icon.Path); r.Status != 200 || r.Body != string(icon.Body) {
			t.Errorf("%s: status %d, %d bytes", icon.Path, r.Status, len(r.Body))
		}
	}
}
