package tlog

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// cosignatureType is the signature type of an Ed25519 cosignature.
const cosignatureType = 0x04

// errKey: a text that is no key of a witness.
var errKey = errors.New("tlog: no Ed25519 key of a witness (signature type 4)")

// cosignedText is what a witness signs.
func cosignedText(text []byte, seconds uint64) []byte {
	return append([]byte("cosignature/v1\ntime "+strconv.FormatUint(seconds, 10)+"\n"), text...)
}

// keyID is the ID of a key with this name and material, which begins with the signature type.
func keyID(name string, material []byte) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), material...))
	return binary.BigEndian.Uint32(sum[:])
}

// witnessKey verifies cosignatures.
type witnessKey struct {
	name string
	id   uint32
	key  ed25519.PublicKey
}

// NewWitnessKey reads the key of a witness. It verifies cosignatures.
func NewWitnessKey(vkey string) (note.Verifier, error) {
	fields := strings.SplitN(vkey, "+", 3)
	if len(fields) != 3 || fields[0] == "" || strings.ContainsAny(fields[0], " \t\n") || len(fields[1]) != 8 {
		return nil, errKey
	}
	id, err := strconv.ParseUint(fields[1], 16, 32)
	if err != nil {
		return nil, errKey
	}
	material, err := base64.StdEncoding.DecodeString(fields[2])
	if err != nil || len(material) != 1+ed25519.PublicKeySize || material[0] != cosignatureType || keyID(fields[0], material) != uint32(id) {
		return nil, errKey
	}
	return &witnessKey{fields[0], uint32(id), material[1:]}, nil
}

func (k *witnessKey) Name() string    { return k.name }
func (k *witnessKey) KeyHash() uint32 { return k.id }
func (k *witnessKey) Verify(text, sig []byte) bool {
	if len(sig) != 8+ed25519.SignatureSize {
		return false
	}
	seconds := binary.BigEndian.Uint64(sig)
	return seconds > 0 && seconds < 1<<63 && ed25519.Verify(k.key, cosignedText(text, seconds), sig[8:])
}

// cosignedAt is the time of a cosignature that was verified.
func cosignedAt(s note.Signature) time.Time {
	sig, err := base64.StdEncoding.DecodeString(s.Base64)
	if err != nil || len(sig) < 12 {
		return time.Time{}
	}
	return time.Unix(int64(binary.BigEndian.Uint64(sig[4:])), 0)
}

// Cosigner makes cosignatures. It is a [note.Signer].
type Cosigner struct {
	witnessKey
	secret ed25519.PrivateKey
	now    func() time.Time
}

// FormatCosigner writes the secret key of a witness of this name as one line of text. seed has 32
// random bytes.
func FormatCosigner(name string, seed []byte) string {
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	id := keyID(name, append([]byte{cosignatureType}, public...))
	return fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, id, base64.StdEncoding.EncodeToString(append([]byte{cosignatureType}, seed...)))
}

// NewCosigner reads the secret key of a witness. Errors never repeat what it holds.
func NewCosigner(secret string, now func() time.Time) (*Cosigner, error) {
	fields := strings.SplitN(strings.TrimSuffix(secret, "\n"), "+", 5)
	if len(fields) != 5 || fields[0] != "PRIVATE" || fields[1] != "KEY" || fields[2] == "" {
		return nil, errKey
	}
	material, err := base64.StdEncoding.DecodeString(fields[4])
	if err != nil || len(material) != 1+ed25519.SeedSize || material[0] != cosignatureType {
		return nil, errKey
	}
	key := ed25519.NewKeyFromSeed(material[1:])
	c := &Cosigner{witnessKey{fields[2], 0, key.Public().(ed25519.PublicKey)}, key, now}
	c.id = keyID(c.name, append([]byte{cosignatureType}, c.key...))
	if fmt.Sprintf("%08x", c.id) != fields[3] {
		return nil, errKey
	}
	return c, nil
}

// Sign implements [note.Signer].
func (c *Cosigner) Sign(text []byte) ([]byte, error) {
	seconds := uint64(c.now().Unix())
	sig := binary.BigEndian.AppendUint64(nil, seconds)
	return append(sig, ed25519.Sign(c.secret, cosignedText(text, seconds))...), nil
}

// Verifier is the public key of the witness, as policies have it.
func (c *Cosigner) Verifier() string {
	return fmt.Sprintf("%s+%08x+%s", c.name, c.id, base64.StdEncoding.EncodeToString(append([]byte{cosignatureType}, c.key...)))
}

// Key verifies what the witness signs.
func (c *Cosigner) Key() note.Verifier { return &c.witnessKey }
