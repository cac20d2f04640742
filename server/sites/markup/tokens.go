package markup

import (
	"bytes"
	"encoding/xml"
	"iter"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
)

// Kind is what a [Token] is.
type Kind int

// The kinds of tokens.
const (
	Words Kind = iota
	Start
	End
)

// Token is a part of a page. It is valid until the next one is asked for.
type Token struct {
	Kind       Kind
	Name       string            // of an element, without a prefix
	Foreign    bool              // the element is not one of HTML, but of SVG, say
	Attributes map[string]string // at most 32; the first of a name counts
	Text       []byte
}

const maxAttributes = 32

// Tokens reads a page. A type of XML, such as application/xhtml+xml, is read as XML up to its
// first fault, and everything else as HTML.
func Tokens(body []byte, contentType string) iter.Seq[Token] {
	if isXML(contentType) {
		return xhtmlTokens(body, contentType)
	}
	e, _, declared := charset.DetermineEncoding(body, contentType)
	if !declared && utf8.Valid(body) {
		e = nil // the page looks like another encoding as far as it was looked at
	}
	return htmlTokens(decode(body, byMark(body), e))
}

// isXML says whether a media type is one of XML (RFC 7303).
func isXML(contentType string) bool {
	name, _ := media(contentType)
	return name == "text/xml" || name == "application/xml" || strings.HasSuffix(name, "+xml")
}

func htmlTokens(body []byte) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		z := html.NewTokenizer(bytes.NewReader(body))
		foreign := 0      // open elements of SVG and MathML, in which tags can close themselves
		var outside []int // what foreign was outside the parts of HTML that are open in them
		for {
			z.AllowCDATA(foreign > 0)
			kind := z.Next()
			t := Token{}
			switch kind {
			case html.ErrorToken:
				return
			case html.TextToken:
				t.Text = z.Text()
			case html.EndTagToken:
				name, _ := z.TagName()
				t = Token{Kind: End, Name: string(name)}
				if last := len(outside) - 1; integrates[t.Name] && last >= 0 && foreign == 0 {
					foreign, outside = outside[last], outside[:last]
				}
				if t.Foreign = foreign > 0; t.Foreign && root(t.Name) {
					foreign--
				}
			case html.StartTagToken, html.SelfClosingTagToken:
				t = startTag(z)
				if foreign > 0 && endsForeign[atom.Lookup([]byte(t.Name))] {
					foreign = 0
				}
				if t.Foreign = foreign > 0 || root(t.Name); t.Foreign {
					z.NextIsNotRawText()
				}
				switch {
				case kind == html.SelfClosingTagToken && t.Foreign:
				case root(t.Name):
					foreign++
				case t.Foreign && integrates[t.Name] && len(outside) < maxDepth:
					foreign, outside = 0, append(outside, foreign)
				}
			default:
				continue
			}
			if !yield(t) || t.Foreign && kind == html.SelfClosingTagToken && !yield(Token{Kind: End, Name: t.Name, Foreign: true}) {
				return
			}
		}
	}
}

// integrates are elements of SVG and MathML that hold HTML (HTML, section 13.2.4.2 and below), in
// the spelling of tokens.
var integrates = map[string]bool{"foreignobject": true, "annotation-xml": true}

// root says whether an element in HTML begins a part in another language.
func root(name string) bool { return name == "svg" || name == "math" }

// endsForeign are elements that end such a part, as they cannot be in it (HTML, section
// 13.2.6.5).
var endsForeign = map[atom.Atom]bool{
	atom.B: true, atom.Big: true, atom.Blockquote: true, atom.Body: true, atom.Br: true, atom.Center: true, atom.Code: true,
	atom.Dd: true, atom.Div: true, atom.Dl: true, atom.Dt: true, atom.Em: true, atom.Embed: true, atom.H1: true, atom.H2: true,
	atom.H3: true, atom.H4: true, atom.H5: true, atom.H6: true, atom.Head: true, atom.Hr: true, atom.I: true, atom.Img: true,
	atom.Li: true, atom.Listing: true, atom.Menu: true, atom.Meta: true, atom.Nobr: true, atom.Ol: true, atom.P: true,
	atom.Pre: true, atom.Ruby: true, atom.S: true, atom.Small: true, atom.Span: true, atom.Strong: true, atom.Strike: true,
	atom.Sub: true, atom.Sup: true, atom.Table: true, atom.Tt: true, atom.U: true, atom.Ul: true, atom.Var: true,
}

func startTag(z *html.Tokenizer) Token {
	name, more := z.TagName()
	t := Token{Kind: Start, Name: string(name), Attributes: map[string]string{}}
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		if _, has := t.Attributes[string(key)]; !has && len(t.Attributes) < maxAttributes {
			t.Attributes[string(key)] = string(value)
		}
	}
	return t
}

const (
	xhtmlSpace = "http://www.w3.org/1999/xhtml"
	xmlSpace   = "http://www.w3.org/XML/1998/namespace"
	// maxDepth is how deep elements of a page in XML may lie in one another.
	maxDepth = 1000
)

func xhtmlTokens(body []byte, contentType string) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		d := XML(body, contentType)
		d.decoder.Entity = xml.HTMLEntity // which the document types of XHTML declare
		depth := 0
		for {
			token, err := d.Token()
			if err != nil {
				return
			}
			t := Token{}
			switch x := token.(type) {
			case xml.CharData:
				t.Text = x
			case xml.EndElement:
				t = Token{Kind: End, Name: x.Name.Local, Foreign: x.Name.Space != xhtmlSpace}
				depth--
			case xml.StartElement:
				if depth++; depth > maxDepth {
					return
				}
				t = Token{Kind: Start, Name: x.Name.Local, Foreign: x.Name.Space != xhtmlSpace, Attributes: map[string]string{}}
				for _, a := range x.Attr[:min(len(x.Attr), maxAttributes)] {
					switch a.Name.Space {
					case "":
						if _, has := t.Attributes[a.Name.Local]; !has {
							t.Attributes[a.Name.Local] = a.Value
						}
					case xmlSpace: // what it says of the language goes before
						t.Attributes[a.Name.Local] = a.Value
					}
				}
			default:
				continue
			}
			if !yield(t) {
				return
			}
		}
	}
}
