package score

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

func TestFixedScores(t *testing.T) {
	for _, n := range []int{0, 39, 40, 72, 100} {
		s, err := New(Config{Spec: fmt.Sprintf("fixed:%d", n)})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Score(t.Context(), site); err != nil || got.Score != n || got.Provider != "fixed" || got.Report != "" || got.ScannedAt.IsZero() {
			t.Errorf("fixed:%d: %+v, %v", n, got, err)
		}
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	ok := Config{Spec: "http", URL: "https://s.acme.com/score?u={url}", Pointer: "/score"}
	if _, err := New(ok); err != nil {
		t.Fatal(err)
	}
	with := func(change func(*Config)) Config {
		c := ok
		change(&c)
		return c
	}
	for name, cfg := range map[string]Config{
		"nothing":               {},
		"unknown":               {Spec: "oracle"},
		"a service by its name": {Spec: "is-agentic"},
		"fixed without a score": {Spec: "fixed"},
		"fixed empty":           {Spec: "fixed:"},
		"fixed below":           {Spec: "fixed:-1"},
		"fixed above":           {Spec: "fixed:101"},
		"fixed signed":          {Spec: "fixed:+5"},
		"fixed fraction":        {Spec: "fixed:39.5"},
		"no URL":                with(func(c *Config) { c.URL = "" }),
		"no pointer":            with(func(c *Config) { c.Pointer = "" }),
		"pointer without slash": with(func(c *Config) { c.Pointer = "score" }),
		"pointer with a tilde":  with(func(c *Config) { c.ReportPointer = "/a~2" }),
		"pointer ends in tilde": with(func(c *Config) { c.Pointer = "/a~" }),
		"same for all sites":    with(func(c *Config) { c.URL = "https://s.acme.com/score" }),
		"site is the host":      with(func(c *Config) { c.URL = "https://{host}/score" }),
		"site is in the host":   with(func(c *Config) { c.URL = "https://{host}.acme.com/score" }),
		"site is the URL":       with(func(c *Config) { c.URL = "{url}" }),
		"site is the user":      with(func(c *Config) { c.URL = "https://{host}@acme.com/" }),
		"site is a fragment":    with(func(c *Config) { c.URL = "https://s.acme.com/#{host}" }),
		"user name":             with(func(c *Config) { c.URL = "https://me:secret@s.acme.com/{host}" }),
		"relative":              with(func(c *Config) { c.URL = "/score/{host}" }),
		"other scheme":          with(func(c *Config) { c.URL = "ftp://s.acme.com/{host}" }),
		"no host":               with(func(c *Config) { c.URL = "https:///{host}" }),
	} {
		if s, err := New(cfg); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestHeaderFieldsComeFromTheEnvironment(t *testing.T) {
	for _, variable := range []string{
		"WEBRING_SCORE_HEADER_=s3cret", "WEBRING_SCORE_HEADER_A B=s3cret", "WEBRING_SCORE_HEADER_X=s3cret\r\nY: z", "WEBRING_SCORE_HEADER_X(=s3cret",
	} {
		if h, err := HeaderFromEnviron([]string{variable}); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v, %v", variable, h, err)
		}
	}
	if h, err := HeaderFromEnviron([]string{"A=b"}); err != nil || len(h) != 0 {
		t.Errorf("%v, %v", h, err)
	}
}

func TestJSONPointers(t *testing.T) {
	// The document and most cases of RFC 6901, section 5.
	document, err := decodeJSON([]byte(`{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8,"o":null,"p":{"0":9}}`))
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[string]string{
		"/foo/0": "bar", "/foo/1": "baz", "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3", "/g|h": "4",
		"/i\\j": "5", "/k\"l": "6", "/ ": "7", "/m~0n": "8", "/o": "<nil>", "/p/0": "9",
	} {
		p, err := parsePointer(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := p.find(document); !ok || fmt.Sprint(got) != want {
			t.Errorf("%s: %v, %v, want %s", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "/foo/2", "/foo/-", "/foo/00", "/foo/01", "/foo/", "/foo/1e0", "/foo/9999999999", "/foo/0/x", "/x", "/o/x", "/p/1", "//"} {
		p, err := parsePointer(s)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := p.find(document); ok {
			t.Errorf("%q finds %v", s, got)
		}
	}
	// "~01" is "~1", not "/".
	if p, err := parsePointer("/~01"); err != nil || p[0] != "~1" {
		t.Errorf("%v, %v", p, err)
	}
}

func FuzzResult(f *testing.F) {
	for _, s := range []string{`{"score":72.5,"report":"/r","scanned_at":"2026-08-23T10:23:07Z"}`, `{"score":1e9}`, `{"score":null}`, `[`, `{"score":-0}`} {
		f.Add([]byte(s))
	}
	s, err := New(Config{Spec: "http", URL: "https://s.acme.com/{host}", Pointer: "/score", ReportPointer: "/report"})
	if err != nil {
		f.Fatal(err)
	}
	r := s.(*remote)
	asked, _ := checkTemplate(r.url)
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := r.result(asked, body)
		if err != nil && got != (Result{}) {
			t.Fatalf("%q: %+v beside %v", body, got, err)
		}
		report, err := url.Parse(got.Report)
		if got.Score < 0 || got.Score > 100 || len(got.Report) > maxReport || err != nil ||
			got.Report != "" && (report.Scheme != "https" || !strings.EqualFold(report.Hostname(), "s.acme.com")) {
			t.Fatalf("%q: %+v", body, got)
		}
	})
}
