package ledgertest

import (
	"cmp"
	"encoding/base64"
	"slices"

	"webring/core/snap"
)

// checkpoints holds that everything that was signed and shown belongs to one history, the
// longest ledger's, which only grows.
func (c *checker) checkpoints() error {
	shown := map[string]uint64{}
	for _, r := range c.Reads {
		if r.Position < shown[r.Source] {
			c.violated(TimeOn, "%s showed position %d, and then %d", r.Source, shown[r.Source], r.Position)
		}
		shown[r.Source] = r.Position
	}
	last := map[string]snap.Checkpoint{}
	texts := map[string]snap.Checkpoint{}
	for _, seen := range c.Checkpoints {
		p, err := snap.ParseCheckpoint(seen.Text)
		if err != nil {
			return err
		}
		if before, again := last[seen.Source]; again && (p.Size < before.Size || p.Time < before.Time) {
			c.violated(TimeOn, "%s gave a checkpoint of %d events at %d, and then one of %d at %d", seen.Source, before.Size, before.Time, p.Size, p.Time)
		}
		last[seen.Source], texts[seen.Text] = p, p
	}
	// A checkpoint that was signed earlier has no more events than a later one, from any signer.
	signed := make([]snap.Checkpoint, 0, len(texts))
	for _, p := range texts {
		signed = append(signed, p)
	}
	slices.SortFunc(signed, func(a, b snap.Checkpoint) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Size, b.Size), cmp.Compare(a.Text(), b.Text()))
	})
	states := map[uint64][16]byte{}
	for i, p := range signed {
		if err := c.signed(p); err != nil {
			return err
		}
		if state, known := states[p.Size]; known && state != p.State {
			c.violated(OneRoot, "%d events were signed with the states %x and %x", p.Size, state, p.State)
		}
		states[p.Size] = p.State
		if i == 0 {
			continue
		}
		switch before := signed[i-1]; {
		case before.Time == p.Time && before.Size == p.Size:
			c.violated(TimeOn, "at %d, two checkpoints of %d events were signed", p.Time, p.Size)
		case before.Size > p.Size:
			c.violated(TimeOn, "%d events were signed at %d, and %d later, at %d", before.Size, before.Time, p.Size, p.Time)
		}
	}
	return nil
}

// signed holds that a checkpoint is of the longest ledger.
func (c *checker) signed(p snap.Checkpoint) error {
	if p.Size > c.longest.Books.Size() {
		c.violated(NothingLost, "%d events were signed, and %s ends at %d", p.Size, c.longest.Name, c.longest.Books.Size())
		return nil
	}
	root, err := c.longest.Books.RootAt(p.Size)
	if err != nil {
		return err
	}
	if root != p.Root {
		c.violated(OneRoot, "%d events were signed at %d with the root %s, and have %s", p.Size, p.Time, base64.StdEncoding.EncodeToString(p.Root[:]), root)
	}
	return nil
}
