package witness

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/mod/sumdb/note"
	xtlog "golang.org/x/mod/sumdb/tlog"

	"webring/edge/durable"
	"webring/edge/tlog"
)

const (
	// MaxRequest is the longest request in bytes.
	MaxRequest = 16 << 10
	// maxProof is how many hashes a consistency proof may have.
	maxProof = 63
	// sizeMedia is the media type of the size in a conflict.
	sizeMedia = "text/x.tlog.size"
	textMedia = "text/plain; charset=utf-8"
)

// Config says what a [Witness] cosigns, and where it keeps what it has cosigned.
type Config struct {
	// Dir is the folder of the checkpoints. It is made if absent, and belongs to the witness. It
	// must never go back to an earlier state: the witness would cosign two histories.
	Dir string
	// Origin is the origin line of the log, and Keys verify the log's signatures.
	Origin string
	Keys   note.Verifiers
	Signer *tlog.Cosigner
	Log    *slog.Logger // receives what operators should see
}

// Witness cosigns the checkpoints of one log. It may be used concurrently.
type Witness struct {
	c Config

	mu     sync.Mutex
	latest []byte // the checkpoint that was cosigned last, with both signatures; nil for none
	at     tlog.Checkpoint
	// doubted is the last one that a proof did not lead to.
	doubted tlog.Checkpoint
}

// Open opens a witness. It fails if what it has cosigned before cannot be read: without that it
// could cosign another history.
func Open(c Config) (*Witness, error) {
	w := &Witness{c: c, at: tlog.Checkpoint{Origin: c.Origin, Tree: emptyTree}}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("witness: %w", err)
	}
	signed, err := os.ReadFile(w.path())
	if errors.Is(err, fs.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return nil, fmt.Errorf("witness: %w", err)
	}
	n, err := note.Open(signed, note.VerifierList(c.Signer.Key()))
	if err == nil {
		w.latest = signed
		w.at, err = tlog.ParseCheckpoint(n.Text)
	}
	if err != nil || w.at.Origin != c.Origin {
		return nil, fmt.Errorf("witness: %s is damaged, or was cosigned with another key: without it this witness could cosign another history of the log", w.path())
	}
	return w, nil
}

var emptyTree = xtlog.Tree{N: 0, Hash: sha256.Sum256(nil)}

// OriginHash is how paths name a log.
func OriginHash(origin string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(origin))) }

// path is the file of the checkpoint that was cosigned last.
func (w *Witness) path() string { return filepath.Join(w.c.Dir, OriginHash(w.c.Origin)) }

// Latest is the checkpoint that was cosigned last, nil before the first.
func (w *Witness) Latest() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.latest
}

// Answer is the answer to a request.
type Answer struct {
	Status int
	Media  string
	Body   []byte
}

func refusal(status int, why string) Answer { return Answer{status, textMedia, []byte(why + "\n")} }

// request is a request that was read.
type request struct {
	old    int64
	proof  xtlog.TreeProof
	signed []byte
}

// parse reads the body of a request.
func parse(body []byte) (r request, ok bool) {
	head, signed, ok := bytes.Cut(body, []byte("\n\n"))
	if !ok || len(body) > MaxRequest {
		return r, false
	}
	lines := strings.Split(string(head), "\n")
	word, ok := strings.CutPrefix(lines[0], "old ")
	old, err := strconv.ParseInt(word, 10, 64)
	if !ok || err != nil || old < 0 || strconv.FormatInt(old, 10) != word || len(lines)-1 > maxProof {
		return r, false
	}
	for _, line := range lines[1:] {
		hash, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(hash) != xtlog.HashSize || len(line) != base64.StdEncoding.EncodedLen(xtlog.HashSize) {
			return r, false
		}
		r.proof = append(r.proof, xtlog.Hash(hash))
	}
	r.old, r.signed = old, signed
	return r, true
}

// Add answers the request add-checkpoint: a checkpoint, with the proof that it continues the one
// that was cosigned last. The answer has a cosignature only when the checkpoint is on disk.
func (w *Witness) Add(body []byte) Answer {
	r, ok := parse(body)
	if !ok {
		return refusal(400, "The body is an old size, up to 63 hashes of a consistency proof, an empty line and a checkpoint.")
	}
	if origin, _, _ := strings.Cut(string(r.signed), "\n"); origin != w.c.Origin {
		return refusal(404, "This witness does not know this log.")
	}
	n, err := note.Open(r.signed, w.c.Keys)
	if _, ok := errors.AsType[*note.UnverifiedNoteError](err); ok {
		return refusal(403, "No key of this log that the witness trusts has signed the checkpoint.")
	}
	if _, ok := errors.AsType[*note.InvalidSignatureError](err); ok {
		return refusal(403, "A signature of the log is wrong.")
	}
	if err != nil {
		return refusal(400, "The checkpoint is no signed note.")
	}
	at, err := tlog.ParseCheckpoint(n.Text)
	if err != nil || r.old > at.N {
		return refusal(400, "The checkpoint is malformed, or smaller than the old size.")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case at.N == w.at.N && at.Hash != w.at.Hash && w.latest != nil:
		w.contradicted(n)
		if r.old == w.at.N {
			return refusal(422, "The log has signed another root for this size.")
		}
	case at.N == 0 && at.Hash != emptyTree.Hash:
		return refusal(422, "This is not the root of the empty tree.")
	}
	if r.old != w.at.N {
		return Answer{409, sizeMedia, fmt.Appendln(nil, w.at.N)}
	}
	if !continues(r, at.Tree, w.at.Tree) {
		// Anybody can send a checkpoint of the log with a wrong proof, so this is no fault of the log yet.
		if w.doubted != at {
			w.doubted = at
			w.c.Log.Info("witness: a checkpoint that the log has signed does not continue the last one, or came with a wrong proof; it is not cosigned",
				"origin", w.c.Origin, "cosigned", w.at.N, "size", at.N, "root", at.Hash.String())
		}
		return refusal(422, "The consistency proof does not lead from the old size to this checkpoint.")
	}
	signed, err := note.Sign(&note.Note{Text: n.Text, Sigs: n.Sigs}, w.c.Signer)
	// What is on disk already need not be written again: anybody may send it again.
	news := at != w.at || !bytes.HasPrefix(w.latest, []byte(n.Text+"\n"))
	if err == nil && news {
		err = durable.Write(w.path(), signed, 0o600)
	}
	if err != nil {
		w.c.Log.Error("witness: a checkpoint cannot be kept; it is not cosigned", "origin", w.c.Origin, "err", err)
		return refusal(500, "The checkpoint cannot be kept here, so it is not cosigned.")
	}
	if news {
		w.latest, w.at = signed, at
	}
	all, err := note.Open(signed, note.VerifierList(w.c.Signer.Key()))
	if err != nil {
		panic(err) // it was signed with this key
	}
	return Answer{200, textMedia, fmt.Appendf(nil, "— %s %s\n", all.Sigs[0].Name, all.Sigs[0].Base64)}
}

// continues says whether a request proves that one tree continues another.
func continues(r request, to, from xtlog.Tree) bool {
	switch from.N {
	case 0:
		return len(r.proof) == 0
	case to.N:
		return len(r.proof) == 0 && to.Hash == from.Hash
	}
	return xtlog.CheckTree(r.proof, to.N, to.Hash, from.N, from.Hash) == nil
}

// contradicted keeps the proof that the log has signed two roots for the size that was cosigned
// last. The first such proof stays. The caller holds mu.
func (w *Witness) contradicted(n *note.Note) {
	path := w.path() + "-contradiction"
	if _, err := os.Lstat(path); err == nil {
		return
	}
	other, err := note.Sign(&note.Note{Text: n.Text, Sigs: n.Sigs})
	if err == nil {
		err = durable.Write(path, (&tlog.Contradiction{Earlier: w.latest, Later: other}).Text(), 0o600)
	}
	w.c.Log.Error("witness: the log has signed two histories of the same size: it misbehaves, or its key is in other hands",
		"origin", w.c.Origin, "size", w.at.N, "evidence", path, "err", err)
}
