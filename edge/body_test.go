package edge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/templates"
)

// zstdWriter writes frames that say how long the body is. It may be used concurrently.
var zstdWriter = func() *zstd.Encoder {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err) // there are no options
	}
	return w
}()

// tellBody answers with what it reads, and with how many bytes came.
func tellBody(ctx *fasthttp.RequestCtx, _ string, _ bool) {
	fmt.Fprintf(ctx, "%d %s", len(ctx.Request.Body()), Body(ctx))
}

func TestBodiesInGzipAndZstdAreRead(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": tellBody}})
	const text = `{"member":"beta","amount":"1.00"}`
	full := strings.Repeat("x", MaxBody)
	whole := string(zstdWriter.EncodeAll([]byte(text), nil))
	for _, c := range []struct{ fields, coded, want string }{
		{"", text, text},
		{"Content-Encoding: \r\n", text, text},
		{"Content-Encoding: identity\r\n", text, text},
		{"Content-Encoding: gzip\r\n", gzipped(t, text), text},
		{"content-encoding: GZip \r\n", gzipped(t, text), text},
		{"Content-Encoding: x-gzip\r\n", gzipped(t, text), text},
		{"Content-Encoding: , gzip,\r\n", gzipped(t, text), text},
		{"Content-Encoding: identity\r\nContent-Encoding: gzip\r\n", gzipped(t, text), text},
		{"Content-Encoding: gzip\r\n", gzipped(t, "{") + gzipped(t, "}"), "{}"},
		{"Content-Encoding: gzip\r\n", gzipped(t, ""), ""},
		{"Content-Encoding: gzip\r\n", gzipped(t, full), full},
		{"Content-Encoding: zstd\r\n", whole, text},
		{"Content-Encoding: ZSTD\r\n", zstded(t, text), text},
		{"Content-Encoding: zstd\r\n", whole + whole, text + text},
		{"Content-Encoding: zstd\r\n", zstded(t, full), full},
	} {
		r := s.Raw(fmt.Sprintf("POST /api/bid HTTP/1.1\r\nHost: x\r\n%sContent-Length: %d\r\n\r\n%s", c.fields, len(c.coded), c.coded))
		if want := fmt.Sprint(len(c.coded), " ", c.want); r.Status != 200 || r.Body != want {
			t.Errorf("%q: %d %.80q, want %.80q", c.fields, r.Status, r.Body, want)
		}
	}
	// The other bodies that this node reads.
	if r := s.message(gzipped(t, listTools), "Content-Encoding", "gzip"); r.Status != 200 || !strings.Contains(r.Body, `"outputSchema"`) {
		t.Errorf("a message: %d %.200s", r.Status, r.Body)
	}
	var checked templates.Draft
	joins := serve(t, Config{Core: newRing(t), Check: func(_ context.Context, _ string, d templates.Draft) templates.Checked {
		checked = d
		return templates.Checked{}
	}})
	if r := joins.Do("POST", "/join", gzipped(t, "name=A+b&kind=mcp"), "Content-Type", "application/x-www-form-urlencoded", "Content-Encoding", "gzip"); r.Status != 303 || checked.Name != "A b" || checked.Kind != "mcp" {
		t.Errorf("a form: %d, read as %+v", r.Status, checked)
	}
}

func TestOtherContentCodingsAreUnsupported(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": tellBody}})
	for _, coding := range []string{"br", "deflate", "compress", "*", "gzip;q=1", "gzip, gzip", "gzip, zstd", "zstd, br", "aes128gcm", "gzipped", "\"gzip\""} {
		for _, path := range []string{"/api/bid", "/mcp"} {
			r := s.Do("POST", path, "{}", "Content-Type", "application/json", "Content-Encoding", coding)
			wantProblem(t, r, api.UnsupportedEncoding)
			wantFields(t, r, "Accept-Encoding", "gzip, zstd")
		}
	}
	// A client or proxy may also say it in two lines.
	wantProblem(t, s.Do("POST", "/api/bid", "{}", "Content-Encoding", "gzip", "Content-Encoding", "gzip"), api.UnsupportedEncoding)
	// Where no body is read, nothing is said about one.
	if r := s.Get("/api", "Content-Encoding", "br"); r.Status != 200 {
		t.Errorf("a read: %d", r.Status)
	}
	wantProblem(t, s.Do("POST", "/nowhere", "{}", "Content-Encoding", "br"), api.NotFound)
	wantProblem(t, s.Do("POST", "/api/ring", "{}", "Content-Encoding", "br"), api.MethodNotAllowed)
}

func TestBodiesThatDoNotDecodeAreInvalid(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": tellBody}})
	good, frame := gzipped(t, `{"member":"beta"}`), zstded(t, `{"member":"beta"}`)
	for name, c := range map[string]struct{ coding, body string }{
		"plain JSON as gzip": {"gzip", "{}"}, "plain JSON as zstd": {"zstd", "{}"}, "zstd as gzip": {"gzip", frame}, "gzip as zstd": {"zstd", good}, "nothing as gzip": {"gzip", ""},
		"cut gzip": {"gzip", good[:len(good)-1]}, "cut zstd": {"zstd", frame[:len(frame)-1]}, "a wrong sum": {"gzip", good[:len(good)-8] + "xxxx" + good[len(good)-4:]},
		"rubbish after gzip": {"gzip", good + "x"}, "rubbish after zstd": {"zstd", frame + "x"},
	} {
		r := s.Do("POST", "/api/bid", c.body, "Content-Encoding", c.coding)
		wantProblem(t, r, api.InvalidRequest)
		var doc struct {
			Errors []struct{ Pointer, Detail string }
		}
		if err := json.Unmarshal([]byte(r.Body), &doc); err != nil || len(doc.Errors) != 1 || doc.Errors[0].Detail == "" {
			t.Errorf("%s: %s", name, r.Body)
		}
	}
}

// A body that decodes to more than a body may have costs no more than one that has as
// much.
func TestDecompressionStopsAtTheBodyLimit(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": tellBody}})
	for _, size := range []int{MaxBody + 1, 10 << 20} {
		zeros := strings.Repeat("\x00", size)
		for coding, bomb := range map[string]string{"gzip": gzipped(t, zeros), "zstd": zstded(t, zeros), "zstd ": string(zstdWriter.EncodeAll([]byte(zeros), nil))} {
			if len(bomb) > MaxBody {
				t.Fatalf("%s: a bomb of %d bytes", coding, len(bomb))
			}
			wantProblem(t, s.Do("POST", "/api/bid", bomb, "Content-Encoding", coding), api.BodyTooLarge)
			decode, _ := decoderOf([]byte(coding))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range 100 {
				if _, err := decode([]byte(bomb)); err != errDecodedLong {
					t.Fatalf("%s of %d bytes: %v", coding, size, err)
				}
			}
			runtime.ReadMemStats(&after)
			// A block of zstd has 128 KiB at most.
			if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 128<<10+4*MaxBody {
				t.Errorf("%s of %d bytes takes %d bytes", coding, size, each)
			}
		}
	}
}

func FuzzDecodeBody(f *testing.F) {
	for _, text := range []string{"", "{}", strings.Repeat("ab", 9000)} {
		f.Add([]byte(gzipped(f, text)))
		f.Add([]byte(zstded(f, text)))
	}
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, coded []byte) {
		if len(coded) <= MaxBody {
			if body, err := gunzip([]byte(gzipped(t, string(coded)))); err != nil || !bytes.Equal(body, coded) {
				t.Errorf("there and back: %d bytes of %d, %v", len(body), len(coded), err)
			}
			if body, err := unzstd(zstdWriter.EncodeAll(coded, nil)); err != nil || !bytes.Equal(body, coded) {
				t.Errorf("there and back: %d bytes of %d, %v", len(body), len(coded), err)
			}
		}
		for _, coding := range []string{"gzip", "zstd"} {
			decode, ok := decoderOf([]byte(coding))
			if !ok {
				t.Fatal(coding)
			}
			body, err := decode(coded)
			if len(body) > MaxBody {
				t.Errorf("%s: %d bytes", coding, len(body))
			}
			again, err2 := decode(coded)
			if !bytes.Equal(again, body) || (err == nil) != (err2 == nil) {
				t.Errorf("%s: %d bytes and %v, again %d and %v", coding, len(body), err, len(again), err2)
			}
		}
	})
}

// Whoever waits for "100 Continue" before the body is told to go on, in whatever case
// it was asked for.
func TestExpectationsHaveNoCase(t *testing.T) {
	s := serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": tellBody}})
	for _, expect := range []string{"100-continue", "100-Continue", "100-CONTINUE"} {
		c, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(20 * time.Second))
		from := bufio.NewReader(c)
		fmt.Fprintf(c, "POST /api/bid HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nexpect: %s\r\n\r\n", expect)
		if line, err := from.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
			t.Errorf("%s: %q, %v", expect, line, err)
		}
		if _, err := from.Discard(len("\r\n")); err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "{}")
		if res, err := http.ReadResponse(from, nil); err != nil || res.StatusCode != 200 {
			t.Errorf("%s: %v, %v", expect, res, err)
		}
		c.Close()
	}
}
