//go:build !race

package host

// scripts is how many seeds all legs but the interpreter run, and interpretedScripts how
// many that one does.
const (
	scripts            = allScripts
	interpretedScripts = 15
)
