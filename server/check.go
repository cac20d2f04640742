package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jellydator/ttlcache/v3"
	"github.com/valyala/fasthttp"

	"webring/core"
	"webring/core/api"
	"webring/server/paid"
	"webring/server/paid/form"
	"webring/server/sites/fetch"
	"webring/server/sites/score"
	"webring/server/sites/score/local"
	"webring/templates"
)

// draftCheck is what a registration would come to.
type draftCheck struct {
	Taken    bool              `json:"taken"`
	Errors   []form.FieldError `json:"errors"`
	Refusal  *draftRefusal     `json:"refusal,omitempty"`
	Price    string            `json:"price_usd,omitempty"`
	Score    *draftScore       `json:"score,omitempty"`
	Required int               `json:"required_score"`
	Slug     string            `json:"slug,omitempty"`
	Rank     int               `json:"leaderboard_rank,omitempty"`
}

type draftRefusal struct {
	Code   api.Code `json:"code"`
	Detail string   `json:"detail"`
}

type draftScore struct {
	Score   int    `json:"score"`
	Service string `json:"service"`
	Report  string `json:"report,omitempty"`
}

// CheckDraft gives what answers a check of a registration by programs: with 200, whatever is
// found. body is as for [Paid].
func CheckDraft(s *paid.Service, body func(*fasthttp.RequestCtx) []byte) func(ctx *fasthttp.RequestCtx, client string, secure bool) {
	return func(ctx *fasthttp.RequestCtx, client string, _ bool) {
		d := s.Check(context.Background(), client, body(ctx))
		c := draftCheck{Taken: len(d.Fields) == 0 && d.Refusal == nil, Errors: d.Fields, Required: d.Required, Slug: d.Slug, Rank: d.Rank}
		if c.Errors == nil {
			c.Errors = []form.FieldError{}
		}
		if d.Price > 0 {
			c.Price = form.FormatUSD(d.Price)
		}
		if p := d.Refusal; p != nil {
			c.Refusal = &draftRefusal{p.Code, p.Detail}
		}
		if d.Score != nil {
			c.Score = &draftScore{d.Score.Score, d.Score.Provider, d.Score.Report}
		}
		doc, err := json.Marshal(c)
		if err != nil {
			panic(err) // it is made of strings and numbers
		}
		ctx.SetContentType("application/json")
		ctx.SetBody(doc)
	}
}

// Drafts checks the drafts of the join page's form.
type Drafts struct {
	Payments *paid.Service
	Sites    *fetch.Client // fetches what a site says of itself
	Base     func() string
	Reports  *local.Store // the reports behind the scores of this node's own scorer
	Extra    string       // for the command line that pays, such as the address of a development chain
	Log      *slog.Logger

	found *ttlcache.Cache[[sha256.Size]byte, paid.Draft] // by the draft
}

// What was found about a draft is kept, so that a browser that comes back to it gets it again without
// another look at the site.
const (
	foundFor  = time.Hour
	mostFound = 1024 // of a few kilobytes each
)

// NewDrafts prepares d.
func NewDrafts(d Drafts) *Drafts {
	d.found = ttlcache.New(ttlcache.WithTTL[[sha256.Size]byte, paid.Draft](foundFor), ttlcache.WithCapacity[[sha256.Size]byte, paid.Draft](mostFound),
		ttlcache.WithDisableTouchOnHit[[sha256.Size]byte, paid.Draft]())
	return &d
}

// Check is [edge.Config.Check]. With an address alone, what the site says of itself fills in the
// rest of the draft.
func (d *Drafts) Check(ctx context.Context, client string, draft templates.Draft) templates.Checked {
	draft, guessed := addressed(draft)
	draft = introduced(ctx, d.Sites, client, draft, guessed, d.Payments.RefusesName)
	found := d.Payments.Check(ctx, client, draft.JSON())
	d.found.Set(sha256.Sum256(draft.JSON()), found, ttlcache.DefaultTTL)
	return d.shown(draft, &found)
}

// Recheck is [edge.Config.Recheck].
func (d *Drafts) Recheck(draft templates.Draft) (templates.Checked, bool) {
	earlier := d.found.Get(sha256.Sum256(draft.JSON()))
	if earlier == nil {
		return templates.Checked{}, false
	}
	was := earlier.Value()
	found := d.Payments.CheckAgain(draft.JSON(), &was)
	return d.shown(draft, &found), true
}

// shown is what was found as the page shows it.
func (d *Drafts) shown(draft templates.Draft, found *paid.Draft) templates.Checked {
	c := templates.Checked{Draft: draft, Wrong: map[string]string{}, Price: form.FormatUSD(found.Price), Slug: found.Slug}
	for _, f := range found.Fields {
		name := strings.TrimPrefix(f.Pointer, "/")
		if c.Wrong[name] == "" {
			c.Wrong[name] = sentence(name, f.Detail)
		}
	}
	if draft.URL != "" && c.Wrong["url"] != "" {
		c.Wrong["url"] = aboutAddress(draft.URL, c.Wrong["url"])
		for field, typed := range map[string]string{"name": draft.Name, "kind": draft.Kind} {
			if typed == "" { // the site would have filled it in
				delete(c.Wrong, field)
			}
		}
	}
	if found.Score != nil {
		c.Readiness = readiness(found.Score, d.Reports, d.Log)
		c.Readiness.Required, c.Readiness.Site, c.Readiness.Base, c.Readiness.Kind, c.Readiness.Body = found.Required, found.Request.URL, d.Base(), found.Request.Kind.String(), string(cleaned(found.Request).JSON())
	}
	if p := found.Refusal; p != nil {
		c.Refusal, c.Code = p.Detail, string(p.Code)
		if links, ok := p.More["links"].(map[string]string); ok && p.Code == api.AlreadyRegistered {
			if c.Existing = links["self"]; c.Existing != "" {
				c.Existing = path.Base(c.Existing)
			} else {
				c.Departed = templates.DepartedBy(path.Base(path.Dir(links["claim"])), p.Detail, d.Payments.Now())
			}
		}
	}
	if len(c.Wrong) == 0 && c.Refusal == "" {
		order := cleaned(found.Request)
		c.Rank, order.OnlyIfRank = found.Rank, found.Rank
		body := order.JSON()
		c.Body, c.Command = string(body), templates.RegisterCommand(d.Base(), d.Extra, body)
	}
	return c
}

// readiness is a score as pages show it, with its checks if the report behind it is here.
func readiness(s *score.Result, reports *local.Store, log *slog.Logger) *templates.Readiness {
	r := &templates.Readiness{Score: s.Score, Scorer: s.Provider, Report: s.Report}
	at := strings.LastIndex(s.Report, ReportsPath)
	if reports == nil || at < 0 {
		return r
	}
	found, err := reports.Get(s.Report[at+len(ReportsPath):])
	if err != nil {
		log.Warn("a score has no report", "err", err) // without it the score stands alone
		return r
	}
	for _, g := range found.Groups {
		r.Checks = append(r.Checks, shown(g)...)
	}
	return r
}

// shown are the checks of a group as pages show them.
func shown(g local.Group) (checks []templates.ReportCheck) {
	for _, c := range g.Checks {
		checks = append(checks, templates.ReportCheck{Title: c.Title, Evidence: c.Evidence, Fix: c.Fix, Earned: c.Earned, Points: c.Points,
			Optional: g.Name == local.Bonus, Interface: local.OnlyForAgents(g.Name, c), Effort: local.Effort(c)})
	}
	return checks
}

// cleaned is a registration as the ring would keep it: what the command line
// shows is what it sends, without characters that cannot be seen.
func cleaned(r form.RegisterRequest) templates.Draft {
	d := templates.Draft{Name: r.Name, URL: r.URL, Kind: r.Kind.String(), Category: r.Category, Description: r.Description}
	if r.Bid > 0 {
		d.Bid = form.FormatUSD(r.Bid)
	}
	return d
}

// labels are the fields as the form calls them.
var labels = map[string]string{"name": "The name", "url": "The address", "kind": "What it is",
	"category": "The category", "description": "The description", "bid": "The opening bid"}

// plainly has sentences for people in place of what a [form.FieldError] says to programs, by
// field and the beginning of the detail.
var plainly = []struct{ field, begins, says string }{
	{"name", "is required", "Enter the name of the site."},
	{"url", "is required", "Enter the address of the site, such as https://example.com."},
	{"kind", "", "Choose what it is: an agent, an MCP server or a website."},
	{"category", "must match", "A category has lower-case letters, digits and hyphens, begins with none of the latter, and has at most 32 characters."},
	{"bid", "must be US dollars", "Enter the opening bid in dollars, such as 2.50."},
	{"url", core.ErrURLRelative.Error(), "The address must begin with https:// or http://."},
	{"url", core.ErrURLScheme.Error(), "The address must begin with https:// or http://."},
	{"url", core.ErrURLUserinfo.Error(), "The address must have no @ before the host: leave out the user name and password."},
	{"url", core.ErrURLNoHost.Error(), "The address has no host name, such as example.com."},
	{"url", core.ErrURLHost.Error(), "The host in the address is no valid name."},
	{"url", "the url's host is an IP address", "The address must have a name, such as example.com, and not an IP address."},
	{"url", "the url's port is neither", "The address must do without a port, such as :8080."},
	{"url", "the url's host is a single label", "The address must have a public name with a dot, such as example.com."},
	{"url", "the url's host is a reserved name", "Names such as .local or .test lead nowhere from here. The address must be public."},
	{"url", "the url's host is not a name under", "The address must have a name of its own, such as example.com, and not one under which others register theirs."},
}

// aboutAddress says to people what is wrong with an address as they typed it, where that says more
// than the sentence about its fault.
func aboutAddress(typed, sentence string) string {
	switch {
	case email.MatchString(typed):
		return "An e-mail address is no site. Enter the address of a site, such as https://example.com."
	case strings.HasPrefix(strings.ToLower(typed), "http") && scheme.MatchString(typed) && !strings.Contains(typed, "://"):
		return "The address must begin with https:// or http://, with two slashes."
	}
	return sentence
}

// sentence says to people what a [form.FieldError] says to programs.
func sentence(field, detail string) string {
	for _, p := range plainly {
		if p.field == field && strings.HasPrefix(detail, p.begins) {
			return p.says
		}
	}
	if field == "url" {
		detail = strings.Replace(detail, "the url", "the address", 1)
	}
	if field == "bid" && strings.HasPrefix(detail, "must be at ") {
		detail += " USD"
	}
	label, known := labels[field]
	if !known || field == "url" {
		first, size := utf8.DecodeRuneInString(detail)
		return string(unicode.ToUpper(first)) + detail[size:] + "."
	}
	return label + " " + detail + "."
}
