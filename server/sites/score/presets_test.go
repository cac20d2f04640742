package score

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// standIn is a service that speaks a preset's shape: the answers to questions
// one after the other, and the last from then on.
type standIn struct {
	status int
	header map[string]string
	body   string
}

// shapes are, by preset, what the service says in each situation. The bodies are
// written by hand after what the services publish, read in November 2026:
//
//   - isitagentready: https://isitagentready.com/llms-full.txt, and answers that public clients
//     keep for their tests, in which names are written as here (scannedAt, levelName)
//   - is-agentic: what public clients send to its report API and how they check its answers;
//     they say that a GET reads the last report, and that the page or the command line scans
//   - agent-ready: https://agent-ready.dev/docs/api.md and https://agent-ready.dev/api/v1/openapi.json
//   - agentgrade: https://agentgrade.com/llms.txt
//   - ora: what its public clients send and read
var shapes = map[string]map[string][]standIn{
	"isitagentready": {
		"score": {{200, nil, `{"url":"https://acme.com/","scannedAt":"2026-08-23T10:23:07.000Z","level":4,"levelName":"Agent-Integrated","isCommerce":false,
			"checks":{"discoverability":{"robotsTxt":{"status":"pass","message":"robots.txt exists"}},"botAccessControl":{"webBotAuth":{"status":"neutral","message":"No directory"}}},
			"nextLevel":{"target":5,"name":"Agent-Native","requirements":[]}}`}},
		"null":     {{200, nil, `{"url":"https://acme.com/","level":null}`}},
		"outside":  {{200, nil, `{"level":6}`}},
		"no shape": {{200, nil, `{"score":83}`}},
	},
	"is-agentic": {
		"score":    {{200, nil, `{"score":83,"report_url":"https://is-agentic.com/scan/acme.com","scanned_at":"2026-08-23T10:23:07Z"}`}},
		"null":     {{200, nil, `{"score":null,"report_url":"https://is-agentic.com/scan/acme.com"}`}},
		"never":    {{404, nil, `{"status":404,"code":"report_not_found"}`}},
		"outside":  {{200, nil, `{"score":100.5}`}},
		"no shape": {{200, nil, `{"scores":83}`}},
	},
	"ora": {
		"score":   {{200, nil, `{"domain":"acme.com","score":83,"maxScore":100,"grade":"A","scannedAt":"2026-08-23T10:23:07Z"}`}},
		"null":    {{200, nil, `{"domain":"acme.com","score":null}`}},
		"started": {{404, nil, `{"error":"never scanned"}`}, {200, nil, `{"domain":"acme.com","score":83,"scannedAt":"2026-08-23T10:23:07Z"}`}},
		"pending": {{404, nil, `{}`}, {202, map[string]string{"Location": "/api/scan/7"}, `{}`}, {202, map[string]string{"Location": "/api/scan/7"}, `{}`},
			{200, nil, `{"domain":"acme.com","score":83,"scannedAt":"2026-08-23T10:23:07Z"}`}},
		"at work":  {{200, nil, `{"domain":"acme.com","score":12,"analysisStatus":"running"}`}, {200, nil, `{"domain":"acme.com","score":83,"scannedAt":"2026-08-23T10:23:07Z","analysisStatus":"complete"}`}},
		"state":    {{200, nil, `{"score":83,"analysisStatus":null}`}},
		"outside":  {{200, nil, `{"score":-1}`}},
		"no shape": {{200, nil, `{"result":{"score":83}}`}},
	},
	"agent-ready": {
		"score": {{202, map[string]string{"Location": "/api/v1/scans/abc"}, `{"id":"abc","status":"queued","url":"https://acme.com/","shareUrl":null,"pollUrl":"/api/v1/scans/abc"}`},
			{200, nil, `{"id":"abc","rootUrl":"https://acme.com/","status":"running","createdAt":"2026-08-23T10:22:57Z"}`},
			{200, nil, `{"id":"abc","status":"completed","vercelScore":83,"shareToken":"tok/en","completedAt":"2026-08-23T10:23:07Z"}`}},
		"null": {{202, nil, `{"id":"abc","pollUrl":"/api/v1/scans/abc"}`}, {200, nil, `{"id":"abc","status":"failed","vercelScore":null}`}},
		"pending": {{202, nil, `{"id":"abc","pollUrl":"/api/v1/scans/abc"}`}, {200, nil, `{"id":"abc","status":"running"}`}, {200, nil, `{"id":"abc","status":"running"}`},
			{200, nil, `{"id":"abc","status":"completed","vercelScore":83,"shareToken":"tok/en","completedAt":"2026-08-23T10:23:07Z"}`}},
		"at work": {{200, nil, `{"id":"abc","status":"running","pollUrl":"/api/v1/scans/abc"}`},
			{200, nil, `{"id":"abc","status":"completed","vercelScore":83,"shareToken":"tok/en","completedAt":"2026-08-23T10:23:07Z"}`}},
		"nowhere":  {{200, nil, `{"id":"abc","status":"running"}`}},
		"outside":  {{200, nil, `{"status":"completed","vercelScore":1000}`}},
		"no shape": {{200, nil, `{"vercelScore":83}`}},
	},
	"agentgrade": {
		"score":    {{200, nil, `{"url":"https://acme.com/","score":{"earned":83,"max":100,"pct":83.4}}`}},
		"null":     {{200, nil, `{"score":{"pct":null}}`}},
		"never":    {{404, nil, `{}`}},
		"outside":  {{200, nil, `{"score":{"pct":101}}`}},
		"no shape": {{200, nil, `{"score":83}`}},
	},
}

// alike are what every service may do.
var alike = map[string][]standIn{
	"busy":     {{429, map[string]string{"Retry-After": "77"}, `{}`}},
	"down":     {{503, nil, ``}},
	"broken":   {{500, nil, `oops`}},
	"garbage":  {{200, nil, "<html>\x00"}},
	"too long": {{200, nil, `{"score":83,"pad":"` + strings.Repeat("x", 2<<20) + `"}`}},
	"moved":    {{302, map[string]string{"Location": "https://evil.com/"}, ``}},
	"refused":  {{422, nil, `{}`}},
	"away":     {{202, map[string]string{"Location": "https://evil.com/scan/1"}, `{}`}},
	"slow":     {{0, nil, ``}},
	"for ever": {{202, map[string]string{"Location": "/scan/1", "Retry-After": "20"}, `{}`}},
}

// preset makes the scorer of a preset that asks a stand-in, with the calls that
// it got.
func presetAt(t *testing.T, name string, script []standIn) (*remote, *service, *[]string) {
	t.Helper()
	var calls []string
	var mu sync.Mutex // of calls: one that was given up may not have ended
	var s *service
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		calls = append(calls, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
		mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer key" {
			t.Errorf("%s came without its key", r.RequestURI)
		}
		answer := script[min(int(s.asked.Load()), len(script))-1]
		if answer.status == 0 {
			<-r.Context().Done() // until nobody waits any more
			return
		}
		for field, value := range answer.header {
			w.Header().Set(field, value)
		}
		w.WriteHeader(answer.status)
		_, _ = io.WriteString(w, answer.body)
	})
	p := presets[name]
	local := func(address string) string {
		if address == "" {
			return ""
		}
		_, rest, _ := strings.Cut(address, "://")
		return s.URL + rest[strings.Index(rest, "/"):]
	}
	return scorer(t, Config{Spec: name, URL: local(p.url), StartURL: map[bool]string{true: local(p.start)}[p.start != ""], Start: map[bool]string{true: "post"}[p.start != ""],
		Header: http.Header{"Authorization": {"Bearer key"}}}), s, &calls
}

func TestPresetsAgainstTheirServices(t *testing.T) {
	scanned := time.Date(2026, 8, 23, 10, 23, 7, 0, time.UTC)
	reports := map[string]string{"isitagentready": "https://isitagentready.com/acme.com", "is-agentic": "https://is-agentic.com/scan/acme.com", "ora": "https://ora.ai/score/acme.com", "agent-ready": "https://agent-ready.dev/scan/tok%2Fen", "agentgrade": ""}
	for name, own := range shapes {
		for _, situations := range []map[string][]standIn{own, alike} {
			for situation, script := range situations {
				t.Run(name+" "+situation, func(t *testing.T) {
					r, s, calls := presetAt(t, name, script)
					if situation == "slow" {
						r.timing.attempt = 20 * time.Millisecond
					}
					got, err := r.Score(t.Context(), site)
					var not *NotScorable
					var pending *Pending
					var u *Unavailable
					ok := false
					switch situation {
					case "score", "started", "pending", "at work":
						points := 83
						if name == "isitagentready" {
							points = 80 // level 4 of 5
						}
						ok = err == nil && got.Score == points && (got.Visit == "https://is-agentic.com/scan/acme.com") == (name == "is-agentic") && got.Provider == name && got.Report == reports[name] && (name == "agentgrade" || got.ScannedAt.Equal(scanned))
					case "null":
						ok = errors.As(err, &not) && !not.Never && strings.HasPrefix(not.Where, "https://")
					case "never":
						ok = errors.As(err, &not) && not.Never && strings.HasPrefix(not.Where, "https://") && strings.Contains(not.Error(), "visit") == (name == "is-agentic")
					case "refused":
						ok = errors.Is(err, ErrBadTarget)
					case "nowhere":
						ok = errors.As(err, &pending) && s.asked.Load() == 1
					case "for ever":
						ok = errors.As(err, &pending) && pending.RetryAfter == 20*time.Second
					case "busy":
						ok = errors.As(err, &u) && u.RetryAfter == 77*time.Second
					default:
						ok = errors.As(err, &u) && u.RetryAfter >= time.Second
					}
					if !ok || err != nil && got != (Result{}) {
						t.Errorf("%+v, %v after %q", got, err, *calls)
					}
					if n := s.asked.Load(); n > maxCalls || situation == "slow" && n > tries {
						t.Errorf("asked %d times", s.asked.Load())
					}
				})
			}
		}
	}
}

func TestScansAreStartedWithThePOSTThatIsDocumented(t *testing.T) {
	r, _, calls := presetAt(t, "ora", shapes["ora"]["pending"])
	if _, err := r.Score(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(map[string]string{"url": site})
	want := []string{"GET /api/score/acme.com", "POST /api/scan " + string(body), "GET /api/scan/7", "GET /api/scan/7"}
	if fmt.Sprint(*calls) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", *calls, want)
	}
	r, _, calls = presetAt(t, "agent-ready", shapes["agent-ready"]["score"])
	if _, err := r.Score(t.Context(), site); err != nil {
		t.Fatal(err)
	}
	if want := []string{"POST /api/v1/scans " + string(body), "GET /api/v1/scans/abc", "GET /api/v1/scans/abc"}; fmt.Sprint(*calls) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", *calls, want)
	}
	r, _, calls = presetAt(t, "isitagentready", shapes["isitagentready"]["score"])
	if got, err := r.Score(t.Context(), site); err != nil || got.Score != 80 || fmt.Sprint(*calls) != fmt.Sprint([]string{"POST /api/scan " + string(body)}) {
		t.Errorf("%+v, %v, %q", got, err, *calls)
	}
	r, _, calls = presetAt(t, "agent-ready", shapes["agent-ready"]["at work"])
	if _, err := r.Score(t.Context(), site); err != nil || (*calls)[1] != "GET /api/v1/scans/abc" {
		t.Errorf("a 200 of a scan at work: %v, %q", err, *calls)
	}
}

// TestScanThatTakesLongIsLookedAtAgain holds that the next question goes on where
// the last one stopped, and starts no second scan.
func TestScanThatTakesLongIsLookedAtAgain(t *testing.T) {
	slow := standIn{200, map[string]string{"Retry-After": "30"}, `{"status":"running"}`}
	r, s, calls := presetAt(t, "agent-ready", []standIn{{202, map[string]string{"Retry-After": "30"}, `{"pollUrl":"/api/v1/scans/abc"}`}, slow,
		{200, nil, `{"status":"completed","vercelScore":50}`}})
	r.timing.poll = time.Hour // longer than one question may take
	for range 2 {
		var pending *Pending
		if _, err := r.Score(t.Context(), site); !errors.As(err, &pending) {
			t.Fatalf("%v", err)
		}
	}
	if got, err := r.Score(t.Context(), site); err != nil || got.Score != 50 || s.asked.Load() != 3 {
		t.Errorf("%+v, %v after %q", got, err, *calls)
	}
	if n := strings.Count(strings.Join(*calls, "\n"), "POST"); n != 1 {
		t.Errorf("%d scans were started", n)
	}
}

func TestCallsForOneScoreAreBounded(t *testing.T) {
	script := []standIn{{503, nil, ``}, {503, nil, ``}, {404, nil, `{}`}, {503, nil, ``}, {503, nil, ``}, {202, map[string]string{"Location": "/x"}, ``}}
	r, s, _ := presetAt(t, "ora", script)
	var pending *Pending
	if _, err := r.Score(t.Context(), site); !errors.As(err, &pending) || s.asked.Load() != maxCalls {
		t.Errorf("%v, asked %d times", err, s.asked.Load())
	}
}

// TestLevelsAreFifths has all levels of isitagentready, and what lies between and beyond.
func TestLevelsAreFifths(t *testing.T) {
	for level, want := range map[string]int{"0": 0, "1": 20, "2": 40, "3": 60, "4": 80, "5": 100, "1.99": 39, "2.0": 40, "1.9999999999999999999999": 39} {
		r, s, _ := presetAt(t, "isitagentready", []standIn{{200, nil, `{"level":` + level + `}`}})
		if got, err := r.Score(t.Context(), site); err != nil || got.Score != want || s.asked.Load() != 1 {
			t.Errorf("level %s: %+v, %v", level, got, err)
		}
	}
	for _, level := range []string{"5.0001", "-1", `"3"`, "{}", "1e99"} {
		r, _, _ := presetAt(t, "isitagentready", []standIn{{200, nil, `{"level":` + level + `}`}})
		if got, err := r.Score(t.Context(), site); err == nil {
			t.Errorf("level %s: %+v", level, got)
		}
	}
	// Its scans take longer than other answers, and none is started twice.
	if limit := presets["isitagentready"]; limit.timing().attempt != limit.timing().all || limit.timing().all >= NewGuard(fixed(1), Limits{}).limits.Ask {
		t.Errorf("%+v", limit.timing())
	}
}

func TestVersionOfTheRubric(t *testing.T) {
	s := serve(t, body(`{"score":50,"rubric":"v7"}`))
	r := scorer(t, Config{Spec: "http", URL: s.URL + "/{host}", Pointer: "/score", VersionPointer: "/rubric", TimePointer: "/at", Method: http.MethodPost})
	if got, err := r.Score(t.Context(), site); err != nil || got.Version != "v7" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestStartsThatAreRefused(t *testing.T) {
	ok := Config{Spec: "http", URL: "https://s.acme.com/{host}", Pointer: "/score", Start: "post", StartURL: "https://s.acme.com/scan"}
	if _, err := New(ok); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"no URL":        func(c *Config) { c.StartURL = "" },
		"another host":  func(c *Config) { c.StartURL = "https://t.acme.com/scan" },
		"another port":  func(c *Config) { c.StartURL = "https://s.acme.com:8443/scan" },
		"no start":      func(c *Config) { c.Start = "" },
		"unknown start": func(c *Config) { c.Start = "put" },
		"method":        func(c *Config) { c.Method = "PUT" },
	} {
		c := ok
		change(&c)
		if s, err := New(c); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
