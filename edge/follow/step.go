package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/core/snap"
	log "webring/edge/tlog"
)

// maxGap is how many records are held in memory until the root shows whether they are
// signed. A replica that lacks more of them catches up with a second core.
const maxGap = 8 * snap.BlockEvents

// accept takes a verified checkpoint: it does one step, and notes what came of it. After
// an error, readers see what they saw.
func (r *Replica) accept(ctx context.Context, s Signed) error {
	r.accepting.Lock()
	defer r.accepting.Unlock()
	if bytes.Equal(s.Text, r.signed) && r.Unreached() == nil {
		return nil
	}
	if err := r.tooSoon(s.At); err != nil {
		return err
	}
	far := r.isFar(s.At)
	err := r.step(ctx, s)
	if errors.Is(err, ErrForked) || errors.Is(err, ErrEvents) || errors.Is(err, ErrShrunk) {
		r.contradicts(ctx, s)
		r.parted(s.At, err)
	}
	switch {
	case err == nil:
		r.reached(s.At)
	case errors.Is(err, errNotShown), errors.Is(err, ErrEvents) && far:
		r.pause(s.At, err, mostRest)
	case errors.Is(err, ErrState), errors.Is(err, errOpen) && s.At.Core != r.cfg.Module:
		return r.unreached(s.At, err)
	case errors.Is(err, errOpen):
		r.pause(s.At, err, mostRest) // each attempt fetches the whole ring
	}
	return err
}

// step brings readers to a checkpoint. It fetches what leads there, compares that with what
// was signed, shows it, and has it written to disk.
//
// Usually the core that is shown folds the records. The first state, and one far ahead, is
// folded by another core, which replaces the one that is shown when it has come to the
// signed state. Until then there may be two rings in memory.
func (r *Replica) step(ctx context.Context, s Signed) error {
	if err := Continues(s.At, r.least(s.At)); err != nil {
		return err
	}
	var tree snap.Tree
	var records []snap.Record
	anew := r.shown == nil || r.isFar(s.At)
	if anew {
		core, from, err := r.begin(ctx, s.At)
		if err != nil {
			return err
		}
		if tree, records, err = r.replay(ctx, core, from, s.At); err != nil {
			return errors.Join(err, core.Close())
		}
		r.withdrawn.Store(s.At.Size) // the records between were not searched
		r.show(core)
		r.log.Info("follow: booted", "events", s.At.Size, "snapshot", from.Size(), "replay", r.cfg.Replay)
	} else {
		tree = r.tree
		if records = s.extend(&tree, s.At); records == nil {
			err := r.link.Replay(ctx, &tree, s.At, func(some []snap.Record) error {
				records = append(records, some...)
				return nil
			})
			if err != nil {
				return err
			}
		}
		if err := r.advance(ctx, records, s.At); err != nil {
			return err
		}
	}
	r.floor = snap.Checkpoint{}
	if r.setPosition(s.Text, s.At, tree, records, anew, time.Now().UnixMilli()) {
		anew = true // the state on disk has the redacted words
	}
	r.persist(update{s.Text, records, anew})
	return nil
}

// least is what a checkpoint must continue: what readers see or, before they see anything,
// what was signed before a restart that lost its state on disk. That state is not compared,
// because another version may have computed it otherwise.
func (r *Replica) least(to snap.Checkpoint) snap.Checkpoint {
	if r.shown != nil {
		return r.at
	}
	least := r.floor
	least.State = to.State
	return least
}

// isFar reports whether a checkpoint is too far ahead for the core that is shown.
func (r *Replica) isFar(to snap.Checkpoint) bool {
	return r.shown != nil && to.Size > r.at.Size+maxGap
}

// begin opens a core that no reader sees: where readers are or, before they see anything,
// at the snapshot that the checkpoint names or at the beginning of the ledger.
//
// A replica that shows something takes no snapshot: only the records show that the signed
// history continues the one that was shown. A snapshot would not save much either. [pace]
// lets three hundred thousand records come at once and a quarter of a million a minute after that.
func (r *Replica) begin(ctx context.Context, to snap.Checkpoint) (c Core, tree snap.Tree, err error) {
	if r.shown != nil {
		if c, err = r.reopen(ctx); err != nil {
			return nil, tree, fmt.Errorf("%w: %w", errNotShown, err)
		}
		return c, r.tree, nil
	}
	var rows []byte
	takes := to.Snapshot.Size > 0 && !r.cfg.Replay
	if takes && r.floor.Size > 0 && r.floor.Size < to.Snapshot.Size {
		if err := r.proveFloor(ctx, to); err != nil {
			return nil, tree, err
		}
	}
	if takes {
		rows, tree, err = r.snapshot(ctx, to.Snapshot)
		if errors.Is(err, snap.ErrVersion) {
			// Edges are upgraded before their origin, so they may not be able to read its snapshots yet.
			r.log.Info("follow: the origin's snapshot is of another version; all events are folded", "events", to.Size)
			rows, tree = nil, snap.Tree{}
		} else if err != nil {
			return nil, tree, err
		}
	}
	if c, err = r.cfg.Open(ctx, rows); err != nil {
		return nil, tree, fmt.Errorf("%w: %w: %w", ErrSnapshot, errOpen, err)
	}
	if r.store != nil {
		r.store.replayed = r.cfg.Replay
	}
	return c, tree, nil
}

// errOpen: a core could not be opened.
var errOpen = errors.New("no core can be opened from it")

// proveFloor proves, by tiles of the log, that the history of a checkpoint goes through what was
// signed before a restart. A snapshot of later events cannot show that.
func (r *Replica) proveFloor(ctx context.Context, to snap.Checkpoint) error {
	var failed error
	get := log.Get(func(ctx context.Context, path string, most int64) (b []byte, err error) {
		b, failed = r.link.Get(ctx, path, most, r.link.doubt.Load())
		return b, failed
	})
	hashes := get.Hashes(ctx)(tlog.Tree{N: int64(to.Size), Hash: to.Root})
	switch root, err := tlog.TreeHash(int64(r.floor.Size), hashes); {
	case failed != nil:
		return failed
	case err != nil:
		return fmt.Errorf("%w: tiles: %w", ErrEvents, err)
	case root != tlog.Hash(r.floor.Root):
		return fmt.Errorf("%w of %d events", ErrForked, r.floor.Size)
	}
	return nil
}

// replay has a core fold the records from a tree to a checkpoint, and returns the last records, from
// the beginning of a bundle if there are few: a backup may be completed from those. The ledger must go through what was signed before a restart. If the tree is larger,
// [Replica.proveFloor] has shown that.
func (r *Replica) replay(ctx context.Context, c Core, from snap.Tree, to snap.Checkpoint) (tree snap.Tree, last []snap.Record, err error) {
	tree, passed := from, from
	if last, err = r.link.lead(ctx, &from); err != nil {
		return tree, nil, err
	}
	err = r.link.Replay(ctx, &tree, to, func(some []snap.Record) error {
		if err := r.passFloor(&passed, some); err != nil {
			return err
		}
		if last = append(last, some...); len(last) > 2*maxTail {
			last = append([]snap.Record(nil), last[len(last)-maxTail:]...)
		}
		return apply(c, some)
	})
	if err == nil {
		err = checkState(c, to)
	}
	return tree, last, err
}

// passFloor adds records to a tree until that is as large as the floor, and compares both.
func (r *Replica) passFloor(tree *snap.Tree, records []snap.Record) error {
	for _, record := range records {
		if tree.Size() == r.floor.Size && r.floor.Size > 0 && tree.Root() != r.floor.Root {
			return fmt.Errorf("%w of %d events", ErrForked, r.floor.Size)
		}
		if tree.Size() >= r.floor.Size {
			break
		}
		tree.Add(record.Event)
	}
	return nil
}

// snapshot fetches the snapshot that a checkpoint names, and splits it.
func (r *Replica) snapshot(ctx context.Context, named snap.Snapshot) (rows []byte, tree snap.Tree, err error) {
	if named.Bytes > r.cfg.MaxSnapshot {
		return nil, tree, fmt.Errorf("%w: %d bytes, more than the %d that a core has", ErrSnapshot, named.Bytes, r.cfg.MaxSnapshot)
	}
	var file bytes.Buffer
	if err := r.link.CopySnapshot(ctx, named, &file); err != nil {
		return nil, tree, err
	}
	if rows, tree, err = r.unpack(&file); err != nil {
		return nil, tree, fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	if tree.Size() != named.Size {
		return nil, tree, fmt.Errorf("%w: of %d events, not %d", ErrSnapshot, tree.Size(), named.Size)
	}
	return rows, tree, nil
}

// unpack decompresses the file of a snapshot and splits it.
func (r *Replica) unpack(file io.Reader) (rows []byte, tree snap.Tree, err error) {
	z, err := zstd.NewReader(file, zstd.WithDecoderMaxMemory(uint64(r.cfg.MaxSnapshot)), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, tree, err
	}
	defer z.Close()
	plain, err := io.ReadAll(io.LimitReader(z, r.cfg.MaxSnapshot+1))
	if err != nil {
		return nil, tree, err
	}
	if int64(len(plain)) > r.cfg.MaxSnapshot {
		return nil, tree, fmt.Errorf("more than the %d bytes that a core has", r.cfg.MaxSnapshot)
	}
	return snap.CutFile(plain)
}

// advance has the core that is shown fold the records, which must bring it to the signed
// state.
func (r *Replica) advance(ctx context.Context, records []snap.Record, to snap.Checkpoint) error {
	if err := r.repair(ctx); err != nil {
		return fmt.Errorf("%w: %w", errNotShown, err)
	}
	if len(records) == 0 {
		return nil
	}
	r.withdraw(records, to.Size)
	refusal, err := r.shown.ApplyTo(records, to.State, func() ([]byte, []snap.Record, error) { return r.lastGood(ctx) })
	if refusal == nil && err == nil {
		if checkState(r.shown, to) == nil {
			return nil
		}
		err = errors.New("the core that is shown has another state than it says")
	}
	if failed := r.repair(ctx); failed != nil {
		err = failed
	}
	switch {
	case refusal == nil:
		return fmt.Errorf("%w: %w", errNotShown, err)
	case err != nil:
		return fmt.Errorf("%w of %d events: %w; %w", ErrState, to.Size, refusal, err)
	}
	return fmt.Errorf("%w of %d events: %w", ErrState, to.Size, refusal)
}

// setPosition notes the position that is shown, and when its checkpoint came. With anew,
// the records are all that is held. It reports whether they redact words. Nobody sees the
// position together with such words, since caches keep what is served at it for long.
func (r *Replica) setPosition(signed []byte, at snap.Checkpoint, tree snap.Tree, records []snap.Record, anew bool, came int64) (redacts bool) {
	redacted := redactions(records)
	r.tree = tree
	r.mu.Lock()
	if anew {
		r.base, r.tail = at.Size-uint64(len(records)), nil
	}
	r.signed, r.at = signed, at
	r.tail = append(r.tail, records...)
	if excess := len(r.tail) - maxTail; excess > 0 {
		// Copied, so that the memory of the dropped records is freed.
		r.tail = append([]snap.Record(nil), r.tail[excess:]...)
		r.base += uint64(excess)
	}
	if len(redacted) > 0 {
		r.forget(redacted)
	}
	r.mu.Unlock()
	r.fresh.Note(came, at.Time)
	r.changed.Send()
	r.readied.Do(func() { close(r.ready) })
	return len(redacted) > 0
}

// redactions gives the members whose words records redact.
func redactions(records []snap.Record) map[string]bool {
	redacted := map[string]bool{}
	for _, record := range records {
		if e, err := core.DecodeEvent(record.Event); err == nil {
			if gone, ok := e.(*core.Removed); ok && gone.Redacted {
				redacted[gone.Member] = true
			}
		}
	}
	return redacted
}

// forget drops redacted words from all records that are held. Records that were handed out do
// not change. The caller holds r.mu.
func (r *Replica) forget(redacted map[string]bool) {
	r.tail = slices.Clone(r.tail)
	for i, record := range r.tail {
		if len(record.Texts) == 0 {
			continue
		}
		if e, err := core.DecodeEvent(record.Event); err == nil {
			if redacted[core.MemberOf(e)] {
				r.tail[i].Texts = nil
			}
		}
	}
}

// withdraw looks through records that lead to a position, before readers see it, for events
// that take words away.
func (r *Replica) withdraw(records []snap.Record, to uint64) {
	for i, record := range slices.Backward(records) {
		e, err := core.DecodeEvent(record.Event)
		if err != nil {
			continue // no core folds it
		}
		switch e.(type) {
		case *core.Left, *core.Departed, *core.Removed, *core.Hidden, *core.Changed, *core.Moved:
			r.withdrawn.Store(to - uint64(len(records)-i-1))
			return
		}
	}
}
