package front

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// AccessConfig says where lines go and what they show.
type AccessConfig struct {
	// Path is the file, to which lines are appended; "-" is the standard error.
	Path string
	// JSON makes each line a JSON object.
	JSON bool
	// Whole names clients as limits count them: by IPv4 address and IPv6 /64. Otherwise
	// by their /24 and /48.
	Whole bool
	// Log is told when lines are lost.
	Log *slog.Logger
}

const (
	// maxPending bounds the lines that wait to be written, in bytes; what comes beyond is
	// dropped. From manyPending on they are written at once, otherwise after writeEvery.
	maxPending, manyPending = 1 << 20, 64 << 10
	writeEvery              = 200 * time.Millisecond
	// closePatience is how long Close waits for a disk that hangs.
	closePatience = 2 * time.Second
)

// AccessLog is an access log. Its functions may be called concurrently.
type AccessLog struct {
	cfg  AccessConfig
	file atomic.Pointer[os.File]
	out  func([]byte) error // writes to file, but in tests

	mu      sync.Mutex
	pending []byte
	dropped int64 // lines
	closed  bool

	many  chan struct{} // there are many lines
	end   chan struct{}
	ended chan struct{}
	lines sync.Pool // of *[]byte
}

// OpenAccessLog opens the file of a log and begins to write.
func OpenAccessLog(cfg AccessConfig) (*AccessLog, error) {
	l := newAccessLog(cfg)
	f, err := l.open()
	if err != nil {
		return nil, err
	}
	l.file.Store(f)
	l.out = l.writeFile
	go l.write()
	return l, nil
}

func newAccessLog(cfg AccessConfig) *AccessLog {
	return &AccessLog{cfg: cfg, many: make(chan struct{}, 1), end: make(chan struct{}), ended: make(chan struct{}),
		lines: sync.Pool{New: func() any { return new([]byte) }}}
}

func (l *AccessLog) open() (*os.File, error) {
	if l.cfg.Path == "-" {
		return os.Stderr, nil
	}
	return os.OpenFile(l.cfg.Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
}

// Add has a line written soon, if there is room for it.
func (l *AccessLog) Add(line *AccessLine) {
	b := l.lines.Get().(*[]byte)
	*b = appendLine((*b)[:0], line, l.cfg.JSON, l.cfg.Whole)
	l.mu.Lock()
	if l.closed || len(l.pending)+len(*b) > maxPending {
		l.dropped++
	} else {
		l.pending = append(l.pending, *b...)
	}
	many := len(l.pending) >= manyPending
	l.mu.Unlock()
	l.lines.Put(b)
	if many {
		select {
		case l.many <- struct{}{}:
		default:
		}
	}
}

// Reopen goes on in the file that now has the name, as after a rotation. When that cannot
// be opened, the lines go on to the one before.
func (l *AccessLog) Reopen() error {
	f, err := l.open()
	if err != nil {
		return err
	}
	// The writer may be writing to it; then it is closed when that is done.
	if before := l.file.Swap(f); before != os.Stderr {
		return before.Close()
	}
	return nil
}

// Close writes what is pending and closes the file. It does not wait for a disk that
// hangs.
func (l *AccessLog) Close() error {
	l.mu.Lock()
	before := l.closed
	l.closed = true
	l.mu.Unlock()
	if before {
		return nil
	}
	close(l.end)
	select {
	case <-l.ended:
	case <-time.After(closePatience):
		return errors.New("access log: the last lines could not be written in time")
	}
	if f := l.file.Load(); f != nil && f != os.Stderr {
		return f.Close()
	}
	return nil
}

// write writes pending lines until the log is closed.
func (l *AccessLog) write() {
	defer close(l.ended)
	soon := time.NewTicker(writeEvery)
	defer soon.Stop()
	var spare []byte
	for more := true; more; {
		select {
		case <-soon.C:
		case <-l.many:
		case <-l.end:
			more = false
		}
		l.mu.Lock()
		lines, dropped := l.pending, l.dropped
		l.pending, l.dropped = spare[:0], 0
		l.mu.Unlock()
		if len(lines) > 0 {
			if err := l.out(lines); err != nil {
				l.cfg.Log.Warn("access log: lines could not be written", "err", err)
			}
		}
		if dropped > 0 {
			l.cfg.Log.Warn("access log: lines were dropped: the disk did not take them in time", "lines", dropped)
		}
		spare = lines
	}
}

// writeFile writes to the file, also when it is replaced meanwhile.
func (l *AccessLog) writeFile(lines []byte) error {
	for {
		f := l.file.Load()
		n, err := f.Write(lines)
		if lines = lines[n:]; !errors.Is(err, os.ErrClosed) || f == l.file.Load() {
			return err
		}
	}
}

// AccessLine is one answered request. The slices are read during the call that takes it.
type AccessLine struct {
	At                        time.Time     // when the request had arrived
	Took                      time.Duration // until the answer was there, without sending it
	ID                        []byte        // as [GivenID] or [AppendID] gives it
	Client                    Client
	Method, Target, UserAgent []byte
	Status, Bytes             int // Bytes are the body's, 0 for a stream
}

// maxText is how much of a path, a from and a User-Agent is written, in bytes.
const maxText = 256

// fields appends the fields of a line in one format. What clients have sent is always in
// quotation marks.
type fields struct {
	dst   []byte
	json  bool
	begun bool
}

// name begins a field.
func (f *fields) name(name string) {
	switch {
	case f.json && f.begun:
		f.dst = append(f.dst, ',')
	case f.json:
		f.dst = append(f.dst, '{')
	case f.begun:
		f.dst = append(f.dst, ' ')
	}
	f.begun = true
	if f.json {
		f.dst = append(append(append(f.dst, '"'), name...), `":`...)
	} else {
		f.dst = append(append(f.dst, name...), '=')
	}
}

// quoted appends text: bytes that are not printable ASCII as escapes, each by itself, and
// no more than maxText of it.
func (f *fields) quoted(name string, text []byte) {
	const hex = "0123456789abcdef"
	f.name(name)
	f.dst = append(f.dst, '"')
	for _, c := range text[:min(len(text), maxText)] {
		switch {
		case c == '"' || c == '\\':
			f.dst = append(f.dst, '\\', c)
		case ' ' <= c && c < 0x7f:
			f.dst = append(f.dst, c)
		case f.json:
			f.dst = append(f.dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			f.dst = append(f.dst, '\\', 'x', hex[c>>4], hex[c&15])
		}
	}
	f.dst = append(f.dst, '"')
}

// word appends text of this project's own, which needs no escapes.
func (f *fields) word(name, text string) {
	f.name(name)
	if f.json {
		f.dst = append(append(append(f.dst, '"'), text...), '"')
	} else {
		f.dst = append(f.dst, text...)
	}
}

func (f *fields) number(name string, n int64) {
	f.name(name)
	f.dst = strconv.AppendInt(f.dst, n, 10)
}

// withoutAuthority cuts scheme and authority off a target in absolute form: a client may
// write a password there.
func withoutAuthority(path []byte) []byte {
	scheme, rest, found := bytes.Cut(path, []byte("://"))
	if !found || bytes.IndexByte(scheme, '/') >= 0 {
		return path
	}
	if at := bytes.IndexByte(rest, '/'); at >= 0 {
		return rest[at:]
	}
	return root
}

var root = []byte("/")

// appendLine appends a line as it is written. Clients are named by their networks unless
// whole is set.
func appendLine(dst []byte, l *AccessLine, json, whole bool) []byte {
	var room [64]byte
	f := fields{dst: dst, json: json}
	f.name("time")
	if json {
		f.dst = append(f.dst, '"')
	}
	f.dst = l.At.UTC().AppendFormat(f.dst, "2006-01-02T15:04:05.000Z")
	if json {
		f.dst = append(f.dst, '"')
	}
	f.word("level", "INFO")
	f.word("msg", "request")
	f.quoted("request", l.ID)
	if whole {
		f.quoted("client", append(room[:0], l.Client.String()...))
	} else {
		f.quoted("client", l.Client.AppendNetwork(room[:0]))
	}
	f.quoted("method", l.Method)
	path, query, _ := bytes.Cut(l.Target, []byte("?"))
	path = withoutAuthority(path)
	f.quoted("path", path)
	if from := Parameter(query, "from"); len(from) > 0 {
		f.quoted("from", from)
	}
	f.number("status", int64(l.Status))
	f.number("bytes", int64(l.Bytes))
	f.number("took_us", l.Took.Microseconds())
	f.quoted("agent", l.UserAgent)
	if json {
		f.dst = append(f.dst, '}')
	}
	return append(f.dst, '\n')
}
