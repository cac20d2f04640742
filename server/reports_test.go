package server

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/sites/score/local"
	"webring/templates"
)

func TestReportsInTheirForms(t *testing.T) {
	books, err := ledger.Open(ledger.Config{Store: ledgertest.NewStore(), HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer books.Close()
	store := local.Open(books, nil)
	r := &local.Report{URL: "https://acme.com/", Score: 41, Rubric: "webring-1", ScannedAt: time.Now().UTC(), Note: local.Note}
	if err := store.Put(r); err != nil {
		t.Fatal(err)
	}
	h := Reports(store, func() *core.Rules { return &core.Rules{Name: "Ring", BaseURL: "https://ring.dev"} }, slog.New(slog.DiscardHandler))
	get := func(path string, header ...string) *fasthttp.Response {
		ctx := &fasthttp.RequestCtx{}
		ctx.Request.SetRequestURI(path)
		for i := 0; i < len(header); i += 2 {
			ctx.Request.Header.Set(header[i], header[i+1])
		}
		h(ctx, "c", true)
		return &ctx.Response
	}
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, c := range []struct{ suffix, accept, media, words string }{
		{"", "", "text/html; charset=utf-8", "<h1"}, {"", browser, "text/html; charset=utf-8", "41 of 100"}, {"", "*/*", "text/html; charset=utf-8", "<h1"},
		{"", "application/json", "application/json", `"score": 41`}, {"", "text/html;q=0.5, application/json", "application/json", `"score"`},
		{"", "text/markdown, */*;q=0.1", "text/markdown; charset=utf-8", "# Agent readiness: 41"}, {"", "text/*, application/json;q=0", "text/html; charset=utf-8", "<h1"},
		{".json", browser, "application/json", `"score": 41`}, {".md", browser, "text/markdown; charset=utf-8", "# Agent readiness"},
		{"", "image/png", "text/html; charset=utf-8", "<h1"}, {"", strings.Repeat("text/markdown;q=2,", 300), "text/markdown; charset=utf-8", "# Agent"},
	} {
		got := get("/reports/"+r.ID+c.suffix, "Accept", c.accept)
		if got.StatusCode() != 200 || string(got.Header.ContentType()) != c.media || !strings.Contains(string(got.Body()), c.words) ||
			string(got.Header.Peek("Cache-Control")) != "public, max-age=3600" {
			t.Errorf("%s for %.40s: %s %.60s", c.suffix, c.accept, &got.Header, got.Body())
		}
		if vary := string(got.Header.Peek("Vary")); (vary == "Accept, Accept-Encoding") != (c.suffix == "") || !strings.HasSuffix(vary, "Accept-Encoding") {
			t.Errorf("%s: Vary %q", c.suffix, vary)
		}
		packed := get("/reports/"+r.ID+c.suffix, "Accept", c.accept, "Accept-Encoding", "br, gzip;q=0.5")
		if body, err := packed.BodyGunzip(); err != nil || string(body) != string(got.Body()) || string(packed.Header.Peek("ETag")) == string(got.Header.Peek("ETag")) {
			t.Errorf("%s in gzip: %v, %s", c.suffix, err, &packed.Header)
		}
		if plain := get("/reports/"+r.ID+c.suffix, "Accept", c.accept, "Accept-Encoding", "gzip;q=0, br"); string(plain.Body()) != string(got.Body()) {
			t.Errorf("%s is packed for who wants no gzip", c.suffix)
		}
		if again := get("/reports/"+r.ID+c.suffix, "Accept", c.accept, "If-None-Match", string(got.Header.Peek("ETag"))); again.StatusCode() != 304 || len(again.Body()) != 0 {
			t.Errorf("%s: %d with its own tag", c.suffix, again.StatusCode())
		}
	}
	if policy := get("/reports/" + r.ID).Header.Peek("Content-Security-Policy"); string(policy) != templates.Policy {
		t.Errorf("policy %q", policy)
	}
	for _, path := range []string{"/reports/", "/reports/x", "/reports/../drafts/" + r.ID, "/reports/" + r.ID + ".xml", "/reports/" + strings.Repeat("a", 26)} {
		if got := get(path); got.StatusCode() != 404 || string(got.Header.ContentType()) != "application/problem+json" {
			t.Errorf("%s: %d %s", path, got.StatusCode(), got.Body())
		}
	}
}
