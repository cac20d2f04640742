package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

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

// nginxConfig answers /0, /1 and so on with the same header fields and bodies, from
// memory. Of a redirect nginx writes a body of its own, of about the same length,
// and it names itself.
func nginxConfig(dir, address string, answers []*http.Response) ([]byte, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "daemon off; master_process off; worker_processes 1; pid %[1]s/nginx.pid;\nevents { worker_connections 1024; }\n"+
		"http { access_log off; keepalive_requests 1000000000; server_tokens off;\n"+
		"client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;\n"+
		"geo $dollar { default '$'; }\nserver { listen %[2]s;\n", dir, address)
	for n, res := range answers {
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "location = /%d {\n", n)
		for field, values := range res.Header {
			if !own(field) && field != "Location" && field != "Content-Type" {
				fmt.Fprintf(&b, "add_header %s %s always;\n", field, nginxWord(strings.Join(values, ", ")))
			}
		}
		if location := res.Header.Get("Location"); location != "" {
			fmt.Fprintf(&b, "return %d %s;\n}\n", res.StatusCode, nginxWord(location))
			continue
		}
		fmt.Fprintf(&b, "default_type %s;\n", nginxWord(res.Header.Get("Content-Type")))
		// A word of the configuration may have no more than 4096 bytes.
		const piece = 1500
		whole := ""
		for i := 0; len(body) > 0; i++ {
			part := body[:min(len(body), piece)]
			body = body[len(part):]
			fmt.Fprintf(&b, "set $part%d_%d %s;\n", n, i, nginxWord(string(part)))
			whole += fmt.Sprintf("${part%d_%d}", n, i)
		}
		fmt.Fprintf(&b, "return %d \"%s\";\n}\n", res.StatusCode, whole)
	}
	b.WriteString("} }\n")
	return []byte(b.String()), nil
}

// nginxWord quotes a word, in which a dollar begins the name of a variable.
func nginxWord(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "$", "${dollar}").Replace(s) + "'"
}
