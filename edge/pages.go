package edge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/static"
	"webring/templates"
)

// pagePolicy lets a page load its style sheet and nothing else, and nobody
// frame it.
const pagePolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// immutable is the Cache-Control of what is named by its content.
const immutable = "public, max-age=31536000, immutable"

// topRows is how many members the front page shows.
const topRows = 25

// home shows the ring to people. Pages are filled from the same documents that
// agents read.
func (s *Shell) home(ctx *fasthttp.RequestCtx) {
	directory, board := s.answers.Get().(*answer), s.answers.Get().(*answer)
	t := s.core.enter()
	defer t.leave()
	t.core.Serve([]byte("/api"), &directory.Response)
	t.core.Serve(fmt.Appendf(nil, "/api/leaderboard?limit=%d", topRows), &board.Response)
	switch {
	case directory.Status != fasthttp.StatusOK:
		s.write(ctx, t, directory)
	case board.Status != fasthttp.StatusOK:
		s.write(ctx, t, board)
	default:
		view, err := homeView(directory.Body, board.Body)
		if err != nil {
			panic(err) // a document of the core that does not have its form
		}
		setNumber(ctx, "Webring-Seq", board.Seq)
		s.page(ctx, view.HTML(), cacheControls[t.lifetime(&board.Response)])
	}
	s.answers.Put(directory)
	s.answers.Put(board)
}

// homeView fills the front page from the directory and the leaderboard.
func homeView(directory, board []byte) (v templates.Home, err error) {
	var about struct {
		Name      string
		Synthetic bool
		Payments  struct {
			Fee string `json:"registration_fee_usd"`
		}
	}
	var ranked struct {
		Total int
		Rules struct {
			JoinAtFirst string `json:"join_at_first_bid_usd"`
		}
		Leaderboard []struct {
			Rank        int
			Name        string
			URL         string
			Description string
			Kind        string
			Category    string
			Standing    string  `json:"effective_bid_usd"`
			Paid        string  `json:"paid_total_usd"`
			TakeFirst   *string `json:"to_take_first_usd"`
		}
	}
	if err = json.Unmarshal(directory, &about); err != nil {
		return v, err
	}
	if err = json.Unmarshal(board, &ranked); err != nil {
		return v, err
	}
	v = templates.Home{
		Page:        templates.Page{Title: about.Name, Ring: about.Name, Style: static.Style.Path},
		Members:     ranked.Total,
		Synthetic:   about.Synthetic,
		Fee:         about.Payments.Fee,
		JoinAtFirst: ranked.Rules.JoinAtFirst,
	}
	for _, m := range ranked.Leaderboard {
		r := templates.Row{Rank: m.Rank, Name: m.Name, URL: m.URL, Description: m.Description,
			Kind: m.Kind, Category: m.Category, Standing: m.Standing, Paid: m.Paid}
		if m.TakeFirst != nil {
			r.TakeFirst = *m.TakeFirst
		}
		v.Rows = append(v.Rows, r)
	}
	if len(v.Rows) > 0 {
		v.Leader = &v.Rows[0]
	}
	return v, nil
}

// explain shows what a problem code means.
func (s *Shell) explain(code api.Code) fasthttp.RequestHandler {
	e := explanations[code]
	body := templates.Problem{
		Page:    templates.Page{Title: code.Title(), Root: "../", Style: static.Style.Path},
		Code:    string(code),
		Status:  code.Status(),
		Meaning: e.meaning,
		Remedy:  e.remedy,
	}.HTML()
	return func(ctx *fasthttp.RequestCtx) { s.page(ctx, body, "public, max-age=3600") }
}

// page sends HTML, with a validator of its content: what is drawn around the
// documents changes too.
func (s *Shell) page(ctx *fasthttp.RequestCtx, body []byte, cache string) {
	sum := sha256.Sum256(body)
	setHeader(ctx, "Content-Security-Policy", pagePolicy)
	setHeader(ctx, "Referrer-Policy", "strict-origin-when-cross-origin")
	sendFile(ctx, "text/html; charset=utf-8", `"`+hex.EncodeToString(sum[:8])+`"`, cache, body)
}

func serveAsset(a static.Asset) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) { sendFile(ctx, a.Type, a.ETag, immutable, a.Body) }
}

// sendFile answers with body, which must not change, or with 304.
func sendFile(ctx *fasthttp.RequestCtx, media, tag, cache string, body []byte) {
	setHeader(ctx, "ETag", tag)
	setHeader(ctx, "Cache-Control", cache)
	if unchanged(&ctx.Request.Header, []byte(tag)) {
		ctx.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	ctx.Response.Header.SetContentType(media)
	ctx.Response.SetBodyRaw(body)
}
