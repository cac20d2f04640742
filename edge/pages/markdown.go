package pages

import (
	"bytes"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"github.com/valyala/fasthttp"
	"golang.org/x/net/html"

	"webring/edge/content"
)

// MarkdownMedia is the media type of pages as Markdown.
const MarkdownMedia = "text/markdown; charset=utf-8"

// Markdown is the view of the same page as Markdown. It is cached under a target of its own.
func (v View) Markdown() View {
	return func(r *reader, path string, query *fasthttp.Args) *content.Content {
		page := v(r, path, query)
		if page == nil || r.moved || page.Media() != Media {
			return page
		}
		return content.New(MarkdownMedia, inMarkdown(page.Body(), r.core.BaseURL()+(&url.URL{Path: path}).EscapedPath()))
	}
}

// inMarkdown converts a page at an address. It begins with the content of the page; the
// navigation comes last. Links are absolute.
func inMarkdown(page []byte, address string) []byte {
	// The converter writes its own mark for an end of line, U+F002, as one.
	page = bytes.ReplaceAll(page, []byte("\uF002"), []byte("\uFFFD"))
	doc, err := html.Parse(bytes.NewReader(page))
	if err != nil {
		panic(err) // reading from memory does not fail
	}
	at, err := url.Parse(address)
	if err != nil {
		panic(err) // the base URL was checked
	}
	prepare(doc, at, false)
	text, err := markdownConverter().ConvertNode(doc)
	if err != nil {
		panic(err) // the plugins do not fit together
	}
	return append(text, '\n')
}

// markdownConverter writes CommonMark with tables. The texts of pages are escaped by [escaped],
// which the smart mode of the library is not strict enough for.
var markdownConverter = sync.OnceValue(func() *converter.Converter {
	c := converter.NewConverter(converter.WithEscapeMode(converter.EscapeModeDisabled), converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(commonmark.WithListEndComment(false)),
		table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal)),
	))
	c.Register.TextTransformer(func(_ converter.Context, s string) string { return escaped(s) }, converter.PriorityEarly)
	c.Register.Renderer(markdownLink, converter.PriorityEarly)
	return c
})

// markdownLink writes a link as the page has it. The library would encode the query again.
func markdownLink(ctx converter.Context, w converter.Writer, n *html.Node) converter.RenderStatus {
	address := attribute(n, "href")
	if n.Data != "a" || address == "" {
		return converter.RenderTryNext
	}
	var b bytes.Buffer
	ctx.RenderChildNodes(ctx, &b, n)
	words := b.String()
	after := words[len(strings.TrimRight(words, " ")):]
	_, _ = w.WriteString("[" + strings.Join(strings.Fields(words), " ") + "](" + entity.ReplaceAllString(linkEscapes.Replace(address), "&amp;$1") + ")" + after)
	return converter.RenderSuccess
}

// linkEscapes escapes what could end the address of a link or the cell of a table.
var linkEscapes = strings.NewReplacer(" ", "%20", "(", "%28", ")", "%29", "<", "%3C", ">", "%3E", "[", "%5B", "]", "%5D", "|", "%7C", `\`, "%5C", "`", "%60", "\n", "%0A", "\t", "%09")

// noTags keeps text that the converter does not escape from being HTML.
var noTags = strings.NewReplacer("<", "&lt;", ">", "&gt;")

// entity is what CommonMark reads as a character in the address of a link.
var entity = regexp.MustCompile(`&(#?[0-9A-Za-z]+;)`)

// escaped escapes text, so that nothing in it is markup or a link. The converter escapes '<' and '>'.
func escaped(s string) string {
	var b strings.Builder
	start := len(s) - len(strings.TrimLeft(s, " \n"))
	for i, r := range s {
		switch {
		case strings.ContainsRune("\\`*_{}[]#!|~&@", r),
			r == ':' && strings.HasPrefix(s[i:], "://"),
			r == '.' && i >= 3 && strings.EqualFold(s[i-3:i], "www"),
			// At the start of a line these begin a list, a rule or a heading.
			i == start && strings.ContainsRune("+-=", r) && !strings.ContainsAny(s[i+1:min(i+2, len(s))], "0123456789"),
			(r == '.' || r == ')') && i > start && strings.Trim(s[start:i], "0123456789") == "" && strings.TrimLeft(s[i+1:min(i+2, len(s))], " \n") == "":
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// prepare makes the links of a page absolute, moves the navigation behind the content, and leaves
// out what only a browser can use. Lists of facts become lists. In cells, which are one line in
// Markdown, blocks become words.
func prepare(n *html.Node, at *url.URL, inCell bool) {
	for _, child := range slices.Collect(n.ChildNodes()) {
		if child.Type != html.ElementNode {
			continue
		}
		switch class := attribute(child, "class"); {
		case slices.Contains([]string{"svg", "form", "dialog", "webring-online"}, child.Data), child.Data == "img" && attribute(child, "alt") == "", attribute(child, "aria-hidden") == "true",
			slices.Contains([]string{"unseen", "skip", "contents", "picture", "pay-owner"}, class):
			n.RemoveChild(child)
			continue
		case child.Data == "pre":
			continue
		}
		for i, a := range child.Attr {
			switch a.Key {
			case "href", "src":
				if to, err := at.Parse(a.Val); err == nil {
					child.Attr[i].Val = to.String()
				}
			case "alt":
				child.Attr[i].Val = noTags.Replace(escaped(a.Val))
			}
		}
		list := child.Data == "dl"
		prepare(child, at, inCell || child.Data == "td" || child.Data == "th" || list)
		switch child.Data {
		case "header":
			n.RemoveChild(child)
			n.AppendChild(child)
		case "dl":
			child.Data = "ul"
		case "dt":
			child.Data = "strong"
		case "dd":
			child.Data = "span"
		case "summary":
			child.Data = "p"
		case "div", "p", "ul", "li", "br":
			if n.Data == "dl" {
				child.Data = "li"
			} else if inCell {
				child.Data = "span"
			}
		}
		child.DataAtom = 0
		if child.NextSibling != nil && child.NextSibling.Type == html.ElementNode && n.Data != "code" {
			n.InsertBefore(&html.Node{Type: html.TextNode, Data: " "}, child.NextSibling)
		}
	}
}

// attribute gives the value of an attribute, "" for none.
func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
