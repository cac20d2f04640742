package replica

import (
	"crypto/sha256"
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
	"time"

	"webring/core/snap"
)

// store writes the last good state to a folder:
//
//	checkpoint        the newest one, as it was signed
//	state-N           the core at event N, and the events since
//	keys              what the origin has signed about its keys; see keys.go
//	unreachable       why the signed state is not reached, if this edge is to be upgraded
//	snapshot-SHA256   a signed snapshot's file, for followers
//
//	state  = replayed(1 byte) F(8 bytes) length(8 bytes) core entry…
//	core   as snap.WriteFile has it, not compressed
//	entry  = length(4 bytes) CRC-32C(4 bytes) record   as snap.AppendRecord
//
// Numbers are big endian. replayed is 1 if every event was folded to get there.
// The entries are those from event F on, F ≤ N: those before N are for followers.
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

// clean removes what a crash left half written, and the modules and blocks that earlier
// versions kept. Nothing may be in use.
func (s *store) clean() {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".new") {
			os.Remove(s.path(e.Name()))
		}
	}
	s.remove("core-", "")
	_ = os.RemoveAll(s.path("blocks"))
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
		err = s.replace("checkpoint", signed)
	}
	if err == nil {
		s.sweep()
		return
	}
	s.log.Error("replica: the last good state cannot be kept on disk; serving goes on", "err", err)
	// What was written before is still good. The journal ends there: it must have no gap.
	_ = s.close()
	s.resting = time.Now().Add(storeRest)
}

// append writes records behind those of the journal, if there is one.
func (s *store) append(records []snap.Record) error {
	if s.journal == nil || len(records) == 0 {
		return nil
	}
	var b []byte
	for _, r := range records {
		at := len(b)
		b = snap.AppendRecord(append(b, make([]byte, 8)...), r)
		binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-8))
		binary.BigEndian.PutUint32(b[at+4:], crc32.Checksum(b[at+8:], castagnoli))
	}
	n, err := s.journal.Write(b)
	s.written += int64(n)
	if err != nil {
		return err
	}
	return s.journal.Sync()
}

// begin starts a new file. If it cannot be written, the file before stays.
func (s *store) begin(base uint64, contents []byte, from uint64, tail []snap.Record) error {
	if err := s.close(); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	head := make([]byte, 1, stateHead)
	if s.replayed {
		head[0] = 1
	}
	head = binary.BigEndian.AppendUint64(head, from)
	head = binary.BigEndian.AppendUint64(head, uint64(len(contents)))
	name := s.path(stateName(base))
	f, err := os.OpenFile(name+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	s.base, s.journal = base, f
	for _, part := range [][]byte{head, contents} {
		if _, err = f.Write(part); err != nil {
			break
		}
	}
	if err == nil {
		err = s.append(tail)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = s.commit(stateName(base), err); err != nil {
		return err
	}
	s.written, s.state0 = 0, int64(len(contents))
	return nil
}

// resume appends to the file that restore has read.
func (s *store) resume(base uint64, saved *state, length int64) {
	s.replayed = saved.replayed
	f, err := os.OpenFile(s.path(stateName(base)), os.O_WRONLY, 0o600)
	if err != nil {
		return // the next checkpoint begins a new file
	}
	// A half-written entry may stand behind the last good one.
	end := stateHead + int64(len(saved.contents)) + length
	if err := f.Truncate(end); err != nil {
		f.Close()
		return
	}
	if _, err := f.Seek(end, io.SeekStart); err != nil {
		f.Close()
		return
	}
	// With many events, the next checkpoint begins a new file.
	s.base, s.journal, s.written, s.state0 = base, f, length, int64(len(saved.contents))
}

// replace writes a file whole or not at all.
func (s *store) replace(name string, content []byte) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path(name+".new"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	return s.commit(name, errors.Join(err, f.Close()))
}

// commit puts a file that was written without an error in place of the one before. From
// then on it survives a crash.
func (s *store) commit(name string, err error) error {
	if err == nil {
		err = os.Rename(s.path(name+".new"), s.path(name))
	}
	if err != nil {
		os.Remove(s.path(name + ".new")) // a full disk needs the room
		return err
	}
	folder, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
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
	return io.ReadAll(io.LimitReader(f, maxNote))
}

// state is a file of a state: the core at a position, and the entries after it.
type state struct {
	contents []byte
	replayed bool   // every event was folded to get there
	from     uint64 // first of the entries
	entries  []byte
}

func (s *store) load(base uint64) (*state, error) {
	f, err := os.Open(s.path(stateName(base)))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return readState(f, info.Size(), base)
}

// readState reads a file of this size. The entries have memory of their own, because the
// replica holds them for followers, and drops the core.
func readState(r io.Reader, size int64, base uint64) (*state, error) {
	var head [stateHead]byte
	if size < stateHead {
		return nil, errForm
	}
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	from, length := binary.BigEndian.Uint64(head[1:]), binary.BigEndian.Uint64(head[9:])
	if head[0] > 1 || from > base || length > uint64(size-stateHead) {
		return nil, errForm
	}
	k := &state{make([]byte, length), head[0] == 1, from, make([]byte, uint64(size-stateHead)-length)}
	bigPages(k.contents)
	for _, part := range [][]byte{k.contents, k.entries} {
		if _, err := io.ReadFull(r, part); err != nil {
			return nil, err
		}
	}
	return k, nil
}

var errForm = errors.New("replica: a state of no known form")

// records reads the first n entries, and says how long they are.
func (k *state) records(n uint64) (records []snap.Record, length int64, err error) {
	b := k.entries
	for uint64(len(records)) < n {
		if len(b) < 8 {
			return nil, 0, fmt.Errorf("replica: %d of %d events on disk", len(records), n)
		}
		length, sum := uint64(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint32(b[4:])
		b = b[8:]
		if length > uint64(len(b)) || length > snap.MaxRecord || crc32.Checksum(b[:length], castagnoli) != sum {
			return nil, 0, fmt.Errorf("replica: record %d on disk is damaged", len(records))
		}
		one, err := snap.DecodeRecords(b[:length])
		if err != nil {
			return nil, 0, err
		}
		if len(one) != 1 {
			return nil, 0, fmt.Errorf("replica: record %d on disk is not one", len(records))
		}
		records, b = append(records, one[0]), b[length:]
	}
	return records, int64(len(k.entries) - len(b)), nil
}

// saveSnapshot writes a signed snapshot's file and gives its path.
func (s *store) saveSnapshot(digest [32]byte, file []byte) (path string, err error) {
	name := fmt.Sprintf("snapshot-%x", digest)
	if err := s.replace(name, file); err != nil {
		return "", err
	}
	s.remove("snapshot-", name)
	return s.path(name), nil
}

// savedSnapshot gives the path of the snapshot's file, which this process or an earlier
// one wrote, if it still has the signed digest.
func (s *store) savedSnapshot(named snap.Snapshot) (path string, err error) {
	name := fmt.Sprintf("snapshot-%x", named.Digest)
	f, err := os.Open(s.path(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return "", err
	}
	if [32]byte(digest.Sum(nil)) != named.Digest {
		return "", errors.New("replica: the snapshot on disk is another")
	}
	s.remove("snapshot-", name)
	return s.path(name), nil
}

// remove removes all files of a kind but one.
func (s *store) remove(prefix, but string) {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && e.Name() != but {
			os.Remove(s.path(e.Name()))
		}
	}
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
