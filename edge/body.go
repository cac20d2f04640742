package edge

import (
	"bytes"
	"errors"

	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
)

// bodyCodings are the content codings accepted in request bodies. A refusal lists them in
// Accept-Encoding (RFC 9110, 15.5.16).
const bodyCodings = "gzip, zstd"

var (
	unknownCoding = refusal{api.UnsupportedEncoding, "The Content-Encoding of a request body may be gzip or zstd, one of them and once. Or send the body as it is, without the field.", ""}
	brokenCoding  = refusal{api.InvalidRequest, "The body is not what its Content-Encoding says.",
		`,"errors":[{"pointer":"","detail":"The body does not decode as its Content-Encoding says. Send it as it is, without the field, or encode it anew."}]`}
)

// bodyKey is the key under which a request has its decoded body.
type bodyKey struct{}

// Body gives the body of a request that a [Handler] answers, without its content
// coding. It is valid as long as the request. ctx.Request.Body gives the bytes as
// they were received.
func Body(ctx *fasthttp.RequestCtx) []byte {
	if decoded, ok := ctx.UserValue(bodyKey{}).([]byte); ok {
		return decoded
	}
	return ctx.Request.Body()
}

// post decodes the body and calls a handler, for which [Body] gives it.
func (s *Shell) post(ctx *fasthttp.RequestCtx, answer fasthttp.RequestHandler) {
	refused := decodeBody(ctx)
	if refused == nil {
		answer(ctx)
		return
	}
	s.problem(ctx, *refused)
	if refused == &unknownCoding {
		setHeader(ctx, "Accept-Encoding", bodyCodings)
	}
}

// decodeBody decodes a body for [Body], or says why it cannot.
func decodeBody(ctx *fasthttp.RequestCtx) *refusal {
	decode, ok := decoderOf(content.List(&ctx.Request.Header, "Content-Encoding"))
	switch {
	case !ok:
		return &unknownCoding
	case decode == nil:
		return nil
	}
	body, err := decode(ctx.Request.Body())
	switch {
	case errors.Is(err, errDecodedLong):
		return &bodyTooLarge
	case err != nil:
		return &brokenCoding
	}
	ctx.SetUserValue(bodyKey{}, body)
	return nil
}

// decoderOf gives the decoder of the coding in a list, nil for no coding. It is not ok for
// an unknown coding, and for several.
func decoderOf(list []byte) (decode func([]byte) ([]byte, error), ok bool) {
	for name := range bytes.SplitSeq(list, []byte(",")) {
		name = bytes.ToLower(trim(name))
		switch {
		case len(name) == 0 || string(name) == "identity":
			continue
		case decode != nil:
			return nil, false
		}
		switch string(name) {
		case "gzip", "x-gzip": // RFC 9110, 8.4.1.3
			decode = gunzip
		case "zstd":
			decode = unzstd
		default:
			return nil, false
		}
	}
	return decode, true
}

// errDecodedLong says that a decoded body is longer than MaxBody. Decoding stopped there.
var errDecodedLong = errors.New("edge: the decoded body is too long")

func gunzip(coded []byte) ([]byte, error) {
	var r fasthttp.Request
	r.SetBodyRaw(coded)
	body, err := r.BodyGunzipWithLimit(MaxBody)
	if errors.Is(err, fasthttp.ErrBodyTooLarge) {
		return nil, errDecodedLong
	}
	return body, err
}

// zstdWindow is the largest window that the coding may have (RFC 9659). An encoder that
// does not know the length of a body beforehand asks for a large one.
const zstdWindow = 8 << 20

// zstdReader may be used concurrently. It gives no more than it is given room for, and
// decodes one block beyond that, of 128 KiB at most.
var zstdReader = func() *zstd.Decoder {
	r, err := zstd.NewReader(nil, zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderMaxMemory(zstdWindow), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return r
}()

func unzstd(coded []byte) ([]byte, error) {
	body, err := zstdReader.DecodeAll(coded, make([]byte, 0, MaxBody))
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return nil, errDecodedLong
	}
	return body, err
}
