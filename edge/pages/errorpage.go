package pages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"strings"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/cache"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/edge/front"
	"webring/templates"
)

// PrefersHTML says whether Accept names text/html, with a higher weight than the forms that
// programs read: every browser does when somebody follows a link or sends a form, and no
// program that takes anything does (RFC 9110, 12.5.1).
func PrefersHTML(accept []byte) bool {
	html, named := weight(accept, "text/html")
	if !named {
		return false
	}
	other, _ := weight(accept, "application/problem+json")
	for _, media := range [...]string{"text/markdown", "application/json"} {
		if w, named := weight(accept, media); named {
			other = max(other, w)
		}
	}
	return html > other
}

// PrefersMarkdown says whether Accept names text/markdown, and with no lower weight than
// text/html has: no browser names it.
func PrefersMarkdown(accept []byte) bool {
	markdown, named := weight(accept, "text/markdown")
	html, _ := weight(accept, "text/html")
	return named && markdown > 0 && markdown >= html
}

// weight is what Accept gives a media type, by its name or by the range that comes next to it.
func weight(accept []byte, media string) (weight int, named bool) {
	family, nearest := media[:strings.IndexByte(media, '/')+1], 0
	for element := range bytes.SplitSeq(accept, comma) {
		name, parameters, _ := bytes.Cut(element, semicolon)
		name = bytes.Trim(name, " \t")
		near := 0
		switch {
		case is(name, media):
			near, named = 3, true
		case len(name) == len(family)+1 && name[len(family)] == '*' && is(name[:len(family)], family):
			near = 2
		case is(name, "*/*"):
			near = 1
		}
		if near > nearest || near == 3 {
			weight, nearest = content.Weight(parameters), near
		}
	}
	return weight, named
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
	return templates.Render(view.HTML())
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
	case code == api.MemberRemoved && strings.HasPrefix(path, membersPath):
		view.Wallet = wallet(about, c.BaseURL())
		if view.Departed = templates.DepartedBy(path[len(membersPath):], doc.Detail, s.now()); view.Departed != nil {
			view.Heading, view.Reason = "This member has left", ""
		}
	case code == api.NotFound && strings.HasPrefix(path, "/reports/"):
		view.Heading, view.Reason = "This report does not exist", doc.Detail
	}
	f.offerAgain(&view)
	view.Page = frame(about, "/", view.Heading+" – "+cmp.Or(about.Name, "the ring"), "")
	view.Root, view.Path, view.Script = root(f.Target), "", ""
	return view, whole
}

// offerAgain offers the same address, where it may soon answer or has a page.
func (f *Failure) offerAgain(v *templates.Error) {
	switch v.Status {
	case fasthttp.StatusMethodNotAllowed:
		if f.Reads {
			v.Again = "Open this page"
		}
	case fasthttp.StatusRequestTimeout, fasthttp.StatusTooManyRequests, fasthttp.StatusInternalServerError, fasthttp.StatusServiceUnavailable:
		v.Hint = f.hint()
		if f.reads() {
			v.Again = "Try again"
		} else if f.Reads {
			v.Again = "Back to the form"
		}
	}
}

// reads says that the request changes nothing.
func (f *Failure) reads() bool {
	return f.Method == fasthttp.MethodGet || f.Method == fasthttp.MethodHead
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

// blankID and blankWait are the id of no request and no wait, in a page that many requests get.
const (
	blankID   = "request-7d0c4f1b"
	blankWait = "wait-7d0c4f1b"
)

// CrowdedPage is the [Pages.ErrorPage] of a client that asks too often. Many come at once when
// a ring can least afford it, so the page is cached at each ledger position for each depth of
// addresses, and the id of the request and the wait are filled in.
func (s *Pages) CrowdedPage(c Core, f *Failure) []byte {
	seq, _ := c.Head()
	blank := *f
	blank.RequestID = blankID
	if f.RetryAfter != "" && f.RetryAfter != "1" { // which have words of their own
		blank.RetryAfter = blankWait
	}
	key := c.Cache().Key(fmt.Appendf(nil, " crowded %t %t %s %s", f.reads(), f.Reads, blank.RetryAfter, root(f.Target)))
	var page []byte
	if e := c.Cache().Get(key); e != nil && e.Holds(c.Build(), seq, 0) {
		page = e.Value.([]byte)
	} else {
		view, whole := s.fillError(c, &blank)
		if page = templates.Render(view.HTML()); whole {
			c.Cache().Put(key, &cache.Entry{Build: c.Build(), Seq: seq, Until: cache.Forever, Value: page}, len(page))
		}
	}
	page = bytes.ReplaceAll(page, []byte(blankWait), []byte(html.EscapeString(f.RetryAfter)))
	return bytes.Replace(page, []byte(blankID), []byte(html.EscapeString(f.RequestID)), 1)
}
