package content

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

func FuzzIfNoneMatch(f *testing.F) {
	f.Add(`"a", W/"b"`)
	f.Add(`"unclosed`)
	f.Add(`,,W/`)
	tag := []byte(`"0a1b-12-34"`)
	f.Fuzz(func(t *testing.T, list string) {
		var h fasthttp.RequestHeader
		h.Set("If-None-Match", list)
		if Unchanged(h.PeekAll("If-None-Match"), tag) && !strings.Contains(list, string(tag)) && strings.Trim(list, " \t\r\n") != "*" {
			t.Errorf("%q names the tag", list)
		}
		h.Set("If-None-Match", "W/"+string(tag)+", "+list)
		if !Unchanged(h.PeekAll("If-None-Match"), tag) {
			t.Errorf("%q hides the tag before it", list)
		}
	})
}
