package publish

import (
	"io"
	"net"
	"time"
)

const (
	// stallTime bounds how long a download may stand still, and what it may
	// need beyond its length at slowestRate, in bytes a second.
	stallTime   = 30 * time.Second
	slowestRate = 16 << 10
)

// download is the body of a long answer. The server's write deadline is for short
// answers, so Read moves it as far ahead as a link of the slowest rate needs. A
// connection that is slower than that, or stands still, is cut.
type download struct {
	io.ReadCloser
	conn    net.Conn
	stall   time.Duration
	rate    int64
	began   time.Time
	read    int64
	release func()
}

// Read gives the next bytes to be written and sets the deadline for writing them.
func (d *download) Read(b []byte) (int, error) {
	n, err := d.ReadCloser.Read(b)
	d.read += int64(n)
	now := time.Now()
	if d.began.IsZero() {
		d.began = now
	}
	deadline := d.began.Add(d.stall + time.Duration(d.read/d.rate)*time.Second)
	if still := now.Add(d.stall); still.Before(deadline) {
		deadline = still
	}
	if failed := d.conn.SetWriteDeadline(deadline); failed != nil {
		return 0, failed
	}
	return n, err
}

// Close ends the download and releases the semaphore.
func (d *download) Close() error {
	d.release()
	return d.ReadCloser.Close()
}
