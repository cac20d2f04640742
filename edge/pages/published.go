package pages

import (
	"errors"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/describe"
)

// Document gives what describe makes, drawn and cached as a page is. key is its name in the
// cache.
func (s *Pages) Document(c Core, key string, d describe.Document) (*Page, *api.Response) {
	return s.get(c, drawDocument(d), key, d.Path, &noQuery, d.MaxAge)
}

// drawDocument draws what describe makes.
func drawDocument(d describe.Document) View {
	return func(r *reader, path string, _ *fasthttp.Args) *content.Content {
		r.prefetch(d.Reads...)
		source := describe.NewSource(&factReader{r}, r.pages.site, r.pages.now())
		body, err := d.Build(source)
		var refused *describe.Problem
		switch {
		case r.moved:
			return nil
		case errors.As(err, &refused):
			r.failed = &api.Response{Status: refused.Status, Media: api.Problem, Seq: r.seq, Body: refused.Body}
			return nil
		case err != nil:
			panic(err) // a document of the core that does not have its form
		case body == nil:
			return r.fail(api.NotFound, noSuchPath)
		}
		if until := source.Until(); !until.IsZero() {
			r.until = min(r.until, until.Unix())
		}
		return content.New(d.Media, body)
	}
}

// factReader lets describe read.
type factReader struct{ *reader }

// Serve is [describe.Reader]'s.
func (f *factReader) Serve(target []byte, r *api.Response) { *r = *f.answerTo(string(target)) }
