package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"webring/core"
	"webring/core/api"
	"webring/server/sites/score/local"
	"webring/static"
	"webring/templates"
)

// ReportsPath is the path below which reports are served. The last segment is the id, with
// ".json" or ".md" for one form; without either, Accept decides.
const ReportsPath = "/reports/"

// Reports shows stored readiness reports. rules gives those in force, nil before there are
// any.
func Reports(store *local.Store, rules func() *core.Rules, log *slog.Logger) func(ctx *fasthttp.RequestCtx, client string, secure bool) {
	return func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
		id := strings.TrimPrefix(string(ctx.Path()), ReportsPath)
		media := ""
		if bare, found := strings.CutSuffix(id, ".json"); found {
			id, media = bare, mediaJSON
		} else if bare, found := strings.CutSuffix(id, ".md"); found {
			id, media = bare, mediaMarkdown
		} else {
			media = preferred(string(ctx.Request.Header.Peek("Accept")), mediaHTML, mediaJSON, mediaMarkdown)
			ctx.Response.Header.Set("Vary", "Accept")
		}
		ring := rules()
		if ring == nil {
			ring = &core.Rules{}
		}
		r, err := store.Get(id)
		if err != nil {
			code, detail := api.Internal, "The report cannot be read."
			if errors.Is(err, local.ErrNotFound) {
				code, detail = api.NotFound, "There is no such report. Reports of sites that did not join are removed after a day, or sooner when there are many."
			} else {
				log.Error("report", "id", id, "err", err)
			}
			setProblem(ctx, ring.BaseURL, code, detail)
			return
		}
		body := draw(r, media, ring)
		sum := sha256.Sum256(body)
		tag := hex.EncodeToString(sum[:8])
		h := &ctx.Response.Header
		vary := "Accept-Encoding"
		if len(h.Peek("Vary")) > 0 {
			vary = "Accept, Accept-Encoding"
		}
		h.Set("Vary", vary)
		if quality(string(ctx.Request.Header.Peek("Accept-Encoding")), "gzip") > 0 {
			body = fasthttp.AppendGzipBytes(nil, body)
			tag += "-gz"
			h.Set("Content-Encoding", "gzip")
		}
		tag = `"` + tag + `"`
		h.Set("ETag", tag)
		// A report never changes, but it may be removed: with a member's words, or a day
		// after a check without a payment. So caches may keep it for an hour only.
		h.Set("Cache-Control", "public, max-age=3600")
		h.Set("X-Content-Type-Options", "nosniff")
		if strings.Contains(string(ctx.Request.Header.Peek("If-None-Match")), tag) {
			ctx.SetStatusCode(fasthttp.StatusNotModified)
			return
		}
		if media == mediaHTML {
			h.Set("Content-Security-Policy", templates.Policy)
			h.Set("Referrer-Policy", "strict-origin-when-cross-origin")
		}
		if media != mediaJSON {
			media += "; charset=utf-8"
		}
		ctx.SetContentType(media)
		ctx.SetBody(body)
	}
}

// setProblem answers with a problem document.
func setProblem(ctx *fasthttp.RequestCtx, base string, code api.Code, detail string) {
	ctx.SetStatusCode(code.Status())
	ctx.SetContentType("application/problem+json")
	ctx.SetBody(api.AppendProblem(nil, base, code, detail, nil))
}

const (
	mediaHTML     = "text/html"
	mediaJSON     = "application/json"
	mediaMarkdown = "text/markdown"
)

// draw draws a report in one of its forms.
func draw(r *local.Report, media string, ring *core.Rules) []byte {
	switch media {
	case mediaJSON:
		return r.JSON()
	case mediaMarkdown:
		return r.Markdown()
	}
	v := templates.Report{
		Page: templates.Page{Title: "Agent readiness: " + strconv.Itoa(r.Score) + " of 100 – " + ring.Name, Ring: ring.Name, Root: "../",
			Style: static.StylePath(ring.Accent, ring.AccentDark), Face: static.Face.Path, Script: static.Script.Path, Icon: static.Icon.Path,
			Policies: templates.Policies(ring.Policies), Look: templates.Look(ring.Look), Operator: templates.Operator(ring.Operator),
			Share: templates.Share{URL: ring.BaseURL + "/reports/" + r.ID, Image: ring.BaseURL + "/card.png", Alt: ring.Name}},
		ID: r.ID, Base: ring.BaseURL, Site: r.URL, Score: r.Score, Required: int(ring.RequiredScore), Rubric: r.Rubric, Note: r.Note, Requests: r.Requests, Scanned: r.ScannedAt,
	}
	for _, g := range r.Groups {
		v.Groups = append(v.Groups, templates.ReportGroup{Name: g.Name, Earned: g.Earned, Points: g.Points, Checks: shown(g)})
	}
	return templates.Render(v.HTML())
}

// preferred is the form that an Accept field ranks highest (RFC 9110, 12.5.1);
// the first of forms when it ranks none, or several alike.
func preferred(accept string, forms ...string) string {
	best, most := forms[0], 0.0
	for _, f := range forms {
		if q := quality(accept, f); q > most {
			best, most = f, q
		}
	}
	return best
}

// quality is what an Accept field gives a media type, by its most specific range.
func quality(accept, media string) (q float64) {
	family, _, _ := strings.Cut(media, "/")
	closest := 0
	for part := range strings.SplitSeq(accept, ",") {
		fields := strings.Split(part, ";")
		specific := map[string]int{"*/*": 1, family + "/*": 2, media: 3}[strings.ToLower(strings.TrimSpace(fields[0]))]
		if specific <= closest {
			continue
		}
		closest, q = specific, 1
		for _, parameter := range fields[1:] {
			if value, found := strings.CutPrefix(strings.ToLower(strings.TrimSpace(parameter)), "q="); found {
				if n, err := strconv.ParseFloat(value, 64); err == nil && n >= 0 && n <= 1 {
					q = n
				}
			}
		}
	}
	return q
}
