package follow

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/core/snap"
	log "webring/edge/tlog"
)

// Why something that came in is not taken. Other errors are the network's.
var (
	// ErrSignature: the checkpoint is not signed with a key that is trusted.
	ErrSignature = errors.New("follow: checkpoint not signed with the origin's key")
	// ErrOrigin: the checkpoint is of another ledger than the key.
	ErrOrigin = errors.New("follow: checkpoint of another origin")
	// ErrShrunk: the ledger has lost events.
	ErrShrunk = errors.New("follow: checkpoint of a smaller ledger")
	// ErrOlder: an earlier checkpoint was sent again.
	ErrOlder = errors.New("follow: checkpoint older than the one at hand")
	// ErrForked: another history of the same length.
	ErrForked = errors.New("follow: checkpoint of another history")
	// ErrEvents: what was sent as events does not lead to the signed root.
	ErrEvents = errors.New("follow: events that the checkpoint does not sign")
	// ErrState: the fold does not come to the signed state.
	ErrState = errors.New("follow: the fold does not reach the signed state")
	// ErrSnapshot: the file is not the one that was signed, or is too long.
	ErrSnapshot = errors.New("follow: snapshot refused")
	// ErrAltered: a file does not have the digest that was signed.
	ErrAltered = errors.New("not the one that was signed")
)

// Verify opens a checkpoint that one of the keys has signed.
func Verify(signed []byte, keys note.Verifiers) (snap.Checkpoint, error) {
	n, err := note.Open(signed, keys)
	if err != nil {
		return snap.Checkpoint{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	at, err := snap.ParseCheckpoint(n.Text)
	if err != nil {
		return snap.Checkpoint{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if name := n.Sigs[0].Name; at.Origin != name {
		return snap.Checkpoint{}, fmt.Errorf("%w: %q, not %q", ErrOrigin, at.Origin, name)
	}
	return at, nil
}

// Continues says why a checkpoint cannot come after another, as far as the two texts show.
func Continues(to, at snap.Checkpoint) error {
	switch {
	case at.Size == 0:
		return nil
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

// Checkpoint fetches the newest checkpoint, past caches.
func (l *Link) Checkpoint(ctx context.Context) (snap.Checkpoint, error) {
	signed, err := l.Get(ctx, "/sync/checkpoint", maxNote, true)
	if err != nil {
		return snap.Checkpoint{}, err
	}
	return l.cfg.Verify(signed)
}

// Replay fetches the records from the end of the tree to a checkpoint, and gives those of each
// bundle to fold as they come, with the texts that their events commit to. It fails with
// [ErrEvents] if the records do not lead to the signed root. Only the root shows that they are
// the origin's. So an error of fold ends the folding at once, and becomes an [ErrState], or stays
// an [ErrForked], after the last bundle.
func (l *Link) Replay(ctx context.Context, tree *snap.Tree, to snap.Checkpoint, fold func([]snap.Record) error) error {
	var refusal error
	err := l.records(ctx, tree.Size(), to.Size, func(records []snap.Record) error {
		err := add(tree, records)
		if err != nil && !errors.Is(err, errUnknown) {
			return err
		}
		if refusal == nil {
			refusal = err
		}
		if refusal == nil {
			refusal = fold(records)
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch err := checkRoot(tree, to); {
	case err != nil:
		return err
	case refusal == nil || errors.Is(refusal, ErrForked):
		return refusal
	}
	return fmt.Errorf("%w of %d events: %w", ErrState, to.Size, refusal)
}

func checkRoot(tree *snap.Tree, to snap.Checkpoint) error {
	if tree.Root() != to.Root {
		return fmt.Errorf("%w: at %d the root is another", ErrEvents, to.Size)
	}
	return nil
}

// records gives the records from one position up to another, bundle by bundle, unchecked.
func (l *Link) records(ctx context.Context, from, to uint64, each func([]snap.Record) error) error {
	err := log.Records(ctx, l.get, from, to, each)
	if errors.Is(err, log.ErrBundle) {
		err = fmt.Errorf("%w: %w", ErrEvents, err)
	}
	return err
}

// mostAsked is how often a bundle is asked for while the origin asks to wait.
const mostAsked = 10

// get is [Link.Get], past caches while something was not what was signed. It waits when the origin
// asks to: a long replay must not begin anew for that.
func (l *Link) get(ctx context.Context, path string, most int64) (b []byte, err error) {
	for range mostAsked {
		if b, err = l.Get(ctx, path, most, l.doubt.Load()); err == nil {
			break
		}
		if _, busy := errors.AsType[*busyError](err); !busy {
			break
		}
	}
	return b, err
}

// lead fetches the records from the beginning of a bundle up to a position within it, which a tree
// has. They end in the tree as its smallest parts, which show whether they are those of its events.
func (l *Link) lead(ctx context.Context, tree *snap.Tree) (lead []snap.Record, err error) {
	from := tree.Size() - tree.Size()%log.TileWidth
	var part snap.Tree
	err = l.records(ctx, from, tree.Size(), func(records []snap.Record) error {
		lead = records
		return add(&part, records)
	})
	if errors.Is(err, errUnknown) {
		err = nil
	}
	if err == nil && !bytes.HasSuffix(tree.Append(nil), part.Append(nil)) {
		err = fmt.Errorf("%w: from %d to %d they are others", ErrEvents, from, tree.Size())
	}
	return lead, err
}

// errUnknown: the core of this process does not know the kind of an event. The tree still
// shows whether the event is signed.
var errUnknown = errors.New("follow: an event of an unknown kind")

// add adds records to the tree, after comparing their texts with their events.
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

// CopySnapshot fetches the file of a snapshot into to, and compares its length and digest
// with what was signed.
func (l *Link) CopySnapshot(ctx context.Context, named snap.Snapshot, to io.Writer) error {
	res, err := l.Open(ctx, fmt.Sprintf("/sync/snapshot/%x", named.Digest), l.doubt.Load())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	digest := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, digest), io.LimitReader(res.Body, named.Bytes+1))
	switch {
	case err != nil:
		return fmt.Errorf("follow: snapshot: %w", err)
	case n > named.Bytes:
		return fmt.Errorf("%w: %w: longer than its %d bytes", ErrSnapshot, ErrAltered, named.Bytes)
	case n < named.Bytes || [32]byte(digest.Sum(nil)) != named.Digest:
		return fmt.Errorf("%w: %w", ErrSnapshot, ErrAltered)
	}
	return nil
}

// TreeOf returns the tree over the first size events of a ledger.
func TreeOf(hashes tlog.HashReader, size uint64) (snap.Tree, error) {
	var indexes []int64
	for level := bits.Len64(size) - 1; level >= 0; level-- {
		if n := size >> level; n&1 == 1 {
			indexes = append(indexes, tlog.StoredHashIndex(level, int64(n-1)))
		}
	}
	full, err := hashes.ReadHashes(indexes)
	if err != nil {
		return snap.Tree{}, err
	}
	var edge []byte
	for _, hash := range full {
		edge = append(edge, hash[:]...)
	}
	tree, _ := snap.OpenTree(size, edge)
	return tree, nil
}
