package static

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"path"
	"regexp"
	"testing"
)

func TestAPathChangesWithItsContent(t *testing.T) {
	one, two := named("/x", "css", []byte("a")), named("/x", "css", []byte("b"))
	if one == two {
		t.Errorf("%s for both", one)
	}
	if again := named("/x", "css", []byte("a")); again != one {
		t.Errorf("%s became %s", one, again)
	}
}

func TestAssets(t *testing.T) {
	form := regexp.MustCompile(`^(/static)?/[a-z]+-[0-9a-f]{16}\.[a-z0-9]+$`)
	for _, a := range Assets() {
		if !form.MatchString(a.Path) || len(a.Body) == 0 || a.Type == "" {
			t.Errorf("%s, %s, %d bytes", a.Path, a.Type, len(a.Body))
		}
	}
}

func TestIntegrityIsTheDigestOfTheBody(t *testing.T) {
	sum := sha512.Sum384(Widget.Body)
	if want := "sha384-" + base64.StdEncoding.EncodeToString(sum[:]); Widget.Integrity() != want {
		t.Errorf("%s, want %s", Widget.Integrity(), want)
	}
}

// The style sheet loads the face by the path at which it is served, and its fallbacks are
// faces of the reader's system.
func TestTheFaceIsSmallAndNamedByTheStyleSheet(t *testing.T) {
	if len(Face.Body) > 20<<10 {
		t.Errorf("the face has %d bytes", len(Face.Body))
	}
	if want := []byte("url(" + path.Base(Face.Path) + ")"); bytes.Count(Style.Body, want) != 1 || bytes.Count(Style.Body, []byte("url(")) != 1 {
		t.Errorf("the style sheet does not load %s alone", want)
	}
	if !bytes.HasPrefix(FaceTTF, []byte{0, 1, 0, 0}) {
		t.Errorf("the outlines begin with %x", FaceTTF[:4])
	}
}

// Only what has faded of a bar is pale: where a bar is empty it has a border alone.
func TestOnlyWhatHasFadedOfABarIsPale(t *testing.T) {
	rule := regexp.MustCompile(`(?m)^\.lb-bar \{.*$`).Find(Style.Body)
	if rule == nil || bytes.Contains(rule, []byte("background")) {
		t.Errorf("%q", rule)
	}
}

// Pages on which a wallet may be used have this script besides the others.
func TestTheScriptThatAsksWalletsIsSmall(t *testing.T) {
	if small := compressed(t, Pay.Body); small > 12<<10 {
		t.Errorf("%d bytes compressed; 12288 are the most", small)
	}
}

// Members put the widget on their own pages: it has a budget.
func TestTheWidgetIsSmall(t *testing.T) {
	if raw, small := len(Widget.Body), compressed(t, Widget.Body); raw > 6144 || small > 2560 {
		t.Errorf("%d bytes, %d compressed; 6144 and 2560 are the most", raw, small)
	}
}

// compressed is the size of a file as clients fetch it.
func compressed(t *testing.T, body []byte) int {
	t.Helper()
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Len()
}
