package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"webring/edge/durable"
)

// Until keeps up to which time, in milliseconds since 1970, checkpoints may have been
// signed. Edges refuse a checkpoint that is older than the last, so no process that signs
// with the key may sign for a time that an earlier one has covered.
type Until interface {
	// Until gives the time, 0 when nothing has been signed.
	Until() int64
	// MoveUntil covers the times up to ms. After an error none may be signed that was
	// not covered before.
	MoveUntil(ctx context.Context, ms int64) error
	// SetUntilBack gives up the times after ms, which a clock that was ahead has covered. From
	// now on only checkpoints of more events are signed.
	SetUntilBack(ctx context.Context, ms int64) error
}

// Times are covered some way ahead, so that few checkpoints wait for that; after a restart,
// checkpoints are ahead of the clock for no longer. moveTime bounds how long it may take.
const (
	ahead    = 5 * time.Second
	moveTime = 10 * time.Second
)

// untilName is the file of [OpenUntil].
const untilName = "signed-until"

// untilFile is the [Until] of an origin that is alone: a file.
type untilFile struct {
	path string

	mu sync.Mutex
	ms int64
}

// OpenUntil gives what the file signed-until in the folder of a publisher keeps.
func OpenUntil(dir string) (Until, error) {
	u := &untilFile{path: filepath.Join(dir, untilName)}
	text, err := os.ReadFile(u.path)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	u.ms, err = strconv.ParseInt(strings.TrimSuffix(string(text), "\n"), 10, 64)
	if err != nil || u.ms < 0 {
		return nil, fmt.Errorf("publish: %s is damaged: without it, checkpoints may be signed that edges refuse as older than the last; remove it if the clock is right", u.path)
	}
	return u, nil
}

// Until implements [Until].
func (u *untilFile) Until() int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ms
}

// MoveUntil implements [Until].
func (u *untilFile) MoveUntil(_ context.Context, ms int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if ms <= u.ms {
		return nil
	}
	return u.set(ms)
}

// SetUntilBack implements [Until].
func (u *untilFile) SetUntilBack(_ context.Context, ms int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.set(ms)
}

// set keeps a time, for a caller that holds mu.
func (u *untilFile) set(ms int64) error {
	if err := durable.Write(u.path, strconv.AppendInt(nil, ms, 10), 0o600); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	u.ms = ms
	return nil
}

// beginUntil learns up to which time was signed before. The first checkpoint is for a later
// one: an earlier process may have signed another for that same time.
func (p *Publisher) beginUntil() error {
	if p.c.Until == nil {
		file, err := OpenUntil(p.c.Dir)
		if err != nil {
			return err
		}
		p.c.Until = file
	}
	p.until = p.c.Until.Until()
	if early := time.UnixMilli(p.until).Sub(p.c.Now()); early > 2*ahead {
		p.c.Log.Warn("publish: checkpoints were signed for later than it is now, and are until the clock is there: if it is right, run webring clock back",
			"until", time.UnixMilli(p.until).UTC())
	}
	p.last.Time = p.until + 1
	return nil
}

// goBack gives up the times that were covered before the ring's clock was set back. The caller
// holds signing.
func (p *Publisher) goBack(ctx context.Context) error {
	p.mu.Lock()
	ms := p.at.back
	p.mu.Unlock()
	if ms == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	if ms < p.until {
		if err := p.c.Until.SetUntilBack(ctx, ms); err != nil {
			return fmt.Errorf("publish: set back the time of checkpoints: %w", err)
		}
		p.until = ms
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last.Time = min(p.last.Time, ms)
	if p.at.back == ms {
		p.at.back = 0
	}
	return nil
}

// SignedUntil is the time up to which checkpoints may have been signed.
func (p *Publisher) SignedUntil() time.Time { return time.UnixMilli(p.c.Until.Until()) }

// maySign covers the time of the checkpoint that is signed next. The caller holds signing,
// but not mu, which readers and the ledger's writer wait for.
func (p *Publisher) maySign(ctx context.Context, ms int64) error {
	if ms <= p.until {
		return nil
	}
	// By the clock: restarts that follow each other do not add up.
	until := max(ms, p.c.Now().Add(ahead).UnixMilli())
	ctx, cancel := context.WithTimeout(ctx, moveTime)
	defer cancel()
	if err := p.c.Until.MoveUntil(ctx, until); err != nil {
		return fmt.Errorf("publish: cover the time of a checkpoint: %w", err)
	}
	p.until = until
	return nil
}
