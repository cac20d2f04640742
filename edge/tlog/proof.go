package tlog

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Proof proves that an entry is in a log. It is a file in the format of C2SP tlog-proof, with the
// entry as its extra data.
type Proof struct {
	Entry      []byte
	Index      int64
	Hashes     tlog.RecordProof
	Checkpoint []byte // as it was signed
}

const (
	proofForm = "c2sp.org/tlog-proof@v1"
	// MaxProof is longer than any text of a proof that [ParseProof] takes.
	MaxProof = 64 << 10
)

// errProof: a text that is no proof.
var errProof = errors.New("tlog: malformed proof")

// Text is the file of a proof.
func (p *Proof) Text() []byte {
	var b strings.Builder
	b.WriteString(proofForm + "\nextra " + base64.StdEncoding.EncodeToString(p.Entry) + "\nindex " + strconv.FormatInt(p.Index, 10) + "\n")
	for _, hash := range p.Hashes {
		b.WriteString(hash.String() + "\n")
	}
	b.WriteString("\n" + string(p.Checkpoint))
	return []byte(b.String())
}

// ParseProof reads the file of a proof, in its one spelling. It checks nothing else.
func ParseProof(text []byte) (*Proof, error) {
	head, checkpoint, ok := strings.Cut(string(text), "\n\n")
	lines := strings.Split(head, "\n")
	if !ok || len(text) > MaxProof || len(lines) < 3 {
		return nil, errProof
	}
	entry, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(lines[1], "extra "))
	if err != nil {
		return nil, errProof
	}
	index, err := strconv.ParseInt(strings.TrimPrefix(lines[2], "index "), 10, 64)
	if err != nil || index < 0 {
		return nil, errProof
	}
	p := &Proof{Entry: entry, Index: index, Checkpoint: []byte(checkpoint)}
	for _, line := range lines[3:] {
		hash, err := tlog.ParseHash(line)
		if err != nil {
			return nil, errProof
		}
		p.Hashes = append(p.Hashes, hash)
	}
	if string(p.Text()) != string(text) {
		return nil, errProof
	}
	return p, nil
}

// Check checks that the log whose key is one of these has the entry, and gives the checkpoint.
func (p *Proof) Check(keys note.Verifiers) (Checkpoint, error) {
	at, err := openExactly(p.Checkpoint, keys)
	if err == nil {
		err = tlog.CheckRecord(p.Hashes, at.N, at.Hash, p.Index, tlog.RecordHash(p.Entry))
	}
	return at, err
}
