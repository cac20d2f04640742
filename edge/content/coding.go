package content

import (
	"bytes"
	"compress/gzip"
	"io"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Coding is a content coding that answers come in. Each has validators of its own:
// the bytes differ (RFC 9110, 8.8.3).
type Coding struct {
	name, suffix string // Suffix ends the entity tag
	pack         func(body []byte) []byte
}

// Codings are those offered, the better ones first.
type Codings [3]Coding

var (
	// Lasting are the codings of a body that is compressed once and sent often.
	Lasting = Codings{
		{"br", brotliSuffix, packBrotli(6)},
		{"zstd", zstdSuffix, packZstd},
		{"gzip", gzipSuffix, packGzip(7)},
	}
	// Passing are those of a body that is compressed anew whenever a number in it
	// changes. Here zstd is smaller than the others are at several times its cost.
	Passing = Codings{
		{"zstd", zstdSuffix, packZstd},
		{"br", brotliSuffix, packBrotli(1)},
		{"gzip", gzipSuffix, packGzip(1)},
	}
)

const brotliSuffix, zstdSuffix, gzipSuffix = "-br", "-zstd", "-gz"

func packBrotli(level int) func([]byte) []byte {
	return packWith(func() compressor { return brotli.NewWriterLevel(nil, level) })
}

func packGzip(level int) func([]byte) []byte {
	return packWith(func() compressor {
		w, _ := gzip.NewWriterLevel(nil, level) // the level exists
		return w
	})
}

// compressor is a writer that can be used again.
type compressor interface {
	io.WriteCloser
	Reset(io.Writer)
}

// packWith gives a function that packs with such writers.
func packWith(open func() compressor) func(body []byte) []byte {
	pool := sync.Pool{New: func() any { return open() }}
	return func(body []byte) []byte {
		w := pool.Get().(compressor)
		defer pool.Put(w)
		var b bytes.Buffer
		w.Reset(&b)
		// Neither fails on a buffer.
		_, _ = w.Write(body)
		_ = w.Close()
		return b.Bytes()
	}
}

// zstdWriter may be used concurrently.
var zstdWriter = func() *zstd.Encoder {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return w
}()

func packZstd(body []byte) []byte { return zstdWriter.EncodeAll(body, nil) }

// Forms are a body in the codings of a table. Each is made when it is first asked for, and
// lives as long as the body. Forms must not be copied, and may be used concurrently.
type Forms [len(Codings{})]struct {
	once sync.Once
	body []byte // nil when it is not shorter
}

// Form is the body of one answer: as it is, or in a coding.
type Form struct {
	Body   []byte
	Coding *Coding // nil for none
	Varies bool    // Accept-Encoding decides which it is
	Hash   Hash    // of the body without a coding, the zero value if it is not known
}

// Pick gives a body in the first coding of the table that h accepts. It gives the body as
// it is when h accepts none, or when the coding makes it no shorter. made is how many bytes
// this call has added to the forms.
func (all *Forms) Pick(table *Codings, body []byte, h Fields) (f Form, made int) {
	f = Form{Body: body, Varies: true}
	accepted := List(h, "Accept-Encoding")
	for i := range table {
		if !accepts(accepted, table[i].name) {
			continue
		}
		packed := &all[i]
		packed.once.Do(func() {
			if b := table[i].pack(body); len(b) < len(body) {
				packed.body = bytes.Clone(b) // b has spare capacity
				made = len(b)
			}
		})
		if packed.body != nil {
			f.Body, f.Coding = packed.body, &table[i]
		}
		break
	}
	return f, made
}

// Suffix ends the entity tag of the body in this form.
func (f *Form) Suffix() string {
	if f.Coding == nil {
		return ""
	}
	return f.Coding.suffix
}

// AppendFields appends the fields that say which form it is. A 304 has only the one by
// which a cache finds the stored answer.
func (f *Form) AppendFields(dst []byte, notModified bool) []byte {
	if f.Varies {
		dst = append(dst, "Vary: Accept-Encoding\r\n"...)
	}
	if f.Coding != nil && !notModified {
		dst = AppendField(dst, "Content-Encoding", f.Coding.name)
	}
	return dst
}

// AsksCoding says whether a client accepts any coding.
func AsksCoding(h Fields) bool {
	accepted := List(h, "Accept-Encoding")
	for i := range Passing {
		if accepts(accepted, Passing[i].name) {
			return true
		}
	}
	return false
}

// accepts says whether the list in an Accept-Encoding names the coding with a weight
// above 0 (RFC 9110, 12.5.3). "*" names no coding here: clients name those they decode.
func accepts(list []byte, coding string) bool {
	for len(list) > 0 {
		var element []byte
		element, list, _ = bytes.Cut(list, []byte(","))
		name, parameters, _ := bytes.Cut(element, []byte(";"))
		if bytes.EqualFold(trim(name), []byte(coding)) {
			return Weight(parameters) > 0
		}
	}
	return false
}
