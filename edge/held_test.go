package edge

import (
	"bufio"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"webring/edge/edgetest"
)

func TestAHeldRequestOutlastsEveryTimeout(t *testing.T) {
	// What fasthttp starts once for all servers of the process is no part of a bubble.
	serve(t, Config{Core: newRing(t), Paid: map[string]Handler{"/api/bid": paidOK}}).Do("POST", "/api/bid", "{}")
	synctest.Test(t, func(t *testing.T) {
		shell, err := New(Config{Core: newRing(t), Log: slog.New(slog.DiscardHandler), Paid: map[string]Handler{"/api/bid": func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
			time.Sleep(time.Hour)
			ctx.SetBodyString("settled")
		}}})
		if err != nil {
			t.Fatal(err)
		}
		conn := edgetest.Pay(t, shell)
		defer conn.Close()
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "settled" {
			t.Errorf("%d %q, %v", res.StatusCode, body, err)
		}
	})
}
