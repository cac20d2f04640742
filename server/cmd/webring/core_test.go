package main

import (
	"bytes"
	"strings"
	"testing"
)

// One ledger, read first through one build of the core and then through the
// other, gives the same answers.
func TestBothBuildsOfTheCoreAnswerTheSame(t *testing.T) {
	o := ring(t, "--core", "native")
	o.join("Ada", "agent", "2.00")
	o.join("Bob", "website", "")
	targets := []string{"/api", "/api/ring", "/api/ring/next?from=ada", "/api/ring/bob", "/api/leaderboard", "/api/categories",
		"/api/widget?from=bob", "/next?from=ada", "/prev?from=nobody", "/api/ring?limit=0", "/api/ring/nobody", "/"}
	read := func() (bodies [][]byte) {
		for _, target := range targets {
			bodies = append(bodies, o.get(target).Body)
		}
		return bodies
	}
	native := read()
	o.stop()
	o.args[len(o.args)-1] = "wasm"
	o.launch()
	for i, body := range read() {
		if !bytes.Equal(body, native[i]) {
			t.Errorf("%s: wasm %s, native %s", targets[i], body, native[i])
		}
	}
	if out, err := o.operate("version"); err != nil || !strings.Contains(out, "core.wasm sha256:") {
		t.Errorf("version: %v: %s", err, out)
	}
}

func TestUnknownBuildsOfTheCoreAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--core", "jvm"}, {"--memory-limit", "1"}} {
		var o options
		if err := parse(o.flags(), args); err != nil {
			t.Fatal(err)
		}
		if err := o.validate(); err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
