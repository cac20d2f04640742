package publish

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"
	xtlog "golang.org/x/mod/sumdb/tlog"

	"webring/core/api"
	"webring/core/snap"
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
	t, texts, ok := tlog.ParsePath(path)
	if known && checkpoint != nil {
		served = checkpoint // a node of this ring follows the cosignatures by themselves
	}
	switch {
	case ok && t.L < 0:
		h.bundle(ctx, client, known, t, texts)
	case path == tlog.CheckpointPath && served != nil:
		answerText(ctx, forASecond, served)
	case checkpoint == nil:
		h.problem(ctx, api.NotFound, "There is no checkpoint of the log yet.")
	case strings.HasPrefix(path, proofPrefix):
		// A proof with cosignatures is worth more than one to a newer checkpoint.
		text, _, _ := strings.Cut(string(served), "\n\n")
		word := strings.TrimPrefix(path, proofPrefix)
		index, ok := parseNumber(word)
		if c, err := tlog.ParseCheckpoint(text + "\n"); ok && err == nil && index < uint64(c.N) && uint64(c.N) <= size {
			checkpoint, size = served, uint64(c.N)
		}
		h.proof(ctx, word, checkpoint, size, books)
	default:
		h.tile(ctx, t, ok, size, books)
	}
}

// tile answers with a tile of hashes.
func (h *handlers) tile(ctx *fasthttp.RequestCtx, t xtlog.Tile, known bool, size uint64, books Books) {
	last := uint64(t.N)*tlog.TileWidth + uint64(t.W) // of the hashes of this level
	if !known || t.L > 6 || t.N > 1<<40 || last > size>>(tlog.TileHeight*t.L) {
		h.problem(ctx, api.NotFound, "The log has no such tile, or not yet.")
		return
	}
	hashes, err := xtlog.ReadTileData(t, books.HashReader())
	if err != nil {
		panic(err)
	}
	answer(ctx, "application/octet-stream", forGood)
	ctx.Response.SetBodyRaw(hashes)
}

// bundle answers with a bundle of events, or with their texts.
func (h *handlers) bundle(ctx *fasthttp.RequestCtx, client string, known bool, t xtlog.Tile, texts bool) {
	h.deliver(ctx, client, known, func() (content, error) {
		if t.N > 1<<40 {
			return content{}, snap.ErrNotHeld
		}
		records, err := h.source().Events(uint64(t.N)*tlog.TileWidth, t.W)
		if err == nil && len(records) < t.W {
			err = snap.ErrNotHeld
		}
		if err != nil {
			return content{}, err
		}
		cache, of := forGood, func(r snap.Record) []byte { return r.Event }
		if texts {
			cache, of = forAWhile, func(r snap.Record) []byte { return r.Texts }
		}
		var body []byte
		for _, r := range records {
			body = tlog.AppendEntry(body, of(r))
		}
		return content{"application/octet-stream", cache, io.NopCloser(bytes.NewReader(body)), len(body)}, nil
	})
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
	answerText(ctx, forNobody, p.Text())
	ctx.Response.Header.Set("Content-Disposition", `inline; filename="event-`+strconv.FormatUint(index, 10)+`.tlog-proof"`)
}

func answerText(ctx *fasthttp.RequestCtx, cache string, text []byte) {
	answer(ctx, "text/plain; charset=utf-8", cache)
	sum := sha256.Sum256(text)
	ctx.Response.Header.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	ctx.Response.SetBodyRaw(text)
}
