package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// The linker sets these, as the Makefile says. They are empty in a binary of a bare
// go build.
var (
	buildVersion  string // newest heading of CHANGELOG.md
	buildRevision string // commit, with -modified behind it when the tree was not that of the commit
	buildDate     string // of the commit, RFC 3339
)

// build is what a binary knows of its sources.
type build struct{ version, revision, date string }

// thisBuild says what this binary was built from: what make set, and else what the go
// command saw.
func thisBuild() build {
	b, seen := build{buildVersion, buildRevision, buildDate}, map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			seen[s.Key] = s.Value
		}
	}
	if b.revision == "" {
		b.revision, b.date = seen["vcs.revision"], seen["vcs.time"]
		if seen["vcs.modified"] == "true" {
			b.revision += "-modified"
		}
	}
	for _, field := range []struct {
		of    *string
		usual string
	}{{&b.version, "0.0.0-devel"}, {&b.revision, "unknown"}, {&b.date, "unknown"}} {
		if *field.of == "" {
			*field.of = field.usual
		}
	}
	return b
}

// print writes one line about the binary.
func (b build) print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "webring %s, commit %s of %s, %s %s/%s\n", b.version, b.revision, b.date, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
