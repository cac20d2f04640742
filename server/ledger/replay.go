package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/core/snap"
)

// replayed is a group that another writer has made: its rows, and what they say.
type replayed struct {
	group
	reservations []*Reservation
	blocked      []Block
	unblocked    []string        // what follows the prefix in their keys
	events       []core.Event    // as the records have them
	wordless     map[string]bool // keys of texts that the group deletes
}

// examine checks whether b is the batch of the next transaction. Its events must continue the tree
// and lead to the root that the batch names. Of the other rows it checks only the form: the caller
// must authenticate the batch.
func (l *Ledger) examine(b Batch) (*replayed, error) {
	at := l.durable.Load()
	next, err := b.Position()
	switch {
	case err != nil:
		return nil, refuseBatch("%w", err)
	case next.Serial != at.Serial+1:
		return nil, refuseBatch("it is transaction %d, and the next one is %d", next.Serial, at.Serial+1)
	case next.Size < at.Size || next.Size-at.Size > uint64(len(b)):
		return nil, refuseBatch("it leads from %d events to %d", at.Size, next.Size)
	}
	g := &replayed{group: group{next: next}, wordless: map[string]bool{}}
	hashes := 0
	for key, value := range b {
		kind := byte(0)
		if key != "" {
			kind = key[0]
		}
		switch kind {
		case prefixEvent:
			var seq uint64
			var row byte
			switch seq, row, err = parseEventKey([]byte(key)); {
			case err != nil:
			case seq >= next.Size:
				err = errors.New("an event beyond those that it counts")
			case seq < at.Size && (row == rowEvent || value != nil):
				err = errors.New("it changes an event or its texts")
			case row == rowTexts && value == nil:
				g.wordless[key] = true
			}
		case prefixHash:
			hashes++
		case prefixReservation:
			var r *Reservation
			if value == nil {
				if r, err = reservation(l.store().Get, key[1:]); err == nil && !r.proof() {
					err = fmt.Errorf("%w: it deletes a payment", ErrReservation)
				} else if err != nil && !errors.Is(err, ErrNoReservation) {
					return nil, broken(err)
				}
				break
			}
			if r, err = decodeReservation(value); err == nil && (r.ID != key[1:] || r.State != Reserved && r.State != Applied && r.State != Failed) {
				err = fmt.Errorf("%w: it is stored under another id, or is %q", ErrReservation, r.State)
			}
			g.reservations = append(g.reservations, r)
		case prefixBlock:
			if value == nil {
				if of, _, found := strings.Cut(key[1:], "\x00"); !found || of == "" {
					err = ErrBlock
				}
				g.unblocked = append(g.unblocked, key[1:])
				break
			}
			var entry Block
			entry, err = parseBlock(key, value)
			g.blocked = append(g.blocked, entry)
		default:
			if !strings.Contains(prefixes, key[:1]) {
				err = errNewerRows
			}
		}
		if err != nil {
			return nil, refuseBatch("row %.40q: %w", key, err)
		}
	}
	if err := l.examineEvents(g, b, hashes); errors.Is(err, ErrBroken) {
		return nil, err
	} else if err != nil {
		return nil, refuseBatch("%w", err)
	}
	return g, nil
}

// examineEvents checks the events of a batch, and that its hashes are theirs.
func (l *Ledger) examineEvents(g *replayed, b Batch, hashes int) error {
	get := func(key []byte) ([]byte, error) { return b.over(l.store().Get, key) }
	from, redacted := l.durable.Load().Size, map[string]bool{}
	for seq := from; seq < g.next.Size; seq++ {
		event := b[string(eventKey(seq, rowEvent))]
		texts := b[string(eventKey(seq, rowTexts))]
		if event == nil {
			return fmt.Errorf("event %d is missing", seq)
		}
		e, err := core.DecodeEvent(event)
		if err != nil {
			return fmt.Errorf("event %d: %w", seq, err)
		}
		if removed, ok := e.(*core.Removed); ok && removed.Redacted {
			keys, err := (&View{l.memory, get, b}).textsOf(removed.Member)
			if errors.Is(err, ErrNotFound) {
				return fmt.Errorf("event %d: %w", seq, core.ErrUnknown)
			}
			if err != nil {
				return broken(err)
			}
			for _, key := range keys {
				redacted[key] = true
			}
		} else if core.CommitmentsOf(e).Some() && len(texts) == 0 {
			g.wordless[string(eventKey(seq, rowTexts))] = true
		}
		if err := snap.Verify(event, texts); err != nil {
			return fmt.Errorf("event %d: %w", seq, err)
		}
		// The hashes of earlier events of the batch have been compared already.
		want, err := tlog.StoredHashes(int64(seq), event, treeReader(get))
		if err != nil {
			return broken(err)
		}
		first := uint64(tlog.StoredHashIndex(0, int64(seq)))
		for i := range want {
			if !bytes.Equal(b[string(numberKey(prefixHash, first+uint64(i)))], want[i][:]) {
				return fmt.Errorf("the tree over event %d is another", seq)
			}
		}
		hashes -= len(want)
		g.events = append(g.events, e)
		g.records = append(g.records, Record{Event: event, Texts: texts})
	}
	switch {
	case hashes != 0:
		return errors.New("it changes the tree")
	case !maps.Equal(g.wordless, redacted):
		return errors.New("the texts that it lacks or deletes are not those of the members that it redacts")
	}
	root := l.durable.Load().Root
	if len(g.records) > 0 {
		var err error
		if root, err = tlog.TreeHash(int64(g.next.Size), treeReader(get)); err != nil {
			return broken(err)
		}
	}
	if root != g.next.Root {
		return errors.New("its events do not lead to its root")
	}
	return nil
}

// replay takes an examined group into memory. After an error everything is as it was.
func (l *Ledger) replay(g *replayed, b Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, r := range g.records {
		err := l.state.Apply(r.Event, r.Texts)
		if err == nil {
			continue
		}
		err = refuseBatch("event %d: %w", g.next.Size-uint64(len(g.records))+uint64(i), err)
		if i > 0 {
			err = errors.Join(err, l.foldAgain())
		}
		return err
	}
	for i, e := range g.events {
		l.announced.take(g.next.Size-uint64(len(g.events)-i), e)
	}
	l.staged = b
	l.state.Advance(l.state.Clock())
	l.index.expire(time.UnixMilli(l.tick()))
	for _, r := range g.reservations {
		l.index.replace(r)
	}
	for _, key := range g.unblocked {
		kind, value, _ := strings.Cut(key, "\x00")
		delete(l.index.blocks[BlockKind(kind)], value)
	}
	for _, entry := range g.blocked {
		l.index.blocks.put(entry)
	}
	return nil
}

// foldAgain makes the state anew from what is stored, which can take long. A state cannot undo the
// first events of a group if a later one does not apply.
func (l *Ledger) foldAgain() error {
	clock := l.state.Clock()
	l.state = core.NewState(l.state.Capacity(), mathrand.Uint64())
	if _, err := l.foldEvents(); err != nil {
		return broken(err)
	}
	l.state.Advance(max(clock, l.state.Clock()))
	return nil
}
