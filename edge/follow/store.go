package follow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"webring/core/snap"
	"webring/edge/durable"
)

// store writes the last good state to a folder:
//
//	checkpoint        the newest one, as it was signed; under a policy also as it was cosigned
//	state-N           the core at event N, and the events since
//	keys              what the origin has signed about its keys; see keys.go
//	unreachable       why the signed state is not reached, if this edge is to be upgraded
//
//	state  = replayed(1 byte) F(8 bytes) length(8 bytes) core entry…
//	core   as snap.WriteFile has it, not compressed
//	entry  = length(4 bytes) CRC-32C(4 bytes) record   as snap.AppendRecord
//
// Numbers are big endian. replayed is 1 if every event was folded to get there.
// The entries are those from event F on, F ≤ N: a backup may be completed from those
// before N, too.
//
// Events are written before the checkpoint that signs them, so the checkpoint shows
// whether what a crash left is right. When the events outgrow the core before them, a new
// file begins, which is written whole or not at all. After a failure nothing is written
// for a while.
type store struct {
	dir      string
	log      *slog.Logger
	replayed bool // every event up to here was folded

	base    uint64 // of the state in use
	journal *os.File
	written int64 // of events into it
	state0  int64 // length of the core before them
	resting time.Time
}

const (
	// stateHead is the length of what stands before a core.
	stateHead = 1 + 8 + 8
	// minJournal is how long events may grow behind a small core.
	minJournal = 4 << 20
	// storeRest is how long to wait after a write failed.
	storeRest = 30 * time.Second
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

func stateName(base uint64) string { return "state-" + strconv.FormatUint(base, 10) }

// clean removes what a crash left half written. Nothing may be in use.
func (s *store) clean() {
	left, _ := filepath.Glob(s.path(".new-*"))
	for _, path := range left {
		os.Remove(path)
	}
}

// save writes a position. If there is no journal, or it has become too long, anew writes
// a whole file and gives its checkpoint, which may be a later one.
func (s *store) save(n *update, anew func() (signed []byte, err error)) {
	if n.anew {
		_ = s.close()
	}
	if time.Now().Before(s.resting) {
		return
	}
	signed, err := n.signed, s.append(n.records)
	if err == nil && (s.journal == nil || s.written > max(minJournal, s.state0)) {
		signed, err = anew()
	}
	if err == nil {
		err = s.write("checkpoint", signed)
	}
	if err == nil {
		s.sweep()
		return
	}
	s.log.Error("follow: the last good state cannot be kept on disk; serving goes on", "err", err)
	// What was written before is still good. The journal ends there: it must have no gap.
	_ = s.close()
	s.resting = time.Now().Add(storeRest)
}

// append writes records behind those of the journal, if there is one.
func (s *store) append(records []snap.Record) error {
	if s.journal == nil || len(records) == 0 {
		return nil
	}
	n, err := s.journal.Write(entries(records))
	s.written += int64(n)
	if err != nil {
		return err
	}
	return s.journal.Sync()
}

// entries encodes records for the journal.
func entries(records []snap.Record) (b []byte) {
	for _, r := range records {
		at := len(b)
		b = snap.AppendRecord(append(b, make([]byte, 8)...), r)
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-8))
		binary.BigEndian.PutUint32(b[at+4:], crc32.Checksum(b[at+8:], castagnoli))
	}
	return b
}

// begin writes a new file, and continues it as the journal. If it cannot be written, the
// file before stays.
func (s *store) begin(base uint64, contents []byte, from uint64, tail []snap.Record) error {
	if err := errors.Join(s.close(), os.MkdirAll(s.dir, 0o700)); err != nil {
		return err
	}
	head := make([]byte, 1, stateHead)
	if s.replayed {
		head[0] = 1
	}
	head = binary.BigEndian.AppendUint64(head, from)
	head = binary.BigEndian.AppendUint64(head, uint64(len(contents)))
	err := durable.Create(s.dir, 0o600, func(w io.Writer) (string, error) {
		for _, part := range [][]byte{head, contents, entries(tail)} {
			if _, err := w.Write(part); err != nil {
				return "", err
			}
		}
		return stateName(base), nil
	})
	if err != nil {
		return err
	}
	s.journal, err = os.OpenFile(s.path(stateName(base)), os.O_WRONLY|os.O_APPEND, 0o600)
	s.base, s.written, s.state0 = base, 0, int64(len(contents))
	return err
}

// resume continues the file of a state that was read as the journal.
func (s *store) resume(k *state) {
	f, err := os.OpenFile(s.path(stateName(k.base)), os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		// A half-written entry may stand behind the last good one.
		err = f.Truncate(stateHead + int64(len(k.contents)) + k.length)
	}
	if err != nil {
		f.Close()
		return // the next checkpoint begins a new file
	}
	s.base, s.journal, s.written, s.state0, s.replayed = k.base, f, k.length, int64(len(k.contents)), k.replayed
}

// write writes a file, whole or not at all.
func (s *store) write(name string, content []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	return durable.Write(s.path(name), content, 0o600)
}

// sweep removes the states before the one in use.
func (s *store) sweep() {
	for _, base := range s.bases() {
		if base != s.base {
			os.Remove(s.path(stateName(base)))
		}
	}
}

// bases gives the positions of the states on disk, the last first.
func (s *store) bases() (bases []uint64) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		word, ok := strings.CutPrefix(e.Name(), "state-")
		if n, err := strconv.ParseUint(word, 10, 64); ok && err == nil {
			bases = append(bases, n)
		}
	}
	slices.Sort(bases)
	slices.Reverse(bases)
	return bases
}

func (s *store) checkpoint() ([]byte, error) {
	f, err := os.Open(s.path("checkpoint"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 2*maxNote))
}

// state is what the file of a state holds up to a checkpoint.
type state struct {
	base     uint64 // of the core
	replayed bool   // every event was folded to get there
	contents []byte
	from     uint64        // of tail
	tail     []snap.Record // from event from on
	length   int64         // of tail in the file

	// As check finds them in contents and tail:
	rows    []byte
	tree    snap.Tree
	records []snap.Record // those of tail that follow the rows
}

// last reads the last state that leads to the root of a checkpoint.
func (s *store) last(to snap.Checkpoint) (k *state, err error) {
	err = errNoState
	for _, base := range s.bases() {
		if base > to.Size {
			continue
		}
		if k, err = s.read(base, to); err == nil {
			return k, nil
		}
	}
	return nil, err
}

func (s *store) read(base uint64, to snap.Checkpoint) (*state, error) {
	f, err := os.Open(s.path(stateName(base)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	k, err := readState(f, info.Size(), base, to.Size)
	if err != nil {
		return nil, err
	}
	return k, k.check(to)
}

var (
	errNoState = errors.New("follow: no state on disk")
	errForm    = errors.New("follow: a state of no known form")
)

// readState reads a file of this size, with the records up to event end. The records have
// memory of their own, because the replica holds them, and drops the core.
func readState(r io.Reader, size int64, base, end uint64) (*state, error) {
	var head [stateHead]byte
	if size < stateHead {
		return nil, errForm
	}
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	from, length := binary.BigEndian.Uint64(head[1:]), binary.BigEndian.Uint64(head[9:])
	if head[0] > 1 || from > base || base > end || length > uint64(size-stateHead) {
		return nil, errForm
	}
	contents, entries := make([]byte, length), make([]byte, uint64(size-stateHead)-length)
	bigPages(contents)
	for _, part := range [][]byte{contents, entries} {
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, err
		}
	}
	records, n, err := decodeEntries(entries, end-from)
	return &state{base: base, replayed: head[0] == 1, contents: contents, from: from, tail: records, length: n}, err
}

// decodeEntries reads the first n entries, and returns how long they are.
func decodeEntries(b []byte, n uint64) (records []snap.Record, length int64, err error) {
	for rest := b; uint64(len(records)) < n; length = int64(len(b) - len(rest)) {
		if len(rest) < 8 {
			return nil, 0, fmt.Errorf("follow: %d of %d events on disk", len(records), n)
		}
		size, sum := uint64(binary.BigEndian.Uint32(rest)), binary.BigEndian.Uint32(rest[4:])
		rest = rest[8:]
		if size > uint64(len(rest)) || size > snap.MaxRecord || crc32.Checksum(rest[:size], castagnoli) != sum {
			return nil, 0, fmt.Errorf("follow: record %d on disk is damaged", len(records))
		}
		one, err := snap.DecodeRecords(rest[:size])
		if err != nil {
			return nil, 0, err
		}
		if len(one) != 1 {
			return nil, 0, fmt.Errorf("follow: record %d on disk is not one", len(records))
		}
		records, rest = append(records, one[0]), rest[size:]
	}
	return records, length, nil
}

// check splits the contents, and compares the events with the root of a checkpoint.
func (k *state) check(to snap.Checkpoint) (err error) {
	if k.rows, k.tree, err = snap.CutFile(k.contents); err != nil {
		return err
	}
	if k.tree.Size() != k.base {
		return fmt.Errorf("follow: it is of %d events", k.tree.Size())
	}
	k.records = k.tail[k.base-k.from:]
	if err := add(&k.tree, k.records); err != nil {
		return err
	}
	return checkRoot(&k.tree, to)
}

// close ends the use of the file.
func (s *store) close() error {
	if s.journal == nil {
		return nil
	}
	f := s.journal
	s.journal = nil
	return f.Close()
}

// writes is what has yet to be written to disk. A write takes three syncs, which is longer
// than all else that a checkpoint takes. So checkpoints are accepted meanwhile, and the
// next write takes all that have come by then.
type writes struct {
	mu      sync.Mutex
	next    *update
	busy    bool
	writing sync.WaitGroup
}

// update is a new position, and the records from the one before.
type update struct {
	signed  []byte
	records []snap.Record
	anew    bool // the records do not follow what is on disk
}

// persist has a position written to disk soon. The caller holds accepting.
func (r *Replica) persist(n update) {
	if r.store == nil {
		return
	}
	k := &r.writes
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next != nil {
		n.records = append(k.next.records, n.records...)
		n.anew = n.anew || k.next.anew
	}
	if len(n.records) > maxTail {
		n.records, n.anew = nil, true // a disk that slow must not fill the memory
	}
	k.next = &n
	if !k.busy {
		k.busy = true
		k.writing.Go(r.write)
	}
}

// write writes until nothing is left to be written.
func (r *Replica) write() {
	for {
		k := &r.writes
		k.mu.Lock()
		n := k.next
		k.next, k.busy = nil, n != nil
		k.mu.Unlock()
		if n == nil {
			return
		}
		r.store.save(n, r.rewrite)
	}
}

// rewrite writes a whole state: the core, and the records that are held. It returns the
// checkpoint of both. Nothing is accepted meanwhile: a copy of the core is as large as the
// ring, and there is to be only one at a time.
func (r *Replica) rewrite() (signed []byte, err error) {
	r.accepting.Lock()
	defer r.accepting.Unlock()
	r.writes.mu.Lock()
	r.writes.next = nil // it leads to here
	r.writes.mu.Unlock()
	if err := checkState(r.shown, r.at); err != nil {
		return nil, fmt.Errorf("follow: the core that is shown is not where the checkpoint is: %w", err)
	}
	rows := r.shown.Snapshot()
	if rows == nil {
		return nil, errNoSnapshot
	}
	return r.signed, r.store.begin(r.at.Size, r.tree.Append(rows), r.base, r.tail)
}
