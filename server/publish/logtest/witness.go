package main

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/torchwood"
	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
)

// witnessed has a log of Tessera ask a witness, and prints the cosigned checkpoints as JSON. The log
// is new, in a folder, and signs with the key in a file. Both Tessera and Torchwood verify what the
// witness answers.
func witnessed(ctx context.Context, keyFile, at, verifier, folder string) error {
	secret, err := os.ReadFile(keyFile)
	if err != nil {
		return err
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(secret)))
	if err != nil {
		return err
	}
	witness, err := cosigner(verifier)
	if err != nil {
		return err
	}
	group, err := tessera.NewWitnessGroupFromPolicy(fmt.Appendf(nil, "witness w %s %s\nquorum w\n", verifier, at))
	if err != nil {
		return err
	}
	options := tessera.NewAppendOptions().WithCheckpointSigner(signer).WithCheckpointInterval(100*time.Millisecond).
		WithWitnesses(group, &tessera.WitnessOptions{Timeout: time.Minute})
	driver, err := posix.New(ctx, posix.Config{Path: filepath.Join(folder, "log")})
	if err != nil {
		return err
	}
	appender, shutdown, log, err := tessera.NewAppender(ctx, driver, options)
	if err != nil {
		return err
	}

	// The log grows, as logs do: it publishes only what is cosigned.
	var checkpoints []string
	var trees []torchwood.Checkpoint
	cosigned := func(signed []byte) error {
		n, err := note.Open(signed, note.VerifierList(witness))
		if err != nil {
			return fmt.Errorf("torchwood: %w: %s", err, signed)
		}
		tree, err := torchwood.ParseCheckpoint(n.Text)
		if err != nil {
			return fmt.Errorf("torchwood: %w", err)
		}
		if _, err := torchwood.CosignatureTimestamp(n.Sigs[0]); err != nil {
			return fmt.Errorf("torchwood: %w", err)
		}
		if !group.Satisfied(signed) {
			return fmt.Errorf("tessera: not cosigned: %s", signed)
		}
		checkpoints, trees = append(checkpoints, string(signed)), append(trees, tree)
		return nil
	}
	published := tessera.NewPublicationAwaiter(ctx, log.ReadCheckpoint, 20*time.Millisecond)
	for _, more := range []int{3, 300} {
		var last tessera.IndexFuture
		for i := range more {
			last = appender.Add(ctx, tessera.NewEntry(fmt.Appendf(nil, "entry %d of %d", i, more)))
		}
		_, signed, err := published.Await(ctx, last)
		if err != nil {
			return fmt.Errorf("tessera: %w", err)
		}
		if err := cosigned(signed); err != nil {
			return err
		}
	}
	if err := shutdown(ctx); err != nil {
		return err
	}

	// It asks about the same tree again, with what it may know about the witness: all, nothing, too little.
	early, latest, tree := checkpoints[0], checkpoints[len(checkpoints)-1], trees[len(trees)-1]
	if trees[0].N >= tree.N {
		return fmt.Errorf("a log of %d entries has not grown", tree.N)
	}
	for _, c := range []struct{ seen, answers string }{{latest, "200"}, {"", "409 text/x.tlog.size, 200"}, {early, "409 text/x.tlog.size, 200"}} {
		said := &answers{}
		ask := options.CheckpointPublisher(remembers{log, c.seen}, &http.Client{Transport: said})
		signed, err := ask(ctx, uint64(tree.N), tree.Hash[:])
		if err != nil {
			return fmt.Errorf("tessera: %w", err)
		}
		if err := cosigned(signed); err != nil {
			return err
		}
		if got := strings.Join(*said, ", "); got != c.answers {
			return fmt.Errorf("tessera was answered %s, not %s, when it had seen %q", got, c.answers, c.seen)
		}
	}

	// It signs another root for the same size.
	said := &answers{}
	tree.Hash[0] ^= 1
	signed, err := options.CheckpointPublisher(remembers{log, latest}, &http.Client{Transport: said})(ctx, uint64(tree.N), tree.Hash[:])
	if err == nil || strings.Join(*said, ", ") != "422" {
		return fmt.Errorf("tessera was answered %v for another history: %s", *said, signed)
	}
	return json.NewEncoder(os.Stdout).Encode(checkpoints)
}

// cosigner makes Torchwood's verifier of a witness. Torchwood makes it from a signer alone.
func cosigner(verifier string) (note.Verifier, error) {
	name, rest, _ := strings.Cut(verifier, "+")
	_, word, _ := strings.Cut(rest, "+")
	key, err := base64.StdEncoding.DecodeString(word)
	if err != nil || len(key) != 1+ed25519.PublicKeySize {
		return nil, fmt.Errorf("%s is no key of a witness", verifier)
	}
	signer, err := torchwood.NewCosignatureSigner(name, public(key[1:]))
	if err != nil {
		return nil, err
	}
	if v := signer.Verifier(); v.String() == verifier {
		return v, nil
	}
	return nil, fmt.Errorf("%s is no key of a witness", verifier)
}

// public is the half of a key that verifies.
type public ed25519.PublicKey

func (p public) Public() crypto.PublicKey { return ed25519.PublicKey(p) }

func (public) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, errors.New("this key only verifies")
}

// remembers is a log with the checkpoint that it has published last, "" for none.
type remembers struct {
	tessera.LogReader
	checkpoint string
}

func (r remembers) ReadCheckpoint(context.Context) ([]byte, error) {
	if r.checkpoint == "" {
		return nil, errors.New("none")
	}
	return []byte(r.checkpoint), nil
}

// answers are the statuses that were answered, and the media types of conflicts.
type answers []string

func (a *answers) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	said := fmt.Sprint(res.StatusCode)
	if res.StatusCode == http.StatusConflict {
		said += " " + strings.Join(res.Header["Content-Type"], "; ")
	}
	*a = append(*a, said)
	return res, nil
}
