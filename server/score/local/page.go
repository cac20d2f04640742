package local

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// page is what an HTML document says without running its scripts. It is read
// token by token: a tree of a stranger's markup may be as deep as it is long.
type page struct {
	lang, title, description, canonical string
	openGraph                           map[string]bool // names of properties with a value
	headings                            []int           // levels, in order
	mainHeading                         bool            // an h1 with text
	text                                int             // characters, runs of space as one
	links                               []string        // href of anchors
	markdown                            bool            // an alternate as Markdown
	jsonLD                              [][]byte
}

// maxLinks bounds the anchors that are kept.
const maxLinks = 2000

// hidden are elements whose text a reader without scripts does not see, or that only
// tells the reader to run scripts.
var hidden = map[atom.Atom]bool{atom.Script: true, atom.Style: true, atom.Noscript: true, atom.Template: true, atom.Title: true, atom.Textarea: true, atom.Iframe: true}

// readPage reads a document of any shape.
func readPage(body []byte) *page {
	p := &page{openGraph: map[string]bool{}}
	z := html.NewTokenizer(bytes.NewReader(body))
	var (
		inside      atom.Atom // the hidden element that is open
		jsonLD      bool      // it is a script with JSON-LD
		heading     bool      // an h1 is open
		space       = true    // the last character of the text was one
		titleIsOpen bool
	)
	for {
		switch z.Next() {
		case html.ErrorToken:
			return p
		case html.TextToken:
			text := z.Text()
			switch {
			case titleIsOpen && p.title == "":
				p.title = strings.TrimSpace(string(text))
			case inside == atom.Script && jsonLD:
				p.jsonLD = append(p.jsonLD, bytes.Clone(text))
			case inside == 0:
				n := visible(text, &space)
				p.text += n
				p.mainHeading = p.mainHeading || heading && n > 0
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			switch a := atom.Lookup(name); a {
			case inside:
				inside, jsonLD, titleIsOpen = 0, false, false
			case atom.H1:
				heading = false
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			a := atom.Lookup(name)
			attributes := map[string]string{}
			for more {
				var key, value []byte
				key, value, more = z.TagAttr()
				if _, has := attributes[string(key)]; !has && len(attributes) < 32 {
					attributes[string(key)] = string(value)
				}
			}
			if inside != 0 {
				continue
			}
			if hidden[a] {
				inside = a
				jsonLD = a == atom.Script && strings.EqualFold(mediaType(attributes["type"]), "application/ld+json")
				titleIsOpen = a == atom.Title
			}
			heading = heading || a == atom.H1
			p.element(a, attributes)
		}
	}
}

// element takes what a start tag alone says.
func (p *page) element(a atom.Atom, attributes map[string]string) {
	value := func(name string) string { return strings.TrimSpace(attributes[name]) }
	switch a {
	case atom.Html:
		p.lang = value("lang")
	case atom.Meta:
		if strings.EqualFold(value("name"), "description") && p.description == "" {
			p.description = value("content")
		}
		if property := strings.ToLower(value("property")); strings.HasPrefix(property, "og:") && value("content") != "" && len(p.openGraph) < 64 {
			p.openGraph[property] = true
		}
	case atom.Link:
		rel := strings.Fields(strings.ToLower(value("rel")))
		for _, r := range rel {
			if r == "canonical" && p.canonical == "" {
				p.canonical = value("href")
			}
			if r == "alternate" && strings.EqualFold(mediaType(value("type")), "text/markdown") && value("href") != "" {
				p.markdown = true
			}
		}
	case atom.A:
		if href := value("href"); href != "" && len(p.links) < maxLinks {
			p.links = append(p.links, href)
		}
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		if len(p.headings) < maxLinks {
			p.headings = append(p.headings, int(a.String()[1]-'0'))
		}
	}
}

// visible counts characters, a run of white space as one. space carries over
// whether the last was one.
func visible(text []byte, space *bool) (n int) {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		if unicode.IsSpace(r) {
			*space = true
			continue
		}
		if *space {
			n++ // the space before this character
			*space = false
		}
		n++
	}
	return n
}

// mediaType is a media type without its parameters.
func mediaType(s string) string {
	s, _, _ = strings.Cut(s, ";")
	return strings.TrimSpace(s)
}
