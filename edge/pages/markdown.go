package pages

import (
	"bytes"
	"fmt"
	"strings"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/describe"
)

// Markdown gives the Markdown of a page at a path.
func Markdown(path, query string) (describe.Document, bool) {
	if path == problemsPath {
		return describe.Document{Path: path, Media: "text/markdown; charset=utf-8", Build: func(*describe.Source) ([]byte, error) {
			b := []byte("# Problems\n\nEvery error is a problem document (RFC 9457) with one of these codes.\n")
			for _, p := range problemsOf(api.Codes()) {
				b = fmt.Appendf(b, "\n## %s\n\nHTTP status %d. %s. %s\n\n%s\n", p.Code, p.Status, p.Summary, p.Meaning, p.Remedy)
			}
			return b, nil
		}}, true
	}
	if code, ok := strings.CutPrefix(path, problemsPath+"/"); ok {
		e, ok := explanations[api.Code(code)]
		return describe.Document{Path: path, Media: "text/markdown; charset=utf-8", Build: func(*describe.Source) ([]byte, error) {
			return fmt.Appendf(nil, "# %s\n\n`%s`, HTTP status %d\n\n%s\n\n%s\n", api.Code(code).Title(), code, api.Code(code).Status(), e.meaning, e.remedy), nil
		}}, ok
	}
	return describe.Page(path, query)
}

// PrefersMarkdown says whether Accept names text/markdown, and with no lower
// weight than text/html has, by its name or by the range that comes next to it:
// no browser names it (RFC 9110, 12.5.1).
func PrefersMarkdown(accept []byte) bool {
	accept = bytes.ToLower(accept)
	if !bytes.Contains(accept, []byte("markdown")) {
		return false
	}
	markdown, html, nearest := 0, 0, 0
	for element := range bytes.SplitSeq(accept, []byte(",")) {
		media, parameters, _ := bytes.Cut(element, []byte(";"))
		near := 0
		switch string(bytes.Trim(media, " \t")) {
		case "text/markdown":
			markdown = content.Weight(parameters)
		case "text/html":
			near = 3
		case "text/*":
			near = 2
		case "*/*":
			near = 1
		}
		if near > nearest {
			html, nearest = content.Weight(parameters), near
		}
	}
	return markdown > 0 && markdown >= html
}
