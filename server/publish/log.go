package publish

import (
	"strings"

	"github.com/valyala/fasthttp"
	xtlog "golang.org/x/mod/sumdb/tlog"

	"webring/core/api"
	"webring/edge/tlog"
)

// LogPattern is the pattern of the handler of the log.
const LogPattern = "/log/{rest:*}"

const proofPrefix = "/log/proof/"

// forGood is the Cache-Control of what never changes.
const forGood = "public, max-age=31536000, immutable"

// log answers below /log/, as C2SP tlog-tiles says:
//
//	GET /log/checkpoint            the checkpoint, with cosignatures: [handlers.logCheckpoint]
//	GET /log/tile/{level}/{n}      a tile of hashes
//	GET /log/tile/entries/{n}      a bundle of events
//	GET /log/texts/{n}             the texts of a bundle of events, as far as they were not redacted
//	GET /log/proof/{index}         the proof that an event is in the log (C2SP tlog-proof)
//
// Tiles and bundles can be partial. They are whole or absent: none reaches beyond the checkpoint.
func (h *handlers) log(ctx *fasthttp.RequestCtx, client string, known bool) {
	path := string(ctx.Path())
	size, books := h.source().Log()
	if word, ok := strings.CutPrefix(path, proofPrefix); ok {
		h.proof(ctx, word, books)
		return
	}
	h.tile(ctx, path, size, books)
}

// tile answers with a tile or a bundle.
func (h *handlers) tile(ctx *fasthttp.RequestCtx, path string, size uint64, books Books) {
	t, texts, ok := tlog.ParsePath(path)
	level := max(t.L, 0)
	last := uint64(t.N)*tlog.TileWidth + uint64(t.W) // of the hashes of this level
	if !ok || level > 6 || t.N > 1<<40 || last > size>>(tlog.TileHeight*level) {
		h.problem(ctx, api.NotFound, "The log has no such tile, or not yet.")
		return
	}
	if t.L >= 0 {
		hashes, err := xtlog.ReadTileData(t, books.HashReader())
		if err != nil {
			panic(err)
		}
		answer(ctx, "application/octet-stream", forGood)
		ctx.Response.SetBodyRaw(hashes)
		return
	}
	records, err := books.Records(uint64(t.N)*tlog.TileWidth, t.W)
	if err != nil {
		panic(err)
	}
	var body []byte
	for _, r := range records {
		if texts {
			body = tlog.AppendEntry(body, r.Texts)
		} else {
			body = tlog.AppendEntry(body, r.Event)
		}
	}
	cache := forGood
	if texts {
		cache = forAWhile
	}
	answer(ctx, "application/octet-stream", cache)
	ctx.Response.SetBodyRaw(body)
}

// proof answers with the proof of an event in the tree of a checkpoint: the one with cosignatures if
// it has the event.
func (h *handlers) proof(ctx *fasthttp.RequestCtx, word string, books Books) {
	index, ok := parseNumber(word)
	signed := h.source().Proving(index)
	if !ok || signed == nil {
		h.problem(ctx, api.NotFound, "The log has no event of this number, or not yet.")
		return
	}
	hashes, err := xtlog.ProveRecord(sizeOf(signed), int64(index), books.HashReader())
	if err != nil {
		panic(err)
	}
	records, err := books.Records(index, 1)
	if err != nil {
		panic(err)
	}
	p := tlog.Proof{Entry: records[0].Event, Index: int64(index), Hashes: hashes, Checkpoint: signed}
	answer(ctx, "text/plain; charset=utf-8", forNobody)
	ctx.Response.Header.Set("Content-Disposition", `inline; filename="event-`+word+`.tlog-proof"`)
	ctx.Response.SetBodyRaw(p.Text())
}

// sizeOf is the size of a checkpoint of this ring's log, 0 for none.
func sizeOf(signed []byte) int64 {
	text, _, _ := strings.Cut(string(signed), "\n\n")
	at, _ := tlog.ParseCheckpoint(text + "\n")
	return at.N
}

// Proving implements [Source].
func (p *Publisher) Proving(index uint64) []byte {
	cosigned := p.LogCheckpoint()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, signed := range [][]byte{cosigned, p.w.newest} {
		if index < uint64(sizeOf(signed)) {
			return signed
		}
	}
	return nil
}

// Proving implements [Source].
func (r *Relay) Proving(index uint64) []byte {
	signed := r.LogCheckpoint()
	if size := uint64(sizeOf(signed)); index < size && size <= r.c.Books.Size() {
		return signed
	}
	return nil
}
