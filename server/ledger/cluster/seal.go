package cluster

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"

	"webring/edge/durable"
)

// Values of the tail hold members' words and signed transactions, and etcd keeps deleted values in its
// files for a while. So they are sealed with a key that etcd does not have. Once a key is gone, so is
// everything that it sealed.
//
//	value   = magic (8 bytes) id salt ciphertext
//	id      = 8 bytes, derived from the key
//	salt    = 32 random bytes
//
// The ciphertext is that of AES-256-GCM (NIST SP 800-38D). HKDF (RFC 5869) derives its key
// and nonce from the shared key and the salt, so that no number of values wears a key out.
// It authenticates the ring and the serial.
const (
	sealMagic = "wr-tail\x01"
	sealID    = 8
	sealSalt  = 32
	sealExtra = len(sealMagic) + sealID + sealSalt
	sealKey   = 32
	maxKeys   = 2
)

// errKey refuses a node that lacks a key.
func (s *sealer) errKey(id string) error {
	return fmt.Errorf("%w: %s does not have the key %s with which the ring is sealed in etcd: copy the key file of the node that leads", ErrRefused, s.path, id)
}

// key is one of the shared keys.
type key struct {
	id    [sealID]byte
	bytes []byte
}

// sealer seals and opens values of one ring.
type sealer struct {
	path, ring string

	mu     sync.Mutex
	keys   []key  // the newest first
	uses   string // id of the one that seals; empty for the newest
	sealed uint64 // serial of the last transaction that was sealed
}

// newSealer reads the keys in a file; without a path there are none.
func newSealer(path, ring string) (*sealer, error) {
	s := &sealer{path: path, ring: ring}
	if path == "" {
		return s, nil
	}
	return s, s.reload()
}

// NewKeyFile writes a new key to a file that does not exist yet.
func NewKeyFile(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cluster: %s: %w", path, errors.Join(os.ErrExist, err))
	}
	return durable.Write(path, []byte(durable.NewKey()+"\n"), 0o600)
}

// RenewKeyFile puts a new key above the one in a file.
func RenewKeyFile(path string) error {
	text, err := durable.ReadSecret(path)
	if err != nil {
		return err
	}
	lines := strings.Fields(string(text))
	if len(lines) != 1 {
		return fmt.Errorf("%s has %d lines: delete the second one when no node needs it any more, and then make the next key", path, len(lines))
	}
	return durable.Write(path, []byte(durable.NewKey()+"\n"+lines[0]+"\n"), 0o600)
}

// reload reads the key file.
func (s *sealer) reload() error {
	text, err := durable.ReadSecret(s.path)
	if err != nil {
		return fmt.Errorf("cluster: the key file: %w", err)
	}
	keys, err := parseKeys(string(text))
	if err != nil {
		return fmt.Errorf("cluster: %s: %w", s.path, err)
	}
	s.mu.Lock()
	s.keys = keys
	s.mu.Unlock()
	return nil
}

func parseKeys(text string) ([]key, error) {
	lines := strings.Fields(text)
	if len(lines) == 0 || len(lines) > maxKeys {
		return nil, fmt.Errorf("must hold one to %d keys, each a line of at least %d hex digits", maxKeys, hex.EncodedLen(sealKey))
	}
	var keys []key
	for i, line := range lines {
		b, err := durable.ParseKey(line, sealKey)
		if err != nil {
			return nil, fmt.Errorf("line %d %w", i+1, err)
		}
		k := key{bytes: b}
		copy(k.id[:], must(hkdf.Key(sha256.New, b, nil, "webring tail id", sealID)))
		keys = append(keys, k)
	}
	return keys, nil
}

// ids gives the ids of the keys, the newest first.
func (s *sealer) ids() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, k := range s.keys {
		ids = append(ids, k.name())
	}
	return ids
}

// key gives the key with an id. It reads the key file again if that key is new.
func (s *sealer) key(id string) (key, error) {
	for again := false; ; again = true {
		s.mu.Lock()
		i := slices.IndexFunc(s.keys, func(k key) bool { return k.name() == id })
		if i >= 0 {
			defer s.mu.Unlock()
			return s.keys[i], nil
		}
		s.mu.Unlock()
		if again {
			return key{}, s.errKey(id)
		}
		if err := s.reload(); err != nil {
			return key{}, errors.Join(s.errKey(id), err)
		}
	}
}

// use has a key seal what comes after a transaction and after what was sealed before. It gives the
// later of the two.
func (s *sealer) use(id string, after uint64) (last uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses, s.sealed = id, max(s.sealed, after)
	return s.sealed
}

// inUse is the id of the key that seals; empty if that was never said.
func (s *sealer) inUse() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.uses
}

// sealing gives the key that seals a transaction.
func (s *sealer) sealing(serial uint64) key {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = max(s.sealed, serial)
	for _, k := range s.keys {
		if k.name() == s.uses {
			return k
		}
	}
	return s.keys[0]
}

func (k key) name() string { return hex.EncodeToString(k.id[:]) }

// seal encrypts the rows of a transaction.
func (s *sealer) seal(serial uint64, plain []byte) []byte {
	k := s.sealing(serial)
	b := make([]byte, 0, sealExtra+len(plain)+16)
	b = append(append(b, sealMagic...), k.id[:]...)
	b = b[:sealExtra]
	rand.Read(b[sealExtra-sealSalt:])
	aead, nonce := derive(k, b[sealExtra-sealSalt:])
	return aead.Seal(b, nonce, plain, s.about(serial))
}

// open decrypts what seal has made of a transaction.
func (s *sealer) open(serial uint64, b []byte) ([]byte, error) {
	if len(b) < sealExtra || string(b[:len(sealMagic)]) != sealMagic {
		return nil, errors.New("cluster: a value in etcd is not sealed")
	}
	k, err := s.key(hex.EncodeToString(b[len(sealMagic):][:sealID]))
	if err != nil {
		return nil, err
	}
	aead, nonce := derive(k, b[sealExtra-sealSalt:sealExtra])
	plain, err := aead.Open(nil, nonce, b[sealExtra:], s.about(serial))
	if err != nil {
		return nil, fmt.Errorf("cluster: the value of transaction %d in etcd is damaged or was exchanged", serial)
	}
	return plain, nil
}

// about is what a value authenticates in addition to its rows.
func (s *sealer) about(serial uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(s.ring), serial)
}

func derive(k key, salt []byte) (cipher.AEAD, []byte) {
	b := must(hkdf.Key(sha256.New, k.bytes, salt, "webring tail", sealKey+12))
	return must(cipher.NewGCM(must(aes.NewCipher(b[:sealKey])))), b[sealKey:]
}

// A new key is put above the old one in the key file of each node, in any order. The leader
// seals with it as soon as all registered nodes have said that they have it. The old key is
// needed until the tail has nothing that it sealed ([Status.OldKey]). Once it is deleted everywhere,
// nothing can read what etcd's files still have of that time.

// knowsKey refuses a key file that lacks the key with which the ring is sealed.
func (c *Cluster) knowsKey(found values) (is sealing, err error) {
	if err = found.text(c.keys.sealing(), &is); err == nil && is.Key != "" {
		_, err = c.sealer.key(is.Key)
	}
	return is, err
}

// useKey seals what follows the transaction head with the key of the ring.
func (c *Cluster) useKey(found values, head uint64) error {
	is, err := c.knowsKey(found)
	if err == nil {
		c.sealer.use(is.Key, head)
	}
	return err
}

// rotate switches to the newest key when all nodes have it.
func (t *Term) rotate(nodes []Node) error {
	s := t.c.sealer
	newest, old := s.ids()[0], s.inUse()
	if old == "" || newest == old || slices.ContainsFunc(nodes, func(n Node) bool { return !n.Joining && !slices.Contains(n.Keys, newest) }) {
		return nil
	}
	last := s.use(newest, 0) // what is sealed from now on is sealed with the new key
	if err := t.fenced(t.ctx, clientv3.OpPut(t.c.keys.sealing(), encodeText(sealing{Key: newest, Since: last + 1}))); err != nil {
		s.use(old, 0)
		return err
	}
	t.c.log.Info("the ring is sealed with a new key in etcd", "key", newest, "since", last+1)
	return nil
}
