package ledger

import "io"

// FaultyHead puts itself between a ledger and its head. The n-th write from
// now on fails after so many of its bytes reached the file; with Sync, the
// sync behind it fails instead.
type FaultyHead struct {
	headFile
	Countdown int
	Written   int
	FailSync  bool
	due       bool
}

// Fault puts f in place. Nothing may be in work.
func (l *Ledger) Fault(f *FaultyHead) {
	f.headFile = l.head.file
	l.head.file = f
}

func (f *FaultyHead) WriteAt(b []byte, at int64) (int, error) {
	f.Countdown--
	f.due = f.Countdown == 0
	if !f.due || f.FailSync {
		return f.headFile.WriteAt(b, at)
	}
	n, _ := f.headFile.WriteAt(b[:min(f.Written, len(b))], at)
	return n, io.ErrShortWrite
}

func (f *FaultyHead) Sync() error {
	if f.due && f.FailSync {
		return io.ErrUnexpectedEOF
	}
	return f.headFile.Sync()
}

// Queued is how many calls of Do wait for their turn.
func (l *Ledger) Queued() int {
	l.queueing.Lock()
	defer l.queueing.Unlock()
	return len(l.queue)
}

// Staged is how many rows the group in work has.
func (l *Ledger) Staged() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.staged)
}
