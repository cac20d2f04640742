package snap

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"webring/core"
)

// Checkpoint is what an origin signs about its ledger. By it a follower knows of
// everything else that travels whether it is the origin's.
type Checkpoint struct {
	// Origin names the ledger; it is the name of the key that signs.
	Origin string
	// Size is the number of events, Root the RFC 6962 tree hash over them.
	Size uint64
	Root [32]byte
	// Time is when it was signed, in milliseconds since 1970, UTC.
	Time int64
	// State is the [core.State.Digest] of the state after those events.
	State [16]byte
	// Core is the SHA-256 of the core module in the origin's binary, zero when it has
	// none; ABI is the version of the core's entry.
	Core [32]byte
	ABI  int
	// Snapshot is the newest snapshot.
	Snapshot Snapshot
}

// Snapshot names a snapshot's file: digest and length of the compressed bytes,
// and the number of events that it lies at. The zero value means none.
type Snapshot struct {
	Digest [32]byte
	Bytes  int64
	Size   uint64
}

// ErrCheckpoint is wrapped by every error about a text that is no checkpoint.
var ErrCheckpoint = errors.New("snap: malformed checkpoint")

// ErrKeys is wrapped by every error about a text that is no keys.
var ErrKeys = errors.New("snap: malformed keys")

// maxCheckpoint is longer than any text of a checkpoint, in bytes, and
// maxOrigin the longest name of one.
const (
	maxCheckpoint = 1024
	maxOrigin     = 256
)

// ValidOrigin says whether name can name an origin: printable ASCII without
// spaces and +, 1 to 256 bytes.
func ValidOrigin(name string) bool {
	for i := 0; i < len(name); i++ {
		if c := name[i]; c <= ' ' || c > '~' || c == '+' {
			return false
		}
	}
	return len(name) > 0 && len(name) <= maxOrigin
}

// Text gives the text to be signed, in the format of C2SP tlog-checkpoint with
// extension lines, the last of them only when there is a snapshot:
//
//	ring.example.org
//	{size}
//	{root, base64}
//	time {milliseconds}
//	state {digest, hexadecimal}
//	core {SHA-256, hexadecimal} abi {version}
//	snapshot {SHA-256, hexadecimal} bytes {length} size {events}
//
// Numbers are decimal. A checkpoint has this one text. [ParseCheckpoint] refuses the
// text of a checkpoint with fields beyond their bounds.
func (c Checkpoint) Text() string {
	b := make([]byte, 0, 512)
	b = append(append(b, c.Origin...), '\n')
	b = append(strconv.AppendUint(b, c.Size, 10), '\n')
	b = append(base64.StdEncoding.AppendEncode(b, c.Root[:]), "\ntime "...)
	b = append(strconv.AppendInt(b, c.Time, 10), "\nstate "...)
	b = append(hex.AppendEncode(b, c.State[:]), "\ncore "...)
	b = append(hex.AppendEncode(b, c.Core[:]), " abi "...)
	b = append(strconv.AppendInt(b, int64(c.ABI), 10), '\n')
	if c.Snapshot != (Snapshot{}) {
		b = hex.AppendEncode(append(b, "snapshot "...), c.Snapshot.Digest[:])
		b = strconv.AppendInt(append(b, " bytes "...), c.Snapshot.Bytes, 10)
		b = strconv.AppendUint(append(b, " size "...), c.Snapshot.Size, 10)
		b = append(b, '\n')
	}
	return string(b)
}

// maxSize is more events than any ledger has. Trees of sizes near the largest int64 cannot be
// computed with.
const maxSize = 1 << 48

// ParseCheckpoint reads the text of a checkpoint, in its one spelling. The caller has
// verified the signature. Errors wrap [ErrCheckpoint].
func ParseCheckpoint(text string) (Checkpoint, error) {
	malformed := func(what string) (Checkpoint, error) {
		return Checkpoint{}, &flaw{sentinel: ErrCheckpoint, detail: what}
	}
	body, ended := strings.CutSuffix(text, "\n")
	lines := strings.Split(body, "\n")
	if !ended || len(text) > maxCheckpoint || len(lines) < 6 || len(lines) > 7 {
		return malformed("lines")
	}
	var c Checkpoint
	p := fields{ok: true}
	c.Origin = lines[0]
	c.Size = p.number(lines[1])
	p.base64(c.Root[:], lines[2])
	p.line(lines[3], "time")
	c.Time = int64(p.number(p.next()))
	p.line(lines[4], "state")
	p.hex(c.State[:], p.next())
	p.line(lines[5], "core", "abi")
	p.hex(c.Core[:], p.next())
	abi := p.number(p.next())
	c.ABI = int(min(abi, 1<<31-1))
	if len(lines) == 7 {
		p.line(lines[6], "snapshot", "bytes", "size")
		p.hex(c.Snapshot.Digest[:], p.next())
		c.Snapshot.Bytes, c.Snapshot.Size = int64(p.number(p.next())), p.number(p.next())
		if c.Snapshot.Bytes == 0 || c.Snapshot.Size > c.Size || c.Snapshot.Digest == [32]byte{} {
			return malformed("snapshot")
		}
	}
	switch {
	case !ValidOrigin(c.Origin):
		return malformed("origin")
	case !p.ok || c.Time > core.MaxStamp || c.Size > maxSize:
		return malformed("fields")
	case c.Text() != text:
		// Leading zeros, upper case, padding bits: read, but another spelling.
		return malformed("spelling")
	}
	return c, nil
}

// fields reads the lines of a checkpoint: name value name value ….
type fields struct {
	words []string
	ok    bool
}

// line takes a line with a value behind each of these names.
func (p *fields) line(line string, names ...string) {
	words := strings.Split(line, " ")
	p.words = p.words[:0]
	if len(words) != 2*len(names) {
		p.ok = false
		return
	}
	for i, name := range names {
		p.ok = p.ok && words[2*i] == name
		p.words = append(p.words, words[2*i+1])
	}
}

func (p *fields) next() (word string) {
	if len(p.words) > 0 {
		word, p.words = p.words[0], p.words[1:]
	}
	return word
}

func (p *fields) number(word string) uint64 {
	n, err := strconv.ParseUint(word, 10, 63)
	p.ok = p.ok && err == nil
	return n
}

func (p *fields) hex(dst []byte, word string) {
	b, err := hex.DecodeString(word)
	p.ok = p.ok && err == nil && len(b) == len(dst)
	copy(dst, b)
}

func (p *fields) base64(dst []byte, word string) {
	b, err := base64.StdEncoding.DecodeString(word)
	p.ok = p.ok && err == nil && len(b) == len(dst)
	copy(dst, b)
}
