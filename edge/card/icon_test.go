package card

import (
	"bytes"
	"os"
	"testing"

	"webring/static"
)

// The icons among the files of the pages are those that are drawn here.
func TestTheIconsAreTheseFiles(t *testing.T) {
	drawn := map[string][]byte{"/favicon.ico": Favicon(), "/apple-touch-icon.png": TouchIcon()}
	for _, icon := range static.Icons {
		if *update {
			if err := os.WriteFile("../../static"+icon.Path, drawn[icon.Path], 0o644); err != nil {
				t.Fatal(err)
			}
		} else if !bytes.Equal(icon.Body, drawn[icon.Path]) {
			t.Errorf("static%s is not what is drawn; run with -update", icon.Path)
		}
	}
}
