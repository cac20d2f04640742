package main

import (
	"bytes"
	"io"
)

// packagesLog is where packages write that know no other log than that of the
// standard library. The client of net/http repeats there, four kilobytes at a
// time, what a server sends before it is asked: sites that are scored could fill
// the disk with it. These lines are left out.
type packagesLog struct{ to io.Writer }

func (l packagesLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("Unsolicited response received")) {
		return len(line), nil
	}
	return l.to.Write(line)
}
