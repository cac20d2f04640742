package local

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"webring/server/sites/markup"
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

// hidden are elements with text that a reader without scripts does not see, or that only tells
// the reader to run scripts.
var hidden = map[string]bool{"script": true, "style": true, "noscript": true, "template": true, "title": true, "textarea": true, "iframe": true}

// readPage reads a document of any shape.
func readPage(body []byte, contentType string) *page {
	p := &page{openGraph: map[string]bool{}}
	var (
		inside  string // the hidden element that is open
		within  int    // as many elements of that name are open in it
		title   bool   // it is the title of the page
		titled  []byte // what that says
		jsonLD  bool   // it is a script with JSON-LD
		heading bool   // an h1 is open
		space   = true // the last character of the text was one
	)
	for t := range markup.Tokens(body, contentType) {
		switch t.Kind {
		case markup.Words:
			switch {
			case title:
				titled = append(titled, t.Text...)
			case jsonLD:
				last := &p.jsonLD[len(p.jsonLD)-1]
				*last = append(*last, t.Text...)
			case inside == "":
				n := visible(t.Text, &space)
				p.text += n
				p.mainHeading = p.mainHeading || heading && n > 0
			case inside == "title": // of a picture
				p.mainHeading = p.mainHeading || heading && len(bytes.TrimSpace(t.Text)) > 0
			}
		case markup.End:
			switch {
			case t.Name == inside && within > 0:
				within--
			case t.Name == inside:
				inside, jsonLD, title = "", false, false
			case t.Name == "h1":
				heading = false
			}
		case markup.Start:
			switch {
			case inside == t.Name:
				within++
			case inside != "":
			case hidden[t.Name]:
				inside = t.Name
				title = inside == "title" && !t.Foreign && len(titled) == 0
				if jsonLD = inside == "script" && markup.MediaType(t.Attributes["type"]) == "application/ld+json"; jsonLD {
					p.jsonLD = append(p.jsonLD, nil)
				}
			default:
				heading = heading || t.Name == "h1" && !t.Foreign
				p.mainHeading = p.mainHeading || heading && named(t)
				p.element(t)
			}
		}
	}
	p.title = string(bytes.TrimSpace(titled))
	return p
}

// named says whether an element has a text of its own where it is not seen: a picture's, or a
// label.
func named(t markup.Token) bool {
	return t.Name == "img" && strings.TrimSpace(t.Attributes["alt"]) != "" || strings.TrimSpace(t.Attributes["aria-label"]) != ""
}

// element takes what a start tag alone says.
func (p *page) element(t markup.Token) {
	value := func(name string) string { return strings.TrimSpace(t.Attributes[name]) }
	switch t.Name {
	case "html":
		p.lang = value("lang")
	case "meta":
		if strings.EqualFold(value("name"), "description") && p.description == "" {
			p.description = value("content")
		}
		if property := strings.ToLower(value("property")); strings.HasPrefix(property, "og:") && value("content") != "" && len(p.openGraph) < 64 {
			p.openGraph[property] = true
		}
	case "link":
		rel := strings.Fields(strings.ToLower(value("rel")))
		for _, r := range rel {
			if r == "canonical" && p.canonical == "" {
				p.canonical = value("href")
			}
			if r == "alternate" && markup.MediaType(value("type")) == "text/markdown" && value("href") != "" {
				p.markdown = true
			}
		}
	case "a":
		if href := value("href"); href != "" && len(p.links) < maxLinks {
			p.links = append(p.links, href)
		}
	case "h1", "h2", "h3", "h4", "h5", "h6":
		if len(p.headings) < maxLinks {
			p.headings = append(p.headings, int(t.Name[1]-'0'))
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
