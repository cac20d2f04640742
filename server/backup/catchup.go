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

// ErrForked: the nodes that were asked and the backup do not all hold one history, though one key has
// signed it. One of them is not this origin's.
var ErrForked = errors.New("backup: the nodes that were asked and the backup hold different histories")

// CatchUp adds to the ledger the events beyond its end that the nodes at these URLs, edges or the origin,
// have of it, and returns how many those were. It takes the longest history, of which all others and the
// ledger must be the beginning. The verifiers are those of the origin's own keys. The ledger is compared
// with what the origin signed; after an error it must be discarded.
func CatchUp(ctx context.Context, l *ledger.Ledger, urls []string, verifiers ...string) (added uint64, err error) {
	keys, err := tlog.Keys(verifiers...)
	if err != nil {
		return 0, fmt.Errorf("backup: %w", err)
	}
	var longest *follow.Link
	var to snap.Checkpoint
	signed := map[string]snap.Checkpoint{}
	for _, url := range urls {
		from, err := follow.NewLink(follow.LinkConfig{Origins: []string{url}, Verify: func(signed []byte) (snap.Checkpoint, error) { return follow.Verify(signed, keys) }})
		if err != nil {
			return 0, fmt.Errorf("backup: %w", err)
		}
		defer from.Close()
		at, err := from.Checkpoint(ctx)
		if err != nil {
			return 0, fmt.Errorf("backup: %s: %w: have it answer, or leave it out, and you may lose what only it has", url, err)
		}
		if signed[url] = at; longest == nil || at.Size > to.Size {
			longest, to = from, at
		}
	}
	before := l.Size()
	if to.Size > before {
		if err := extend(ctx, l, longest, to); err != nil {
			return 0, err
		}
	}
	for url, at := range signed {
		root, err := l.RootAt(at.Size)
		if err != nil {
			return 0, err
		}
		if [32]byte(root) != at.Root {
			return 0, fmt.Errorf("%w: at the %d events of %s the roots differ", ErrForked, at.Size, url)
		}
	}
	return l.Size() - before, nil
}

// extend adds the events up to a checkpoint.
func extend(ctx context.Context, l *ledger.Ledger, from *follow.Link, to snap.Checkpoint) error {
	tree, err := follow.TreeOf(l.HashReader(), l.Size())
	if err != nil {
		return err
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
		return fmt.Errorf("%w: %w", ErrForked, err)
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	var state [16]byte
	l.View(func(v *ledger.View) { state = v.State().Digest() })
	if state != to.State {
		return fmt.Errorf("%w: at %d events the states differ", ErrForked, to.Size)
	}
	return nil
}

func adopt(tx *ledger.Tx, records []snap.Record) error {
	for _, r := range records {
		if err := tx.Adopt(r); err != nil {
			return err
		}
	}
	return nil
}
