package pages

import (
	"html"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"webring/edge/cache"
)

// crowdedPage is the page of a client that asks too often, without what differs from request
// to request: when to come again follows the first part, the address the second,
// and the request's id after the third. Without an address the second part is "".
type crowdedPage [4]string

// What is drawn in their places: words that no template has, and that HTML spells as they
// are.
const (
	blankWait    = "wait-7d0c4f1b"
	blankAddress = "address-7d0c4f1b"
	blankID      = "request-7d0c4f1b"
)

// CrowdedPage is the [Pages.ErrorPage] of a client that asks too often. Many come at once when
// a ring can least afford it, so the page is drawn once at each ledger position, for each depth
// of addresses, and then only filled in.
func (s *Pages) CrowdedPage(c Core, f *Failure) []byte {
	again := sameAddress(f.Target)
	blank := &Failure{Method: f.Method, Status: f.Status, Body: f.Body, RetryAfter: blankWait, Reads: f.Reads, RequestID: blankID}
	switch {
	case again == "": // too long to be shown
		blank.Method, blank.Reads = fasthttp.MethodPost, false
	case f.Method == fasthttp.MethodGet || f.Method == fasthttp.MethodHead:
		blank.Method = fasthttp.MethodGet
	default:
		blank.Method = fasthttp.MethodPost
		again, _, _ = strings.Cut(again, "?")
	}
	p := s.crowdedPage(c, root(f.Target), blank)
	made := append(make([]byte, 0, len(p[0])+len(p[1])+len(p[2])+len(p[3])+len(again)+128), p[0]...)
	made = append(made, f.hint()...)
	if p[1] != "" {
		made = append(append(made, p[1]...), html.EscapeString(again)...)
	}
	made = append(append(made, p[2]...), html.EscapeString(f.RequestID)...)
	return append(made, p[3]...)
}

// crowdedPage returns the page for addresses that reach the home page's folder at root.
func (s *Pages) crowdedPage(c Core, root string, blank *Failure) *crowdedPage {
	cached := c.Cache()
	key := cached.Key([]byte(" crowded " + blank.Method + " " + strconv.FormatBool(blank.Reads) + root))
	seq, _ := c.Head()
	if e := cached.Get(key); e != nil && e.Holds(c.Build(), seq, 0) {
		return e.Value.(*crowdedPage)
	}
	depth := strings.Count(root, "../")
	if root == "/" {
		depth = deepest + 1
	}
	blank.Target = []byte(strings.Repeat("/x", depth) + "/" + blankAddress)
	view, whole := s.fillError(c, blank)
	var p crowdedPage
	var rest string
	drawn := string(view.HTML())
	p[0], rest, _ = strings.Cut(drawn, blank.hint())
	if before, after, linked := strings.Cut(rest, "./"+blankAddress); linked {
		p[1], rest = before, after
	}
	p[2], p[3], _ = strings.Cut(rest, blankID)
	if whole {
		cached.Put(key, &cache.Entry{Build: c.Build(), Seq: seq, Until: cache.Forever, Value: &p}, len(drawn))
	}
	return &p
}
