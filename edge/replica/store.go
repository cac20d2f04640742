package replica

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
	"time"

	"webring/core/snap"
)

// store keeps the last good state in a folder:
//
//	checkpoint        the newest one, as it was signed
//	state-N           the core at event N ([snap.AppendFile], not compressed),
//	                  behind one byte, 1 if every event was folded to get
//	                  there, and F (8 bytes)
//	events-N          the records from event F on, F ≤ N; those before N are
//	                  for followers
//	core-SHA256       the module of another build that is shown
//	snapshot-SHA256   a signed snapshot's file, for followers
//
//	events = entry…
//	entry  = length(4 bytes) CRC-32C(4 bytes) record   as snap.AppendRecord
//
// Numbers are big endian.
//
// State and events are written before the checkpoint that vouches for them, so
// whatever a crash leaves is either right or shown wrong by the checkpoint.
// When the events outgrow the state, a new pair begins. A failure costs the
// folder its use for a while, and nothing else.
type store struct {
	dir      string
	log      *slog.Logger
	replayed bool // every event of what is kept was folded

	base    uint64 // of the pair in use
	journal *os.File
	written int64 // into it since the pair began
	state0  int64 // length of the state beside it
	resting time.Time
}

const (
	// minJournal is how long events may grow beside a small state.
	minJournal = 4 << 20
	// storeRest is how long a folder is left alone that could not be written.
	storeRest = 30 * time.Second
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

func pairName(kind string, base uint64) string { return kind + "-" + strconv.FormatUint(base, 10) }

// keep notes a position: the records that lead there from the one kept before.
// all gives the core at it, and the records that followers may ask for.
func (s *store) keep(signed []byte, at snap.Checkpoint, records []snap.Record, all func() (contents []byte, from uint64, tail []snap.Record)) {
	if time.Now().Before(s.resting) {
		return
	}
	err := s.append(records)
	if err == nil && (s.journal == nil || s.written > max(minJournal, s.state0)) {
		contents, from, tail := all()
		err = s.begin(at.Size, contents, from, tail)
	}
	if err == nil {
		err = s.replace("checkpoint", signed)
	}
	if err == nil {
		s.sweep()
		return
	}
	s.log.Error("replica: the last good state cannot be kept on disk; serving goes on", "err", err)
	// What was kept before stands; a gap must not come behind it.
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

// begin starts a new pair.
func (s *store) begin(base uint64, contents []byte, from uint64, tail []snap.Record) error {
	if err := s.close(); err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	head := binary.BigEndian.AppendUint64([]byte{0}, from)
	if s.replayed {
		head[0] = 1
	}
	f, err := os.OpenFile(s.path(pairName("events", base)), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	s.base, s.journal = base, f
	if err := s.append(tail); err != nil {
		return err
	}
	s.written, s.state0 = 0, int64(len(contents))
	return s.replace(pairName("state", base), head, contents)
}

// resume goes on behind what restore has read.
func (s *store) resume(base uint64, records []snap.Record, replayed bool) {
	s.replayed = replayed
	length := int64(0)
	for _, r := range records {
		length += 8 + 4 + int64(len(r.Event)) + 4 + int64(len(r.Texts))
	}
	f, err := os.OpenFile(s.path(pairName("events", base)), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return // the next checkpoint begins a new pair
	}
	// A half-written entry may stand behind the last good one.
	if err := f.Truncate(length); err != nil {
		f.Close()
		return
	}
	if _, err := f.Seek(length, io.SeekStart); err != nil {
		f.Close()
		return
	}
	s.base, s.journal, s.written = base, f, length // begins anew soon, if it is long
	if info, err := os.Stat(s.path(pairName("state", base))); err == nil {
		s.state0 = info.Size()
	}
}

// replace writes a file whole or not at all.
func (s *store) replace(name string, parts ...[]byte) error {
	f, err := os.OpenFile(s.path(name+".new"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for _, part := range parts {
		if _, err = f.Write(part); err != nil {
			break
		}
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(s.path(name+".new"), s.path(name))
	}
	if err != nil {
		os.Remove(s.path(name + ".new")) // a full disk needs the room
	}
	return err
}

// sweep removes the pairs before the one in use.
func (s *store) sweep() {
	for _, base := range s.bases() {
		if base != s.base {
			os.Remove(s.path(pairName("state", base)))
			os.Remove(s.path(pairName("events", base)))
		}
	}
}

// bases gives where the pairs begin, the last first.
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

// pair is what was kept: the core at a position, and what stands beside it.
type pair struct {
	contents []byte
	replayed bool   // every event was folded to get there
	from     uint64 // first of the records
}

func (s *store) state(base uint64) (p pair, err error) {
	b, err := os.ReadFile(s.path(pairName("state", base)))
	if err != nil {
		return pair{}, err
	}
	if len(b) < 9 || b[0] > 1 || binary.BigEndian.Uint64(b[1:]) > base {
		return pair{}, errors.New("replica: a state of no known form")
	}
	return pair{b[9:], b[0] == 1, binary.BigEndian.Uint64(b[1:])}, nil
}

// events reads the first n records of the pair.
func (s *store) events(base, n uint64) (records []snap.Record, err error) {
	if n == 0 {
		return nil, nil
	}
	b, err := os.ReadFile(s.path(pairName("events", base)))
	if err != nil {
		return nil, err
	}
	for uint64(len(records)) < n {
		if len(b) < 8 {
			return nil, fmt.Errorf("replica: %d of %d events on disk", len(records), n)
		}
		length, sum := uint64(binary.BigEndian.Uint32(b)), binary.BigEndian.Uint32(b[4:])
		b = b[8:]
		if length > uint64(len(b)) || length > snap.MaxRecord || crc32.Checksum(b[:length], castagnoli) != sum {
			return nil, fmt.Errorf("replica: record %d on disk is damaged", len(records))
		}
		one, err := snap.DecodeRecords(b[:length])
		if err != nil {
			return nil, err
		}
		if len(one) != 1 {
			return nil, fmt.Errorf("replica: record %d on disk is not one", len(records))
		}
		records, b = append(records, one[0]), b[length:]
	}
	return records, nil
}

// module reads the module with this digest, which may have been damaged since.
func (s *store) module(digest [32]byte) ([]byte, error) {
	return os.ReadFile(s.path(fmt.Sprintf("core-%x", digest)))
}

// keepModule keeps the code of a module in place of the one before.
func (s *store) keepModule(m Module) {
	name := fmt.Sprintf("core-%x", m.Digest)
	if err := s.replace(name, m.Code); err != nil {
		s.log.Warn("replica: the core cannot be kept on disk; serving goes on", "err", err)
		return
	}
	s.remove("core-", name)
}

// keepSnapshot keeps a signed snapshot's file, and says where.
func (s *store) keepSnapshot(digest [32]byte, file []byte) (path string, err error) {
	name := fmt.Sprintf("snapshot-%x", digest)
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", err
	}
	if err := s.replace(name, file); err != nil {
		return "", err
	}
	s.remove("snapshot-", name)
	return s.path(name), nil
}

// heldSnapshot reads the snapshot's file that was kept before a restart.
func (s *store) heldSnapshot(digest [32]byte) ([]byte, error) {
	return os.ReadFile(s.path(fmt.Sprintf("snapshot-%x", digest)))
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

// close ends the use of the pair.
func (s *store) close() error {
	if s.journal == nil {
		return nil
	}
	f := s.journal
	s.journal = nil
	return f.Close()
}
