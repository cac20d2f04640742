package publish_test

import (
	"context"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"webring/core"
	"webring/core/snap"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/publish"
)

var foreignEvents = flag.Int("log.events", 600, "bids in the log that other tools read")

// buildLogTest builds the readers of other people. Where their modules cannot be had, the test says
// how to get them.
func buildLogTest(t *testing.T) (path string) {
	t.Helper()
	download := exec.Command("go", "mod", "download")
	download.Dir = "logtest"
	if out, err := download.CombinedOutput(); err != nil {
		t.Skipf("needs the modules of Tessera and Torchwood, which cannot be had: run go mod download in server/publish/logtest where a module proxy can be reached: %v: %s", err, out)
	}
	path = filepath.Join(t.TempDir(), "logtest")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Dir = "logtest"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// Tessera's fsck and Torchwood's client read the log, read it again when it has grown, and notice a
// single flipped bit.
func TestOtherToolsReadTheLog(t *testing.T) {
	tool := buildLogTest(t)
	r := newRing(t, ledgertest.NewStore())
	handlers := publish.Handlers(only(r), func() string { return "https://ring.test" })
	n := serveWithin(t, handlers, longEnough) // readers of a large log use all of a machine, and may be slow
	read := func(n *node, size int) error {
		out, err := exec.Command(tool, n.base+"/log", r.key.Verifier()).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		if want := fmt.Sprintf("read %d entries\n", size); !strings.HasSuffix(string(out), want) {
			return fmt.Errorf("%s, want %s", out, want)
		}
		return nil
	}
	r.joinMany("m", 20)
	size := 22 // with the rules and the snapshot made at the start
	for _, more := range []int{*foreignEvents, 1000} {
		r.bidMany("m3", more)
		size += more
		r.until("all events", func(c snap.Checkpoint) bool { return c.Size == uint64(size) })
		if err := read(n, size); err != nil {
			t.Error(err)
		}
	}

	for _, path := range []string{"/log/tile/entries/001", "/log/tile/0/001"} {
		honest, bent := handlers[publish.LogPattern], routes{}
		for pattern, h := range handlers {
			bent[pattern] = h
		}
		bent[publish.LogPattern] = func(ctx *fasthttp.RequestCtx, client string, known bool) {
			honest(ctx, client, known)
			if string(ctx.Path()) == path {
				body := append([]byte(nil), ctx.Response.Body()...)
				body[len(body)/2] ^= 1
				ctx.Response.SetBody(body)
			}
		}
		if read(serveWithin(t, bent, longEnough), size) == nil {
			t.Errorf("they do not notice a flipped bit in %s", path)
		}
	}
}

// bidMany has the ledger take n bids on a member.
func (r *ring) bidMany(slug string, n int) {
	r.t.Helper()
	for ; n > 0; n -= 1000 {
		err := r.books.Do(context.Background(), func(tx *ledger.Tx) error {
			for range min(n, 1000) {
				if _, err := tx.Append(&core.Bid{Stamp: tx.Stamp(), Member: slug, Amount: 500}, nil); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			r.t.Fatal(err)
		}
	}
}
