package publish

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"webring/edge/share"
)

// room bounds how many long answers are under way at a time: in all, and to each stranger.
// Some of it is reserved for edges of this ring. Package share shares the rest between
// strangers, so a crowd leaves room to others.
type room struct {
	all       int64
	taken     atomic.Int64 // by edges of this ring and by strangers
	strangers *share.Semaphore
}

func newRoom(all, reserved, each int) *room {
	return &room{all: int64(all), strangers: share.NewSemaphore(share.Rule{Most: all - reserved, Half: halfOfOne}, each)}
}

// halfOfOne is how many a stranger has that is refused while half are held.
const halfOfOne = 8

// take takes a place for a client, and gives the function that gives it back and may be
// called more than once. ok is false if there is none for this client.
func (r *room) take(client string, known bool) (release func(), ok bool) {
	asker := share.AskerOf(client)
	if r.taken.Add(1) > r.all || !known && !r.strangers.TryAcquire(asker) {
		r.taken.Add(-1)
		return nil, false
	}
	return sync.OnceFunc(func() {
		if !known {
			r.strangers.Release(asker)
		}
		r.taken.Add(-1)
	}), true
}

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
