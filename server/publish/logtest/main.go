// Command logtest reads a log with tools that other people have made. It says in one line what it
// read, or why it could not. Or it has a log of Tessera ask a witness, and prints what that cosigned.
//
//	logtest URL VERIFIER
//	logtest witness KEYFILE URL VERIFIER FOLDER
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"filippo.io/torchwood"
	"github.com/transparency-dev/formats/proof"
	merkle "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if args[0] == "witness" {
		return witnessed(ctx, args[1], args[2], args[3], args[4])
	}
	size, err := read(ctx, args[0], args[1])
	if err != nil {
		return err
	}
	fmt.Printf("read %d entries\n", size)
	return nil
}

// read checks the whole log with Tessera, and reads each entry with Torchwood.
func read(ctx context.Context, at, verifier string) (size int64, err error) {
	key, err := note.NewVerifier(verifier)
	if err != nil {
		return 0, err
	}
	base, err := url.Parse(strings.TrimSuffix(at, "/") + "/")
	if err != nil {
		return 0, err
	}
	fetcher, err := client.NewHTTPFetcher(base, nil)
	if err != nil {
		return 0, err
	}
	if err := fsck.New(key.Name(), key, fetcher, leaves, fsck.Opts{N: 4}).Check(ctx); err != nil {
		return 0, fmt.Errorf("tessera: %w", err)
	}

	tiles, err := torchwood.NewTileFetcher(base.String(), torchwood.WithConcurrencyLimit(4))
	if err != nil {
		return 0, err
	}
	signed, err := tiles.ReadEndpoint(ctx, "checkpoint")
	if err != nil {
		return 0, err
	}
	n, err := note.Open(signed, note.VerifierList(key))
	if err != nil {
		return 0, err
	}
	to, err := torchwood.ParseCheckpoint(n.Text)
	if err != nil {
		return 0, fmt.Errorf("torchwood: %w", err)
	}
	reader, err := torchwood.NewClient(tiles)
	if err != nil {
		return 0, err
	}
	// The first round may leave the partial bundle out.
	for round := 0; round < 2 && size < to.N; round++ {
		for i, entry := range reader.Entries(ctx, to.Tree, size) {
			if i != size || len(entry) == 0 {
				return size, fmt.Errorf("torchwood: entry %d instead of %d", i, size)
			}
			size++
		}
		if err := reader.Err(); err != nil {
			return size, fmt.Errorf("torchwood: %w", err)
		}
	}
	if size != to.N {
		return size, fmt.Errorf("torchwood: %d of %d entries", size, to.N)
	}
	for _, i := range []int64{0, to.N / 2, to.N - 1} {
		entry, proof, err := reader.Entry(ctx, to.Tree, i)
		if err != nil {
			return size, fmt.Errorf("torchwood: %w", err)
		}
		if err := tlog.CheckRecord(proof, to.N, to.Hash, i, tlog.RecordHash(entry)); err != nil {
			return size, err
		}
	}
	return size, proofs(base.String(), key, to.N/2)
}

// proofs reads the proof that the log serves of an entry, with the parser of the formats' authors.
// It must hold, and must not with any bit of it flipped.
func proofs(at string, key note.Verifier, index int64) error {
	answer, err := http.Get(fmt.Sprintf("%sproof/%d", at, index))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if err := holds(text, key, uint64(index)); err != nil {
		return fmt.Errorf("formats: %w", err)
	}
	for bit := range 8 * len(text) {
		altered := bytes.Clone(text)
		altered[bit/8] ^= 1 << (bit % 8)
		if holds(altered, key, uint64(index)) == nil {
			return fmt.Errorf("formats: the proof holds with bit %d of byte %d flipped", bit%8, bit/8)
		}
	}
	return nil
}

// holds checks a proof. It takes one spelling of base64 alone: others decode to the same.
func holds(text []byte, key note.Verifier, index uint64) error {
	var p proof.TLogProof
	if err := p.Unmarshal(text); err != nil {
		return err
	}
	if p.Index != index || !bytes.Equal(p.Marshal(), text) {
		return errors.New("another proof")
	}
	n, err := note.Open(p.Checkpoint, note.VerifierList(key))
	if err != nil {
		return err
	}
	if sig, err := base64.StdEncoding.Strict().DecodeString(n.Sigs[0].Base64); err != nil || len(n.UnverifiedSigs) > 0 || len(sig) == 0 {
		return errors.New("another signature")
	}
	to, err := torchwood.ParseCheckpoint(n.Text)
	if err != nil {
		return err
	}
	hashes := make([][]byte, len(p.Hashes))
	for i := range p.Hashes {
		hashes[i] = p.Hashes[i][:]
	}
	return merkle.VerifyInclusion(rfc6962.DefaultHasher, p.Index, uint64(to.N), rfc6962.DefaultHasher.HashLeaf(p.ExtraData), hashes, to.Hash[:])
}

// leaves gives the leaf hashes of a bundle.
func leaves(bundle []byte) (hashes [][]byte, err error) {
	var b api.EntryBundle
	if err := b.UnmarshalText(bundle); err != nil {
		return nil, err
	}
	for _, entry := range b.Entries {
		hashes = append(hashes, rfc6962.DefaultHasher.HashLeaf(entry))
	}
	return hashes, nil
}
