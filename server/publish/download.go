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

// download is the body of a long answer. The server's bound on writing is for
// short ones, so this body puts it off as it is read, as far as a link of the
// slowest rate needs: what is slower, or stands still, is cut.
type download struct {
	io.ReadCloser
	conn    net.Conn
	stall   time.Duration
	rate    int64
	began   time.Time
	read    int64
	release func()
}

// Read is called for what is to be written next.
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

// Close gives the place back.
func (d *download) Close() error {
	d.release()
	return d.ReadCloser.Close()
}
