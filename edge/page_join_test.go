package edge

import (
	"context"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/pages"
	"webring/templates"
)

const formType = "application/x-www-form-urlencoded"

func TestADraftIsCheckedOnTheJoinPage(t *testing.T) {
	var got templates.Draft
	found := templates.Checked{Wrong: map[string]string{"url": "No <b>good."}}
	cfg := Config{Core: newRing(t), Check: func(_ context.Context, client string, d templates.Draft) templates.Checked {
		if client == "" {
			t.Error("nobody asks")
		}
		got = d
		return found
	}}
	s := serve(t, cfg)
	r := s.do("POST", "/join", "name=%3Cb%3E+x%FF&url=u&kind=agent&bid=2.00&unknown=1&name=second", "Content-Type", formType+"; charset=utf-8")
	if want := (templates.Draft{Name: "<b> x\ufffd", URL: "u", Kind: "agent", Bid: "2.00"}); got != want {
		t.Errorf("the draft is %+v, want %+v", got, want)
	}
	for _, want := range []string{`value="&lt;b&gt; x`, "No &lt;b&gt;good.", `aria-invalid="true"`, `aria-describedby="url-hint url-wrong"`, "Not yet"} {
		if r.status != 200 || !strings.Contains(r.body, want) {
			t.Errorf("status %d, no %s in %s", r.status, want, r.body)
		}
	}
	wantFields(t, r, "Cache-Control", "no-store", "Content-Type", pages.Media, "Content-Security-Policy", templates.Policy, "ETag", "")
	wantCommon(t, r)

	found = templates.Checked{Price: "1.00", Slug: "x", Command: "pay"}
	for price, rank := range map[string]string{"1.00": ">4<", "1.01": ">2<", "51.00": ">2<", "51.01": ">1<"} {
		found.Price = price
		if r := s.do("POST", "/join", "", "Content-Type", formType); !strings.Contains(r.body, "Rank it would get</dt><dd"+rank) {
			t.Errorf("a standing of %s: no rank %s in %s", price, rank, r.body)
		}
	}
	if r := s.get("/join"); r.status != 200 || strings.Contains(r.body, "aria-invalid") {
		t.Errorf("the page remembers: %s", r.body)
	}
}

// A node that is at one time the origin and at another not checks drafts, or passes them on.
func TestADraftIsCheckedWhereItCanBe(t *testing.T) {
	check := func(context.Context, string, templates.Draft) templates.Checked {
		return templates.Checked{Command: "pay", Price: "1.00"}
	}
	passOn := map[string]Handler{"POST /join": func(ctx *fasthttp.RequestCtx, _ string, _ bool) { ctx.SetBodyString("elsewhere") }}
	here := true
	s := serve(t, Config{Core: newRing(t), Check: check, Checks: func() bool { return here }, Others: passOn})
	for _, here = range []bool{true, false, true} {
		r := s.do("POST", "/join", "name=x", "Content-Type", formType)
		if r.status != 200 || here == (r.body == "elsewhere") {
			t.Errorf("checked here: %t; status %d, %s", here, r.status, r.body)
		}
	}
	if _, err := New(Config{Core: newRing(t), Check: check, Checks: func() bool { return true }}); err == nil {
		t.Error("drafts can be passed on to nobody")
	}
}

func TestOnlyFormsAreChecked(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Check: func(context.Context, string, templates.Draft) templates.Checked { panic("asked") }})
	for _, media := range []string{"application/json", "text/plain", "", "multipart/form-data; boundary=x"} {
		wantProblem(t, s.do("POST", "/join", "name=x", "Content-Type", media), api.InvalidRequest)
	}
	wantFields(t, s.do("OPTIONS", "/join", ""), "Allow", "GET, HEAD, OPTIONS, POST")
	wantProblem(t, serve(t, Config{Core: newRing(t)}).do("POST", "/join", "", "Content-Type", formType), api.MethodNotAllowed)
	check := func(context.Context, string, templates.Draft) templates.Checked { return templates.Checked{} }
	if _, err := New(Config{Core: newRing(t), Check: check, Others: map[string]Handler{"POST /join": nil}}); err == nil {
		t.Error("a form with two handlers")
	}
}
