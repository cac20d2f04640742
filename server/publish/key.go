package publish

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"webring/core"
	"webring/core/snap"
	"webring/edge/durable"
	"webring/server/ledger"
)

// Key signs checkpoints: an ed25519 key in the format of signed notes. It may
// be used concurrently.
type Key struct {
	signer   note.Signer
	verifier string
}

// OpenKey reads the key at path, and makes one under this name when there is
// no file. A key keeps its name: edges pin both together. The file is for its
// owner's eyes only. Errors never repeat what it holds.
func OpenKey(path, name string) (*Key, error) {
	// A link to a file that is not there is no reason to make another.
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return ReadKey(path)
	}
	if !snap.ValidOrigin(name) {
		return nil, fmt.Errorf("publish: %q cannot name a key", name)
	}
	secret, _, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		return nil, fmt.Errorf("publish: make a key: %w", err)
	}
	if err := durable.Write(path, []byte(secret+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("publish: keep the key: %w", err)
	}
	return ReadKey(path)
}

// ReadKey reads the key at path. Without a file, the error wraps
// [fs.ErrNotExist].
func ReadKey(path string) (*Key, error) {
	text, err := durable.ReadSecret(path)
	if err != nil {
		return nil, fmt.Errorf("publish: read the key: %w", err)
	}
	secret := strings.TrimSuffix(string(text), "\n")
	signer, err := note.NewSigner(secret)
	if err != nil || !snap.ValidOrigin(signer.Name()) {
		return nil, fmt.Errorf("publish: %s is not the key of a signer", path)
	}
	// PRIVATE+KEY+name+hash+secret: a byte for the algorithm, and the seed.
	field := strings.SplitN(secret, "+", 5)
	seed, err := base64.StdEncoding.DecodeString(field[len(field)-1])
	if err != nil || len(seed) != 1+ed25519.SeedSize {
		return nil, fmt.Errorf("publish: %s is not the key of a signer", path)
	}
	public := ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey)
	verifier, err := note.NewEd25519VerifierKey(signer.Name(), public)
	if err != nil {
		return nil, fmt.Errorf("publish: %w", err)
	}
	return &Key{signer, verifier}, nil
}

// ReadNext reads the key that is announced, nil if there is none.
func ReadNext(path string) (*Key, error) {
	key, err := ReadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return key, err
}

// Name is the name of the key and of the origin that signs with it.
func (k *Key) Name() string { return k.signer.Name() }

// Verifier is what edges pin, in the format of signed notes: name+hash+key.
func (k *Key) Verifier() string { return k.verifier }

// signText gives a note with the signature of this key, and of a next one unless that is
// nil.
func (k *Key) signText(text string, next *Key) ([]byte, error) {
	signers := []note.Signer{k.signer}
	if next != nil {
		signers = append(signers, next.signer)
	}
	return note.Sign(&note.Note{Text: text}, signers...)
}

// signKeys gives the signed note that names this key as the present one, and a next one
// unless that is nil. Both sign it: the next one shows that it is there.
func (k *Key) signKeys(ms int64, next *Key) ([]byte, error) {
	keys := snap.Keys{Origin: k.Name(), Time: ms, Current: k.verifier}
	if next != nil {
		keys.Next = next.verifier
	}
	return k.signText(keys.Text(), next)
}

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
			err = p.signWith(p.key, key) // the key stays announced if this fails: its file is there
		}
		if err == nil {
			p.tellKeys(context.Background(), true)
		}
		if err != nil {
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
	if err == nil {
		p.tellKeys(context.Background(), true)
	}
	return p.key.Verifier(), err
}

// tellKeys adds the event that names the keys that sign, unless the last such event names them. A
// ring of which no key was ever changed has no such event; changes says that one has changed now. If
// nothing can be written, the next start adds it. The caller holds signing.
func (p *Publisher) tellKeys(ctx context.Context, changes bool) {
	e := core.Keys{Current: p.key.Verifier()}
	if p.next != nil {
		e.Next = p.next.Verifier()
	}
	err := p.ledger.Do(ctx, func(tx *ledger.Tx) error {
		last := tx.View().Keys()
		if e.Stamp = last.Stamp; e == last || last == (core.Keys{}) && !changes || tx.State().Seq() == 0 {
			return nil
		}
		e.Stamp = tx.Stamp()
		_, err := tx.Append(&e, nil)
		return err
	})
	if err != nil {
		p.c.Log.Error("the ledger does not tell of the change of the signing key", "err", err)
	}
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
