package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// scoring is a scoring service in this process.
type scoring struct {
	*httptest.Server
	mu     sync.Mutex
	asked  int
	status int
	header map[string]string
	body   string
}

func newScoring(t *testing.T) *scoring {
	s := &scoring{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked++
		for name, value := range s.header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(s.status)
		_, _ = fmt.Fprint(w, s.body)
	}))
	t.Cleanup(s.Close)
	return s
}

// says sets the answer, and forgets how often the service was asked.
func (s *scoring) says(status int, body string, header map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.status, s.header, s.body = 0, status, header, body
}

func (s *scoring) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// TestInterfaceFixedScore holds 40 as the least score.
func TestInterfaceFixedScore(t *testing.T) {
	t.Parallel()
	for _, score := range []int{0, 39, 40, 100} {
		t.Run(fmt.Sprintf("a score of %d", score), func(t *testing.T) {
			o := ring(t, append(freely, "--scorer", "fixed:"+strconv.Itoa(score))...)
			r := o.post("/api/register", registration(t, nil))
			if score >= 40 {
				o.offered(r, "payment_required")
				return
			}
			doc := o.refused(r, 422, "agentic_score_too_low")
			if at(t, doc, "score") != float64(score) || at(t, doc, "required") != 40.0 || at(t, doc, "report") != nil {
				t.Errorf("%v", doc)
			}
		})
	}
}

// TestInterfaceScore holds that the score is asked for after validation and
// before the challenge, pinned in it, and never asked for again after payment.
func TestInterfaceScore(t *testing.T) {
	t.Parallel()
	s := newScoring(t)
	c, _ := chain(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", c.RPC, "--scorer", "http", "--score-url", s.URL+"/score?url={url}",
		"--score-pointer", "/score", "--report-pointer", "/report")...)
	site := func(name string) string {
		return registration(t, map[string]any{"name": name, "url": "https://" + name + ".dev/"})
	}
	t.Run("what is invalid is never scored", func(t *testing.T) {
		o := o.in(t)
		s.says(200, `{"score":90}`, nil)
		o.refused(o.post("/api/register", registration(t, map[string]any{"name": ""})), 422, "invalid_request")
		o.refused(o.post("/api/register", registration(t, map[string]any{"url": "https://localhost/"})), 422, "invalid_url")
		o.refused(o.post("/api/register", registration(t, map[string]any{"bid": "0.5"})), 422, "bid_too_low")
		o.refused(o.post("/api/register", registration(t, map[string]any{"url": "https://alpha.dev/"})), 409, "already_registered")
		o.refused(o.post("/api/register", "{"), 422, "invalid_request")
		if n := s.questions(); n != 0 {
			t.Errorf("the service was asked %d times", n)
		}
	})
	t.Run("below 40: 422 with score, required and report, no challenge", func(t *testing.T) {
		o := o.in(t)
		s.says(200, `{"score":39.99,"report":"/reports/low"}`, nil)
		doc := o.refused(o.post("/api/register", site("low")), 422, "agentic_score_too_low")
		if at(t, doc, "score") != 39.0 || at(t, doc, "required") != 40.0 || at(t, doc, "report") != s.URL+"/reports/low" {
			t.Errorf("%v", doc)
		}
	})
	t.Run("the score of the 402 is kept, whatever the service says later", func(t *testing.T) {
		o := o.in(t)
		s.says(200, `{"score":85,"report":"`+s.URL+`/reports/good"}`, nil)
		credential := o.sign(wallet(t), "/api/register", site("good"))
		s.says(500, "", nil)
		r := o.post("/api/register", site("good"), "Authorization", credential)
		if r.Status != 201 || s.questions() != 0 {
			t.Fatalf("%d %s, after %d more questions", r.Status, r.Body, s.questions())
		}
		m := at(t, o.read("/api/ring/good"), "member")
		if at(t, m, "agentic_score") != 85.0 || at(t, m, "agentic_report") != s.URL+"/reports/good" {
			t.Errorf("%v", m)
		}
	})
	t.Run("bids need no score", func(t *testing.T) {
		o := o.in(t)
		s.says(200, `{"score":0}`, nil)
		o.offered(o.post("/api/bid", `{"member":"beta","amount":"1.00"}`), "payment_required")
		if n := s.questions(); n != 0 {
			t.Errorf("the service was asked %d times", n)
		}
	})
	// Five failures in a row would keep this client away, so others come between.
	for _, q := range []struct {
		rule   string
		status int
		body   string
		header map[string]string
		want   int
		code   string
		retry  string // Retry-After, "" for any
		asked  int
	}{
		{"still at work", 202, `{}`, map[string]string{"Retry-After": "17"}, 503, "score_pending", "17", 1},
		{"down", 503, ``, map[string]string{"Retry-After": "600"}, 503, "score_unavailable", "600", 1},
		{"broken", 500, `oops`, nil, 503, "score_unavailable", "", 1},
		{"no JSON", 200, `<html>`, nil, 503, "score_unavailable", "", 1},
		{"out of range", 200, `{"score":101}`, nil, 503, "score_unavailable", "", 1},
		{"no score for this site", 200, `{"score":null}`, nil, 422, "agentic_score_too_low", "", 1},
		{"busy", 429, `{}`, map[string]string{"Retry-After": "77"}, 503, "score_unavailable", "77", 1},
		{"busy without a word", 429, ``, nil, 503, "score_unavailable", "", 3},
		{"too large", 200, `{"score":90,"pad":"` + strings.Repeat("x", 2<<20) + `"}`, nil, 503, "score_unavailable", "", 1},
		{"moved", 302, ``, map[string]string{"Location": s.URL + "/score"}, 503, "score_unavailable", "", 1},
		{"never scanned", 404, `{}`, nil, 422, "agentic_score_too_low", "", 1},
		{"a bad target", 422, `{}`, nil, 422, "invalid_url", "", 1},
	} {
		t.Run(strconv.Itoa(q.want)+" "+q.code+": "+q.rule, func(t *testing.T) {
			o := o.in(t)
			s.says(q.status, q.body, q.header)
			r := o.post("/api/register", site(strings.ReplaceAll(strings.ToLower(q.rule), " ", "-")))
			doc := o.refused(r, q.want, q.code)
			if got := r.Header.Get("Retry-After"); q.want == 503 && (got == "" || q.retry != "" && got != q.retry) {
				t.Errorf("Retry-After %q, want %q", got, q.retry)
			}
			if q.code == "agentic_score_too_low" && (at(t, doc, "score") != nil || !strings.Contains(at(t, doc, "detail").(string), s.URL)) {
				t.Errorf("it does not say where to have the site scanned: %v", doc)
			}
			if n := s.questions(); n != q.asked {
				t.Errorf("the service was asked %d times, want %d", n, q.asked)
			}
		})
	}
	t.Run("the directory names the service and the rule", func(t *testing.T) {
		v := at(t, o.in(t).read("/api"), "validation")
		if at(t, v, "service") != "http" || !strings.Contains(at(t, v, "rule").(string), "at least 40") {
			t.Errorf("%v", v)
		}
	})
	if o.received() != 100 {
		t.Errorf("%d cents were paid", o.received())
	}
}

// TestInterfaceStandingRefreshes holds that a bid restores the full total after
// decay, and that seconds decide, on real time.
func TestInterfaceStandingRefreshes(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := founded(t, func(f *founding) {
		f.ago(time.Hour)
		f.join(manyMembers(2)...)
	}, append(freely, "--tempo-rpc", c.RPC, "--grace", "0s", "--decay", "10s")...)
	o.bid("m0001", "9.00")
	eventually(t, "decay", time.Minute, func() bool {
		standing := usd(t, at(t, o.boardRow("m0001"), "effective_bid_usd"))
		if standing%100 != 0 || standing > 1000 {
			t.Fatalf("a standing of %d cents: each second takes 1.00 of 10.00", standing)
		}
		return standing == 0
	})
	if o.rank("m0000") != 1 || o.rank("m0001") != 2 {
		t.Error("a decayed member is not below one that only paid the fee")
	}
	if doc := o.bid("m0001", "1.00"); at(t, doc, "bid_total_usd") != "10.00" || at(t, doc, "leaderboard_rank") != 1.0 {
		t.Errorf("%v", doc)
	}
}
