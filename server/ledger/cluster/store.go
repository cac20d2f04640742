package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"webring/server/ledger"
)

// Bounds of what is replicated and not stored here yet.
const (
	maxPending      = 64
	maxPendingBytes = 2 * ledger.MaxBatch
	// mergeBytes bounds the transactions that are stored together when the local store is slower
	// than etcd.
	mergeBytes = 1 << 20
)

// Store is a [ledger.Replicated]: etcd first, then the local store. While one transaction is stored
// here, the next is replicated. Reads see what is replicated.
//
// A failed commit has an unknown outcome and ends the term.
type Store struct {
	t     *Term
	under ledger.Store

	// The ledger commits one transaction after the other.
	head       cell
	at         head
	position   func(ledger.Batch) (ledger.Position, error)
	committing stopwatch // of the commit in work

	local   atomic.Uint64 // serial of the last transaction that is stored here
	storing stopwatch     // of the local store

	mu      sync.RWMutex // guards the fields below
	pending []*pending   // what is not stored here, the oldest first
	bytes   int
	err     error
	stopped bool
	changed *sync.Cond    // pending, err or stopped; its lock is mu
	ended   chan struct{} // closed when run has returned
}

// stopwatch measures work that is going on.
type stopwatch struct{ began atomic.Pointer[time.Time] }

func (w *stopwatch) start() { now := time.Now(); w.began.Store(&now) }
func (w *stopwatch) stop()  { w.began.Store(nil) }

// running is for how long the work has been going on, 0 if there is none.
func (w *stopwatch) running() time.Duration {
	if began := w.began.Load(); began != nil {
		return time.Since(*began)
	}
	return 0
}

// pending is a transaction that is not stored here yet.
type pending struct {
	serial uint64
	rows   ledger.Batch
	keys   []string // in order
	bytes  int
	stored func() error
}

func newStore(t *Term, head cell) *Store {
	s := &Store{t: t, head: head, position: ledger.Batch.Position}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// open gives the store the local store under it.
func (s *Store) open(under ledger.Store) {
	if s.under != nil {
		panic("cluster: a term has one store")
	}
	s.under, s.ended = under, make(chan struct{})
	context.AfterFunc(s.t.ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	go s.run()
}

// Commit implements [ledger.Store].
func (s *Store) Commit(b ledger.Batch) error { return s.CommitAhead(b, nil) }

// CommitAhead implements [ledger.Replicated].
func (s *Store) CommitAhead(b ledger.Batch, stored func() error) error {
	s.committing.start()
	defer s.committing.stop()
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
		return fmt.Errorf("cluster: transaction %d cannot follow %d", at.Serial, s.at.at.Serial)
	}
	if err := s.await(func() bool { return len(s.pending) < maxPending && s.bytes < maxPendingBytes }); err != nil {
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

// Settle implements [ledger.Replicated].
func (s *Store) Settle() error { return s.await(func() bool { return len(s.pending) == 0 }) }

// await waits until ready, or until the store is broken.
func (s *Store) await(ready func() bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.err == nil && !ready() {
		s.changed.Wait()
	}
	return s.err
}

// push lets reads see a replicated transaction, and has it stored.
func (s *Store) push(p *pending) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.pending = append(s.pending, p)
	s.bytes += p.bytes
	s.changed.Broadcast()
	return nil
}

// run stores what is pending.
func (s *Store) run() {
	defer close(s.ended)
	for {
		some := s.take()
		if len(some) == 0 {
			return
		}
		s.storing.start()
		err := s.storeHere(some)
		s.storing.stop()
		s.mu.Lock()
		if s.err = err; err == nil {
			s.pending = s.pending[len(some):]
			for _, p := range some {
				s.bytes -= p.bytes
			}
		}
		s.changed.Broadcast()
		s.mu.Unlock()
		if err != nil {
			s.t.end(fmt.Errorf("%w: %w", ErrLost, err))
			return
		}
	}
}

// take waits for transactions to store together. It gives none once the store is stopped.
func (s *Store) take() []*pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pending) == 0 && !s.stopped {
		s.changed.Wait()
	}
	n, size, rows := 0, 0, 0
	for _, p := range s.pending {
		size, rows = size+p.bytes, rows+len(p.keys)
		if n > 0 && (size > mergeBytes || rows > ledger.MaxBatchRows) {
			break
		}
		n++
	}
	return s.pending[:n:n]
}

// storeHere stores transactions that follow each other, as one.
func (s *Store) storeHere(some []*pending) error {
	rows, serial, stored := ledger.Batch{}, uint64(0), func() error { return nil }
	for _, p := range some {
		maps.Copy(rows, p.rows)
		serial = max(serial, p.serial)
		if p.stored != nil {
			stored = p.stored // the last stands for those before it
		}
	}
	if len(rows) > 0 {
		if err := s.under.Commit(rows); err != nil {
			return fmt.Errorf("cluster: store transaction %d here: %w", serial, err)
		}
	}
	if err := stored(); err != nil {
		return err
	}
	if serial > 0 {
		s.local.Store(serial)
	}
	return nil
}

// stop ends the store once everything is stored.
func (s *Store) stop() {
	if s.under == nil {
		return
	}
	s.mu.Lock()
	s.stopped = true
	s.changed.Broadcast()
	s.mu.Unlock()
	<-s.ended
}

// Scan implements [ledger.Store]. It reads the local store, and first waits until that has the rows of the
// scan that are replicated, or until the term is over. So it never mixes rows of different transactions.
func (s *Store) Scan(prefix, from []byte, fn func(key, value []byte) error) error {
	begin := max(string(from), string(prefix))
	s.mu.Lock()
	var needs *pending // the last with such rows
	for _, p := range s.pending {
		if at, _ := slices.BinarySearch(p.keys, begin); at < len(p.keys) && strings.HasPrefix(p.keys[at], string(prefix)) {
			needs = p
		}
	}
	over := func() error { return cmp.Or(s.err, s.t.Err()) }
	for over() == nil && slices.Contains(s.pending, needs) {
		s.changed.Wait()
	}
	err, lacks := over(), slices.Contains(s.pending, needs)
	s.mu.Unlock()
	if lacks {
		return err
	}
	return s.under.Scan(prefix, from, fn)
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
