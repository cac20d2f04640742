package score

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

const site = "https://acme.com/a?b=c&d=%C3%BC"

// service is a scoring service on the loopback, with a count of its questions.
type service struct {
	*httptest.Server
	asked atomic.Int64
}

func serve(t *testing.T, handler http.HandlerFunc) *service {
	t.Helper()
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		handler(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// scorer makes the adapter for cfg, hurried.
func scorer(t *testing.T, cfg Config) *remote {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r := s.(*remote)
	r.timing.wait = time.Millisecond
	t.Cleanup(r.client.CloseIdleConnections)
	return r
}

func generic(t *testing.T, s *service) *remote {
	return scorer(t, Config{Spec: "http", URL: s.URL + "/score?u={url}", Pointer: "/score", ReportPointer: "/report"})
}

func body(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

// down reports whether err is an *Unavailable in order.
func down(err error) bool {
	var u *Unavailable
	return errors.As(err, &u) && u.RetryAfter >= time.Second && u.RetryAfter%time.Second == 0 && u.Err != nil
}

func TestQuestionCarriesTheSiteEscaped(t *testing.T) {
	var got *http.Request
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		fmt.Fprint(w, `{"score":50}`)
	})
	header, err := HeaderFromEnviron([]string{"WEBRING_SCORE_HEADER_X_API_KEY=secret", "WEBRING_SCORE_HEADER_AUTHORIZATION=Bearer a=b", "PATH=/bin"})
	if err != nil {
		t.Fatal(err)
	}
	r := scorer(t, Config{Spec: "http", URL: s.URL + "/of/{host}/{url}?u={url}&x=1", Pointer: "/score", Header: header})
	if _, err := r.Score(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	if want := "/of/acme.com/" + url.QueryEscape(site) + "?u=" + url.QueryEscape(site) + "&x=1"; got.RequestURI != want {
		t.Errorf("asked %s, want %s", got.RequestURI, want)
	}
	if got.URL.Query().Get("u") != site || got.Method != http.MethodGet {
		t.Errorf("%s %q", got.Method, got.URL.Query().Get("u"))
	}
	if got.Header.Get("X-Api-Key") != "secret" || got.Header.Get("Authorization") != "Bearer a=b" {
		t.Errorf("header %v", got.Header)
	}
}

func TestScoresAreFlooredNumbersFromZeroToHundred(t *testing.T) {
	for number, want := range map[string]int{
		"0": 0, "-0": 0, "40": 40, "100": 100, "39.999999999999999999999999": 39, "40.0": 40,
		"4e1": 40, "1.0e2": 100, "0.5": 0, "99.9": 99, "7200e-2": 72,
	} {
		got, err := generic(t, serve(t, body(`{"score":`+number+`}`))).Score(t.Context(), site)
		if err != nil || got.Score != want {
			t.Errorf("%s: %+v, %v, want %d", number, got, err, want)
		}
	}
	for _, answer := range []string{
		`{"score":100.0001}`, `{"score":-0.5}`, `{"score":101}`, `{"score":1e400}`, `{"score":1e-999999999}`,
		`{"score":1e999999999999999999999}`, `{"score":0.` + strings.Repeat("1", 100) + `}`,
		`{"score":"72"}`, `{"score":true}`, `{"score":[72]}`, `{"score":{"value":72}}`, `{"score":NaN}`,
		`{}`, `{"Score":72}`, `[72]`, `72`, `null`, `""`, ``, `<html>`, `{"score":72`, `{"score":72}}`, `{"score":72} {"score":10}`,
	} {
		s := serve(t, body(answer))
		got, err := generic(t, s).Score(t.Context(), site)
		if !down(err) || got != (Result{}) || s.asked.Load() != 1 {
			t.Errorf("%s: %+v, %v, asked %d times", answer, got, err, s.asked.Load())
		}
	}
}

func TestReportMustLieWhereTheOperatorSays(t *testing.T) {
	var answer atomic.Value
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer.Load()) })
	for _, c := range []struct {
		report, want string // want "" is refused
	}{
		{report: `"/r/1"`, want: s.URL + "/r/1"},
		{report: `"r/1?x#y"`, want: s.URL + "/score/r/1?x#y"},
		{report: `"` + s.URL + `/r"`, want: s.URL + "/r"},
		{report: `"https://evil.reports.acme.com/1"`},
		{report: `"https://reports.acme.com@evil.com/1"`},
		{report: `"https://u:p@reports.acme.com/1"`},
		{report: `"https://reports.acme.com\\@evil.com/1"`},
		{report: `"//evil.com/r"`},
		{report: `"https://evil.com/r"`},
		{report: `"javascript:alert(1)"`},
		{report: `"data:text/html,x"`},
		{report: `"ftp://127.0.0.1/r"`},
		{report: `"/r 1"`},
		{report: `"/r\n"`},
		{report: `"/ü"`},
		{report: `""`},
		{report: `"/%zz"`},
		{report: `7`},
		{report: `{"url":"/r"}`},
		{report: `"/` + strings.Repeat("x", 2048-len(s.URL)-1) + `"`, want: s.URL + "/" + strings.Repeat("x", 2048-len(s.URL)-1)},
		{report: `"/` + strings.Repeat("x", 2048-len(s.URL)) + `"`},
	} {
		answer.Store(`{"score":72,"report":` + c.report + `}`)
		r := scorer(t, Config{Spec: "http", URL: s.URL + "/score/{host}", Pointer: "/score", ReportPointer: "/report"})
		got, err := r.Score(t.Context(), site)
		if c.want == "" && (!down(err) || got != (Result{})) || c.want != "" && (err != nil || got.Report != c.want || got.Score != 72) {
			t.Errorf("%.60s: %+v, %v, want %.60s", c.report, got, err, c.want)
		}
	}
	asked := &url.URL{Scheme: "https", Host: "reports.acme.com", Path: "/score"}
	for report, taken := range map[string]bool{"https://REPORTS.acme.com:8443/1": true, "http://reports.acme.com/1": false} {
		if got, err := readReport(report, asked, asked.Hostname()); (err == nil) != taken || taken && got != report {
			t.Errorf("%s: %q, %v", report, got, err)
		}
	}
	for _, without := range []string{`{"score":72}`, `{"score":72,"report":null}`} {
		answer.Store(without)
		if got, err := generic(t, s).Score(t.Context(), site); err != nil || got.Report != "" || got.Provider != "127.0.0.1" || !got.ScannedAt.IsZero() {
			t.Errorf("%s: %+v, %v", without, got, err)
		}
	}
}

// What the statuses of a service mean, how often it is asked, and when to come back.
func TestStatusesOfTheService(t *testing.T) {
	const again, once = 3, 1
	later := time.Now().Add(10 * time.Minute).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		status int
		field  string // Retry-After
		tries  int64
		means  error
		wait   time.Duration // 0: not looked at
	}{
		{202, "", once, &Pending{}, 5 * time.Second}, {202, "20", once, &Pending{}, 20 * time.Second}, {202, "1", once, &Pending{}, 5 * time.Second},
		{400, "", once, ErrBadTarget, 0}, {422, "", once, ErrBadTarget, 0}, {404, "", once, &NotScorable{}, 0},
		{429, "", again, &Unavailable{}, 0}, {502, "", again, &Unavailable{}, 0}, {503, "", again, &Unavailable{}, 0}, {504, "", again, &Unavailable{}, 0},
		{503, "soon", again, &Unavailable{}, 0}, {503, "-5", again, &Unavailable{}, 0}, {503, "0", again, &Unavailable{}, 0}, {503, "1.5", again, &Unavailable{}, 0},
		// Longer than all tries may take: one is enough.
		{503, "90", once, &Unavailable{}, 90 * time.Second}, {503, later, once, &Unavailable{}, 10 * time.Minute}, {503, "999999999", once, &Unavailable{}, time.Hour},
		{204, "", once, &Unavailable{}, 0}, {301, "", once, &Unavailable{}, 0}, {302, "", once, &Unavailable{}, 0}, {307, "", once, &Unavailable{}, 0}, {401, "", once, &Unavailable{}, 0},
		{403, "", once, &Unavailable{}, 0}, {405, "", once, &Unavailable{}, 0}, {410, "", once, &Unavailable{}, 0}, {500, "", once, &Unavailable{}, 0}, {501, "", once, &Unavailable{}, 0},
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			if c.field != "" {
				w.Header().Set("Retry-After", c.field)
			}
			w.WriteHeader(c.status)
		})
		_, err := generic(t, s).Score(t.Context(), site)
		var right bool
		var wait time.Duration
		switch c.means.(type) {
		case *Pending:
			got, is := errors.AsType[*Pending](err)
			if right = is; is {
				wait = got.RetryAfter
			}
		case *NotScorable:
			got, is := errors.AsType[*NotScorable](err)
			right = is && got.Never && got.Where == s.URL+"/"
		case *Unavailable:
			if right = down(err); right {
				got, _ := errors.AsType[*Unavailable](err)
				wait = got.RetryAfter
			}
		default:
			right = errors.Is(err, c.means)
		}
		if !right || s.asked.Load() != c.tries || c.wait != 0 && wait != c.wait && (c.field != later || wait > c.wait || wait <= c.wait-time.Minute) {
			t.Errorf("%d, Retry-After %q: %v, wait %s, asked %d times", c.status, c.field, err, wait, s.asked.Load())
		}
	}
}

// A question is tried three times, and the last answer means what it says.
func TestTheLastTryCounts(t *testing.T) {
	var s *service
	for last, scores := range map[int]bool{200: true, 404: false} {
		s = serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch s.asked.Load() {
			case 1:
				panic(http.ErrAbortHandler) // the connection breaks
			case 2:
				w.WriteHeader(503)
			default:
				w.WriteHeader(last)
				fmt.Fprint(w, `{"score":41}`)
			}
		})
		got, err := generic(t, s).Score(t.Context(), site)
		if scores && (err != nil || got.Score != 41) || !scores && !errors.As(err, new(*NotScorable)) || s.asked.Load() != 3 {
			t.Errorf("%d at last: %+v, %v, asked %d times", last, got, err, s.asked.Load())
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	other := serve(t, body(`{"score":99}`))
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	if got, err := generic(t, s).Score(t.Context(), site); !down(err) || got != (Result{}) || other.asked.Load() != 0 {
		t.Errorf("%+v, %v, the other was asked %d times", got, err, other.asked.Load())
	}
}

// TestAnotherProtocolIsNoAnswer: what follows a 101 is a connection that the end
// of no context closes.
func TestAnotherProtocolIsNoAnswer(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	if got, err := generic(t, s).Score(t.Context(), site); !down(err) || s.asked.Load() != 1 {
		t.Errorf("%+v, %v, asked %d times", got, err, s.asked.Load())
	}
}

func TestAnswerIsAtMost2MiBDecoded(t *testing.T) {
	answer := func(size int) []byte {
		head, tail := `{"score":72,"pad":"`, `"}`
		return []byte(head + strings.Repeat("x", size-len(head)-len(tail)) + tail)
	}
	if got, err := generic(t, serve(t, body(string(answer(2<<20))))).Score(t.Context(), site); err != nil || got.Score != 72 {
		t.Errorf("2 MiB: %+v, %v", got, err)
	}
	if got, err := generic(t, serve(t, body(string(answer(2<<20+1))))).Score(t.Context(), site); !down(err) {
		t.Errorf("2 MiB and a byte: %+v, %v", got, err)
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	z.Write(answer(16 << 20))
	z.Close()
	if got, err := generic(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Write(bomb.Bytes())
	})).Score(t.Context(), site); !down(err) {
		t.Errorf("bomb: %+v, %v", got, err)
	}
}

// unending is a service with answers that begin and do not go on.
type unending struct{ asked int }

func (u *unending) RoundTrip(req *http.Request) (*http.Response, error) {
	u.asked++
	r, w := io.Pipe()
	context.AfterFunc(req.Context(), func() { w.CloseWithError(req.Context().Err()) })
	return &http.Response{StatusCode: 200, Body: r, Request: req}, nil
}

func TestSlowServiceIsBounded(t *testing.T) {
	const wait = time.Millisecond
	for _, c := range []struct {
		timing      timing
		asked       int
		least, most time.Duration
	}{
		{timing{attempt: 5 * time.Second, all: time.Minute, wait: wait}, 3, 15 * time.Second, 15*time.Second + 10*wait},
		{timing{attempt: time.Minute, all: 10 * time.Second, wait: wait}, 1, 10 * time.Second, 10 * time.Second},
		{defaultTiming, 2, 10 * time.Second, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := scorer(t, Config{Spec: "http", URL: "https://score.example/?u={url}", Pointer: "/score"})
			u := &unending{}
			r.client.Transport, r.timing = u, c.timing
			began := time.Now()
			_, err := r.Score(t.Context(), site)
			if took := time.Since(began); !down(err) || u.asked != c.asked || took < c.least || took > c.most {
				t.Errorf("%+v: %v, asked %d times in %s", c.timing, err, u.asked, took)
			}
		})
	}
	if want := (timing{attempt: 5 * time.Second, all: 10 * time.Second, wait: 250 * time.Millisecond}); defaultTiming != want {
		t.Errorf("timing %v", defaultTiming)
	}
}

func TestEndOfTheCallersContextIsNoVerdictOnTheService(t *testing.T) {
	s := serve(t, body(`{"score":72}`))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := generic(t, s).Score(ctx, site); !errors.Is(err, context.Canceled) || down(err) {
		t.Errorf("%v", err)
	}
}

func TestServiceThatIsNotThere(t *testing.T) {
	s := serve(t, nil)
	r := generic(t, s)
	s.Close()
	if _, err := r.Score(t.Context(), site); !down(err) {
		t.Errorf("%v", err)
	}
}
