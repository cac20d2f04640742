package edge

import (
	"errors"
	"strconv"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/describe"
	"webring/edge/uri"
)

// documents adds what is published for programs to the table of paths. It is
// drawn and kept like the pages for people.
func (s *Shell) documents(get func(path string, h fasthttp.RequestHandler)) {
	for _, d := range describe.Documents() {
		get(d.Path, func(ctx *fasthttp.RequestCtx) { s.publish(ctx, d.Path, d) })
	}
	// The parts of documents that a large ring has several of.
	for _, folder := range []string{"/sitemaps/{name:*}", "/opml/{name:*}"} {
		get(folder, func(ctx *fasthttp.RequestCtx) {
			target, _ := uri.Target(&ctx.Request.Header)
			path := string(uri.Decode(uri.Path(target)))
			d, ok := describe.Part(path)
			if !ok {
				s.problem(ctx, noSuchPath)
				return
			}
			s.publish(ctx, path, d)
		})
	}
}

// describedSite is what documents rest on besides the ring.
func (s *Shell) describedSite(cfg *Config) describe.Site {
	return describe.Site{
		Has:        func(path string) bool { return s.lookup(nil, fasthttp.MethodGet, []byte(path)) != nil },
		Contact:    cfg.Contact,
		Example:    cfg.ExampleSite,
		Deprecated: s.deprecated,
	}
}

// publish sends a document, from memory as long as it holds. key names it among
// everything that is kept.
func (s *Shell) publish(ctx *fasthttp.RequestCtx, key string, d describe.Document) {
	t := s.core.enter()
	defer t.leave()
	p, failed := s.cachedPage(drawDocument(d), t, key, d.Path, &noQuery)
	if failed != nil {
		s.write(ctx, t, failed)
		return
	}
	if d.Link != "" {
		setHeader(ctx, "Link", d.Link)
	}
	setHeader(ctx, "Webring-Seq", strconv.FormatUint(p.entry.Seq, 10))
	cache := p.age(t)
	if d.MaxAge > maxAge {
		_, now := t.core.Head()
		cache = "public, max-age=" + strconv.FormatInt(max(min(int64(d.MaxAge), p.entry.Until-now-1), 0), 10)
	}
	p.grow(t, p.send(ctx, cache))
}

// drawDocument draws what describe makes.
func drawDocument(d describe.Document) draw {
	return func(r *reader, path string, _ *fasthttp.Args) *content {
		if r.read == nil { // later rounds read what Build asks for
			r.wanted = append(r.wanted, d.Reads...)
		}
		source := describe.NewSource(&factReader{r}, r.shell.site, r.shell.now())
		body, err := d.Build(source)
		var refused *describe.Problem
		switch {
		case r.missing:
			return nil
		case errors.As(err, &refused):
			r.failed = &answer{Response: api.Response{Status: refused.Status, Media: api.Problem, Body: refused.Body}}
			r.failed.Seq = r.seq
			return nil
		case err != nil:
			panic(err) // a document of the core that does not have its form
		case body == nil:
			return r.fail(api.NotFound, noSuchPath.detail)
		}
		if until := source.Until(); !until.IsZero() {
			r.validity, r.until = api.Timed, min(r.until, until.Unix())
		}
		return newContent(d.Media, body)
	}
}

// factReader lets describe read.
type factReader struct{ *reader }

// Serve is [describe.Reader]'s. What has not been read yet has the status 0.
func (f *factReader) Serve(target []byte, r *api.Response) {
	if a := f.answerTo(string(target)); a != nil {
		*r = *a
	} else {
		*r = api.Response{}
	}
}
