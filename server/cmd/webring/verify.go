package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"webring/server"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
	"webring/server/paid/form"
)

// verifyOptions are the flags of `webring verify`.
type verifyOptions struct {
	data     string
	chain    bool
	capacity int
}

func (o *verifyOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring verify", flag.ContinueOnError)
	defineData(fs, &o.data, "`folder` of the origin, running or not")
	fs.BoolVar(&o.chain, "chain", false, "ask the payment networks about every transaction; needs the running origin")
	fs.IntVar(&o.capacity, "capacity", 1_000_000, "`members` that can ever join, as for serve")
	return fs
}

// verifyOrigin recomputes everything: of the running origin through its socket,
// of a stopped one or a backup on a copy, so that nothing is changed.
func verifyOrigin(args []string, out io.Writer) error {
	var o verifyOptions
	words, err := parseWords(o.flags(), args, "")
	switch {
	case err != nil:
		return err
	case len(words) > 1:
		return misused("verify")
	case len(words) == 1 && o.chain:
		return errors.New("--chain needs the running origin, which knows the payment networks; a backup is verified without it")
	case len(words) == 0:
		path := "/verify"
		if o.chain {
			path += "?chain=yes"
		}
		var v server.Verified
		if err := operator(o.data).ask(http.MethodGet, path, nil, &v); !errors.Is(err, errNotRunning) || o.chain {
			if err != nil {
				return err
			}
			return report(&v, out)
		}
	}
	work, err := os.MkdirTemp("", "webring-verify-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	_, end := removeOnSignal(work)
	defer end()
	if err := room(work, startFloor); err != nil {
		return fmt.Errorf("%w, or have TMPDIR name another folder", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	var books *ledger.Ledger
	var closeBooks func() error
	if len(words) == 1 {
		books, closeBooks, err = unpack(words[0], work, o.capacity, log)
	} else {
		books, closeBooks, err = openCopy(o.data, work, o.capacity, log)
	}
	if err != nil {
		return err
	}
	return errors.Join(audit(books, out), closeBooks())
}

// openCopy opens a copy of a stopped origin's ledger: opening writes, which a
// folder that can only be read does not allow. An origin that starts or stops
// has no socket, but changes the files.
func openCopy(data, work string, capacity int, log *slog.Logger) (*ledger.Ledger, func() error, error) {
	store, err := copyStore(data, work, log)
	if err != nil {
		return nil, nil, err
	}
	return openBooks(store, ledger.Config{HeadPath: filepath.Join(work, "head"), Capacity: capacity})
}

// copyStore copies head and store, and opens the copy. No origin can start while it copies.
func copyStore(data, work string, log *slog.Logger) (_ *badgerstore.Store, err error) {
	lock, err := badgerstore.Lock(filepath.Join(data, "ledger"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	head, err := os.ReadFile(filepath.Join(data, "head"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(work, "head"), head, 0o600); err != nil {
		return nil, err
	}
	return badgerstore.OpenCopy(filepath.Join(data, "ledger"), filepath.Join(work, "ledger"), log)
}

func audit(books *ledger.Ledger, out io.Writer) error {
	a, err := books.Audit(context.Background())
	if err != nil {
		return err
	}
	return report(&server.Verified{Audit: *a}, out)
}

// errFindings is the error of a verification that found something.
var errFindings = errors.New("what is stored does not agree with itself, or with the chain")

// errUnanswered is the error of one that could not look at everything.
var errUnanswered = errors.New("a payment network that is needed gave no answer, has not decided, or is not configured; verify again when that is put right")

func report(v *server.Verified, out io.Writer) error {
	fmt.Fprintf(out, "%d events, tree %s, %d members joined, paid %s USD, voided %s USD; payments: %d applied, %d open, %d failed; %d events without a stored payment\n",
		v.Events, v.Root, v.Members, form.FormatUSD(v.Paid), form.FormatUSD(v.Voided), v.Applied, v.Open, v.Failed, v.Alone)
	findings := v.Findings
	if v.Chain != nil {
		fmt.Fprintf(out, "%d transactions asked for, %d without an answer\n", v.Chain.Asked, v.Chain.Unknown)
		findings = append(findings, v.Chain.Findings...)
	}
	for _, f := range findings {
		fmt.Fprintln(out, f)
	}
	switch {
	case len(findings) > 0:
		return errFindings
	case v.Chain != nil && v.Chain.Unknown > 0:
		fmt.Fprintln(out, "what was answered agrees")
		return errUnanswered
	}
	_, err := fmt.Fprintln(out, "everything agrees")
	return err
}
