package tlog

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Checkpoint is the text of a checkpoint: the origin of a log, and its tree.
type Checkpoint struct {
	Origin string
	tlog.Tree
}

// errCheckpoint: a text that is no checkpoint.
var errCheckpoint = errors.New("tlog: malformed checkpoint")

// Text is the text that is signed: three lines.
func (c Checkpoint) Text() string {
	return c.Origin + "\n" + strconv.FormatInt(c.N, 10) + "\n" + base64.StdEncoding.EncodeToString(c.Hash[:]) + "\n"
}

// maxSize is more events than any log has. Trees of sizes near the largest int64 cannot be
// computed with.
const maxSize = 1 << 48

// ParseCheckpoint reads the text of a checkpoint. It ignores extension lines.
func ParseCheckpoint(text string) (c Checkpoint, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 4 || lines[0] == "" || lines[len(lines)-1] != "" {
		return c, errCheckpoint
	}
	n, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || n < 0 || n > maxSize || strconv.FormatInt(n, 10) != lines[1] {
		return c, errCheckpoint
	}
	hash, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(hash) != tlog.HashSize {
		return c, errCheckpoint
	}
	for _, extension := range lines[3 : len(lines)-1] {
		if extension == "" {
			return c, errCheckpoint
		}
	}
	return Checkpoint{lines[0], tlog.Tree{N: n, Hash: tlog.Hash(hash)}}, nil
}

// OpenCheckpoint opens a signed checkpoint. One of the keys must have signed it, under the name of
// the log.
func OpenCheckpoint(signed []byte, keys note.Verifiers) (c Checkpoint, err error) {
	n, err := note.Open(signed, keys)
	if err != nil {
		return c, err
	}
	if c, err = ParseCheckpoint(n.Text); err != nil {
		return c, err
	}
	for _, s := range n.Sigs {
		if s.Name == c.Origin {
			return c, nil
		}
	}
	return c, errors.New("tlog: a checkpoint that its log has not signed")
}
