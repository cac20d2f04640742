//go:build race

package host

// The race detector makes each script take ten times as long. All run on one goroutine, so
// more show no more races. See scripts_test.go.
const (
	raceDetector     = true
	usualScripts     = 15
	usualInterpreted = 3
)
