package local

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"webring/server/sites/fetch"
	"webring/server/sites/score"
	"webring/server/sites/score/exemplar"
)

// filled repeats unit between head and tail up to n bytes.
func filled(n int, head, unit, tail string) []byte {
	return []byte(head + strings.Repeat(unit, (n-len(head)-len(tail))/len(unit)) + tail)
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestReadersTakeLittleMemory has documents that are as long as they may be, and
// made so that a reader takes many times as much.
func TestReadersTakeLittleMemory(t *testing.T) {
	const most = 64 << 20
	const pairs = `{"name":"a","version":"1",`
	for _, c := range []struct{ id, head, unit, tail string }{
		{"skills", `{"skills":[0`, ",0", "]}"},
		{"skills", `{"skills":[{}`, ",{         }", "]}"},
		{"mcp-card", pairs + `"remotes":[{}`, ",{          }", "]}"},
		{"agent-card", pairs + `"description":"a","url":"u","skills":[0`, ",         0", "]}"},
		{"api-catalog", `{"linkset":[0`, ",[]", "]}"},
		{"x402", `{"resources":[`, "[", ""},
		{"ai-catalog", `{"specVersion":"1.0","entries":[{}`, ",{          }", "]}"},
		{"ai-catalog", `{"specVersion":"1.0","entries":[{"identifier":"i","type":"application/mcp-server-card+json","data":`, "[", "}]}"},
		{"signatures", `{"keys":[{}`, ",{          }", "]}"},
	} {
		d := &document{}
		if n := allocated(func() { d.read(c.id, filled(fetch.MaxBody, c.head, c.unit, c.tail)) }); n > most || d.formed {
			t.Errorf("%s of %q: %d MiB, %t", c.id, c.unit, n>>20, d.formed)
		}
	}
	s := &site{asked: "https://site.dev/", home: answer{err: fetch.ErrUnreachable}}
	for _, unit := range []string{` a=""`, "><u", "><u/"} {
		var n int
		if size := allocated(func() { n, _ = s.readSitemap(filled(maxSitemap, "<urlset", unit, "></urlset>"), "") }); size > most || n != 0 {
			t.Errorf("a sitemap of %q: %d MiB, %d locations", unit, size>>20, n)
		}
	}
	p := &page{}
	if size := allocated(func() {
		p = readPage(filled(fetch.MaxBody, `<script type="application/ld+json">[{}`, ",{}", `]</script>`), "text/html")
		for _, text := range p.jsonLD {
			linkedData(text)
		}
	}); size > most || len(p.jsonLD) != 1 {
		t.Errorf("JSON-LD: %d MiB, %d blocks", size>>20, len(p.jsonLD))
	}
}

// A title in XHTML comes in as many parts as it is cut into.
func TestTitlesInPartsTakeLittleMemory(t *testing.T) {
	var p *page
	if size := allocated(func() {
		p = readPage(filled(fetch.MaxBody, `<html xmlns="http://www.w3.org/1999/xhtml"><title>`, "a<?b?>", `</title></html>`), "application/xhtml+xml")
	}); size > 512<<20 || len(p.title) < fetch.MaxBody/7 {
		t.Errorf("%d MiB, %d characters", size>>20, len(p.title))
	}
}

// TestReadersTakeLargeDocuments holds that the bounds are beyond what is honest.
func TestReadersTakeLargeDocuments(t *testing.T) {
	d := &document{}
	d.read("openapi", filled(fetch.MaxBody, `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/paid":{"post":{"x-payment-info":{}}}},"components":{"schemas":{"a":{}`,
		`,"Schema":{"type":"object","properties":{"id":{"type":"string"},"of":{"$ref":"#/components/schemas/A"}}}`, "}}}"))
	if !d.formed || !d.priced {
		t.Errorf("a large description: %+v", d)
	}
	s := &site{asked: "https://site.dev/", home: answer{err: fetch.ErrUnreachable}}
	n, err := s.readSitemap(filled(maxSitemap, "<urlset>", "<url><loc>https://site.dev/page</loc><lastmod>2026-01-01</lastmod></url>\n", "</urlset>"), "")
	if n != maxLocations || err != nil {
		t.Errorf("a large sitemap: %d, %v", n, err)
	}
}

// TestOneScanReadsAtATime holds that who waits too long for its turn is told to
// come back, and not scored by what was not read.
func TestOneScanReadsAtATime(t *testing.T) {
	t.Parallel()
	w := serve(t, &exemplar.Site{Name: "x", About: "y"})
	if !w.turns.take(t.Context(), 0) {
		t.Fatal("it is nobody's turn")
	}
	var down *score.Unavailable
	if got, err := w.Score(t.Context(), "https://site.dev/"); !errors.As(err, &down) || !down.Busy {
		t.Errorf("%+v, %v", got, err)
	}
	// Nor is it a failure, of which a few would stop all scoring.
	ctx, cancel := context.WithTimeout(t.Context(), TurnTime/2)
	defer cancel()
	down = nil
	if got, err := w.Score(ctx, "https://site.dev/"); !errors.As(err, &down) || !down.Busy {
		t.Errorf("%+v, %v", got, err)
	}
	w.turns.pass()
	if got, err := w.Score(t.Context(), "https://site.dev/"); err != nil || got.Score != 100 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestPanicOfAReaderIsTheCallers holds that a panic comes to where it is held:
// in a goroutine of its own it would end the process.
func TestPanicOfAReaderIsTheCallers(t *testing.T) {
	w := serve(t, &exemplar.Site{Name: "x", About: "y"})
	s := begin(t.Context(), w.cache, w.turns, "https://site.dev/")
	s.turns = nil // whose first use panics
	defer func() {
		if recover() == nil {
			t.Error("nothing panicked")
		}
	}()
	s.explore(t.Context())
}
