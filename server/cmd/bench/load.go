package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// question is what a server is asked again and again.
type question struct {
	name    string
	server  *server
	like    string              // another question, answers to which by peers it is compared with, too; or ""
	depth   int                 // requests under way on each connection
	targets *targets            // what is asked
	take    func(*reader) error // takes one answer
}

// result is what a server did while it was asked.
type result struct {
	rate float64       // answers a second
	p99  time.Duration // from writing the requests to having read the answers
	cpu  float64       // microseconds of the server's processor for each answer
	load float64       // how busy the load was: near 1, it is what was measured
}

// ask keeps requests under way on a number of connections.
func (q *question) ask(o *options) (result, error) {
	if err := q.flood(o.conns, 300*time.Millisecond, nil); err != nil {
		return result{}, err
	}
	before, err := q.server.processor()
	if err != nil {
		return result{}, err
	}
	busy, began := ownProcessor(), time.Now()
	var waits []time.Duration
	if err := q.flood(o.conns, o.each, &waits); err != nil {
		return result{}, err
	}
	took, load := time.Since(began), ownProcessor()-busy
	after, err := q.server.processor()
	if err != nil {
		return result{}, err
	}
	slices.Sort(waits)
	answers := float64(len(waits) * q.depth)
	return result{rate: answers / took.Seconds(), p99: waits[len(waits)*99/100],
		cpu: float64((after - before).Microseconds()) / answers, load: load.Seconds() / took.Seconds()}, nil
}

// flood asks for a time, and adds how long each turn of depth requests took.
func (q *question) flood(conns int, d time.Duration, waits *[]time.Duration) error {
	var mu sync.Mutex
	var failed error
	var all sync.WaitGroup
	until := time.Now().Add(d)
	for range conns {
		all.Go(func() {
			mine, err := q.client(until)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			if waits != nil {
				*waits = append(*waits, mine...)
			}
		})
	}
	all.Wait()
	return failed
}

// client is one connection.
func (q *question) client(until time.Time) (waits []time.Duration, err error) {
	conn, err := net.Dial("tcp", q.server.address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var requests []byte
	in := reader{conn: conn, buf: make([]byte, 0, 64<<10)}
	for now := time.Now(); now.Before(until); {
		requests = requests[:0]
		for range q.depth {
			requests = q.targets.append(requests)
		}
		if _, err := conn.Write(requests); err != nil {
			return nil, err
		}
		for range q.depth {
			if err := q.take(&in); err != nil {
				return nil, err
			}
		}
		then := time.Now()
		waits = append(waits, then.Sub(now))
		now = then
	}
	return waits, nil
}

// reader takes answers off a connection.
type reader struct {
	conn net.Conn
	buf  []byte // read and not yet taken
	at   int
}

// http takes one answer that is no error, header and body.
func (r *reader) http() error {
	for {
		rest := r.buf[r.at:]
		if end := bytes.Index(rest, []byte("\r\n\r\n")); end >= 0 {
			head := rest[:end+2]
			if !bytes.HasPrefix(head, []byte("HTTP/1.1 302 ")) && !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) {
				return fmt.Errorf("an answer begins with %.60q", head)
			}
			_, length, ok := bytes.Cut(head, []byte("ontent-Length: "))
			if !ok {
				return fmt.Errorf("an answer has no length: %q", head)
			}
			length, _, _ = bytes.Cut(length, []byte("\r\n"))
			n, err := strconv.Atoi(string(length))
			if err != nil {
				return err
			}
			if len(rest) >= end+4+n {
				r.at += end + 4 + n
				return nil
			}
		}
		if err := r.more(); err != nil {
			return err
		}
	}
}

// more reads what comes next.
func (r *reader) more() error {
	if r.at > 0 {
		r.buf = r.buf[:copy(r.buf, r.buf[r.at:])]
		r.at = 0
	}
	if len(r.buf) == cap(r.buf) {
		r.buf = slices.Grow(r.buf, cap(r.buf))
	}
	n, err := r.conn.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	if n > 0 {
		return nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// processor is the time that the server has been running on a processor.
func (s *server) processor() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// proc(5): the command ends with the last parenthesis, and times are the
	// 14th and 15th fields, in hundredths of a second.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc: %q", stat)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

func ownProcessor() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
