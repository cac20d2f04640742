package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"webring/core/snap"
	"webring/server/ledger"
)

var (
	// ErrForked says that what an edge holds is signed by the same key and is
	// not what the ledger holds: one of them is not this origin's.
	ErrForked = errors.New("backup: the edge holds another history than the backup")
	// ErrSource says that an edge gave something that its origin never signed, or
	// no answer.
	ErrSource = errors.New("backup: the edge cannot be believed")
)

// fetchTime bounds one question to an edge.
const fetchTime = 30 * time.Second

// maxNote is longer than any signed checkpoint, in bytes.
const maxNote = 8 << 10

// CatchUp adds to the ledger the events that an edge at base, an http or https
// URL, has of it beyond its end, and says how many those were. The verifiers are
// those of the origin's own keys, which have one name. Every event is checked against what its origin
// signed before the ledger is of any use; after an error it must be discarded.
func CatchUp(ctx context.Context, l *ledger.Ledger, base string, verifiers ...string) (added uint64, err error) {
	s := source{base: strings.TrimRight(base, "/"), client: &http.Client{Timeout: fetchTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	at, err := s.checkpoint(ctx, verifiers)
	if err != nil {
		return 0, err
	}
	if at.Size <= l.Size() {
		root, err := l.RootAt(at.Size)
		if err == nil && [32]byte(root) != at.Root {
			err = fmt.Errorf("%w: at %d events the roots differ", ErrForked, at.Size)
		}
		return 0, err
	}
	for before := l.Size(); l.Size() < at.Size; {
		records, err := s.events(ctx, l.Size(), at.Size)
		if err != nil {
			return 0, err
		}
		err = l.Do(ctx, func(tx *ledger.Tx) error {
			for i, r := range records {
				if err := tx.Adopt(r); err != nil {
					return fmt.Errorf("%w: event %d: %w", ErrSource, l.Size()+uint64(i), err)
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		added = l.Size() - before
	}
	if _, root := l.Root(); [32]byte(root) != at.Root {
		return 0, fmt.Errorf("%w: at %d events the roots differ", ErrForked, at.Size)
	}
	var state [16]byte
	l.View(func(v *ledger.View) { state = v.State().Digest() })
	if state != at.State {
		return 0, fmt.Errorf("%w: at %d events the states differ", ErrForked, at.Size)
	}
	return added, nil
}

type source struct {
	base   string
	client *http.Client
}

// checkpoint fetches the newest checkpoint that the origin of these keys signed.
func (s source) checkpoint(ctx context.Context, verifiers []string) (at snap.Checkpoint, err error) {
	var keys []note.Verifier
	for _, v := range verifiers {
		key, err := note.NewVerifier(v)
		if err != nil {
			return at, fmt.Errorf("backup: the key that signs for edges: %w", err)
		}
		keys = append(keys, key)
	}
	signed, err := s.get(ctx, "/sync/checkpoint", maxNote)
	if err != nil {
		return at, err
	}
	n, err := note.Open(signed, note.VerifierList(keys...))
	if err != nil {
		return at, fmt.Errorf("%w: its checkpoint is not signed with a key of this backup: %w", ErrSource, err)
	}
	if at, err = snap.ParseCheckpoint(n.Text); err != nil || at.Origin != n.Sigs[0].Name {
		return at, fmt.Errorf("%w: its checkpoint is not one of this origin", ErrSource)
	}
	return at, nil
}

// events fetches events from number from, none beyond size.
func (s source) events(ctx context.Context, from, size uint64) ([]snap.Record, error) {
	b, err := s.get(ctx, fmt.Sprintf("/sync/events?from=%d", from), snap.MaxRange)
	if err != nil {
		return nil, err
	}
	records, err := snap.DecodeRecords(b)
	if err != nil || len(records) == 0 {
		return nil, fmt.Errorf("%w: it has no events from %d: %w", ErrSource, from, err)
	}
	// So many are well below what one batch of a store must take.
	return records[:min(uint64(len(records)), size-from, snap.BlockEvents/8)], nil
}

func (s source) get(ctx context.Context, path string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSource, err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSource, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s answers %d", ErrSource, path, res.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = errors.New("too long")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSource, path, err)
	}
	return b, nil
}
