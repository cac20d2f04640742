package fastpath

import (
	"bytes"
	"errors"
	"net"
	"strconv"
	"time"
)

// What fasthttp is told of requests that it is not given.
var (
	// ErrHead says that a head has a line that is not ended by CRLF, a control character,
	// or a first line without a version of HTTP. Programs before this one may read such a
	// head otherwise (RFC 9112, 2.2 and 11.2).
	ErrHead = errors.New("fastpath: the head of the request is not well-formed")
	// ErrVersion says that a request is of another major version than HTTP/1.
	ErrVersion = errors.New("fastpath: the request is of a version of HTTP that is not spoken here")
	// ErrNoRoom says that too many requests hold memory.
	ErrNoRoom = errors.New("fastpath: there is no room for the request")
)

// MaxHead is the longest head of a request in bytes, request line included.
const MaxHead = 24 << 10

// usualHead is room for most heads, which a connection keeps.
const usualHead = 1 << 10

// handedConn is a connection that fasthttp serves. It gives fasthttp one request at a time,
// a head when it is whole, and refuses heads that fasthttp would wait for or read in its
// own way.
type handedConn struct {
	net.Conn
	from    *connection
	buf     []byte // received, and not given on yet
	store   []byte // where buf is, if that is short
	rest    int    // how much of the request that is being given on is to come
	through bool   // all that comes is given on: this is the last request
	err     error  // what comes after buf
	due     time.Time

	// Of the head at the beginning of buf:
	scanned int // bytes that were looked at
	line    int // where the last line begins
}

// Read gives bytes of one request only.
func (c *handedConn) Read(p []byte) (int, error) {
	if c.rest == 0 && !c.through {
		if err := c.nextHead(); err != nil {
			c.through, c.err = true, err
		}
	}
	if len(c.buf) == 0 {
		if c.err != nil {
			return 0, c.err
		}
		n, err := c.Conn.Read(p[:c.allowed(len(p))])
		c.gave(n)
		return n, err
	}
	n := copy(p, c.buf[:c.allowed(len(c.buf))])
	c.buf = c.buf[n:]
	c.gave(n)
	return n, nil
}

func (c *handedConn) allowed(n int) int {
	if c.through {
		return n
	}
	return min(n, c.rest)
}

func (c *handedConn) gave(n int) {
	if !c.through {
		if c.rest -= n; c.rest == 0 {
			c.due = time.Time{}
		}
	}
}

// SetReadDeadline gives a request of which a part has come no more time.
func (c *handedConn) SetReadDeadline(t time.Time) error {
	if !c.due.IsZero() && t.After(c.due) {
		t = c.due
	}
	return c.Conn.SetReadDeadline(t)
}

// nextHead reads until buf begins with a whole head, or with one that is too long.
func (c *handedConn) nextHead() error {
	c.from.holder.Await()
	c.scanned, c.line, c.due = 0, 0, time.Time{}
	if len(c.buf) == 0 {
		c.buf = c.store[:0]
	}
	for {
		whole, err := c.scan()
		switch {
		case err != nil:
			return c.refuse(err)
		case whole:
			return c.begin()
		case len(c.buf) >= MaxHead:
			c.through = true
			return nil
		case c.err != nil:
			return c.err
		}
		if len(c.buf) > 0 && c.due.IsZero() {
			if !c.from.holder.Hold(c.from.peer, 0) {
				return c.refuse(ErrNoRoom)
			}
			c.due = time.Now().Add(c.from.s.cfg.ReadTimeout)
			c.Conn.SetReadDeadline(c.due)
		}
		if cap(c.buf)-len(c.buf) < 512 {
			longer := make([]byte, len(c.buf), min(max(2*cap(c.buf), usualHead), MaxHead+512))
			copy(longer, c.buf)
			if c.buf = longer; cap(longer) == usualHead {
				c.store = longer[:0]
			}
		}
		n, err := c.Conn.Read(c.buf[len(c.buf):cap(c.buf)])
		c.buf = c.buf[:len(c.buf)+n]
		if err != nil {
			c.err = err // whatever came with it counts first
		}
	}
}

// refuse has fasthttp fail with err in the middle of a request, so that it answers.
func (c *handedConn) refuse(err error) error {
	c.buf = []byte("?")
	return err
}

// scan looks at what is new in buf. It says whether the head is whole, and then scanned is
// its length. Empty lines before it are left out.
func (c *handedConn) scan() (whole bool, err error) {
	for ; c.scanned < len(c.buf); c.scanned++ {
		b, cr := c.buf[c.scanned], c.scanned > 0 && c.buf[c.scanned-1] == '\r'
		switch {
		case cr != (b == '\n') || b < ' ' && b != '\t' && b != '\r' && b != '\n' || b == 0x7f:
			return false, ErrHead
		case b != '\n':
		case c.scanned-1 > c.line:
			if c.line == 0 {
				if err := readVersion(c.buf[:c.scanned-1]); err != nil {
					return false, err
				}
			}
			c.line = c.scanned + 1
		case c.line > 0:
			c.scanned++
			return true, nil
		default:
			c.buf, c.scanned = c.buf[2:], -1
		}
	}
	return false, nil
}

// readVersion reads the version at the end of a request line. A minor version that is not
// known is written over with the highest that is (RFC 9110, 2.5).
func readVersion(line []byte) error {
	const form = "HTTP/1.1"
	at := len(line) - len(form)
	if at < 1 || line[at-1] != ' ' || string(line[at:at+5]) != form[:5] || line[at+6] != '.' || !isDigit(line[at+5]) || !isDigit(line[at+7]) {
		return ErrHead
	}
	if line[at+5] != '1' {
		return ErrVersion
	}
	if line[at+7] > '1' {
		line[at+7] = '1'
	}
	return nil
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// begin gives the request on once its head is whole, if there is room for it. Of its fields
// only those count that say how long it is and which client a proxy sends it for.
func (c *handedConn) begin() error {
	head := c.buf[:c.scanned]
	c.rest = len(head)
	var named [][]byte
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case len(line) == 0:
		case line[0] == ' ' || line[0] == '\t' || bytes.EqualFold(name, []byte("Transfer-Encoding")):
			// Folded lines and bodies in chunks are for fasthttp to understand.
			c.through = true
		case bytes.EqualFold(name, []byte("Content-Length")):
			if n, err := strconv.ParseUint(string(bytes.Trim(value, " \t")), 10, 31); err == nil {
				c.rest += int(n)
			}
		case c.from.proxyField != "" && bytes.EqualFold(name, []byte(c.from.proxyField)):
			named = append(named, bytes.Trim(value, " \t"))
		}
	}
	of := c.from.peer
	if c.from.proxyField != "" {
		of = c.from.s.cfg.Proxies.Behind(c.from.peer, named)
	}
	if !c.from.holder.Hold(of, 0) {
		c.rest = 0
		return c.refuse(ErrNoRoom)
	}
	return nil
}
