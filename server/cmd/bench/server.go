package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// server is a process that is measured.
type server struct {
	name, address string
	targets       []string
	cmd           *exec.Cmd
	gone          chan struct{}
}

// start runs the ring, takes an answer of it, and runs the others with that.
func start(o *options, dir string) (servers []*server, err error) {
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err) // nothing can be measured
		}
		defer l.Close()
		return l.Addr().String()
	}
	add := func(name, address string, command ...string) (*server, error) {
		s := &server{name: name, address: address, targets: []string{"/next"}}
		s.cmd = exec.Command("taskset", append([]string{"-c", serverCPU}, command...)...)
		s.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		s.cmd.Stderr = os.Stderr
		if err := s.cmd.Start(); err != nil {
			return nil, err
		}
		s.gone = make(chan struct{})
		go func() { _ = s.cmd.Wait(); close(s.gone) }()
		servers = append(servers, s)
		return s, s.wait()
	}
	// The limiter works and refuses nobody.
	address := free()
	ring, err := add("webring", address, o.webring, "serve", "--data", o.data, "--listen", address, "--base-url", "http://"+address,
		"--rate-limit", "2000000000", "--scorer", "is-agentic")
	if err != nil {
		return servers, err
	}
	if ring.targets, err = targets(address); err != nil {
		return servers, err
	}
	answer := filepath.Join(dir, "answer")
	redirect, err := sample(address, ring.targets[0], answer)
	if err != nil {
		return servers, err
	}
	self, err := os.Executable()
	if err != nil {
		return servers, err
	}
	for _, name := range []string{"fasthttp", "net/http"} {
		address := free()
		if _, err := add(name, address, self, "constant", name, answer, address); err != nil {
			return servers, err
		}
	}
	nginx, err := exec.LookPath(o.nginx)
	if err != nil {
		return servers, nil
	}
	address = free()
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, nginxConfig(dir, address, redirect), 0o600); err != nil {
		return servers, err
	}
	_, err = add("nginx", address, nginx, "-e", filepath.Join(dir, "error.log"), "-c", config)
	return servers, err
}

// wait waits until the server accepts connections: a ring folds its ledger
// first.
func (s *server) wait() error {
	for range 6000 {
		if c, err := net.Dial("tcp", s.address); err == nil {
			return c.Close()
		}
		select {
		case <-s.gone:
			return fmt.Errorf("%s ended at once", s.name)
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not answer", s.name)
}

func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	<-s.gone
}

// targets names members from all over the ring.
func targets(address string) (list []string, err error) {
	for offset := 0; ; offset += 5000 {
		res, err := http.Get(fmt.Sprintf("http://%s/api/ring?limit=100&offset=%d", address, offset))
		if err != nil {
			return nil, err
		}
		var page struct {
			Members []struct{ Slug string }
		}
		err = errors.Join(json.NewDecoder(res.Body).Decode(&page), res.Body.Close())
		if err != nil {
			return nil, err
		}
		if len(page.Members) == 0 {
			if len(list) == 0 {
				return nil, errors.New("the ring is empty")
			}
			return list, nil
		}
		for _, m := range page.Members {
			list = append(list, "/next?from="+m.Slug)
		}
	}
}

// sample keeps one answer in a file, for the constant servers.
func sample(address, target, file string) (*http.Response, error) {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Get("http://" + address + target)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusFound {
		return nil, fmt.Errorf("%s: status %s", target, res.Status)
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	var out bytes.Buffer
	if err := res.Write(&out); err != nil {
		return nil, err
	}
	return res, os.WriteFile(file, out.Bytes(), 0o600)
}

// own are the fields that every server writes by itself.
func own(field string) bool {
	return field == "Date" || field == "Content-Length" || field == "Connection"
}

// constant serves the answer in file, whatever is asked.
func constant(kind, file, address string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if kind == "net/http" {
		return http.ListenAndServe(address, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			for field, values := range res.Header {
				if !own(field) {
					h[field] = values
				}
			}
			w.WriteHeader(res.StatusCode)
			_, _ = w.Write(body)
		}))
	}
	type pair struct{ field, value []byte }
	var fields []pair
	for field, values := range res.Header {
		for _, v := range values {
			if !own(field) && field != "Content-Type" {
				fields = append(fields, pair{[]byte(field), []byte(v)})
			}
		}
	}
	media := res.Header.Get("Content-Type")
	s := &fasthttp.Server{NoDefaultServerHeader: true, ReadBufferSize: 24 << 10, Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.SetStatusCode(res.StatusCode)
		ctx.SetContentType(media)
		for i := range fields {
			ctx.Response.Header.SetCanonical(fields[i].field, fields[i].value)
		}
		ctx.SetBody(body)
	}}
	return s.ListenAndServe(address)
}

// nginxConfig answers with the same header fields. nginx writes a body of its
// own for a redirect, of about the same length, and names itself.
func nginxConfig(dir, address string, res *http.Response) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "daemon off; master_process off; worker_processes 1; pid %[1]s/nginx.pid;\nevents { worker_connections 1024; }\n"+
		"http { access_log off; keepalive_requests 1000000000; server_tokens off;\n"+
		"client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f; uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;\n"+
		"server { listen %[2]s; location / {\n", dir, address)
	for field, values := range res.Header {
		if !own(field) && field != "Location" && field != "Content-Type" {
			fmt.Fprintf(&b, "add_header %s %s always;\n", field, strconv.Quote(strings.Join(values, ", ")))
		}
	}
	fmt.Fprintf(&b, "return 302 %q;\n} } }\n", res.Header.Get("Location"))
	return []byte(b.String())
}
