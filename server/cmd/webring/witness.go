package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"webring/core/snap"
	"webring/edge"
	"webring/edge/durable"
	"webring/edge/follow"
	"webring/edge/tlog"
	"webring/edge/witness"
)

// readPolicy reads the file of a policy that a flag names, nil if it names none.
func readPolicy(flag, path string) (*tlog.Policy, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	policy, err := tlog.ParsePolicy(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", flag, path, err)
	}
	return policy, nil
}

// printCosigner prints the secret key of a new witness. Its name is in policies and cosignatures, and
// should be a URL of the witness without its scheme.
func printCosigner(out io.Writer, name string) error {
	if !snap.ValidOrigin(name) {
		return fmt.Errorf("%q cannot name a witness: give a URL without its scheme, such as witness.example.org/ring", name)
	}
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed) // never fails
	_, err := fmt.Fprintln(out, tlog.FormatCosigner(name, seed))
	return err
}

// openCosigner reads the key of a witness.
func openCosigner(path string) (*tlog.Cosigner, error) {
	text, err := durable.ReadSecret(path)
	if err != nil {
		return nil, fmt.Errorf("--witness-key: %w", err)
	}
	c, err := tlog.NewCosigner(strings.TrimSpace(string(text)), time.Now)
	if err != nil {
		return nil, fmt.Errorf("--witness-key: %s: %w: webring key witness NAME prints one", path, err)
	}
	return c, nil
}

// witnessPath is the folder of what an edge has cosigned as a witness.
func witnessPath(data string) string { return filepath.Join(data, "witness") }

// asWitness adds to what an edge answers the requests to a witness of its ring.
func asWitness(cfg *edge.Config, keyFile, data string, r *follow.Replica, log *slog.Logger) (verifier string, err error) {
	origin, keys := r.Origin()
	signer, err := openCosigner(keyFile)
	if err != nil {
		return "", err
	}
	w, err := witness.Open(witness.Config{Dir: witnessPath(data), Origin: origin, Keys: keys, Signer: signer, Log: log})
	if err != nil {
		return "", err
	}
	cfg.Others["POST /add-checkpoint"] = func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
		a := w.Add(edge.Body(ctx))
		ctx.SetStatusCode(a.Status)
		ctx.SetContentType(a.Media)
		ctx.SetBody(a.Body)
	}
	cfg.Others["GET /"+witness.OriginHash(origin)+"/checkpoint"] = func(ctx *fasthttp.RequestCtx, _ string, _ bool) {
		ctx.SetContentType("text/plain; charset=utf-8")
		if latest := w.Latest(); latest != nil {
			ctx.SetBody(latest)
			return
		}
		ctx.SetStatusCode(fasthttp.StatusNotFound)
		ctx.SetBodyString("This witness has not cosigned a checkpoint yet.\n")
	}
	return signer.Verifier(), nil
}
