package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"webring/core/snap"
	"webring/edge/follow"
	"webring/edge/tlog"
	"webring/server/ledger"
)

// ErrForked: the node that was asked has another history than the backup, signed by the same
// key. One of them is not this origin's.
var ErrForked = errors.New("backup: the node that was asked holds another history than the backup")

// CatchUp adds to the ledger the events that the node at base, an edge or the origin, has of
// it beyond its end, and returns how many those were. The verifiers are those of the origin's
// own keys. The ledger is compared with what the origin signed; after an error it must be
// discarded.
func CatchUp(ctx context.Context, l *ledger.Ledger, base string, verifiers ...string) (added uint64, err error) {
	keys, err := tlog.Keys(verifiers...)
	if err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	from, err := follow.NewLink(follow.LinkConfig{Origins: []string{base}, Verify: func(signed []byte) (snap.Checkpoint, error) { return follow.Verify(signed, keys) }})
	if err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	defer from.Close()
	to, err := from.Checkpoint(ctx)
	if err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	before := l.Size()
	if to.Size <= before {
		root, err := l.RootAt(to.Size)
		if err == nil && [32]byte(root) != to.Root {
			err = fmt.Errorf("%w: at %d events the roots differ", ErrForked, to.Size)
		}
		return 0, err
	}
	tree, err := follow.TreeOf(l.HashReader(), before)
	if err != nil {
		return 0, err
	}
	err = from.Replay(ctx, &tree, to, func(records []snap.Record) error {
		// So many are well below what one batch of a store must take.
		for some := range slices.Chunk(records, snap.BlockEvents/8) {
			if err := l.Do(ctx, func(tx *ledger.Tx) error { return adopt(tx, some) }); err != nil {
				return err
			}
		}
		return nil
	})
	if errors.Is(err, follow.ErrEvents) {
		return 0, fmt.Errorf("%w: %w", ErrForked, err)
	}
	if err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	var state [16]byte
	l.View(func(v *ledger.View) { state = v.State().Digest() })
	if state != to.State {
		return 0, fmt.Errorf("%w: at %d events the states differ", ErrForked, to.Size)
	}
	return l.Size() - before, nil
}

func adopt(tx *ledger.Tx, records []snap.Record) error {
	for _, r := range records {
		if err := tx.Adopt(r); err != nil {
			return err
		}
	}
	return nil
}
