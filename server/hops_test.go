package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/edge"
	"webring/edge/follow"
	"webring/edge/hops"
	"webring/edge/voucher"
	"webring/server/aside"
)

// named is a core of which only the address is asked.
type named struct{ follow.Core }

func (named) BaseURL() string { return "https://ring.example" }

// A node that does not lead passes reports on to the one that does, but for those that were
// passed on to it.
func TestReportsOfHopsGoToTheLeader(t *testing.T) {
	var passed [][]byte
	o := &Origin{Core: named{}}
	o.passHops = func(_ context.Context, report []byte) error {
		passed = append(passed, report)
		return nil
	}
	o.hops = aside.NewHops(&o.Books, time.Now, slog.New(slog.DiscardHandler))
	cfg := edge.Config{Sync: map[string]edge.SyncHandler{}}
	o.takeHops(&cfg)
	r := hops.Report{Sender: hops.SenderID{1}, Number: 1, Day: 20_000, Hops: 3}
	report := r.Append(nil)
	for _, c := range []struct {
		about, toLeader string
		known           bool
		status, passed  int
	}{
		{"a report", "", true, 204, 1},
		{"one that was passed on", "1", true, 503, 1},
		{"one of a stranger", "", false, 403, 1},
	} {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.SetMethod("POST")
		ctx.Request.SetBody(report)
		if c.toLeader != "" {
			ctx.Request.Header.Set(voucher.ToLeaderField, c.toLeader)
		}
		cfg.Sync["POST "+HopsPath](&ctx, "", c.known)
		if ctx.Response.StatusCode() != c.status || len(passed) != c.passed {
			t.Errorf("%s: %d %s, and %d were passed on", c.about, ctx.Response.StatusCode(), ctx.Response.Body(), len(passed))
		}
	}
}

func TestAReportThatCannotBeStoredIsNoPayment(t *testing.T) {
	var ctx fasthttp.RequestCtx
	receiveHops(func(context.Context, []byte) error { return errors.New("no store") }, func() string { return "https://ring.example" })(&ctx, "", true)
	if body := string(ctx.Response.Body()); ctx.Response.StatusCode() != 503 || !strings.Contains(body, `"code":"origin_unavailable"`) || len(ctx.Response.Header.Peek("Retry-After")) == 0 {
		t.Errorf("%d %s", ctx.Response.StatusCode(), body)
	}
}
