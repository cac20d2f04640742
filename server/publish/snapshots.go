package publish

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/core/snap"
	"webring/edge/durable"
	"webring/edge/follow"
	"webring/server/ledger"
)

// snapshot is one that lies in a file, which never changes.
type snapshot struct {
	snap.Snapshot
	made time.Time
	// superseded is since when there is a newer one; zero for the newest. forget says
	// that the file holds words that were redacted.
	superseded time.Time
	forget     bool
}

// fileName carries what must be known of a file before it is read:
// {size}-{sha256}.zst.
func fileName(s snap.Snapshot) string { return fmt.Sprintf("%020d-%x.zst", s.Size, s.Digest) }

func parseFileName(name string) (s snap.Snapshot, ok bool) {
	size, digest, _ := strings.Cut(strings.TrimSuffix(name, ".zst"), "-")
	n, err := strconv.ParseUint(size, 10, 63)
	b, err2 := hex.DecodeString(digest)
	if err != nil || err2 != nil || len(b) != len(s.Digest) {
		return s, false
	}
	s.Size = n
	copy(s.Digest[:], b)
	return s, fileName(s) == name
}

// openSnapshots finds the newest snapshot that belongs to the ledger. It removes
// everything else in the folder but the files of [untilName] and of what witnesses have cosigned.
func (p *Publisher) openSnapshots(books *ledger.Ledger) error {
	entries, err := os.ReadDir(p.c.Dir)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(b.Name(), a.Name()) })
	for _, e := range entries {
		if slices.Contains([]string{untilName, witnessedName, contradictionName}, e.Name()) {
			continue
		}
		if s, ok := parseFileName(e.Name()); ok && len(p.snapshots) == 0 {
			found, err := p.check(books, s)
			if err == nil {
				p.snapshots = append(p.snapshots, found)
				continue
			}
			p.c.Log.Warn("a snapshot is not used and removed", "file", e.Name(), "err", err)
		}
		if err := os.RemoveAll(filepath.Join(p.c.Dir, e.Name())); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	return nil
}

// check says whether a file is what its name says and lies on the ledger's
// history, which may be a restored one.
func (p *Publisher) check(books *ledger.Ledger, s snap.Snapshot) (snapshot, error) {
	about, err := os.Stat(p.path(s))
	if err != nil {
		return snapshot{}, err
	}
	s.Bytes = about.Size()
	if s.Size > books.Size() {
		return snapshot{}, errors.New("it is ahead of the ledger")
	}
	file := ends{tailSize: 32 * bits.OnesCount64(s.Size)}
	if err := p.unpack(s, &file); err != nil {
		return snapshot{}, err
	}
	if seq, err := snap.Seq(file.head); err != nil || seq != s.Size {
		return snapshot{}, errors.Join(err, errors.New("it is not what its name says"))
	}
	root, err := tlog.TreeHash(int64(s.Size), books.HashReader())
	if err != nil {
		return snapshot{}, err
	}
	if tree, ok := snap.OpenTree(s.Size, file.tail); !ok || tree.Root() != root {
		return snapshot{}, errors.New("it is of another history")
	}
	return snapshot{Snapshot: s, made: about.ModTime()}, nil
}

// ends keeps the beginning and the end of a file that is written to it: what stands
// before the rows, and the tree behind them.
type ends struct {
	head, tail []byte
	tailSize   int
}

// Write implements [io.Writer].
func (e *ends) Write(p []byte) (int, error) {
	e.head = append(e.head, p[:min(len(p), snap.HeadSize-len(e.head))]...)
	e.tail = append(e.tail, p[max(len(p)-e.tailSize, 0):]...)
	e.tail = e.tail[max(len(e.tail)-e.tailSize, 0):]
	return len(p), nil
}

// read gives the rows and the tree in a file, which are about as long as size.
func (p *Publisher) read(s snap.Snapshot, size int) (rows []byte, tree snap.Tree, err error) {
	var b bytes.Buffer
	b.Grow(size)
	if err := p.unpack(s, &b); err != nil {
		return nil, tree, err
	}
	return snap.CutFile(b.Bytes())
}

// unpack checks the digest of a file and then writes its decompressed contents to w.
func (p *Publisher) unpack(s snap.Snapshot, w io.Writer) error {
	f, err := os.Open(p.path(s))
	if err != nil {
		return err
	}
	defer f.Close()
	digest := sha256.New()
	if _, err := io.Copy(digest, f); err != nil {
		return err
	}
	if [32]byte(digest.Sum(nil)) != s.Digest {
		return errors.New("the file is damaged")
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	defer z.Close()
	_, err = io.Copy(w, z)
	return err
}

func (p *Publisher) position() position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// snapshotDue says whether it is time for a new snapshot.
func (p *Publisher) snapshotDue() bool {
	at, last := p.position(), p.newest()
	// The event about the last one does not count.
	return at.changed > last.Size+p.c.SnapshotEvery || at.redacted > last.Size ||
		at.changed > last.Size && p.c.Now().Sub(last.made) >= snapshotAge
}

// told says whether the ledger tells of a snapshot that is not older than s. It does not if s is of an
// earlier version of this program, or a crash came before the event.
func (p *Publisher) told(s snap.Snapshot) (is bool) {
	p.ledger.View(func(v *ledger.View) { is = v.Snapshotted().Size >= s.Size })
	return is
}

// tell adds the event about a snapshot of a state. Each is followed by no other until something else
// has happened: see [position].
func (p *Publisher) tell(tx *ledger.Tx, s snap.Snapshot, state [16]byte) error {
	_, err := tx.Append(&core.Snapshotted{Stamp: tx.Stamp(), Size: s.Size, State: state, Core: p.c.Core, Digest: s.Digest, Bytes: s.Bytes}, nil)
	return err
}

// keepSnapshots makes a snapshot whenever one is due, and removes old ones.
func (p *Publisher) keepSnapshots(ctx context.Context, due <-chan struct{}) {
	old := time.NewTicker(min(p.c.Grace, time.Minute))
	defer old.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-old.C:
			p.prune()
			continue
		case <-due:
		}
		err := p.makeSnapshot(ctx)
		if err == nil || ctx.Err() != nil {
			continue
		}
		p.c.Log.Error("the snapshot could not be made; edges start from the last one", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

// errOvertaken says that words were redacted behind a fold that had yet to
// read them.
var errOvertaken = errors.New("publish: a redaction came in between")

// makeSnapshot makes a snapshot of the newest position. It asks the writer only how large
// the ring is. As an edge would, it folds the events since the last snapshot into that,
// and compares the outcome with the position that the writer noted.
func (p *Publisher) makeSnapshot(ctx context.Context) error {
	for {
		at, last := p.position(), p.newest()
		if at.changed <= last.Size && p.told(last.Snapshot) || at.size == 0 {
			return nil // there is nothing new, or nothing at all
		}
		if at.size == last.Size {
			return p.ledger.Do(ctx, func(tx *ledger.Tx) error { return p.tell(tx, last.Snapshot, at.state) })
		}
		err := p.snapshotAt(ctx, at, last)
		debug.FreeOSMemory() // there was a second ring for it
		if !errors.Is(err, errOvertaken) {
			return err
		}
	}
}

func (p *Publisher) snapshotAt(ctx context.Context, at position, last snapshot) error {
	var rows, size int
	p.ledger.View(func(v *ledger.View) { rows, size = v.State().Rows(), v.State().RowsSize() })
	st, tree := core.NewState(p.c.Capacity, rand.Uint64()), snap.Tree{}
	if last.Size > 0 {
		const header = 4 << 10 // and the tree
		b, edge, err := p.read(last.Snapshot, header+size+4*rows)
		if err == nil {
			st, err = snap.Open(p.c.Capacity, rand.Uint64(), b, core.Means{})
		}
		if err != nil {
			p.c.Log.Warn("the last snapshot cannot be read; the next is made from all events", "err", err)
			st, edge = core.NewState(p.c.Capacity, rand.Uint64()), snap.Tree{}
		}
		tree = edge
	}
	if tree.Size() == 0 {
		st.Expect(rows, size)
	}
	forgets, err := p.fold(ctx, st, &tree, at.size)
	if err == nil && (st.Digest() != at.state || tree.Root() != at.root) {
		err = errors.New("publish: the events do not lead to what was signed")
	}
	if err != nil {
		if p.position().redacted > at.size {
			return errOvertaken
		}
		return err
	}
	err = p.keep(st, &tree, forgets, func(s snap.Snapshot) error {
		return p.ledger.Do(ctx, func(tx *ledger.Tx) error { return p.tell(tx, s, at.state) })
	})
	if err != nil {
		return err
	}
	err = p.sign(ctx) // before prune, so that no checkpoint names a file that is removed
	p.prune()
	return err
}

// fold applies the events up to size. It says whether one of them was a
// redaction: then all earlier snapshots hold words that are to be forgotten.
func (p *Publisher) fold(ctx context.Context, st *core.State, tree *snap.Tree, size uint64) (forgets bool, err error) {
	for tree.Size() < size {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		records, err := p.books.Records(tree.Size(), int(min(snap.BlockEvents, size-tree.Size())))
		if err != nil {
			return false, err
		}
		redaction, _ := news(records)
		forgets = forgets || redaction
		for _, r := range records {
			if err := st.Apply(r.Event, r.Texts); err != nil {
				return false, fmt.Errorf("event %d: %w", tree.Size(), err)
			}
			tree.Add(r.Event)
		}
	}
	return forgets, nil
}

// keepFirst makes a snapshot of the state at the position that was noted. A start without
// a snapshot makes one so before it signs anything. Otherwise it would fold the ledger,
// which takes long if that is large, and an edge that begins meanwhile would fetch every
// event at the rate for strangers.
func (p *Publisher) keepFirst(tx *ledger.Tx) error {
	at := p.position()
	tree, err := follow.TreeOf(p.books.HashReader(), at.size)
	if err != nil {
		return err
	}
	if tree.Root() != at.root {
		return errors.New("publish: the stored tree is not what is to be signed")
	}
	return p.keep(tx.State(), &tree, false, func(s snap.Snapshot) error { return p.tell(tx, s, at.state) })
}

// keep compresses and stores a snapshot, and calls tell to put it into the ledger. Then the next
// signature names it.
func (p *Publisher) keep(st *core.State, tree *snap.Tree, forgets bool, tell func(snap.Snapshot) error) error {
	s := snap.Snapshot{Size: tree.Size()}
	err := durable.Create(p.c.Dir, 0o600, func(f io.Writer) (name string, err error) {
		digest := sha256.New()
		packed, plain := counter{w: io.MultiWriter(f, digest)}, counter{w: io.Discard}
		z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return "", err
		}
		// The frame says how long its content is, so a follower can make room for it.
		if err := snap.WriteFile(plain.Write, st, tree); err != nil {
			return "", err
		}
		z.ResetContentSize(&packed, plain.n)
		err = errors.Join(snap.WriteFile(z.Write, st, tree), z.Close())
		s.Digest, s.Bytes = [32]byte(digest.Sum(nil)), packed.n
		return fileName(s), err
	})
	if err != nil {
		return err
	}
	if err := tell(s); err != nil {
		return errors.Join(err, os.Remove(p.path(s)))
	}
	now := p.c.Now()
	p.mu.Lock()
	for i := range p.snapshots {
		p.snapshots[i].forget = p.snapshots[i].forget || forgets
		if p.snapshots[i].superseded.IsZero() {
			p.snapshots[i].superseded = now
		}
	}
	p.snapshots = append(p.snapshots, snapshot{Snapshot: s, made: now})
	p.mu.Unlock()
	return nil
}

// counter counts what is written.
type counter struct {
	w io.Writer
	n int64
}

// Write implements [io.Writer].
func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// prune removes the files of old snapshots.
func (p *Publisher) prune() {
	now := p.c.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snapshots = slices.DeleteFunc(p.snapshots, func(s snapshot) bool {
		if s.superseded.IsZero() || !s.forget && now.Sub(s.superseded) < p.c.Grace {
			return false
		}
		if err := os.Remove(p.path(s.Snapshot)); err != nil && !errors.Is(err, os.ErrNotExist) {
			p.c.Log.Error("an old snapshot could not be removed", "file", p.path(s.Snapshot), "err", err)
			return false
		}
		return true
	})
}
