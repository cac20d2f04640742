package publish

import (
	"strconv"
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
//	GET /log/checkpoint            the newest checkpoint; while witnesses cosign, the newest cosigned one
//	GET /log/tile/{level}/{n}      a tile of hashes
//	GET /log/tile/entries/{n}      a bundle of events
//	GET /log/texts/{n}             the texts of a bundle of events, as far as they were not redacted
//	GET /log/proof/{index}         the proof that an event is in the log (C2SP tlog-proof)
//
// Tiles and bundles can be partial. They are whole or absent: none reaches beyond the checkpoint.
func (h *handlers) log(ctx *fasthttp.RequestCtx, client string, known bool) {
	path := string(ctx.Path())
	source := h.source()
	served := source.LogCheckpoint()
	checkpoint, size, books := source.Log()
	if known && checkpoint != nil {
		served = checkpoint // a node of this ring follows the cosignatures by themselves
	}
	switch {
	case path == tlog.CheckpointPath && served != nil:
		answer(ctx, "text/plain; charset=utf-8", forASecond)
		ctx.Response.SetBodyRaw(served)
	case checkpoint == nil:
		h.problem(ctx, api.NotFound, "There is no checkpoint of the log yet.")
	case strings.HasPrefix(path, proofPrefix):
		// Cosignatures are worth more to who keeps a proof than a newer checkpoint.
		text, _, _ := strings.Cut(string(served), "\n\n")
		word := strings.TrimPrefix(path, proofPrefix)
		index, ok := parseNumber(word)
		if c, err := tlog.ParseCheckpoint(text + "\n"); ok && err == nil && index < uint64(c.N) && uint64(c.N) <= size {
			checkpoint, size = served, uint64(c.N)
		}
		h.proof(ctx, word, checkpoint, size, books)
	default:
		h.tile(ctx, path, size, books)
	}
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

// proof answers with the proof of an event.
func (h *handlers) proof(ctx *fasthttp.RequestCtx, word string, checkpoint []byte, size uint64, books Books) {
	index, ok := parseNumber(word)
	if !ok || index >= size {
		h.problem(ctx, api.NotFound, "The log has no event of this number, or not yet.")
		return
	}
	hashes, err := xtlog.ProveRecord(int64(size), int64(index), books.HashReader())
	if err != nil {
		panic(err)
	}
	records, err := books.Records(index, 1)
	if err != nil {
		panic(err)
	}
	p := tlog.Proof{Entry: records[0].Event, Index: int64(index), Hashes: hashes, Checkpoint: checkpoint}
	answer(ctx, "text/plain; charset=utf-8", forNobody)
	ctx.Response.Header.Set("Content-Disposition", `inline; filename="event-`+strconv.FormatUint(index, 10)+`.tlog-proof"`)
	ctx.Response.SetBodyRaw(p.Text())
}
