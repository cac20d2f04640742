package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// get serves one target, and checks what holds for every answer.
func get(t *testing.T, r *coretest.Ring, target string) *api.Response {
	t.Helper()
	return getRandom(t, r, target, 1<<63)
}

func getRandom(t *testing.T, r *coretest.Ring, target string, random uint64) *api.Response {
	t.Helper()
	res := new(api.Response)
	api.Serve(r.State, []byte(target), random, res)
	if fault := wrong(r.State, res); fault != "" {
		t.Fatalf("%s: %s: %d %s", target, fault, res.Status, res.Body)
	}
	return res
}

// wrong says what of an answer breaks a rule that holds for all of them.
func wrong(st *core.State, res *api.Response) string {
	var p struct {
		Type, Title, Detail string
		Status              int
		Code                api.Code
	}
	switch {
	case res.Seq != st.Seq():
		return "not the state's position"
	case (res.Status == 302) != (len(res.Location) > 0) || (res.Status == 302) != (res.Media == api.HTML):
		return "a redirect without a location, or the other way round"
	case res.Status != 200 && res.Validity != api.Never:
		return "only documents may be kept"
	case res.Validity == api.Timed && (res.Since > st.Clock() || res.Until <= st.Clock()):
		return "does not hold now"
	case res.Media == api.HTML:
		return ""
	case !json.Valid(res.Body):
		return "not JSON"
	case bytes.ContainsRune(res.Body, '<'):
		return "would end a script element"
	case (res.Status == 200) != (res.Media == api.JSON):
		return "the media type does not go with the status"
	case res.Status == 200:
		return ""
	}
	if err := json.Unmarshal(res.Body, &p); err != nil || p.Status != res.Status || p.Status != p.Code.Status() ||
		p.Title != p.Code.Title() || p.Detail == "" || !strings.HasSuffix(p.Type, "/problems/"+string(p.Code)) {
		return "not a problem document of the table"
	}
	return ""
}

// object decodes a body with status 200.
func object(t *testing.T, res *api.Response) map[string]any {
	t.Helper()
	if res.Status != 200 {
		t.Fatalf("status %d: %s", res.Status, res.Body)
	}
	var v map[string]any
	if err := json.Unmarshal(res.Body, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// at follows a path of keys into a document.
func at(t *testing.T, v any, path ...string) any {
	t.Helper()
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			t.Fatalf("%v has no member %s", v, key)
		}
		if v, ok = m[key]; !ok {
			t.Fatalf("%v has no member %s", m, key)
		}
	}
	return v
}

// slugs gives the slugs of a list of members.
func slugs(t *testing.T, list any) string {
	t.Helper()
	var s []string
	for _, m := range list.([]any) {
		s = append(s, at(t, m, "slug").(string))
	}
	return strings.Join(s, " ")
}

// fails checks that a target is answered with a problem.
func fails(t *testing.T, r *coretest.Ring, target string, code api.Code) *api.Response {
	t.Helper()
	res := get(t, r, target)
	var p struct{ Code api.Code }
	if err := json.Unmarshal(res.Body, &p); err != nil || p.Code != code {
		t.Errorf("%s: %d %s, want the problem %s", target, res.Status, res.Body, code)
	}
	return res
}

// sample is a ring with a member of each kind, bids, a decayed member, a
// removed one and one that was redacted.
func sample(t testing.TB) *coretest.Ring {
	r := coretest.NewRing(t, func(e *core.Rules) { e.Grace, e.Decay = 60, 3600 })
	r.Join("alpha", "https://alpha.example/", func(e *core.Joined, texts *core.Texts) {
		e.Score = core.Score{Given: true, Value: 72, Provider: "is-agentic"}
		e.Bid = 250
		texts.Description.Value = "Plain & <simple>."
		texts.Report.Value = "https://scores.example/alpha?v=1&x=2"
	})
	r.Join("beta", "https://www.beta.example/docs/", func(e *core.Joined, texts *core.Texts) {
		e.Kind, e.Category = core.MCP, "tools"
		texts.Name.Value = `Bêta "2" </script>`
	})
	r.Join("gone", "https://gone.example/")
	r.Join("gamma", "http://gamma.example/a?x='1'&y=2", func(e *core.Joined, _ *core.Texts) {
		e.Kind, e.Category = core.Agent, "tools"
		e.Score = core.Score{Given: true, Value: 0}
	})
	r.Join("redacted", "https://redacted.example/")
	r.Remove("gone", false)
	r.Remove("redacted", true)
	r.Wait(600)
	r.Bid("gamma", 100)
	r.Wait(30)
	return r
}

// every is a target for each row of the endpoint tables and each of their
// parameters.
var every = []string{
	"/api", "/api/ring", "/api/ring?kind=mcp", "/api/ring?category=tools&limit=1", "/api/ring?limit=1&page=2", "/api/ring?limit=1&offset=2",
	"/api/ring/next", "/api/ring/next?from=alpha", "/api/ring/next?from=alpha&kind=agent&format=redirect", "/api/ring/prev?from=https%3A%2F%2Fbeta.example%2Fdocs%2Fx",
	"/api/ring/random", "/api/ring/random?from=beta.example&category=tools", "/api/ring/alpha", "/api/ring/beta", "/api/categories",
	"/api/widget", "/api/widget?from=gamma", "/api/widget?from=nobody", "/api/leaderboard", "/api/leaderboard?limit=1&page=2",
	"/next?from=alpha", "/prev?from=nobody", "/random", "/random?from=alpha&kind=website",
	"/api/ring?limit=0", "/api/ring/next?from=nobody", "/api/ring/nobody", "/api/ring/gone", "/next?category=none", "/elsewhere",
}

// The documents of a small ring, as they were when somebody last read them.
func TestDocumentsKeepTheirWords(t *testing.T) {
	r := sample(t)
	var b bytes.Buffer
	for _, target := range every {
		res := get(t, r, target)
		fmt.Fprintf(&b, "GET %s\n%d media=%d validity=%d", target, res.Status, res.Media, res.Validity)
		if res.Validity == api.Timed {
			fmt.Fprintf(&b, " %+d..%+d", res.Since-coretest.Start, res.Until-coretest.Start)
		}
		if res.Unknown {
			b.WriteString(" unknown")
		}
		if len(res.Location) > 0 {
			fmt.Fprintf(&b, " location=%s", res.Location)
		}
		b.WriteByte('\n')
		if res.Media == api.HTML || json.Indent(&b, res.Body, "", "  ") != nil {
			b.Write(res.Body)
		}
		b.WriteString("\n\n")
	}
	path := filepath.Join("testdata", "documents.txt")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Bytes(); !bytes.Equal(got, want) {
		g, w := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
		for i := range min(len(g), len(w)) {
			if !bytes.Equal(g[i], w[i]) {
				t.Fatalf("%s:%d has changed; if that is meant, run with -update.\ngot  %s\nwant %s", path, i+1, g[i], w[i])
			}
		}
		t.Fatalf("%s has %d lines, got %d", path, len(w), len(g))
	}
}

func TestServeAllocatesNothingIntoWarmBuffers(t *testing.T) {
	r := sample(t)
	r.Do(&core.Asleep{Member: "beta"}, nil)
	res := new(api.Response)
	for _, target := range slices.Concat(every, []string{"/next?from=https://WWW.alpha.example/docs/of-some-length/that-fits-no-small-buffer/b/%3Fq", "/prev?from=GAMMA.example.",
		"/random?from=https://nobody.example/", "/api/widget?from=alpha.example/page", "/next?from=%25%25"}) {
		raw := []byte(target)
		if n := testing.AllocsPerRun(100, func() { api.Serve(r.State, raw, 7, res) }); n != 0 {
			t.Errorf("%s: %v allocations", target, n)
		}
	}
	unopened, raw := core.NewState(1, 1), []byte("/api")
	if n := testing.AllocsPerRun(100, func() { api.Serve(unopened, raw, 7, res) }); n != 0 {
		t.Errorf("unopened: %v allocations", n)
	}
}

func TestManyServeOnOneStateAtATime(t *testing.T) {
	r := sample(t)
	want := map[string]string{}
	for _, target := range every {
		want[target] = string(getRandom(t, r, target, 7).Body)
	}
	done := make(chan string)
	for n := range 4 {
		go func() {
			res := new(api.Response)
			for i := range 20 * len(every) {
				target := every[(i*(n+1)+n)%len(every)]
				if api.Serve(r.State, []byte(target), 7, res); string(res.Body) != want[target] {
					done <- target
					return
				}
			}
			done <- ""
		}()
	}
	for range 4 {
		if target := <-done; target != "" {
			t.Errorf("%s differs when served beside others", target)
		}
	}
}

func TestPathsAreServedAndOthersAreNotFound(t *testing.T) {
	r := sample(t)
	for _, path := range api.Paths() {
		concrete := strings.Replace(path, "{slug}", "alpha", 1)
		if res := get(t, r, concrete); res.Status != 200 && res.Status != 302 || !api.Serves([]byte(concrete)) {
			t.Errorf("%s: status %d, served %t", concrete, res.Status, api.Serves([]byte(concrete)))
		}
	}
	for _, row := range []string{"/api", "/api/ring", "/api/ring/next", "/api/ring/prev", "/api/ring/random", "/api/ring/{slug}",
		"/api/categories", "/api/widget", "/api/leaderboard", "/next", "/prev", "/random"} {
		if !slices.Contains(api.Paths(), row) {
			t.Errorf("%s of the interface is not among the paths", row)
		}
	}
	for _, path := range []string{"", "/", "*", "api", "/api/", "/API", "/api/ring/", "/api/ring/alpha/", "/api/ring/alpha/next",
		"/api/ring/alpha%2Fx", "/api/categories/", "/api/register", "/api/bid", "/mcp", "/llms.txt", "/openapi.json", "/next/", "/random/x", "//api", "/api%", "/api/ring/%ff", "/api/ring/%zz", "/%"} {
		fails(t, r, path, api.NotFound)
		fails(t, r, path+"?limit=x", api.NotFound)
		if !strings.Contains(path, "%") && api.Serves([]byte(path)) {
			t.Errorf("%s is called served", path)
		}
	}
}

func TestAPathIsComparedAfterDecoding(t *testing.T) {
	r := sample(t)
	for spelled, plain := range map[string]string{"/%61pi": "/api", "/api/r%69ng/alph%61": "/api/ring/alpha", "/api/ring/n%65xt?from=alpha": "/api/ring/next?from=alpha"} {
		if got, want := get(t, r, spelled).Body, get(t, r, plain).Body; !bytes.Equal(got, want) {
			t.Errorf("%s is not %s", spelled, plain)
		}
	}
	// In a path '+' is itself.
	fails(t, r, "/api/ring/a+b", api.UnknownMember)
}

func TestAStateWithoutRulesAnswersInternal(t *testing.T) {
	res := new(api.Response)
	for _, target := range every {
		api.Serve(core.NewState(1, 1), []byte(target), 0, res)
		if res.Status != 500 || res.Media != api.Problem || !json.Valid(res.Body) {
			t.Errorf("%s: %d %s", target, res.Status, res.Body)
		}
	}
}
