//go:build race

package host

// scripts is how many seeds all legs but the interpreter run, and interpretedScripts how
// many that one does: fewer than without the race detector, which makes each take ten
// times as long; nor does that one run what fuzzing has found. All run on one goroutine,
// so more show no more races.
const (
	scripts            = 15
	interpretedScripts = 3
)
