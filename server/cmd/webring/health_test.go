package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestHealth(t *testing.T) {
	answer := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(answer)
		io.WriteString(w, "the core does not answer\n")
	}))
	args := []string{"health", "--admin-listen", strings.TrimPrefix(s.URL, "http://")}
	var said strings.Builder
	if err := run(args, &said); err != nil || said.String() != "ok\n" {
		t.Errorf("a process that is well: %v, %q", err, said.String())
	}
	answer = http.StatusServiceUnavailable
	if err := run(args, io.Discard); err == nil || !strings.Contains(err.Error(), "503: the core does not answer") {
		t.Errorf("a process that is not well: %v", err)
	}
	s.Close()
	if err := run(args, io.Discard); err == nil {
		t.Error("nothing is there, and it is well")
	}
}
