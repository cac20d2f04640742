package front

import (
	"errors"
	"log/slog"
	"os"
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
