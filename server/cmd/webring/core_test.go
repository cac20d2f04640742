package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
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
	read := func() (replies []reply) {
		for _, target := range targets {
			replies = append(replies, o.get(target, "Sec-Purpose", "prefetch")) // no hop that the home page counts
		}
		return replies
	}
	o.settle()
	o.launch()
	native := read()
	o.args[len(o.args)-1] = "wasm"
	for _, more := range [][]string{nil, {"--shared-memory=false"}} {
		o.stop()
		o.args = append(o.args, more...)
		o.launch()
		for i, wasm := range read() {
			if !bytes.Equal(wasm.Body, native[i].Body) {
				t.Errorf("%s: wasm %v %s, native %s", targets[i], more, wasm.Body, native[i].Body)
			}
			// Whoever asks an origin and then an edge gets its copy confirmed.
			if got, want := wasm.Header.Get("ETag"), native[i].Header.Get("ETag"); got != want {
				t.Errorf("%s: the validator is %s in wasm, %s natively", targets[i], got, want)
			}
		}
	}
	if out, err := o.operate("version"); err != nil || !strings.Contains(out, "core.wasm sha256:") {
		t.Errorf("version: %v: %s", err, out)
	}
}

// An origin reads natively, an edge through the module, and either does what it is told.
func TestTheBuildOfTheCoreIsChosen(t *testing.T) {
	for args, want := range map[string][2]string{"": {"native", "wasm"}, "--core=native": {"native", "native"}, "--core=wasm": {"wasm", "wasm"}} {
		var o options
		var e edgeOptions
		for _, fs := range []*flag.FlagSet{o.flags(), e.flags()} {
			if err := parse(fs, inFile(t, strings.Fields(args))); err != nil {
				t.Fatal(err)
			}
		}
		if got := [2]string{o.core.kind, e.core.kind}; got != want {
			t.Errorf("%q: the origin's and the edge's are %q, want %q", args, got, want)
		}
	}
}

func TestUnknownBuildsOfTheCoreAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--core", "jvm"}, {"--memory-limit", "1"}} {
		var o options
		if err := parse(o.flags(), inFile(t, args)); err != nil {
			t.Fatal(err)
		}
		if err := o.validate(); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(args[0], "--")) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// Compiled code of modules that are not in use goes, and nothing else that lies in a
// folder of that name.
func TestOnlyCompiledCodeIsDropped(t *testing.T) {
	data := t.TempDir()
	used, unused := [32]byte{1}, [32]byte{2}
	theirs := filepath.Join(data, "core", "of-somebody-else")
	for _, folder := range []string{compiled(data, used), compiled(data, unused), theirs} {
		if err := os.MkdirAll(filepath.Join(folder, "within"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dropCompiled(data, used)
	for folder, stays := range map[string]bool{compiled(data, used): true, compiled(data, unused): false, theirs: true} {
		if _, err := os.Stat(filepath.Join(folder, "within")); stays != (err == nil) {
			t.Errorf("%s: stays %t, but %v", folder, stays, err)
		}
	}
}
