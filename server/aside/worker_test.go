package aside_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// Isolates of one Worker report at once, and some of their reports are lost, or the answers to
// them. All hops are counted, and none twice.
func TestIsolatesOfAWorkerAddUp(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs Node 20 or newer: install it from your distribution or nodejs.org")
	}
	const worker = "../../edge/worker/hops.js"
	// The go command forgets a result when a file that the test read changes.
	for _, name := range []string{worker, "../../edge/hops/crawlers.json"} {
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	b := open(t)
	b.now = time.Now() // as the isolates have it
	var asked, lost atomic.Int64
	var reliable atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/reliable" {
			reliable.Store(true)
			return
		}
		report, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/sync/hops" {
			t.Errorf("%s: %v", r.URL.Path, err)
		}
		fault := asked.Add(1) % 4
		if reliable.Load() {
			fault = 3
		}
		if fault == 0 {
			lost.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if err := b.Receive(context.Background(), report); err != nil {
			t.Errorf("%x: %v", report, err)
		}
		switch fault {
		case 1:
			lost.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2:
			lost.Add(1)
			panic(http.ErrAbortHandler) // the connection ends without an answer
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	defer s.Close()
	cmd := exec.Command(node, "--no-warnings", filepath.Join("testdata", "isolates.mjs"), worker, s.URL)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var counted struct{ Hops, From uint64 }
	if err := json.Unmarshal(out, &counted); err != nil || counted.Hops == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	total := func(path string) (t struct{ Hops, From, To uint64 }) {
		var d struct {
			Total *struct{ Hops, From, To uint64 }
		}
		d.Total = &t
		if err := json.Unmarshal(b.Document(path, "").Body, &d); err != nil {
			b.t.Error(err)
		}
		return t
	}
	if all, ada, bob := total("/api/hops"), total("/api/ring/ada/hops"), total("/api/ring/bob/hops"); all.Hops != counted.Hops || ada.From != counted.From || ada.To != 0 || bob.To != counted.Hops {
		t.Errorf("counted %+v, stored %+v, %+v and %+v", counted, all, ada, bob)
	}
	if lost.Load() < 30 {
		t.Errorf("only %d of %d reports were not acknowledged", lost.Load(), asked.Load())
	}
}
