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

// drawDocs draws the page about the API. The answers on it are those of this ring.
func drawDocs(r *reader, path string, _ *fasthttp.Args) *content.Content {
	v, ok := r.survey()
	if !ok {
		return nil
	}
	view := templates.Docs{About: v.about,
		Page: frame(&v.about, path, "API – "+v.about.Name, "How programs read the ring, join it and bid: every request with its parameters, an answer and its errors.")}
	if len(v.marks) > 0 {
		view.Member = v.marks[0].Slug
	}
	view.About.Base = r.core.BaseURL()
	view.Answers = r.examples(describe.References(view.About, view.Member))
	return drawn(view.HTML())
}

// examples gives the answers to the examples of operations, by the ids of the operations.
func (r *reader) examples(all []describe.Reference) map[string]string {
	answers := map[string]string{}
	var reads []string
	for _, op := range all {
		if op.Example != "" && !isOrigins(op.Path) {
			reads = append(reads, op.Example)
		}
	}
	r.prefetch(reads...)
	for _, target := range []bool{false, true} { // data of the origin comes last
		for _, op := range all {
			if op.Example == "" || isOrigins(op.Path) != target {
				continue
			}
			path, query, _ := strings.Cut(op.Example, "?")
			var body json.RawMessage
			if target && r.origin(path, query, &body) {
				answers[op.ID] = describe.Answer(body)
			} else if !target {
				if a := r.answerTo(op.Example); a.Status == fasthttp.StatusOK {
					answers[op.ID] = describe.Answer(a.Body)
				}
			}
		}
	}
	return answers
}

// isOrigins says whether the origin, not the core, has the document at a path.
func isOrigins(path string) bool {
	return strings.HasSuffix(path, "/hops") || strings.HasSuffix(path, "/events")
}

// frameOr gives what every page has, with the ring's name in its title, also before the ring is
// open.
func (r *reader) frameOr(path, title, description string) templates.Page {
	about := &describe.Ring{}
	if v, ok := r.survey(); ok {
		about = &v.about
	} else {
		r.failed = nil
	}
	if about.Name != "" {
		title += " – " + about.Name
	}
	return frame(about, path, title, description)
}

// drawProblem draws the page that says what a problem code means. It is there
// before the ring is open.
func drawProblem(r *reader, path string, _ *fasthttp.Args) *content.Content {
	problem := templates.Explain(api.Code(path[strings.LastIndexByte(path, '/')+1:]))[0]
	problem.Page = r.frameOr(path, problem.Summary, problem.Meaning)
	return drawn(problem.HTML())
}

// drawProblems draws the page of all problem codes.
func drawProblems(r *reader, path string, _ *fasthttp.Args) *content.Content {
	return drawn(templates.Problems{Page: r.frameOr(path, "Problems", "What each error of the API means, and what to do."), All: templates.Explain(api.Codes()...)}.HTML())
}
