package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"webring/core/api"
	"webring/core/coretest"
)

// TestAWorkerAnswersAsAnEdgeDoes has an edge and a Worker follow random histories, and the
// same files under Deno, and compares what they answer to odd and ordinary targets: status,
// body and fields.
func TestAWorkerAnswersAsAnEdgeDoes(t *testing.T) {
	t.Parallel()
	compared := 0
	// In the history of seed 1 standings change with each second, which two nodes see at
	// different moments: that takes patience. In the others nothing changes any more.
	for seed, targets := range []int{250, 30, 250} {
		seed := uint64(seed)
		h := openHostile(t)
		ask := coretest.Asker{Rand: rand.New(rand.NewPCG(seed, 0x776f726b)), Members: 30}
		snapshot := false
		for i, step := range coretest.Generate(seed, 150) {
			if step.Event == nil || h.apply(step) != nil {
				continue
			}
			if step.Texts != nil {
				ask.Names = append(ask.Names, step.Texts.Name.Value, step.Texts.URL.Value)
			}
			if i > 60 && !snapshot {
				h.snapshot()
				snapshot = true
			}
		}
		h.sign()
		w, d := h.worker(), h.deno()
		e := h.edge(h.base, true)
		h.reached(e)
		h.reachedBy(w)
		h.reachedBy(d)
		for i := range targets {
			target := string(ask.Target())
			if !sendable(target) {
				continue
			}
			var more []string
			switch i % 5 {
			case 1:
				more = []string{"X-Request-Id", fmt.Sprint("request-", i)}
			case 2:
				more = []string{"Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
			case 3:
				more = []string{"Api-Version", "1", "If-None-Match", "*"}
			}
			sameAnswer(t, e, w.origin, target, more...)
			sameAnswer(t, e, d.origin, target, more...)
			compared++
		}
		// A search is the origin's.
		for _, node := range []*origin{w.origin, d.origin} {
			if r := node.get("/api/ring?q=a"); string(r.Body) != fromOrigin {
				t.Errorf("a search: %d %s", r.Status, r.Body)
			}
		}
		e.kill()
		w.kill()
		d.kill()
	}
	t.Logf("%d targets compared", compared)
}

// answered is one answer as it came.
type answered struct {
	status int
	header http.Header
	body   string
}

// ask sends a GET with its target as it is.
func ask(t *testing.T, o *origin, target string, header ...string) answered {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(o.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(longEnough))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: ring.test\r\nConnection: close\r\n", target)
	for i := 0; i+1 < len(header); i += 2 {
		fmt.Fprintf(c, "%s: %s\r\n", header[i], header[i+1])
	}
	io.WriteString(c, "\r\n")
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("GET %s: %v\n%s", target, err, o.log)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("GET %s: %v", target, err)
	}
	return answered{r.StatusCode, r.Header, string(body)}
}

// sameAnswer holds two nodes to the same answer. What changes with the second is asked
// again, and of what is drawn by chance only the kind is compared.
func sameAnswer(t *testing.T, a, b *origin, target string, header ...string) {
	t.Helper()
	var why string
	for range 50 {
		x, y := ask(t, a, target, header...), ask(t, b, target, header...)
		if y.body == fromOrigin {
			if known(target) {
				t.Errorf("GET %s was passed on", target)
			}
			return
		}
		if why = differ(x, y, !strings.Contains(target, "random"), slices.Contains(header, "X-Request-Id") || slices.Contains(header, "Traceparent")); why == "" {
			return
		}
		time.Sleep(37 * time.Millisecond)
	}
	t.Errorf("GET %s %q: %s", target, header, why)
}

// known says whether the Worker must answer by itself.
func known(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	slug, member := strings.CutPrefix(path, "/api/ring/")
	return slices.Contains(api.Paths(), path) || member && plainSlug.MatchString(slug)
}

var plainSlug = regexp.MustCompile(`^[0-9a-z-]+$`)

// sendable says whether a client can send a target to a Worker: the runtime refuses some, and
// writes others as URLs have them.
func sendable(target string) bool {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("#\\\"<>`", r) }
	_, err := url.PathUnescape(target)
	return strings.HasPrefix(target, "/") && !strings.ContainsFunc(target, odd) && err == nil
}

// differ says in what two answers differ. named says whether the request had an id.
func differ(x, y answered, exactly, named bool) string {
	fields := func(h http.Header) http.Header {
		h = maps.Clone(h)
		// Of the connection, and of the moment.
		for _, name := range []string{"Date", "Connection", "Keep-Alive", "Transfer-Encoding"} {
			h.Del(name)
		}
		if !named {
			h.Del("X-Request-Id")
		}
		if !exactly {
			for _, name := range []string{"Location", "Content-Length", "Link"} {
				h.Del(name)
			}
		}
		return h
	}
	a, b := fields(x.header), fields(y.header)
	switch {
	case x.status != y.status:
		return fmt.Sprintf("status %d and %d", x.status, y.status)
	case exactly && x.body != y.body:
		return fmt.Sprintf("%s\nand %s", x.body, y.body)
	case !maps.EqualFunc(a, b, slices.Equal):
		return fmt.Sprintf("%v\nand %v", a, b)
	}
	return ""
}
