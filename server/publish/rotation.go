package publish

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"webring/edge/durable"
)

// The key of a running origin changes in two steps. [Publisher.Announce] makes the next key.
// Checkpoints are then signed with both, so an edge that trusts either one follows. After
// [Publisher.SwitchKey], the next key signs alone, and the old one is destroyed.

var (
	// ErrNoNext says that no next key was announced.
	ErrNoNext = errors.New("publish: no next key is announced")
	// ErrTooSoon says that the next key was announced a moment ago.
	ErrTooSoon = errors.New("publish: edges may not have learned of the next key")
)

// LearnTime is how long edges have to learn of the next key before it signs alone. A
// running edge learns it within seconds; one that is being restarted has as long as this.
const LearnTime = 10 * time.Minute

// Announce makes the next key, unless there is one, and announces it.
func (p *Publisher) Announce() (current, next string, err error) {
	p.signing.Lock()
	defer p.signing.Unlock()
	if p.next == nil {
		key, err := OpenKey(p.c.NextPath, p.key.Name())
		if err == nil {
			err = p.signWith(p.key, key)
		}
		if err != nil {
			p.next = nil
			return "", "", err
		}
	}
	return p.key.Verifier(), p.next.Verifier(), nil
}

// SwitchKey has the next key sign alone, in place of the present one, which is destroyed.
// Without a next key the error wraps [ErrNoNext]; when that was made less than wait ago,
// [ErrTooSoon].
func (p *Publisher) SwitchKey(wait time.Duration) (current string, err error) {
	p.signing.Lock()
	defer p.signing.Unlock()
	if p.next == nil {
		return "", ErrNoNext
	}
	file, err := os.Stat(p.c.NextPath)
	if err != nil {
		return "", fmt.Errorf("publish: %w", err)
	}
	if time.Since(file.ModTime()) < wait {
		return "", ErrTooSoon
	}
	if err := os.Rename(p.c.NextPath, p.c.KeyPath); err != nil {
		return "", fmt.Errorf("publish: %w", err)
	}
	err = errors.Join(durable.SyncFolder(filepath.Dir(p.c.KeyPath)), p.signWith(p.next, nil))
	return p.key.Verifier(), err
}

// signWith has a key sign from now on, with another one announced unless that is nil. The
// caller holds signing.
func (p *Publisher) signWith(key, next *Key) error {
	p.key, p.next = key, next
	p.mu.Lock()
	p.keys = nil
	p.mu.Unlock()
	return p.signNext(context.Background())
}
