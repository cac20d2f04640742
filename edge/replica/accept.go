package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"

	"webring/core"
	"webring/core/snap"
)

// Why something that came in is not shown. Other errors are the network's.
var (
	// ErrSignature: the checkpoint is not signed with a key that is trusted.
	ErrSignature = errors.New("replica: checkpoint not signed with the origin's key")
	// ErrOrigin: the checkpoint is of another ledger than the key.
	ErrOrigin = errors.New("replica: checkpoint of another origin")
	// ErrShrunk: the ledger has lost events.
	ErrShrunk = errors.New("replica: checkpoint of a smaller ledger")
	// ErrOlder: an earlier checkpoint was sent again.
	ErrOlder = errors.New("replica: checkpoint older than the one at hand")
	// ErrForked: another history of the same length.
	ErrForked = errors.New("replica: checkpoint of another history")
	// ErrEvents: what was sent as events does not lead to the signed root.
	ErrEvents = errors.New("replica: events that the checkpoint does not sign")
	// ErrState: the fold does not come to the signed state.
	ErrState = errors.New("replica: the fold does not reach the signed state")
	// ErrSnapshot: the file is not the one that was signed, or too long.
	ErrSnapshot = errors.New("replica: snapshot refused")
)

// maxGap is how many records are held in memory until the root shows whether they are
// signed. A replica that lacks more of them catches up with a second core.
const maxGap = 8 * snap.BlockEvents

// accept checks a signed checkpoint, fetches what leads there, checks that, and shows it.
// After an error, readers see what they saw.
func (r *Replica) accept(ctx context.Context, signed []byte) error {
	return r.acceptWith(ctx, signed, carried{})
}

// acceptWith is accept of a checkpoint that records came with.
func (r *Replica) acceptWith(ctx context.Context, signed []byte, with carried) (err error) {
	r.accepting.Lock()
	defer r.accepting.Unlock()
	defer func() { r.doubt.Store(errors.Is(err, ErrEvents) || errors.Is(err, errAltered)) }()
	if bytes.Equal(signed, r.signed) && r.Unreached() == nil && r.floor == nil {
		return nil
	}
	to, err := r.open(signed)
	if err != nil {
		return err
	}
	if err := r.tooSoon(to); err != nil {
		return err
	}
	err = r.reach(ctx, to, signed, with)
	switch {
	case errors.Is(err, errNotShown), errors.Is(err, ErrEvents) && r.isFar(to):
		r.pause(to, err, mostRest)
	case errors.Is(err, ErrState), errors.Is(err, errOpen) && to.Core != r.cfg.Module:
		return r.unreached(to, err)
	}
	return err
}

// reach brings readers to a checkpoint that is signed.
func (r *Replica) reach(ctx context.Context, to snap.Checkpoint, signed []byte, with carried) error {
	if r.shown == nil || r.floor != nil {
		return r.boot(ctx, to, signed)
	}
	if err := follows(to, r.at); err != nil {
		return err
	}
	if r.isFar(to) {
		return r.catchUp(ctx, to, signed)
	}
	tree := r.tree
	records := with.extend(&tree, to)
	if records == nil {
		var err error
		if records, err = r.collect(ctx, &tree, to); err != nil {
			return err
		}
	}
	if err := r.advance(ctx, records, to); err != nil {
		return err
	}
	r.moveTo(signed, to, tree, records, false)
	return nil
}

// isFar reports whether a checkpoint with more events is too far ahead for the core that
// is shown.
func (r *Replica) isFar(to snap.Checkpoint) bool {
	return r.shown != nil && to.Size-r.at.Size > maxGap
}

// follows says why a checkpoint cannot come after another, as far as the two texts show.
func follows(to, at snap.Checkpoint) error {
	switch {
	case to.Size < at.Size:
		return fmt.Errorf("%w: %d events after %d", ErrShrunk, to.Size, at.Size)
	case to.Size == at.Size && to.Root != at.Root:
		return fmt.Errorf("%w of %d events", ErrForked, to.Size)
	case to.Size == at.Size && to.Time < at.Time:
		return fmt.Errorf("%w: of %s", ErrOlder, time.UnixMilli(to.Time).UTC().Format(time.RFC3339))
	case to.Size == at.Size && to.State != at.State:
		return fmt.Errorf("%w of the same %d events", ErrState, to.Size)
	}
	return nil
}

// catchUp takes a checkpoint far ahead. Another core, which begins where readers are,
// folds the records as they come. When it has come to the signed state, it replaces the
// core that is shown. Until then there are two rings in memory.
//
// catchUp needs the records, and takes no snapshot in their place: only they show that
// the signed history continues the one that was shown. A snapshot would not save much
// either. [pace] lets six hundred thousand records come at once and half a million a
// minute after that, and readers are served meanwhile.
func (r *Replica) catchUp(ctx context.Context, to snap.Checkpoint, signed []byte) error {
	c, err := r.reopen(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errNotShown, err)
	}
	tree := r.tree
	last, err := r.replay(ctx, c, &tree, to)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	r.withdrawn.Store(to.Size) // the records between were not searched
	r.show(c)
	r.moveTo(signed, to, tree, last, true)
	r.dropUnsearched(to)
	return nil
}

// dropUnsearched drops what is held for followers from before a checkpoint far ahead: the
// records between were not searched for redactions.
func (r *Replica) dropUnsearched(to snap.Checkpoint) {
	r.blocks.forget()
	r.forgetSnapshots(to.Snapshot.Size)
}

// open checks a checkpoint by itself.
func (r *Replica) open(signed []byte) (snap.Checkpoint, error) {
	n, err := note.Open(signed, r.keys)
	if err != nil {
		return snap.Checkpoint{}, fmt.Errorf("%w: %w", ErrSignature, r.keys.explain(err))
	}
	to, err := snap.ParseCheckpoint(n.Text)
	if err != nil {
		return snap.Checkpoint{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if to.Origin != r.keys.name {
		return snap.Checkpoint{}, fmt.Errorf("%w: %q, not %q", ErrOrigin, to.Origin, r.keys.name)
	}
	return to, nil
}

// collect fetches the records from the end of the tree to the checkpoint, and adds them
// to the tree.
func (r *Replica) collect(ctx context.Context, tree *snap.Tree, to snap.Checkpoint) (records []snap.Record, err error) {
	var unknown error
	for tree.Size() < to.Size {
		some, err := r.events(ctx, tree, to.Size)
		if errors.Is(err, errUnknown) {
			unknown, err = err, nil
		}
		if err != nil {
			return nil, err
		}
		records = append(records, some...)
	}
	if err := checkRoot(tree, to); err != nil {
		return nil, err
	}
	if unknown != nil {
		return nil, fmt.Errorf("%w of %d events: %w", ErrState, to.Size, unknown)
	}
	return records, nil
}

func checkRoot(tree *snap.Tree, to snap.Checkpoint) error {
	if tree.Root() != to.Root {
		return fmt.Errorf("%w: at %d the root is another", ErrEvents, to.Size)
	}
	return nil
}

// events fetches records from the end of the tree, none beyond size, and adds
// them to the tree. Each carries the texts that its event commits to. The error
// [errUnknown] comes with all of them.
func (r *Replica) events(ctx context.Context, tree *snap.Tree, size uint64) ([]snap.Record, error) {
	b, err := r.get(ctx, fmt.Sprintf("/sync/events?from=%d", tree.Size()), snap.MaxRange, r.doubt.Load())
	if err != nil {
		return nil, err
	}
	records, err := snap.DecodeRecords(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrEvents, err)
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("replica: no events from %d", tree.Size())
	}
	if more := size - tree.Size(); uint64(len(records)) > more {
		records = cloneRecords(records[:more])
	}
	return records, add(tree, records)
}

// errUnknown says that the core of this process does not know the kind of an event. The
// tree still shows whether the event is signed.
var errUnknown = errors.New("replica: an event of an unknown kind")

func add(tree *snap.Tree, records []snap.Record) (unknown error) {
	for _, record := range records {
		if _, err := core.DecodeEvent(record.Event); err != nil {
			unknown = fmt.Errorf("%w: record %d: %w", errUnknown, tree.Size(), err)
		} else if err := snap.Verify(record.Event, record.Texts); err != nil {
			return fmt.Errorf("%w: record %d: %w", ErrEvents, tree.Size(), err)
		}
		tree.Add(record.Event)
	}
	return unknown
}
