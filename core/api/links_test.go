package api_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
)

// Words of all lengths around those at which they are copied otherwise.
func TestLinksAreWholeForWordsOfAllLengths(t *testing.T) {
	for _, base := range []string{"http://r.example", "https://r." + strings.Repeat("b", 14) + ".example", "https://r." + strings.Repeat("b", 15) + ".example", "https://r.example/" + strings.Repeat("b", 200)} {
		r := coretest.NewRing(t, func(e *core.Rules) { e.BaseURL = base })
		var slugs, urls []string
		for n := range 45 {
			slugs = append(slugs, fmt.Sprintf("%02d", n)+strings.Repeat("s", n))
			urls = append(urls, fmt.Sprintf("https://h%02d.example/", n)+strings.Repeat("p", n))
			r.Join(slugs[n], urls[n])
		}
		r.Advance(r.Clock())
		for n, slug := range slugs {
			var res api.Response
			api.Serve(r.State, []byte("/api/ring/"+slug), 0, &res)
			var got struct {
				Member struct {
					Slug, URL string
					Links     struct{ Self, Next, Prev, Site string }
				}
			}
			if err := json.Unmarshal(res.Body, &got); err != nil {
				t.Fatalf("%v: %s", err, res.Body)
			}
			m, l := got.Member, got.Member.Links
			if m.Slug != slug || m.URL != urls[n] || l.Self != base+"/api/ring/"+slug || l.Next != base+"/api/ring/next?from="+slug ||
				l.Prev != base+"/api/ring/prev?from="+slug || l.Site != urls[n] {
				t.Errorf("%s: %s", slug, res.Body)
			}
		}
	}
}
