package etcdstore

import (
	"bytes"
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
	"strings"
	"sync"

	"webring/server/durable"
)

// Values of the tail hold the words of members and signed transactions, and etcd keeps
// what was deleted in its files for a while. So they are sealed with a key that etcd does not
// have. Once a key is gone, so is all that it has sealed.
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

// errUnknownKey says that a value is sealed with a key that the key file does not have.
var errUnknownKey = errors.New("etcdstore: a value in etcd is sealed with a key that the key file does not have")

// key is one of the shared keys.
type key struct {
	id    [sealID]byte
	bytes []byte
}

// sealer seals and opens values of one ring.
type sealer struct {
	path, ring string

	mu   sync.Mutex
	keys []key // the first seals
}

func newSealer(path, ring string) (*sealer, error) {
	s := &sealer{path: path, ring: ring}
	return s, s.reload()
}

// NewKeyFile writes a new key to a file that does not exist yet.
func NewKeyFile(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("etcdstore: %s: %w", path, errors.Join(os.ErrExist, err))
	}
	b := make([]byte, sealKey)
	rand.Read(b)
	return durable.Write(path, fmt.Appendf(nil, "%x\n", b), 0o600)
}

// reload reads the key file.
func (s *sealer) reload() error {
	text, err := durable.ReadSecret(s.path)
	if err != nil {
		return fmt.Errorf("etcdstore: the key file: %w", err)
	}
	keys, err := parseKeys(string(text))
	if err != nil {
		return fmt.Errorf("etcdstore: %s %w", s.path, err)
	}
	s.mu.Lock()
	s.keys = keys
	s.mu.Unlock()
	return nil
}

func parseKeys(text string) ([]key, error) {
	lines := strings.Fields(text)
	if len(lines) == 0 || len(lines) > maxKeys {
		return nil, fmt.Errorf("must hold one to %d keys, each a line of %d hex digits", maxKeys, hex.EncodedLen(sealKey))
	}
	var keys []key
	for i, line := range lines {
		b, err := hex.DecodeString(line)
		if err != nil || len(b) != sealKey {
			return nil, fmt.Errorf("has no key of %d hex digits in line %d", hex.EncodedLen(sealKey), i+1)
		}
		k := key{bytes: b}
		copy(k.id[:], must(hkdf.Key(sha256.New, b, nil, "webring tail id", sealID)))
		keys = append(keys, k)
	}
	return keys, nil
}

// sealing gives the key that seals.
func (s *sealer) sealing() key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[0]
}

func (s *sealer) find(id []byte) (key, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		if bytes.Equal(k.id[:], id) {
			return k, true
		}
	}
	return key{}, false
}

// seal encrypts the rows of a transaction.
func (s *sealer) seal(serial uint64, plain []byte) []byte {
	k := s.sealing()
	b := make([]byte, 0, sealExtra+len(plain)+16)
	b = append(append(b, sealMagic...), k.id[:]...)
	b = b[:sealExtra]
	rand.Read(b[sealExtra-sealSalt:])
	aead, nonce := derive(k, b[sealExtra-sealSalt:])
	return aead.Seal(b, nonce, plain, s.about(serial))
}

// open decrypts what seal has made of the transaction of this serial. When the key is not known,
// it reads the key file again.
func (s *sealer) open(serial uint64, b []byte) ([]byte, error) {
	if len(b) < sealExtra || string(b[:len(sealMagic)]) != sealMagic {
		return nil, errors.New("etcdstore: a value in etcd is not sealed")
	}
	id := b[len(sealMagic):][:sealID]
	k, ok := s.find(id)
	if !ok {
		if err := s.reload(); err != nil {
			return nil, err
		}
		if k, ok = s.find(id); !ok {
			return nil, fmt.Errorf("%w (key %x, transaction %d)", errUnknownKey, id, serial)
		}
	}
	aead, nonce := derive(k, b[sealExtra-sealSalt:sealExtra])
	plain, err := aead.Open(nil, nonce, b[sealExtra:], s.about(serial))
	if err != nil {
		return nil, fmt.Errorf("etcdstore: the value of transaction %d in etcd is damaged or was exchanged", serial)
	}
	return plain, nil
}

// about is what a value authenticates besides its rows.
func (s *sealer) about(serial uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte(s.ring), serial)
}

func derive(k key, salt []byte) (cipher.AEAD, []byte) {
	b := must(hkdf.Key(sha256.New, k.bytes, salt, "webring tail", sealKey+12))
	return must(cipher.NewGCM(must(aes.NewCipher(b[:sealKey])))), b[sealKey:]
}
