package main

import (
	"bytes"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

var (
	// hole is what stands where a template, a format or a script had nothing to put.
	hole = regexp.MustCompile(`<no value>|<nil>|%!|\[object |#?ZgotmplZ|\b(undefined|NaN)\b|\bmap\[[a-z]+:|\b0001-01-01|\{\{`)
	// hop is where the ring leads on.
	hop = regexp.MustCompile(`^(/api/ring)?/(next|prev|random)$`)
	// shown is an address of the ring in a text.
	shown = regexp.MustCompile(`https?://[^\s<>"'` + "`" + `()\\]+`)
	// numbered are parts of paths of which there are many with the same page.
	numbered = regexp.MustCompile(`^/(members|ring|api/ring|cards|badge|feeds/members|categories|problems|reports|sitemaps|log|static|next|prev)/.*`)
)

// reader reads all that a node shows, from its front page on.
type reader struct {
	o      *origin
	base   string             // as the ring names itself
	pages  map[string]*page   // by target
	kinds  map[string]int     // targets that were looked into, by what they have in common
	leads  map[string]linking // links yet to be looked at, by target
	looked int
	empty  bool // no member is there to go to
}

type linking struct{ from, fragment string }

// page is an answer with the names of its parts.
type page struct {
	status int
	ids    map[string]bool
}

// lead notes that something leads to an address.
func (r *reader) lead(from, address string) {
	at, err := url.Parse(strings.TrimRight(address, ".,;:"))
	if err != nil || strings.ContainsAny(address, "{}…") {
		return // to be filled in
	}
	base, _ := url.Parse(r.base + from)
	at = base.ResolveReference(at)
	if at.Scheme+"://"+at.Host != r.base {
		return
	}
	r.leads[at.RequestURI()+"\x00"+at.Fragment] = linking{from, at.Fragment}
}

// text holds a text to have no holes.
func (r *reader) text(target, text string) {
	if at := hole.FindStringIndex(text); at != nil {
		r.o.t.Errorf("%s: %q", target, text[max(0, at[0]-40):min(len(text), at[1]+40)])
	}
}

// walk reads the words and links of a page.
func (r *reader) walk(target string, n *html.Node, p *page) {
	for _, a := range n.Attr {
		switch a.Key {
		case "id", "name":
			p.ids[a.Val] = true
		case "href", "src", "data", "poster":
			r.lead(target, a.Val)
		case "srcset":
			for _, one := range strings.Split(a.Val, ",") {
				r.lead(target, strings.Fields(one)[0])
			}
		case "action":
			if !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "method" && strings.EqualFold(a.Val, "post") }) {
				r.lead(target, a.Val)
			}
		}
		r.text(target, a.Val)
	}
	if n.Type == html.TextNode && n.Parent.Data != "script" && n.Parent.Data != "style" {
		r.text(target, n.Data)
	}
	for c := range n.ChildNodes() {
		r.walk(target, c, p)
	}
}

// read reads an answer, unless many of its kind were read before.
func (r *reader) read(target string, got reply) *page {
	p := &page{got.Status, map[string]bool{}}
	kind, _, _ := strings.Cut(target, "?")
	kind = numbered.ReplaceAllString(kind, "/$1/…")
	if r.kinds[kind]++; r.kinds[kind] > 12 {
		return p
	}
	r.looked++
	media, _, _ := strings.Cut(got.Header.Get("Content-Type"), ";")
	switch {
	case media == "text/html":
		tree, err := html.Parse(bytes.NewReader(got.Body))
		if err != nil {
			r.o.t.Fatal(err)
		}
		r.walk(target, tree, p)
	case media == "text/javascript" || media == "text/css":
	case strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "json") || strings.HasSuffix(media, "xml"):
		r.text(target, string(got.Body))
		if media == "text/markdown" && !strings.HasSuffix(target, ".md") {
			break // the links of a page were seen in HTML, and the rest are examples
		}
		for _, address := range shown.FindAllString(string(got.Body), -1) {
			r.lead(target, address)
		}
	}
	return p
}

// all follows every link until there is no other.
func (r *reader) all(from ...string) {
	for _, path := range from {
		r.lead("/", path)
	}
	for len(r.leads) > 0 {
		leads := r.leads
		r.leads = map[string]linking{}
		for _, key := range slices.Sorted(maps.Keys(leads)) {
			target, fragment, _ := strings.Cut(key, "\x00")
			p := r.pages[target]
			if p == nil {
				p = r.read(target, r.o.get(target, "Accept", "text/html"))
				r.pages[target] = p
				if p.status == http.StatusOK {
					r.read(target, r.o.get(target, "Accept", "text/markdown"))
				}
			}
			itself := strings.TrimSuffix(target, "#"+fragment) == leads[key].from
			dead := p.status >= 400 && p.status != http.StatusMethodNotAllowed && !(r.empty && hop.MatchString(target))
			if dead && !itself || fragment != "" && len(p.ids) > 0 && !p.ids[fragment] {
				r.o.t.Errorf("%s leads to %s#%s, status %d", leads[key].from, target, fragment, p.status)
			}
		}
	}
}

// TestEveryPageIsWholeAndEveryLinkLeadsSomewhere reads all that each kind of node shows, of a ring
// with everything and of one that has yet to begin.
func TestEveryPageIsWholeAndEveryLinkLeadsSomewhere(t *testing.T) {
	t.Parallel()
	secret := secretFile(t)
	full := syntheticRing(t, "40", "--terms", "https://operator.dev/terms", "--report", "mailto:abuse@operator.dev", "--edge-secret-file", secret)
	members := full.get("/api/ring?limit=2").document(t)
	slug, gone := at(t, members, "members", 0, "slug").(string), at(t, members, "members", 1, "slug").(string)
	if said, err := full.operate("members", "remove", gone, "--reason", "test"); err != nil {
		t.Fatal(err, said)
	}
	bare, key := ring(t, "--edge-secret-file", secret), full.verifier()
	for name, c := range map[string]struct {
		o    *origin
		node func(t *testing.T) *origin
	}{
		"an origin":            {full, func(*testing.T) *origin { return full }},
		"an edge":              {full, func(t *testing.T) *origin { return full.follow(t, key, "--edge-secret-file", secret) }},
		"a Worker":             {full, func(t *testing.T) *origin { return startWorker(t, full.base, key, secretOf(t, secret)).origin }},
		"an empty ring":        {bare, func(*testing.T) *origin { return bare }},
		"an empty ring's edge": {bare, func(t *testing.T) *origin { return bare.follow(t, bare.verifier(), "--edge-secret-file", secret) }},
	} {
		t.Run(name, func(t *testing.T) {
			o := *c.node(t)
			o.t = t
			eventually(t, "one position", longEnough, func() bool { return o.position() == c.o.position() })
			r := &reader{o: &o, base: c.o.base, pages: map[string]*page{}, kinds: map[string]int{}, leads: map[string]linking{}, empty: c.o == bare}
			for _, form := range []string{"", "name=A&url=https%3A%2F%2Fa.dev%2F&kind=mcp&opening=first", "name=A&url=a.local&kind=robot&bid=0"} {
				r.read("/join", o.send(http.MethodPost, "/join", []byte(form), "Content-Type", "application/x-www-form-urlencoded"))
			}
			for _, path := range []string{"/nothing", "/members/nobody", "/next?from=nobody", "/members/" + gone} {
				r.read(path, o.get(path, "Accept", "text/html"))
			}
			from := []string{"/", "/llms.txt", "/api", "/openapi.json", "/sitemap.xml", "/join?opening=first", "/ring?q=a", "/ring/moments"}
			if !r.empty {
				from = append(from, "/embed?from="+slug, "/ring?from="+slug, "/api/ring/"+slug+"/events", "/api/ring/"+slug+"/hops")
			}
			r.all(from...)
			t.Logf("%d links, %d answers looked into", len(r.pages), r.looked)
			if len(r.pages) < 60 {
				t.Errorf("only %d links", len(r.pages))
			}
		})
	}
}
