package server

import (
	"context"
	"encoding/json"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/server/paid"
)

// draftCheck is what a registration would come to.
type draftCheck struct {
	Taken    bool              `json:"taken"`
	Errors   []paid.FieldError `json:"errors"`
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
			c.Errors = []paid.FieldError{}
		}
		if d.Price > 0 {
			c.Price = paid.FormatUSD(d.Price)
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
