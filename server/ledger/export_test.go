package ledger

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

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
func (l *Ledger) Queued() int { return len(l.queue) }

// Staged is how many rows the group in work has.
func (l *Ledger) Staged() int {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return len(l.staged)
}

// Dump is everything that memory holds of a ledger, but for its clock.
type Dump struct {
	Position Position
	State    [16]byte
	Index    index
}

// Dump gives what memory holds. Nothing may be in work.
func (l *Ledger) Dump() Dump {
	l.mu.RLock()
	defer l.mu.RUnlock()
	x := l.index
	x.failed = maps.Clone(x.failed)
	x.expire(l.cfg.Now()) // memory may hold some that no longer count
	x.blocks = blocks{}
	for kind, some := range l.index.blocks {
		if len(some) > 0 {
			x.blocks[kind] = maps.Clone(some)
		}
	}
	x.open, x.urls, x.unconfirmed = maps.Clone(x.open), maps.Clone(x.urls), maps.Clone(x.unconfirmed)
	x.onMember, x.ofPayer = maps.Clone(x.onMember), nil // it is what open says
	return Dump{*l.durable.Load(), l.state.Digest(), x}
}

// Dump is [Ledger.Dump].
func (f *Follower) Dump() Dump { return f.l.Dump() }

func (d Dump) String() string {
	s := fmt.Sprintf("%v %x %v %v %v", d.Position, d.State, d.Index.onMember, d.Index.failed, d.Index.blocks)
	for _, some := range []map[string]*Reservation{d.Index.open, d.Index.urls, d.Index.unconfirmed} {
		for _, id := range slices.Sorted(maps.Keys(some)) {
			s += fmt.Sprintf("\n%s: %+v", id, *some[id])
		}
	}
	return s
}
