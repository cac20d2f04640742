package main

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/valyala/fasthttp"
)

// repeated is an answer that a constant server gives to each request.
type repeated struct {
	status int
	media  string
	header http.Header // without own fields
	fields [][2][]byte // these, without Content-Type
	body   []byte
	length []string // of that, as a field
}

// readAnswers reads the answers of a folder.
func readAnswers(dir string) (answers []*repeated, err error) {
	for n := 0; ; n++ {
		raw, err := os.ReadFile(answerFile(dir, n))
		if os.IsNotExist(err) {
			return answers, nil
		}
		if err != nil {
			return nil, err
		}
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
		if err != nil {
			return nil, err
		}
		k := &repeated{status: res.StatusCode, media: res.Header.Get("Content-Type"), header: http.Header{}}
		if k.body, err = io.ReadAll(res.Body); err != nil {
			return nil, err
		}
		k.length = []string{strconv.Itoa(len(k.body))}
		for field, values := range res.Header {
			if own(field) {
				continue
			}
			k.header[field] = values
			for _, v := range values {
				if field != "Content-Type" {
					k.fields = append(k.fields, [2][]byte{[]byte(field), []byte(v)})
				}
			}
		}
		answers = append(answers, k)
	}
}

// constant serves the answers of a folder. A request with a target that ends with a digit gets
// the answer of that number; others get the first.
func constant(kind, dir, address string) error {
	answers, err := readAnswers(dir)
	if err != nil {
		return err
	}
	of := func(last byte) *repeated {
		if n := int(last) - '0'; n >= 0 && n < len(answers) {
			return answers[n]
		}
		return answers[0]
	}
	if kind == "net/http" {
		return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			k := of(r.RequestURI[len(r.RequestURI)-1])
			h := w.Header()
			for field, values := range k.header {
				h[field] = values
			}
			h["Content-Length"] = k.length // or a longer body is sent in chunks
			w.WriteHeader(k.status)
			_, _ = w.Write(k.body)
		}))
	}
	s := &fasthttp.Server{NoDefaultServerHeader: true, ReadBufferSize: 24 << 10, Handler: func(ctx *fasthttp.RequestCtx) {
		target := ctx.RequestURI()
		k := of(target[len(target)-1])
		ctx.SetStatusCode(k.status)
		ctx.SetContentType(k.media)
		for i := range k.fields {
			ctx.Response.Header.SetCanonical(k.fields[i][0], k.fields[i][1])
		}
		ctx.SetBody(k.body)
	}}
	return s.ListenAndServe(address)
}
