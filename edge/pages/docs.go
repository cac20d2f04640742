package pages

import (
	"encoding/json"
	"strings"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/templates"
)

// operationGroups are the subjects of the page about the API, by the tags of operations.
var operationGroups = []struct{ tag, title, words string }{
	{"directory", "Directory", ""},
	{"ring", "Reading the ring", "Free, without a key. Answers have an ETag."},
	{"links", "Links for pages", "Each redirects to a member's site."},
	{"paid", "Joining and bidding", "Each request is checked in full before it asks for money."},
	{"owner", "For owners", "Free: sign a challenge for 0 with the account that owns the member."},
	{"mcp", "Model Context Protocol", "The same as tools, over streamable HTTP."},
}

// drawDocs draws the page about the API. The answers on it are those of this ring.
func drawDocs(r *reader, path string, _ *fasthttp.Args) *content.Content {
	v, ok := r.survey()
	if !ok {
		return nil
	}
	slug := ""
	if len(v.marks) > 0 {
		slug = v.marks[0].Slug
	}
	about := &v.about
	base := r.core.BaseURL()
	ring := describe.Ring{Base: base, Payments: describe.Payments{MinBid: about.Payments.MinBid, Offers: about.Payments.Offers}}
	all := describe.References(ring, slug)
	answers := r.examples(all)
	view := templates.Docs{
		Page: about.frame(path, "API – "+about.Name, "How programs read the ring, join it and bid: every request with its parameters, an answer and its errors."),
		Base: base, Payments: about.Payments.How, Networks: about.Payments.Networks,
		Fee: about.Payments.Fee, MinBid: about.Payments.MinBid, Rule: about.Validation.Rule,
		Any: problemsOf(describe.AnyRequest()),
	}
	for _, step := range describe.Dialogue(ring, slug) {
		view.Steps = append(view.Steps, templates.Step(step))
	}
	for _, g := range operationGroups {
		group := templates.OperationGroup{ID: "group-" + g.tag, Title: g.title, Words: g.words}
		for i := range all {
			if all[i].Tag == g.tag {
				group.Operations = append(group.Operations, operation(&all[i], answers[i]))
			}
		}
		view.Groups = append(view.Groups, group)
	}
	for _, op := range describe.Published() {
		view.Files = append(view.Files, templates.Operation{Path: op.Path, About: op.About})
	}
	for _, reason := range describe.Reasons() {
		view.Reasons = append(view.Reasons, templates.Reason(reason))
	}
	return drawn(view.HTML())
}

// examples gives the answers to the examples of operations, "" where there is none.
func (r *reader) examples(all []describe.Reference) []string {
	answers := make([]string, len(all))
	var reads []string
	for i := range all {
		if all[i].Example != "" && !isOrigins(all[i].Path) {
			reads = append(reads, all[i].Example)
		}
	}
	r.prefetch(reads...)
	for i := range all {
		if all[i].Example == "" || isOrigins(all[i].Path) {
			continue
		}
		if a := r.answerTo(all[i].Example); a.Status == fasthttp.StatusOK {
			answers[i] = describe.Answer(a.Body)
		}
	}
	for i := range all {
		if all[i].Example == "" || !isOrigins(all[i].Path) {
			continue
		}
		var body json.RawMessage
		if path, query, _ := strings.Cut(all[i].Example, "?"); r.origin(path, query, &body) {
			answers[i] = describe.Answer(body)
		}
	}
	return answers
}

// isOrigins says whether the origin, not the core, has the document at a path.
func isOrigins(path string) bool {
	return strings.HasSuffix(path, "/hops") || strings.HasSuffix(path, "/events")
}

func operation(op *describe.Reference, answer string) templates.Operation {
	o := templates.Operation{ID: op.ID, Method: op.Method, Path: op.Path, About: op.About, More: op.More,
		Request: op.Request, Status: op.Status, Answer: answer, Problems: problemsOf(op.Codes)}
	for _, p := range op.Parameters {
		o.Parameters = append(o.Parameters, templates.Parameter(p))
	}
	for _, p := range op.Returns {
		o.Returns = append(o.Returns, templates.Parameter(p))
	}
	return o
}

// problemsOf explains problem codes, by the one table.
func problemsOf(codes []api.Code) (all []templates.Problem) {
	for _, code := range codes {
		e := explanations[code]
		all = append(all, templates.Problem{Code: string(code), Status: code.Status(), Summary: code.Title(), Meaning: e.meaning, Remedy: e.remedy})
	}
	return all
}

// frameOr gives what every page has, with the ring's name in its title, also before the ring is
// open.
func (r *reader) frameOr(path, title, description string) templates.Page {
	about := &directoryDocument{}
	if v, ok := r.survey(); ok {
		about = &v.about
	} else {
		r.failed = nil
	}
	if about.Name != "" {
		title += " – " + about.Name
	}
	return about.frame(path, title, description)
}

// drawProblem draws the page that says what a problem code means. It is there
// before the ring is open.
func drawProblem(r *reader, path string, _ *fasthttp.Args) *content.Content {
	problem := problemsOf([]api.Code{api.Code(path[strings.LastIndexByte(path, '/')+1:])})[0]
	problem.Page = r.frameOr(path, problem.Summary, problem.Meaning)
	return drawn(problem.HTML())
}

// drawProblems draws the page of all problem codes.
func drawProblems(r *reader, path string, _ *fasthttp.Args) *content.Content {
	return drawn(templates.Problems{Page: r.frameOr(path, "Problems", "What each error of the API means, and what to do."), All: problemsOf(api.Codes())}.HTML())
}
