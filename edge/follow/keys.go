package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"

	"webring/core/snap"
)

// keyring holds the keys that are trusted. First these are the ones that the operator pinned.
// Then the origin signs with a trusted key which key is the present one and which will be the
// next ([snap.Keys]), and only those two are trusted. A key that the origin has given up is
// not trusted, even if it is pinned. A keyring may be used concurrently.
type keyring struct {
	name string
	path string // of the file, "" for none
	log  *slog.Logger

	mu    sync.Mutex
	held  map[uint32]heldKey // by hash
	later map[uint32]heldKey // pinned, and in no note on disk; nil once those are read
	notes []string           // signed keys that lead from the pinned ones to held, the newest last
	at    snap.Keys          // the newest
}

// heldKey is a trusted key, and the text that names it.
type heldKey struct {
	word string
	note.Verifier
}

// keysName is the file of signed keys in the folder: a JSON array of notes. A restart
// follows them from the pinned keys as they came.
const keysName = "keys"

// errKeys: a statement about keys that is not to be believed.
var errKeys = errors.New("follow: keys that no trusted key has signed")

// newKeyring trusts the pinned keys, and those that the notes in the folder lead to. A pinned
// key that is in none of these notes may be newer than they are. It is trusted until the
// origin says again which keys there are.
func newKeyring(pinned []string, dir string, log *slog.Logger) (*keyring, error) {
	if len(pinned) == 0 {
		return nil, errors.New("follow: no key of the origin is given")
	}
	k := &keyring{log: log, held: map[uint32]heldKey{}}
	for _, word := range pinned {
		v, err := note.NewVerifier(word)
		if err != nil {
			return nil, fmt.Errorf("follow: the origin's key: %w", err)
		}
		if k.name == "" {
			k.name = v.Name()
		}
		if v.Name() != k.name {
			return nil, fmt.Errorf("follow: the origin's keys are of two origins, %s and %s", k.name, v.Name())
		}
		k.held[v.KeyHash()] = heldKey{word, v}
	}
	if dir == "" {
		return k, nil
	}
	k.path = filepath.Join(dir, keysName)
	notes, err := readKeys(k.path)
	if err != nil {
		log.Error("follow: the keys on disk cannot be read; those that are given are trusted, though the origin may have given them up", "err", err)
	}
	k.later = maps.Clone(k.held)
	for _, signed := range notes {
		_, _ = k.take([]byte(signed)) // those before what is pinned lead nowhere
	}
	k.later = nil
	var held []string
	for _, key := range k.held {
		held = append(held, key.word)
	}
	for _, word := range pinned {
		if !slices.Contains(held, word) {
			log.Warn("follow: the origin has given up a key that this edge was started with; it is not trusted", "given_up", word, "give_instead", k.at.Current)
		}
	}
	return k, nil
}

// Verifier implements [note.Verifiers].
func (k *keyring) Verifier(name string, hash uint32) (note.Verifier, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v, ok := k.held[hash]; ok && name == k.name {
		return v.Verifier, nil
	}
	return nil, &note.UnknownVerifierError{Name: name, KeyHash: hash}
}

// take believes a statement about keys if the key that it calls the present one is trusted and
// has signed it. From then on only the present key, the next one and those in later are
// trusted. news reports whether they are other keys than before.
func (k *keyring) take(signed []byte) (news bool, err error) {
	n, err := note.Open(signed, k)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errKeys, err)
	}
	to, err := snap.ParseKeys(n.Text)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errKeys, err)
	}
	current, err := note.NewVerifier(to.Current)
	if err != nil || to.Origin != k.name {
		return false, fmt.Errorf("%w: of another origin, or malformed", errKeys)
	}
	by := func(s note.Signature) bool { return s.Name == current.Name() && s.Hash == current.KeyHash() }
	if !slices.ContainsFunc(n.Sigs, by) {
		return false, fmt.Errorf("%w: the present key is none of them", errKeys)
	}
	held := map[uint32]heldKey{current.KeyHash(): {to.Current, current}}
	if to.Next != "" {
		next, err := note.NewVerifier(to.Next)
		if err != nil || next.KeyHash() == current.KeyHash() {
			return false, fmt.Errorf("%w: the next key is malformed", errKeys)
		}
		held[next.KeyHash()] = heldKey{to.Next, next}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held[current.KeyHash()].word != to.Current {
		return false, fmt.Errorf("%w: the present key is not trusted", errKeys)
	}
	same := to.Current == k.at.Current
	if same && to.Time < k.at.Time {
		return false, nil // an earlier one is sent again
	}
	news = !same || to.Next != k.at.Next
	if same {
		k.notes = k.notes[:len(k.notes)-1]
	}
	for hash := range held {
		delete(k.later, hash)
	}
	maps.Copy(held, k.later)
	k.notes, k.held, k.at = append(k.notes, string(signed)), held, to
	return news, nil
}

// newest returns the newest signed keys, nil before the first.
func (k *keyring) newest() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.notes) == 0 {
		return nil
	}
	return []byte(k.notes[len(k.notes)-1])
}

// lacks reports whether the origin may have said something about its keys that is not known
// here: nothing is, or a checkpoint is signed with other keys than those that are trusted.
func (k *keyring) lacks(signed []byte) bool {
	n, err := note.Open(signed, k)
	if err != nil {
		return false // it was taken when other keys were trusted; the next one tells
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	others := slices.ContainsFunc(n.UnverifiedSigs, func(s note.Signature) bool { return s.Name == k.name })
	return len(k.notes) == 0 || len(n.Sigs) != len(k.held) || others
}

// learn takes a statement about keys, and keeps what is new on disk.
func (k *keyring) learn(signed []byte) error {
	news, err := k.take(signed)
	if err != nil {
		return err
	}
	k.mu.Lock()
	notes, at := slices.Clone(k.notes), k.at
	k.mu.Unlock()
	switch {
	case !news:
	case at.Next != "":
		k.log.Info("follow: the origin announces the key that it changes to; this edge trusts it from now on", "current", at.Current, "next", at.Next)
	case len(notes) > 1:
		k.log.Info("follow: the origin signs with this key alone; this edge trusts no other from now on", "current", at.Current)
	}
	if k.path == "" {
		return nil
	}
	text, err := json.Marshal(notes)
	if err == nil {
		err = (&store{dir: filepath.Dir(k.path)}).write(keysName, text)
	}
	if err != nil {
		return fmt.Errorf("follow: the origin's keys cannot be kept on disk; a restart does not know them: %w", err)
	}
	return nil
}

func readKeys(path string) (notes []string, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &notes)
	}
	return notes, err
}

// Learned gives the newest keys that the edge on a folder has taken, false if there are
// none. [Config.Dir] is the folder.
func Learned(dir string) (keys snap.Keys, ok bool, err error) {
	notes, err := readKeys(filepath.Join(dir, keysName))
	if err != nil || len(notes) == 0 {
		return keys, false, err
	}
	text, _, _ := strings.Cut(notes[len(notes)-1], "\n\n")
	keys, err = snap.ParseKeys(text + "\n")
	return keys, err == nil, err
}

// Kept gives how many events the state on an edge's folder has, 0 if there is none: those
// of its newest checkpoint. [Config.Dir] is the folder.
func Kept(dir string) (events uint64, err error) {
	signed, err := (&store{dir: dir}).checkpoint()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	text, _, _ := strings.Cut(string(signed), "\n\n")
	at, err := snap.ParseCheckpoint(text + "\n")
	return at.Size, err
}

// verify is [Verify]. To a refusal it adds what the operator can do about it.
func (k *keyring) verify(signed []byte) (snap.Checkpoint, error) {
	at, err := Verify(signed, k)
	unknown, ok := errors.AsType[*note.UnverifiedNoteError](err)
	if !ok {
		return at, err
	}
	for _, s := range unknown.Note.UnverifiedSigs {
		if s.Name == k.name {
			return at, fmt.Errorf("%w; it is signed with %s+%08x, which this edge does not know: if the origin has changed its key while this edge could not learn of it, give the new one with --origin-key", err, s.Name, s.Hash)
		}
	}
	return at, err
}

const (
	// leastKeysRest and mostKeysRest bound the wait before the keys are asked for again.
	leastKeysRest, mostKeysRest = time.Second, 5 * time.Minute
)

// learnKeys asks for the origin's signed keys whenever there may be others than those
// that are known, until ctx ends.
func (r *Replica) learnKeys(ctx context.Context) {
	var logged string
	for pause := leastKeysRest; ; {
		changed := r.Changed()
		rested := (<-chan time.Time)(nil)
		if signed := r.Checkpoint(); signed != nil && r.keys.lacks(signed) {
			keys, err := r.link.Get(ctx, "/sync/keys", maxNote, true)
			if err == nil {
				err = r.keys.learn(keys)
			}
			if ctx.Err() != nil {
				return
			}
			if err != nil && err.Error() != logged {
				logged = err.Error()
				r.log.Warn("follow: what keys the origin signs with could not be learned; it is asked again", "err", err)
			}
			if r.keys.lacks(signed) {
				changed, rested = nil, time.After(pause)
				pause = min(2*pause, mostKeysRest)
			}
		}
		select {
		case <-changed:
			pause = leastKeysRest
		case <-rested:
		case <-ctx.Done():
			return
		}
	}
}

// Probe asks the first of the origins once for its checkpoint, and returns how many events
// that has and when it was signed. It fails when the configuration is wrong, when the origin
// does not answer, and when the checkpoint is not signed with a key that is trusted. It keeps
// nothing. Of the configuration it needs Origins and Keys; with Dir, what the edge on that
// folder has learned of the keys counts, too.
func Probe(ctx context.Context, cfg Config) (events uint64, signed time.Time, err error) {
	keys, err := newKeyring(cfg.Keys, cfg.Dir, slog.Default())
	if err != nil {
		return 0, time.Time{}, err
	}
	cfg.Verify = keys.verify
	l, err := NewLink(cfg.LinkConfig)
	if err != nil {
		return 0, time.Time{}, err
	}
	defer l.Close()
	at, err := l.Checkpoint(ctx)
	return at.Size, time.UnixMilli(at.Time), err
}
