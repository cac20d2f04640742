package etcdstore

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"webring/server/ledger"
)

// Bounds of what is replicated and not yet stored here.
const (
	maxPending      = 64
	maxPendingBytes = 2 * ledger.MaxBatch
	// mergeBytes bounds the transactions that are stored together, when the local store is
	// slower than etcd.
	mergeBytes = 1 << 20
)

// Store is a [ledger.Replicated]: etcd first, then the local store. While one transaction
// is stored here, the next is replicated. Reads see what is replicated.
//
// A commit that fails has an unknown outcome and ends the term.
type Store struct {
	t     *Term
	under ledger.Store

	// The ledger commits one after the other.
	head     cell
	at       head
	position func(ledger.Batch) (ledger.Position, error)

	local   atomic.Uint64 // serial of the last transaction that is stored here
	storing atomic.Int64  // since when the local store is at work, in ns after the term began; 0 if it is not

	mu      sync.RWMutex // guards the fields below
	pending []*pending   // what is not stored here, the oldest first
	bytes   int
	last    uint64 // number of the last that was pending
	begun   uint64 // number of the last that may be stored here, or in part
	err     error
	moved   chan struct{} // closed when pending, err or stopped changes
	stopped bool
	ended   chan struct{} // closed when run has returned
}

// pending is a transaction that is not stored here yet.
type pending struct {
	number uint64
	serial uint64
	rows   ledger.Batch
	keys   []string // in order
	bytes  int
	stored func() error
}

func newStore(t *Term, head cell) *Store {
	return &Store{t: t, head: head, position: ledger.Batch.Position, moved: make(chan struct{})}
}

// open gives the store what lies under it.
func (s *Store) open(under ledger.Store) {
	if s.under != nil {
		panic("etcdstore: a term has one store")
	}
	s.under, s.ended = under, make(chan struct{})
	go s.run()
}

// Commit implements [ledger.Store].
func (s *Store) Commit(b ledger.Batch) error { return s.CommitAhead(b, nil) }

// CommitAhead implements [ledger.Replicated].
func (s *Store) CommitAhead(b ledger.Batch, stored func() error) error {
	p := &pending{stored: stored}
	if len(b) == 0 {
		return s.push(p)
	}
	if err := s.t.Err(); err != nil {
		return err
	}
	at, err := s.position(b)
	if err != nil {
		return err
	}
	if at.Serial != s.at.at.Serial+1 {
		return fmt.Errorf("etcdstore: transaction %d cannot follow %d", at.Serial, s.at.at.Serial)
	}
	if err := s.makeRoom(); err != nil {
		return err
	}
	plain, keys := appendGroup(nil, b)
	p.serial, p.keys, p.bytes = at.Serial, keys, len(plain)
	if p.rows, err = parseGroup(plain); err != nil {
		return fmt.Errorf("%w: transaction %d is larger than a store must take", err, at.Serial)
	}
	value := s.t.c.sealer.seal(at.Serial, compress(plain))
	next := head{at: at, epoch: s.t.epoch, written: s.at.written + uint64(len(value))}
	if err := s.t.move(&s.head, next.encode(), clientv3.OpPut(s.t.c.keys.group(at.Serial), string(value))); err != nil {
		return err
	}
	s.at = next
	s.t.tail.wrote(at.Serial, next.written)
	return s.push(p)
}

// makeRoom waits until not too much is pending.
func (s *Store) makeRoom() error {
	return s.await(func() bool { return len(s.pending) < maxPending && s.bytes < maxPendingBytes })
}

// Settle implements [ledger.Replicated].
func (s *Store) Settle() error { return s.await(func() bool { return len(s.pending) == 0 }) }

// await waits until it is as ready wants it, or the store is broken.
func (s *Store) await(ready func() bool) error {
	for {
		s.mu.RLock()
		err, ok, moved := s.err, ready(), s.moved
		s.mu.RUnlock()
		if err != nil || ok {
			return err
		}
		<-moved
	}
}

// push lets reads see what is replicated, and has it stored.
func (s *Store) push(p *pending) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.last++
	p.number = s.last
	s.pending = append(s.pending, p)
	s.bytes += p.bytes
	s.move()
	return nil
}

// move wakes all who wait. The caller holds mu.
func (s *Store) move() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// run stores what is pending.
func (s *Store) run() {
	defer close(s.ended)
	for {
		some := s.take()
		if len(some) == 0 {
			return
		}
		s.storing.Store(int64(time.Since(s.t.began)) + 1)
		err := s.storeHere(some)
		s.storing.Store(0)
		s.mu.Lock()
		if err != nil {
			s.err = err
		} else {
			s.pending = s.pending[len(some):]
			for _, p := range some {
				s.bytes -= p.bytes
			}
		}
		s.move()
		s.mu.Unlock()
		if err != nil {
			s.t.end(fmt.Errorf("%w: %w", ErrLost, err))
			return
		}
	}
}

// stalls is for how long the local store has been at work on what it stores now.
func (s *Store) stalls() time.Duration {
	since := s.storing.Load()
	if since == 0 {
		return 0
	}
	return time.Since(s.t.began) - time.Duration(since)
}

// take waits for what to store together. There is nothing once the store is stopped.
func (s *Store) take() []*pending {
	for {
		s.mu.Lock()
		if len(s.pending) > 0 || s.stopped {
			n, size, rows := 0, 0, 0
			for _, p := range s.pending {
				size, rows = size+p.bytes, rows+len(p.keys)
				if n > 0 && (size > mergeBytes || rows > ledger.MaxBatchRows) {
					break
				}
				n++
			}
			some := s.pending[:n:n]
			if n > 0 {
				s.begun = some[n-1].number
			}
			s.mu.Unlock()
			return some
		}
		moved := s.moved
		s.mu.Unlock()
		<-moved
	}
}

// storeHere stores transactions that follow each other, as one.
func (s *Store) storeHere(some []*pending) error {
	rows, serial := some[0].rows, some[0].serial
	if len(some) > 1 {
		rows = maps.Clone(rows)
	}
	for _, p := range some[1:] {
		if rows == nil {
			rows = ledger.Batch{}
		}
		maps.Copy(rows, p.rows)
		serial = max(serial, p.serial)
	}
	if len(rows) > 0 {
		if err := s.under.Commit(rows); err != nil {
			return fmt.Errorf("etcdstore: store transaction %d here: %w", serial, err)
		}
	}
	for i := len(some) - 1; i >= 0; i-- {
		if stored := some[i].stored; stored != nil {
			if err := stored(); err != nil {
				return err
			}
			break
		}
	}
	if serial > 0 {
		s.local.Store(serial)
	}
	return nil
}

// stop ends the store when everything is stored.
func (s *Store) stop() {
	if s.under == nil {
		return
	}
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		s.move()
	}
	s.mu.Unlock()
	<-s.ended
}

// Get implements [ledger.Store].
func (s *Store) Get(key []byte) ([]byte, error) {
	s.mu.RLock()
	for i := len(s.pending) - 1; i >= 0; i-- {
		if value, ok := s.pending[i].rows[string(key)]; ok {
			s.mu.RUnlock()
			if value == nil {
				return nil, ledger.ErrNotFound
			}
			return append([]byte{}, value...), nil
		}
	}
	s.mu.RUnlock()
	return s.under.Get(key)
}

// Accept implements [ledger.Store].
func (s *Store) Accept() error { return s.under.Accept() }

// Verify implements [ledger.Store].
func (s *Store) Verify() error { return s.under.Verify() }

// Close implements [ledger.Store]. It closes the local store, too.
func (s *Store) Close() error {
	err := s.Settle()
	s.stop()
	return errors.Join(err, s.under.Close())
}
