package markup

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
)

func encoded(t *testing.T, e encoding.Encoding, text string) string {
	t.Helper()
	s, err := e.NewEncoder().String(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTextIsReadInItsEncoding(t *testing.T) {
	le := unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	be := unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	const text = "Ärger, 1 €"
	for _, c := range []struct{ about, body, contentType, want string }{
		{"UTF-8", text, "", text},
		{"with a mark", "\ufeff" + text, "", text},
		{"a mark and a charset", "\ufeff" + text, "text/plain; charset=iso-8859-1", text},
		{"UTF-16, little endian", encoded(t, le, text), "text/plain", text},
		{"UTF-16, big endian", encoded(t, be, text), "text/plain; charset=utf-8", text},
		{"UTF-16 by its label", strings.TrimPrefix(encoded(t, le, text), "\xff\xfe"), "text/plain; charset=UTF-16", text},
		{"utf8 without its dash", text, `text/plain; charset="utf8"`, text},
		{"US-ASCII", "plain", "text/plain; charset=US-ASCII", "plain"},
		{"Latin 1", encoded(t, charmap.Windows1252, text), "text/plain; charset=ISO-8859-1", text},
		{"an unknown charset", text, "text/plain; charset=klingon", text},
		{"a type that makes no sense", text, "text/plain; charset", text},
		{"nothing", "", "", ""},
		{"half of a mark", "\xff", "", "\xff"},
	} {
		if got := string(Text([]byte(c.body), c.contentType)); got != c.want {
			t.Errorf("%s: %q", c.about, got)
		}
	}
}

// line writes the tokens of a page in a line.
func line(body, contentType string) string {
	var b strings.Builder
	for t := range Tokens([]byte(body), contentType) {
		foreign := ""
		if t.Foreign {
			foreign = "~"
		}
		switch t.Kind {
		case Words:
			b.WriteString(strings.TrimSpace(string(t.Text)))
		case Start:
			fmt.Fprintf(&b, "<%s%s", foreign, t.Name)
			for _, name := range []string{"lang", "src", "href"} {
				if value := t.Attributes[name]; value != "" {
					fmt.Fprintf(&b, " %s=%s", name, value)
				}
			}
			b.WriteByte('>')
		case End:
			fmt.Fprintf(&b, "</%s%s>", foreign, t.Name)
		}
	}
	return b.String()
}

func TestPagesAreReadByTheirType(t *testing.T) {
	const page, xhtml = "text/html", "application/xhtml+xml; charset=utf-8"
	const open = `<html xmlns="http://www.w3.org/1999/xhtml">`
	for _, c := range []struct{ about, body, contentType, want string }{
		{"a script that closes itself, in HTML", `<script src="a.js"/><p>x</p>`, page, `<script src=a.js><p>x</p>`},
		{"in XHTML", open + `<script src="a.js"/><p>x</p></html>`, xhtml, `<html><script src=a.js></script><p>x</p></html>`},
		{"an iframe", open + `<iframe src="a"/><p>x</p></html>`, xhtml, `<html><iframe src=a></iframe><p>x</p></html>`},
		{"as XML", open + `<iframe src="a"/>x</html>`, "text/xml", `<html><iframe src=a></iframe>x</html>`},
		{"a title", open + `<title/><p>x</p></html>`, xhtml, `<html><title></title><p>x</p></html>`},
		{"CDATA", open + `<p><![CDATA[a < b]]></p></html>`, xhtml, `<html><p>a < b</p></html>`},
		{"prefixed elements", `<h:html xmlns:h="http://www.w3.org/1999/xhtml"><h:p>x</h:p></h:html>`, xhtml, `<html><p>x</p></html>`},
		{"the language of XML", `<html xmlns="http://www.w3.org/1999/xhtml" lang="en" xml:lang="de"></html>`, xhtml, `<html lang=de></html>`},
		{"which HTML does not know", `<html xml:lang="de">`, page, `<html>`},
		{"a declaration and a document type", `<?xml version="1.1" encoding="UTF-8"?><!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Strict//EN" "x">` + open + `<p>a&nbsp;b&eacute;</p></html>`, xhtml, "<html><p>a\u00a0bé</p></html>"},
		{"up to the first fault", open + `<p>x</p><p>y</div>`, xhtml, `<html><p>x</p><p>y`},
		{"another language", open + `<svg xmlns="http://www.w3.org/2000/svg"><title>t</title></svg></html>`, xhtml, `<html><~svg><~title>t</~title></~svg></html>`},
		{"a picture in HTML", `<svg><style/><title>t</title><path/></svg><p>x</p>`, page, `<~svg><~style></~style><~title>t</~title><~path></~path></~svg><p>x</p>`},
		{"CDATA in one", `<svg><text><![CDATA[a<b]]></text></svg>`, page, `<~svg><~text>a<b</~text></~svg>`},
		{"one that is not closed", `<svg><path><p>x</p><script src=a/>y`, page, `<~svg><~path><p>x</p><script src=a/>y`},
		{"HTML in one", `<svg><foreignObject><div><script>"<a>"</script></div></foreignObject><title/></svg><p>x</p>`, page,
			`<~svg><~foreignobject><div><script>"<a>"</script></div></~foreignobject><~title></~title></~svg><p>x</p>`},
		{"a picture in that", `<svg><foreignObject><svg><style/></svg><style><p></style></foreignObject></svg>`, page, `<~svg><~foreignobject><~svg><~style></~style></~svg><style><p></style></~foreignobject></~svg>`},
		{"a formula that closes itself", `<math/><style><p></style>`, page, `<~math></~math><style><p></style>`},
		{"Latin 1 by a meta element", "<meta charset=iso-8859-1><p>\xe9</p>", page, `<meta><p>é</p>`},
		{"Japanese", encoded(t, japanese.ShiftJIS, `<p>日本</p>`), "text/html; charset=Shift_JIS", `<p>日本</p>`},
		{"UTF-16", encoded(t, unicode.UTF16(unicode.LittleEndian, unicode.UseBOM), `<p>é</p>`), page, `<p>é</p>`},
		{"UTF-16 by its label", encoded(t, unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM), `<p>é</p>`), "text/html; charset=utf-16be", `<p>é</p>`},
		{"UTF-8 that says nothing of itself", "<p>" + strings.Repeat("x", 2000) + "é</p>", page, "<p>" + strings.Repeat("x", 2000) + "é</p>"},
		{"XHTML in UTF-16", encoded(t, unicode.UTF16(unicode.BigEndian, unicode.UseBOM), `<?xml version="1.0" encoding="UTF-16"?>`+open+`<p>é</p></html>`), "application/xhtml+xml", `<html><p>é</p></html>`},
		{"that says UTF-16 and is not", `<?xml version="1.0" encoding="utf-16"?>` + open + `<p>é</p></html>`, "application/xhtml+xml", `<html><p>é</p></html>`},
		{"in UTF-16 without a mark", encoded(t, unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM), `<?xml version="1.0" encoding="UTF-16"?>`+open+`é</html>`), "application/xhtml+xml", `<html>é</html>`},
		{"Latin 1 by its declaration", "<?xml version='1.0' encoding = 'ISO-8859-1'?>" + open + "\xe9</html>", "application/xhtml+xml", `<html>é</html>`},
		{"no type", `<p/>x`, "", `<p>x`},
		{"nothing", "", xhtml, ""},
	} {
		if got := line(c.body, c.contentType); got != c.want {
			t.Errorf("%s: %s", c.about, got)
		}
	}
}

// TestLongPartsThatAreNoTagsAreRead has parts of a document of which each is longer than a tag
// may be.
func TestLongPartsThatAreNoTagsAreRead(t *testing.T) {
	long := strings.Repeat("x", 2*maxTag)
	for about, c := range map[string]struct {
		part string
		read bool
	}{
		"a comment": {"<!--" + long + "-->", true}, "CDATA": {"<![CDATA[" + long + "]]>", true}, "text": {long, true},
		"an instruction": {"<?x " + long + "?>", true}, "an attribute": {`<b a="` + long + `"/>`, false}, "a name": {"<" + long + "/>", false},
	} {
		got := line(`<html xmlns="http://www.w3.org/1999/xhtml">`+c.part+"<p/></html>", "application/xhtml+xml")
		if strings.HasSuffix(got, "<p></p></html>") != c.read {
			t.Errorf("%s: %t", about, !c.read)
		}
	}
}

func FuzzTokens(f *testing.F) {
	for _, page := range []string{`<svg><title/><![CDATA[x`, `<?xml encoding="utf-16"?><a xmlns:b="c"><b:d e=''/>`, "\xff\xfe<\x00", `<script/>`, "<\x00?\x00x\x00"} {
		f.Add([]byte(page), "text/html")
		f.Add([]byte(page), "application/xhtml+xml; charset=utf8")
	}
	f.Fuzz(func(t *testing.T, page []byte, contentType string) {
		n, depth := 0, 0
		for token := range Tokens(page, contentType) {
			if n++; len(token.Attributes) > maxAttributes {
				t.Fatalf("%+v", token)
			}
			switch token.Kind {
			case Start:
				depth++
			case End:
				depth--
			}
			if isXML(contentType) && (depth < 0 || depth > maxDepth) {
				t.Fatal(depth)
			}
		}
		if n > 2*len(page)+2 {
			t.Fatalf("%d tokens of %d bytes", n, len(page))
		}
	})
}
