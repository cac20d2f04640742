package edge

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/describe"
)

// negotiated gives a table of pages whose pages are Markdown for those who ask
// for it. What is no page passes through as it is.
func (s *Shell) negotiated(get func(path string, h fasthttp.RequestHandler)) func(path string, h fasthttp.RequestHandler) {
	return func(path string, page fasthttp.RequestHandler) {
		if _, ok := markdownPage(strings.NewReplacer("{slug:*}", "x", "{category:*}", "x").Replace(path), ""); !ok {
			get(path, page)
			return
		}
		get(path, func(ctx *fasthttp.RequestCtx) {
			if prefersMarkdown(listField(&ctx.Request.Header, "Accept")) {
				s.markdown(ctx)
			} else {
				page(ctx)
			}
			ctx.Response.Header.Add("Vary", "Accept")
		})
	}
}

// markdown answers with a page as Markdown.
func (s *Shell) markdown(ctx *fasthttp.RequestCtx) {
	target, path, query := s.pageTarget(ctx)
	d, ok := markdownPage(path, query.String())
	if !ok {
		s.problem(ctx, noSuchPath)
		return
	}
	s.publish(ctx, "markdown "+target, d)
}

// markdownPage gives the Markdown of a page at a path.
func markdownPage(path, query string) (describe.Document, bool) {
	if code, ok := strings.CutPrefix(path, "/problems/"); ok {
		e, ok := explanations[api.Code(code)]
		return describe.Document{Path: path, Media: "text/markdown; charset=utf-8", Build: func(*describe.Source) ([]byte, error) {
			return fmt.Appendf(nil, "# %s\n\n`%s`, HTTP status %d\n\n%s\n\n%s\n", api.Code(code).Title(), code, api.Code(code).Status(), e.meaning, e.remedy), nil
		}}, ok
	}
	return describe.Page(path, query)
}

// prefersMarkdown says whether Accept names text/markdown, and with no lower
// weight than text/html has, by its name or by the range that comes next to it:
// no browser names it (RFC 9110, 12.5.1).
func prefersMarkdown(accept []byte) bool {
	accept = bytes.ToLower(accept)
	if !bytes.Contains(accept, []byte("markdown")) {
		return false
	}
	markdown, html, nearest := 0, 0, 0
	for element := range bytes.SplitSeq(accept, []byte(",")) {
		media, parameters, _ := bytes.Cut(element, []byte(";"))
		near := 0
		switch string(trim(media)) {
		case "text/markdown":
			markdown = weight(parameters)
		case "text/html":
			near = 3
		case "text/*":
			near = 2
		case "*/*":
			near = 1
		}
		if near > nearest {
			html, nearest = weight(parameters), near
		}
	}
	return markdown > 0 && markdown >= html
}

// weight reads the q of an element in thousandths, 1000 where there is none. What
// has not its form weighs nothing.
func weight(parameters []byte) int {
	for p := range bytes.SplitSeq(parameters, []byte(";")) {
		name, value, _ := bytes.Cut(trim(p), []byte("="))
		if !bytes.EqualFold(trim(name), []byte("q")) {
			continue
		}
		whole, fraction, _ := bytes.Cut(trim(value), []byte("."))
		if len(fraction) > 3 || len(whole) != 1 || whole[0] > '1' || whole[0] < '0' {
			return 0
		}
		n := int(whole[0]-'0') * 1000
		for i, unit := 0, 100; i < len(fraction); i, unit = i+1, unit/10 {
			if fraction[i] < '0' || fraction[i] > '9' {
				return 0
			}
			n += int(fraction[i]-'0') * unit
		}
		return min(n, 1000)
	}
	return 1000
}
