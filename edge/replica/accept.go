package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"

	"webring/core/snap"
)

// Why something that came in is not shown. Everything else that goes wrong is
// the network's.
var (
	// ErrSignature: the text is not signed with the pinned key.
	ErrSignature = errors.New("replica: checkpoint not signed with the origin's key")
	// ErrOrigin: it speaks of another ledger than the key.
	ErrOrigin = errors.New("replica: checkpoint of another origin")
	// ErrShrunk: the ledger has lost events.
	ErrShrunk = errors.New("replica: checkpoint of a smaller ledger")
	// ErrOlder: a checkpoint of earlier is sent again.
	ErrOlder = errors.New("replica: checkpoint older than the one at hand")
	// ErrForked: another history of the same length.
	ErrForked = errors.New("replica: checkpoint of another history")
	// ErrEvents: what was sent as events does not lead to the signed root.
	ErrEvents = errors.New("replica: events that the checkpoint does not sign")
	// ErrState: the fold does not come to the signed state.
	ErrState = errors.New("replica: the fold does not reach the signed state")
	// ErrSnapshot: the file is not the one that was signed, or too long.
	ErrSnapshot = errors.New("replica: snapshot refused")
	// ErrModule: the module is not the one that was signed, cannot be run
	// here, or answers wrongly.
	ErrModule = errors.New("replica: module refused")
)

// maxGap is how many records are held in memory before it is known whether they
// are the signed ones.
const maxGap = 8 * snap.BlockEvents

// accept takes a checkpoint as it came: checks it, fetches what it takes to
// get there, checks that, and shows it. On an error nothing has changed; but what was
// found good and could not be shown is tried again with the next one.
func (r *Replica) accept(ctx context.Context, signed []byte) error {
	return r.acceptWith(ctx, signed, carried{})
}

// acceptWith is accept of a checkpoint that records came with.
func (r *Replica) acceptWith(ctx context.Context, signed []byte, with carried) (err error) {
	r.accepting.Lock()
	defer r.accepting.Unlock()
	defer func() { r.doubt.Store(errors.Is(err, ErrEvents) || errors.Is(err, errAltered)) }()
	if err := r.conclude(ctx); err != nil {
		return err
	}
	if bytes.Equal(signed, r.signed) {
		return nil
	}
	to, err := r.open(signed)
	if err != nil {
		return err
	}
	if r.shown == nil {
		return r.boot(ctx, to, signed)
	}
	if err := follows(to, r.at); err != nil {
		return err
	}
	if to.Size-r.at.Size > maxGap {
		return r.leap(ctx, to, signed)
	}
	tree := r.tree
	records := with.lead(&tree, to)
	if records == nil {
		if records, err = r.collect(ctx, &tree, to); err != nil {
			return err
		}
	}
	err = r.fold(ctx, records, to)
	if errors.Is(err, ErrState) && r.offers(to) && r.upgrade(ctx, to) == nil {
		// Events of a kind that only the newer core knows.
		err = r.fold(ctx, records, to)
	}
	if errors.Is(err, ErrState) && r.retreat(ctx, records, to) {
		err = nil
	}
	if err != nil {
		return err
	}
	r.due = &due{signed: signed, at: to, tree: tree, records: records}
	return r.conclude(ctx)
}

// follows says why a checkpoint cannot come after another, as far as both show it.
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

// leap takes a checkpoint far ahead: the judge folds the records as they come,
// and when it has come to what was signed, a core that begins where it is takes
// the place of the one that is shown.
//
// A snapshot never takes the place of the records, however far ahead it is: they
// alone show that the history which was shown goes on in the one that is signed.
// Nor would it spare much. [pace] lets six hundred thousand of them come as fast as
// they can and half a million a minute after that, and readers are served meanwhile.
func (r *Replica) leap(ctx context.Context, to snap.Checkpoint, signed []byte) error {
	last, tree, err := r.judgeAll(ctx, to)
	if errors.Is(err, ErrState) && r.offers(to) && r.upgrade(ctx, to) == nil {
		// Events of a kind that only the newer core knows.
		last, tree, err = r.judgeAll(ctx, to)
	}
	m := r.module
	if errors.Is(err, ErrState) && r.foreign(r.module) {
		// As [Replica.retreat] does.
		m = r.cfg.Own
		r.dismiss() // the one that a refused module was held against
		if r.judge, err = r.reopen(ctx, m, r.shown, false); err == nil {
			last, tree, err = r.judgeAll(ctx, to)
		}
	}
	if err != nil {
		return err
	}
	c, err := r.follower(ctx, m, to)
	if err != nil {
		r.dismiss() // it is not where readers are
		return fmt.Errorf("replica: %w", err)
	}
	if m.Digest != r.module.Digest {
		r.giveUp()
	}
	r.begin(c, m, to.Size-uint64(len(last)))
	r.blocks.forget() // nobody has looked for redactions on the way
	r.record(signed, to, tree, last, true)
	r.forgetSnapshots(to.Snapshot.Size)
	r.renew(ctx, to)
	return nil
}

// judgeAll has the judge fold what leads to a checkpoint, and gives the last of
// the records and the tree over all. A judge that did not get there is dismissed.
func (r *Replica) judgeAll(ctx context.Context, to snap.Checkpoint) (last []snap.Record, tree snap.Tree, err error) {
	if err := r.summon(ctx); err != nil {
		return nil, tree, err
	}
	tree = r.tree
	if last, err = r.replay(ctx, r.judge, &tree, to); err != nil {
		r.dismiss()
	}
	return last, tree, err
}

// open checks a checkpoint by itself.
func (r *Replica) open(signed []byte) (snap.Checkpoint, error) {
	n, err := note.Open(signed, r.verifiers)
	if err != nil {
		return snap.Checkpoint{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	to, err := snap.ParseCheckpoint(n.Text)
	if err != nil {
		return snap.Checkpoint{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if to.Origin != r.name {
		return snap.Checkpoint{}, fmt.Errorf("%w: %q, not %q", ErrOrigin, to.Origin, r.name)
	}
	return to, nil
}

// collect fetches the records from the end of the tree to the checkpoint, and
// adds them to the tree.
func (r *Replica) collect(ctx context.Context, tree *snap.Tree, to snap.Checkpoint) (records []snap.Record, err error) {
	for tree.Size() < to.Size {
		some, err := r.events(ctx, tree, to.Size)
		if err != nil {
			return nil, err
		}
		records = append(records, some...)
	}
	return records, checkRoot(tree, to)
}

func checkRoot(tree *snap.Tree, to snap.Checkpoint) error {
	if tree.Root() != to.Root {
		return fmt.Errorf("%w: at %d the root is another", ErrEvents, to.Size)
	}
	return nil
}

// events fetches records from the end of the tree, none beyond size, and adds
// them to the tree. Each carries the texts that its event commits to.
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
		records = apart(records[:more])
	}
	return records, add(tree, records)
}

func add(tree *snap.Tree, records []snap.Record) error {
	for _, record := range records {
		if err := snap.Verify(record.Event, record.Texts); err != nil {
			return fmt.Errorf("%w: record %d: %w", ErrEvents, tree.Size(), err)
		}
		tree.Add(record.Event)
	}
	return nil
}

// fold has the judge fold records, which must bring it to the signed state. A
// judge that came to another is dismissed.
func (r *Replica) fold(ctx context.Context, records []snap.Record, to snap.Checkpoint) error {
	if err := r.summon(ctx); err != nil {
		return err
	}
	err := apply(r.judge, records)
	if err == nil {
		err = checkState(r.judge, to)
	}
	if err != nil {
		r.dismiss()
		if !errors.Is(err, ErrState) {
			err = fmt.Errorf("%w: %w", ErrState, err)
		}
	}
	return err
}

// summon sees to it that there is a judge, at the position that is shown.
func (r *Replica) summon(ctx context.Context) error {
	if r.judge != nil {
		return nil
	}
	judge, err := r.reopen(ctx, r.module, r.shown, false)
	if err != nil && r.foreign(r.module) && !errors.Is(err, errNoSnapshot) {
		return fmt.Errorf("%w: %w", ErrState, err) // another core may
	}
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	if err := checkState(judge, r.at); err != nil {
		return errors.Join(err, judge.Close())
	}
	r.judge = judge
	return nil
}

func (r *Replica) dismiss() {
	if r.judge != nil {
		if err := r.judge.Close(); err != nil {
			r.log.Warn("replica: closing a core", "err", err)
		}
		r.judge = nil
	}
}

// prepareJudge summons the judge ahead of the first checkpoint that needs it: from
// what was read from disk, if that was, and not from the core that is shown, which
// would be busy with that when the first readers come.
func (r *Replica) prepareJudge(ctx context.Context) {
	r.accepting.Lock()
	defer r.accepting.Unlock()
	read := r.read
	r.read = nil
	if r.shown == nil {
		return
	}
	if read != nil {
		judge, err := read.open(ctx, &r.cfg, r.module, r.at, false)
		if err == nil {
			r.judge = judge
			return
		}
		r.log.Warn("replica: the state on disk cannot be loaded again", "err", err)
	}
	if err := r.summon(ctx); err != nil {
		r.log.Warn("replica: the core cannot be loaded again", "err", err)
	}
}
