package main

import (
	"bytes"
	"io"
)

// packagesLog receives what packages write to the standard library's log. It drops the lines
// in which the client of net/http quotes up to four kilobytes that a server has sent without
// a request: sites that are scored could fill the disk with them.
type packagesLog struct{ to io.Writer }

func (l packagesLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("Unsolicited response received")) {
		return len(line), nil
	}
	return l.to.Write(line)
}
