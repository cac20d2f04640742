//go:build !race

package host

// Without flags, usualScripts seeds run natively and compiled, and usualInterpreted of them
// in the interpreter, too.
const (
	raceDetector     = false
	usualScripts     = 250
	usualInterpreted = 5
)
