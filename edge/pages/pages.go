package pages

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/a-h/templ"
	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/cache"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/edge/front"
	"webring/static"
	"webring/templates"
)

// Media is the media type of pages.
const Media = "text/html; charset=utf-8"

// Core is what pages are drawn from while one request is answered.
type Core interface {
	// Ask answers a GET for a target, AskAll those for several, at most 256, at one
	// position and second.
	Ask(target []byte, r *api.Response)
	AskAll(targets [][]byte, all []api.Response)
	// Head gives the ledger position and the second that answers speak of.
	Head() (seq uint64, second int64)
	// BaseURL is what links begin with, without a slash at its end.
	BaseURL() string
	// Build names the build of the core.
	Build() string
	// Cache is where pages are cached, and Cached counts whether something was found there.
	Cache() *cache.Cache
	Cached(found bool)
}

// Pages draws and caches pages and documents. Its functions may be called concurrently.
type Pages struct {
	site    describe.Site
	now     func() time.Time
	drawing [drawingStripes]sync.Mutex // held while a page is drawn, by its key
	cards   cards
	replay  replay
}

// New prepares the pages of a site. now is the clock of documents.
func New(site describe.Site, now func() time.Time) *Pages {
	return &Pages{site: site, now: now, cards: newCards()}
}

// Route is the pattern of a path, for the router, and the page there.
type Route struct {
	Pattern string
	View    View
	Picture bool // it has no other form
}

// Routes are all pages.
func Routes() []Route {
	routes := []Route{
		{Pattern: "/", View: drawHome}, {Pattern: leaderboardPath, View: drawLeaderboard}, {Pattern: "/ring", View: drawRing}, {Pattern: JoinPath, View: drawJoin},
		{Pattern: "/embed", View: drawEmbed}, {Pattern: "/docs", View: drawDocs}, {Pattern: "/about", View: drawAbout}, {Pattern: problemsPath, View: drawProblems}, {Pattern: VerifyPath, View: drawVerify},
		// Views read the last segment from the path: a parameter would be a copy of it.
		{Pattern: membersPath + "{slug:*}", View: drawMember},
		{Pattern: categoriesPath + "{category:*}", View: drawCategory},
		{Pattern: badgesPath + "{slug:*}", View: drawBadge, Picture: true},
	}
	for _, code := range api.Codes() {
		routes = append(routes, Route{Pattern: problemsPath + "/" + string(code), View: drawProblem})
	}
	return routes
}

// The folders of pages that there is one of for each member or category.
const (
	membersPath    = "/members/"
	categoriesPath = "/categories/"
	badgesPath     = "/badge/"
	problemsPath   = "/problems"
)

// LeadsDeeper says whether a path lies below a page, where there is nothing: the
// wildcards in the table take more than one segment. A segment that is longer than any
// name leads nowhere either, and would make targets longer than a core takes.
func LeadsDeeper(path []byte) bool {
	for _, folder := range [...]string{membersPath, categoriesPath, badgesPath, CardsPath, PreviewsPath, static.LookFolder} {
		if rest, ok := bytes.CutPrefix(path, []byte(folder)); ok {
			return len(rest) == 0 || len(rest) > MaxParameter || bytes.IndexByte(rest, '/') >= 0
		}
	}
	return false
}

// A View draws one page for a path, percent-decoded, and the parameters of its
// query. It reads documents from r and nothing else, so the page holds as long
// as they do. It gives nil when r has failed; what r failed with is then the
// answer.
type View func(r *reader, path string, query *fasthttp.Args) *content.Content

// Target gives the name under which the page at a target is cached, its path and its
// query: of the parameters only what the page looks at, each value in one spelling, so that
// others make no new page.
func Target(sent []byte) (target, path string, query *fasthttp.Args) {
	at, raw, _ := bytes.Cut(sent, []byte("?"))
	path = string(front.DecodePath(at))
	looked := pageParameters(path)
	if len(raw) == 0 || len(looked) == 0 {
		return path, path, &noQuery
	}
	var all fasthttp.Args
	all.ParseBytes(raw)
	query = new(fasthttp.Args)
	for _, name := range looked {
		values := all.PeekMulti(name)
		// Without a value a parameter is absent.
		if i := slices.IndexFunc(values, func(v []byte) bool { return len(v) > 0 }); i >= 0 && len(values[i]) <= MaxParameter {
			if v := spelling(name, string(values[i])); v != "" {
				query.Set(name, v)
			}
		}
	}
	if query.Len() == 0 {
		return path, path, &noQuery
	}
	// A path may contain an escaped '?'. So the query comes first, which no path can be
	// mistaken for.
	return query.String() + " " + path, path, query
}

var noQuery fasthttp.Args

// drawn makes a page the content of an answer.
func drawn(page templ.Component) *content.Content { return content.New(Media, templates.Render(page)) }

// wallet gives what the parts of pages in which a person pays have, on a ring with this base
// URL.
func wallet(d *describe.Ring, base string) templates.Wallet {
	w := templates.Wallet{Base: base, Script: static.Pay.Path, Networks: d.Networks}
	for _, o := range d.Offers {
		w.Methods = append(w.Methods, o.Method)
	}
	return w
}

// frame gives what every page has, for the page at a path.
func frame(d *describe.Ring, path, title, description string) templates.Page {
	p := templates.Page{Title: title, Ring: d.Name, Description: description, Path: path, Synthetic: d.Synthetic, Policies: d.Policies, Look: d.Look, Operator: d.Operator,
		Root: strings.Repeat("../", strings.Count(path[1:], "/")), Face: static.Face.Path, Script: static.Script.Path,
		Style: static.StylePath(d.Look.Accent, d.Look.AccentDark), Icon: static.Icon.Path}
	if d.Look.Logo != "" {
		p.Icon = static.LogoPath
	}
	subject, _, _ := strings.Cut(path[1:], "/")
	if subject == "categories" {
		subject = "ring"
	}
	if d.Base != "" && subjects[subject].title != "" {
		p.Share = templates.Share{URL: d.Base + path, Image: d.Base + PreviewsPath + subject + ".png", Alt: title + ". " + description}
	}
	return p
}
