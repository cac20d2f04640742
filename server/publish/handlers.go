package publish

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/core/snap"
)

const (
	// maxFollowers bounds the clients that wait for checkpoints, and maxDownloads the
	// answers with events and snapshots under way. Each holds a connection. A quarter
	// is reserved for edges of this ring, each stranger has a bound of its own, and
	// edge/share shares the rest between them and their networks.
	maxFollowers, followersEach = 1024, 16
	maxDownloads, downloadsEach = 512, 8
	// retryAfter429 is in how many seconds there may be room again.
	retryAfter429 = "10"
	// heartbeat is the longest silence on an event stream. Writing it shows that a
	// follower has gone.
	heartbeat = 10 * time.Second
	// sendTime bounds the writing of each piece of an event to a follower.
	sendTime = 10 * time.Second
)

// Cache-Control of the answers. A checkpoint that is asked for without waiting may be a
// second old: shared caches answer followers that ask each second. A snapshot, which is named by
// its digest, and the texts of a bundle never change. But words in them may be redacted, so
// caches may keep them for an hour only.
const (
	forNobody  = "no-store"
	forASecond = "public, max-age=1"
	forAWhile  = "public, max-age=3600"
)

// handlers answer for the source of the switch.
type handlers struct {
	*Switch
	baseURL func() string

	followers, downloads *room
	heartbeat            time.Duration
	stall                time.Duration
	rate                 int64
}

// Handlers gives the handlers of the paths that edges ask, by path; a segment
// {sha256} is in hexadecimal:
//
//	GET /sync/checkpoint         the newest signed checkpoint
//	GET /sync/cosigned           the log's newest cosigned checkpoint, behind the newest signed
//	                             checkpoint of the same size
//	GET /sync/keys               what the origin has signed about the keys that sign it
//	GET /sync/snapshot/{sha256}  a snapshot's file, and in the field Webring-Plain-Length
//	                             how many bytes it has before it is compressed
//
// and those of the log ([LogPattern]), of which followers read the bundles.
//
// A checkpoint's id is {size}-{time}. A client that accepts text/event-stream gets a
// stream of checkpoints as they come: the id, and as data the signed note without its
// last line end. With the Last-Event-ID of the newest checkpoint, the stream begins
// with the next. If few events of the ledger lie between two checkpoints of a stream,
// the later one carries them: the field from holds the number of the first, and the
// fields events their records ([snap.AppendRecord]), in pieces of base64.
//
// Errors are problem documents. Their types begin with what baseURL returns. A client
// gets a 429 with Retry-After if there is no room for it. The newest checkpoint needs no room
// without a stream. The handlers answer HEAD too.
//
// Each handler is given the client's name, and whether the client is known to be an
// edge of this ring.
func Handlers(s *Switch, baseURL func() string) map[string]func(ctx *fasthttp.RequestCtx, client string, known bool) {
	return newHandlers(s, baseURL).routes()
}

func newHandlers(s *Switch, baseURL func() string) *handlers {
	return &handlers{Switch: s, baseURL: baseURL, heartbeat: heartbeat, stall: stallTime, rate: slowestRate,
		followers: newRoom(maxFollowers, maxFollowers/4, followersEach), downloads: newRoom(maxDownloads, maxDownloads/4, downloadsEach)}
}

func (h *handlers) routes() map[string]func(*fasthttp.RequestCtx, string, bool) {
	return map[string]func(*fasthttp.RequestCtx, string, bool){
		"/sync/checkpoint":        h.checkpoint,
		"/sync/cosigned":          h.cosigned,
		"/sync/keys":              h.keys,
		"/sync/snapshot/{sha256}": h.snapshot,
		LogPattern:                h.log,
	}
}

func (h *handlers) checkpoint(ctx *fasthttp.RequestCtx, client string, known bool) {
	ctx.Response.Header.Set("Vary", "Accept")
	if !ctx.IsHead() && acceptsStream(ctx) {
		release, ok := h.followers.take(client, known)
		if !ok {
			h.later(ctx, "As many follow this node, or follow it from this client, as there is room for. Ask for the checkpoint without a stream.")
			return
		}
		h.stream(ctx, release)
		return
	}
	note := h.source().Checkpoint()
	if note == nil {
		h.problem(ctx, api.NotFound, "There is no checkpoint yet.")
		return
	}
	answer(ctx, "text/plain; charset=utf-8", forASecond)
	ctx.Response.SetBodyRaw(note)
}

// cosigned answers with what witnesses have cosigned.
func (h *handlers) cosigned(ctx *fasthttp.RequestCtx, _ string, _ bool) {
	cosigned := h.source().Cosigned()
	if cosigned == nil {
		h.problem(ctx, api.NotFound, "No witness has cosigned a checkpoint yet, or none is asked.")
		return
	}
	answer(ctx, "text/plain; charset=utf-8", forASecond)
	ctx.Response.SetBodyRaw(cosigned)
}

// keys answers with the signed keys.
func (h *handlers) keys(ctx *fasthttp.RequestCtx, _ string, _ bool) {
	keys := h.source().Keys()
	if keys == nil {
		h.problem(ctx, api.NotFound, "The origin's signed keys are not known here.")
		return
	}
	answer(ctx, "text/plain; charset=utf-8", forNobody)
	ctx.Response.SetBodyRaw(keys)
}

func (h *handlers) snapshot(ctx *fasthttp.RequestCtx, client string, known bool) {
	digest, ok := pathDigest(ctx)
	if !ok {
		h.failed(ctx, snap.ErrNotHeld)
		return
	}
	h.deliver(ctx, client, known, func() (content, error) {
		file, length, err := h.source().Snapshot(digest)
		if err != nil {
			return content{}, err
		}
		body, plain := sized(file)
		if plain > 0 {
			ctx.Response.Header.Set(plainLengthField, strconv.FormatUint(plain, 10))
		}
		return content{"application/zstd", forAWhile, body, int(length)}, nil
	})
}

// plainLengthField tells a client whether it has room for a snapshot before it asks for one:
// HEAD gives it, too.
const plainLengthField = "Webring-Plain-Length"

// sized gives a compressed file as it is, and how long its content is, 0 if the header of
// its frame does not say so.
func sized(file io.ReadCloser) (same io.ReadCloser, plain uint64) {
	head := make([]byte, zstd.HeaderMaxSize)
	n, _ := io.ReadFull(file, head) // an error comes again with the rest
	var h zstd.Header
	if h.Decode(head[:n]) == nil && h.HasFCS {
		plain = h.FrameContentSize
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head[:n]), file), file}, plain
}

// content is what a long answer is made of.
type content struct {
	media, cache string
	body         io.ReadCloser
	length       int
}

// deliver answers with what find gives, if there is room for another download.
func (h *handlers) deliver(ctx *fasthttp.RequestCtx, client string, known bool, find func() (content, error)) {
	release, ok := h.downloads.take(client, known)
	if !ok {
		h.later(ctx, "As much is being sent from here, or to this client, as there is room for.")
		return
	}
	sends := false
	defer func() {
		if !sends {
			release()
		}
	}()
	c, err := find()
	if err != nil {
		h.failed(ctx, err)
		return
	}
	sends = true
	answer(ctx, c.media, c.cache)
	ctx.Response.SetBodyStream(&download{ReadCloser: c.body, conn: ctx.Conn(), stall: h.stall, rate: h.rate, release: release}, c.length)
}

// failed answers when the source has failed. It panics with an error that is not
// foreseen: the shell recovers from that, as from any fault of a handler.
func (h *handlers) failed(ctx *fasthttp.RequestCtx, err error) {
	if !errors.Is(err, snap.ErrNotHeld) {
		panic(err)
	}
	h.problem(ctx, api.NotFound, "This is not held here: not yet, or no longer.")
}

// later answers that there is no room now.
func (h *handlers) later(ctx *fasthttp.RequestCtx, detail string) {
	h.problem(ctx, api.RateLimited, detail)
	ctx.Response.Header.Set("Retry-After", retryAfter429)
}

func (h *handlers) problem(ctx *fasthttp.RequestCtx, code api.Code, detail string) {
	answer(ctx, "application/problem+json", forNobody)
	ctx.SetStatusCode(code.Status())
	ctx.Response.SetBodyRaw(api.AppendProblem(nil, h.baseURL(), code, detail, nil))
}

func answer(ctx *fasthttp.RequestCtx, media, cache string) {
	ctx.Response.Header.SetContentType(media)
	ctx.Response.Header.Set("Cache-Control", cache)
}

// parseNumber reads a decimal number without sign and leading zeros.
func parseNumber(word string) (uint64, bool) {
	n, err := strconv.ParseUint(word, 10, 63)
	return n, err == nil && strconv.FormatUint(n, 10) == word
}

// idOf gives the id of the checkpoint in a signed note, and how many events it has.
func idOf(note []byte) (id string, size uint64, ok bool) {
	text, _, _ := strings.Cut(string(note), "\n\n")
	c, err := snap.ParseCheckpoint(text + "\n")
	return strconv.FormatUint(c.Size, 10) + "-" + strconv.FormatInt(c.Time, 10), c.Size, err == nil
}

// pathDigest reads the last segment of the path.
func pathDigest(ctx *fasthttp.RequestCtx) (digest [32]byte, ok bool) {
	path := string(ctx.Path())
	word := path[strings.LastIndexByte(path, '/')+1:]
	b, err := hex.DecodeString(word)
	if err != nil || len(b) != len(digest) || hex.EncodeToString(b) != word {
		return digest, false
	}
	return [32]byte(b), true
}

// acceptsStream says whether the client named the media type of event streams.
func acceptsStream(ctx *fasthttp.RequestCtx) bool {
	for _, field := range ctx.Request.Header.PeekAll("Accept") {
		for _, media := range strings.Split(string(field), ",") {
			media, _, _ = strings.Cut(media, ";")
			if strings.EqualFold(strings.TrimSpace(media), "text/event-stream") {
				return true
			}
		}
	}
	return false
}
