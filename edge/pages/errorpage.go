package pages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/edge/front"
	"webring/templates"
)

// PrefersHTML says whether Accept names text/html, with a higher weight than the forms that
// programs read: every browser does when somebody follows a link or sends a form, and no
// program that takes anything does (RFC 9110, 12.5.1).
func PrefersHTML(accept []byte) bool {
	html, other, nearest := 0, 0, 0
	for element := range bytes.SplitSeq(accept, comma) {
		media, parameters, _ := bytes.Cut(element, semicolon)
		media = bytes.Trim(media, " \t")
		near := 0
		switch {
		case is(media, "text/html"):
			html = max(html, content.Weight(parameters))
		case is(media, "text/markdown"), is(media, "application/json"):
			other = max(other, content.Weight(parameters))
		case is(media, "application/problem+json"):
			near = 3
		case is(media, "application/*"):
			near = 2
		case is(media, "*/*"):
			near = 1
		}
		if near > nearest {
			other, nearest = max(other, content.Weight(parameters)), near
		}
	}
	return html > other
}

var comma, semicolon = []byte(","), []byte(";")

func is(media []byte, name string) bool {
	return len(media) == len(name) && bytes.EqualFold(media, []byte(name))
}

// Failure is a request that is answered by a problem.
type Failure struct {
	Method     string
	Target     []byte // as it was sent
	Body       []byte // the problem document
	Status     int
	RetryAfter string // the field, or ""
	Reads      bool   // its path has a page
	RequestID  string
}

// ErrorPage draws the page that people see in place of a problem document. It always offers
// a way on, and shows no word of the address: a stranger may have chosen that.
func (s *Pages) ErrorPage(c Core, f *Failure) []byte {
	view, _ := s.fillError(c, f)
	return view.HTML()
}

// fillError fills that page. It is not whole if the ring could not be read for it.
func (s *Pages) fillError(c Core, f *Failure) (view templates.Error, whole bool) {
	var doc struct{ Title, Detail, Code string }
	if json.Unmarshal(f.Body, &doc) != nil {
		doc.Detail = neverComplete // it is cut off, or another server's
	}
	code := api.Code(doc.Code)
	heading, reason, explained := templates.Plainly(doc.Code)
	if !explained && doc.Title == "" {
		doc.Title = api.Internal.Title()
	}
	about, members := &describe.Ring{}, 1
	if code != api.Internal { // of a core that fails nothing is asked
		r := newReader(s, c)
		r.complete(func() {
			if v, ok := r.survey(); ok {
				about, members, whole = &v.about, v.members, true
			}
		})
	}
	path := string(front.DecodePath(front.Path(f.Target)))
	view = templates.Error{Status: f.Status, Heading: doc.Title, Reason: doc.Detail, Code: doc.Code, Explained: explained,
		RequestID: f.RequestID, Empty: members == 0}
	view.Heading, view.Reason = cmp.Or(heading, view.Heading), cmp.Or(reason, view.Reason)
	switch {
	case code == api.EmptyRing && view.Empty:
		view.Heading, view.Reason = "The ring is empty", "Join now and first place is yours."
	case code == api.UnknownMember && view.Empty:
		view.Reason = "The ring is empty. Join now and first place is yours."
	case code == api.NotFound && strings.HasPrefix(path, "/reports/"):
		view.Heading, view.Reason = "This report does not exist", doc.Detail
	}
	f.offerAgain(&view, path)
	view.Page = frame(about, "/", view.Heading+" – "+cmp.Or(about.Name, "the ring"), "")
	view.Root, view.Path, view.Script = root(f.Target), "", ""
	return view, whole
}

// offerAgain offers the same address, where it may soon answer or has a page.
func (f *Failure) offerAgain(v *templates.Error, path string) {
	here := sameAddress(f.Target)
	read := f.Method == fasthttp.MethodGet || f.Method == fasthttp.MethodHead
	switch v.Status {
	case fasthttp.StatusMethodNotAllowed:
		if f.Reads {
			v.Again, v.AgainWords = strings.SplitN(here, "?", 2)[0], "Open this page"
		}
		return
	case fasthttp.StatusRequestTimeout, fasthttp.StatusTooManyRequests, fasthttp.StatusInternalServerError, fasthttp.StatusServiceUnavailable:
	default:
		return
	}
	v.Hint = f.hint()
	if read {
		v.Again, v.AgainWords = here, "Try again"
	} else if f.Reads {
		v.Again, v.AgainWords = strings.SplitN(here, "?", 2)[0], "Back to the form"
	}
}

// hint says when to try again.
func (f *Failure) hint() string {
	switch f.RetryAfter {
	case "":
		return "Try again in a moment."
	case "1":
		return "Try again in a second."
	}
	return "Try again in " + f.RetryAfter + " seconds."
}

// sameAddress is a target relative to itself, "" for one that is too long to show.
func sameAddress(target []byte) string {
	if len(target) == 0 || target[0] != '/' || len(target) > 2*maxParameter || !front.IsPrintable(target) {
		return ""
	}
	at, query, asked := strings.Cut(string(target), "?")
	if asked {
		query = "?" + query
	}
	return "./" + at[strings.LastIndexByte(at, '/')+1:] + query
}

// deepest is how many folders deep the address of a page with relative links may be. Deeper,
// the links would be most of the page.
const deepest = 8

// root leads from a target to the folder of the home page.
func root(target []byte) string {
	depth := bytes.Count(front.Path(target), []byte("/")) - 1
	if depth < 0 || depth > deepest {
		return "/"
	}
	return strings.Repeat("../", depth)
}
