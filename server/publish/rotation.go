package publish

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"webring/edge/durable"
)

// Rotation changes the key of a running origin. First it makes and announces the next key:
// checkpoints are signed with both, so an edge that trusts either one follows. Then the
// next key signs alone, and the old one is destroyed. Its functions may be called
// concurrently.
type Rotation struct {
	mu             sync.Mutex
	publisher      *Publisher
	path, nextPath string
	current, next  *Key
}

var (
	// ErrNoNext says that no next key was announced.
	ErrNoNext = errors.New("publish: no next key is announced")
	// ErrTooSoon says that the next key was announced a moment ago.
	ErrTooSoon = errors.New("publish: edges may not have learned of the next key")
)

// LearnTime is how long edges have to learn of the next key before it signs alone. A
// running edge learns it within seconds; one that is being restarted has as long as this.
const LearnTime = 10 * time.Minute

// NewRotation gives the rotation of a publisher's keys, which lie at these paths.
func NewRotation(p *Publisher, path, nextPath string) *Rotation {
	return &Rotation{publisher: p, path: path, nextPath: nextPath, current: p.c.Key, next: p.c.Next}
}

// Keys gives the verifier of the key that signs, and of the one that is announced, "" for
// none.
func (r *Rotation) Keys() (current, next string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.verifiers()
}

func (r *Rotation) verifiers() (current, next string) {
	if r.next != nil {
		next = r.next.Verifier()
	}
	return r.current.Verifier(), next
}

// Announce makes the next key, unless there is one, and announces it.
func (r *Rotation) Announce() (current, next string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		key, err := OpenKey(r.nextPath, r.current.Name())
		if err != nil {
			return "", "", err
		}
		if err := r.publisher.signWith(r.current, key); err != nil {
			return "", "", err
		}
		r.next = key
	}
	current, next = r.verifiers()
	return current, next, nil
}

// Switch has the next key sign alone, in the place of the present one, which is
// destroyed. Without a next key the error wraps [ErrNoNext]; when that was made less than
// wait ago, [ErrTooSoon].
func (r *Rotation) Switch(wait time.Duration) (current string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		return "", ErrNoNext
	}
	file, err := os.Stat(r.nextPath)
	if err != nil {
		return "", fmt.Errorf("publish: %w", err)
	}
	if time.Since(file.ModTime()) < wait {
		return "", ErrTooSoon
	}
	if err := os.Rename(r.nextPath, r.path); err != nil {
		return "", fmt.Errorf("publish: %w", err)
	}
	r.current, r.next = r.next, nil
	err = errors.Join(durable.SyncFolder(filepath.Dir(r.path)), r.publisher.signWith(r.current, nil))
	return r.current.Verifier(), err
}

// ReadNext reads the key that is announced, nil if there is none.
func ReadNext(path string) (*Key, error) {
	key, err := ReadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return key, err
}
