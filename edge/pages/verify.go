package pages

import (
	"sync"

	"github.com/valyala/fasthttp"

	"webring/edge/content"
	"webring/static"
	"webring/templates"
	"webring/wasm/module"
)

// VerifyPath is where a reader's browser recomputes the leaderboard.
const VerifyPath = "/verify"

// VerifyFields are what the page at VerifyPath carries in place of [Fields].
const VerifyFields = "Content-Security-Policy: " + templates.VerifyPolicy + "\r\nReferrer-Policy: strict-origin-when-cross-origin\r\n"

// Module gives the core as a file for browsers, and false if the binary was built without it.
var Module = sync.OnceValues(func() (static.Asset, bool) {
	b, err := module.Core()
	if err != nil {
		return static.Asset{}, false
	}
	return static.Core(b), true
})

// drawVerify draws the page on which a reader recomputes the leaderboard.
func drawVerify(r *reader, path string, _ *fasthttp.Args) *content.Content {
	v, ok := r.survey()
	if !ok {
		return nil
	}
	core, _ := Module()
	return drawn(templates.Verify{
		Page: frame(&v.about, path, "Verify – "+v.about.Name, "Recompute the leaderboard from the signed ledger, in your browser or with webring edge."),
		Base: r.core.BaseURL(), Verifier: static.Verify.Path, Module: core.Path,
	}.HTML())
}
