package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// mostTargets is how many members a question is about at most: many times as many
// as the cache of a node has room for, so that it has none of the answers.
const mostTargets = 1 << 18

// targets are the requests of a question. They are asked in turn and not at
// random: each is asked again only after all others, when a cache of some of them
// does not have it any more. Questions may share them and go on where the other
// has stopped.
type targets struct {
	names   []string                            // what differs from one to the next
	request func(to []byte, name string) []byte // appends the request for a name
	asked   atomic.Uint64
}

// append appends the next request.
func (t *targets) append(to []byte) []byte {
	return t.request(to, t.names[(t.asked.Add(1)-1)%uint64(len(t.names))])
}

// gets are GET requests: the names follow path. More are further header fields.
func gets(path string, names []string, more ...string) *targets {
	head := "GET " + path
	tail := " HTTP/1.1\r\n" + strings.Join(append([]string{"Host: ring.example", "User-Agent: bench", "Accept: */*"}, more...), "\r\n") + "\r\n\r\n"
	return &targets{names: names, request: func(to []byte, name string) []byte {
		return append(append(append(to, head...), name...), tail...)
	}}
}

// sampled says whether the i-th of so many members is one of those that are asked
// about: there are mostTargets of them from all over the ring, or all of a smaller
// one.
func sampled(i, members int) bool {
	return members <= mostTargets || (i+1)*mostTargets/members > i*mostTargets/members
}

// offsets gives up to a thousand offsets of whole pages of the leaderboard: more
// than the cache of a node has room for.
func offsets(members int) (names []string) {
	places := max(members-100, 0) + 1
	n := min(places, 1000)
	for i := range n {
		names = append(names, strconv.Itoa(i*places/n))
	}
	shuffle(names)
	return names
}

// shuffle gives names the same order in each run, and none that the ring has.
func shuffle(names []string) {
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
}
