package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"webring/server/paid"
	"webring/server/sites/score"
)

func listen(t *testing.T) (s *Server, get func(path string) (status int, body string)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = Serve([]net.Listener{l}, Build{"1.2.3", "0f0f"}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() { s.Close() })
	return s, func(path string) (int, string) {
		t.Helper()
		res, err := http.Get("http://" + s.Addr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(b)
	}
}

func TestReadinessGoesByItsChecks(t *testing.T) {
	s, get := listen(t)
	is := func(status int, stopping bool, rows ...Row) {
		t.Helper()
		got, body := get("/readyz")
		want, err := json.MarshalIndent(Readiness{Ready: status == 200, Stopping: stopping, Checks: rows}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if got != status || body != string(want)+"\n" {
			t.Errorf("status %d, %s\nwant %d, %s", got, body, status, want)
		}
		_, all := get("/metrics")
		for _, r := range rows {
			if line := fmt.Sprintf("webring_ready_check{check=%q} %v\n", r.Name, map[bool]int{true: 1}[r.OK]); !strings.Contains(all, line) {
				t.Errorf("no %s", line)
			}
		}
		if line := fmt.Sprintf("webring_ready %v\n", map[bool]int{true: 1}[status == 200]); !strings.Contains(all, line) {
			t.Errorf("no %s", line)
		}
		if status, body := get("/healthz"); status != 200 || body != "ok\n" {
			t.Errorf("health: status %d, %s", status, body)
		}
	}
	is(503, false, Row{"start", false, true, "the process is starting"})
	s.Starting("it looks for its shoes")
	is(503, false, Row{"start", false, true, "it looks for its shoes"})
	var wrong, cold error
	scarf := Row{"scarf", true, false, "it is warm"}
	s.Started(Check{Name: "shoes", Ask: func() (string, error) { return "both are on", nil }}, Check{Name: "hat", Ask: func() (string, error) { return "it sits", wrong }},
		Check{Name: "scarf", Ask: func() (string, error) { return "it is warm", cold }, Advisory: true})
	is(200, false, Row{"shoes", true, true, "both are on"}, Row{"hat", true, true, "it sits"}, scarf)
	cold = errors.New("it has a hole")
	is(200, false, Row{"shoes", true, true, "both are on"}, Row{"hat", true, true, "it sits"}, Row{"scarf", false, false, "it has a hole"})
	cold = nil
	wrong = errors.New("the wind has it")
	is(503, false, Row{"shoes", true, true, "both are on"}, Row{"hat", false, true, "the wind has it"}, scarf)
	wrong = nil
	is(200, false, Row{"shoes", true, true, "both are on"}, Row{"hat", true, true, "it sits"}, scarf)
	s.Stopping()
	s.Stopping()
	is(503, true, Row{"stop", false, true, "the process is stopping; send requests elsewhere"}, Row{"shoes", true, true, "both are on"}, Row{"hat", true, true, "it sits"}, scarf)
}

func TestTheProcessShowsItself(t *testing.T) {
	s, get := listen(t)
	_, all := get("/metrics")
	for _, want := range []string{`webring_build_info{revision="0f0f",version="1.2.3"} 1`, "go_goroutines ", "process_open_fds "} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in\n%s", want, all)
		}
	}
	for path, want := range map[string]int{"/debug/pprof/": 200, "/debug/pprof/goroutine?debug=1": 200, "/debug/pprof/cmdline": 404,
		"/": 404, "/nowhere": 404} {
		if status, _ := get(path); status != want {
			t.Errorf("%s: status %d, want %d", path, status, want)
		}
	}
	res, err := http.Post("http://"+s.Addr()+"/readyz", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", res.StatusCode)
	}
}

// A nil server is one that was not asked for.
func TestNobodyNeedsAListener(t *testing.T) {
	var s *Server
	s.Starting("")
	s.Started()
	s.Stopping()
	s.Add()
	if s.Addr() != "" || s.Close() != nil {
		t.Error("it is there")
	}
}

// scorer answers with an error.
type scorer struct{ err error }

func (s scorer) Score(ctx context.Context, _, _ string) (score.Result, error) {
	if s.err == context.Canceled {
		return score.Result{}, fmt.Errorf("score: %w", context.Cause(ctx))
	}
	return score.Result{}, s.err
}

func TestWhatAnOriginDoesIsCounted(t *testing.T) {
	s, get := listen(t)
	c := NewCounters()
	s.Add(c.All()...)
	c.Methods("tempo")
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for outcome, err := range map[string]error{"scored": nil, "not_scorable": &score.NotScorable{}, "bad_target": fmt.Errorf("x: %w", score.ErrBadTarget),
		"pending": &score.Pending{}, "busy": &score.Unavailable{Busy: true}, "unavailable": &score.Unavailable{}, "abandoned": context.Canceled} {
		ctx := context.Background()
		if outcome == "abandoned" {
			ctx = over
		}
		c.Scorer(scorer{err}).Score(ctx, "", "")
		if _, all := get("/metrics"); !strings.Contains(all, fmt.Sprintf("webring_scorer_asks_total{outcome=%q} 1\n", outcome)) {
			t.Errorf("%s is not counted", outcome)
		}
	}
	c.Ended(paid.Ended{Operation: paid.OpBid, Method: "tempo", Outcome: paid.OutcomeApplied, Took: 3 * time.Second})
	c.Ended(paid.Ended{Operation: paid.OpBid, Method: paid.OtherMethod, Outcome: paid.OutcomeRefused})
	c.Committed(2*time.Millisecond, nil)
	c.Committed(time.Hour, errors.New("the disk is gone"))
	_, all := get("/metrics")
	for _, want := range []string{
		`webring_payments_total{method="tempo",operation="bid",outcome="applied"} 1`, `webring_payments_total{method="tempo",operation="register",outcome="unapplied"} 0`,
		`webring_payments_total{method="other",operation="bid",outcome="refused"} 1`,
		`webring_payment_duration_seconds_count{operation="bid"} 1`, `webring_payment_duration_seconds_bucket{operation="bid",le="2.5"} 0`,
		`webring_payment_duration_seconds_bucket{operation="bid",le="5"} 1`, `webring_payment_duration_seconds_count{operation="register"} 0`,
		`webring_ledger_commits_total{outcome="stored"} 1`, `webring_ledger_commits_total{outcome="failed"} 1`, `webring_ledger_commit_duration_seconds_count 2`,
	} {
		if !strings.Contains(all, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}
