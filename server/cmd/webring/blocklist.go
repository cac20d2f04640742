package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"webring/server"
	"webring/server/ledger"
)

// blocklistOptions are the flags of `webring blocklist`.
type blocklistOptions struct{ data, reason string }

func (o *blocklistOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring blocklist", flag.ContinueOnError)
	defineData(fs, &o.data, "`folder` of the running origin")
	fs.StringVar(&o.reason, "reason", "", "add: why; it is kept with the entry, and only the operator sees it")
	return fs
}

// blocklist lists and changes what the running origin keeps out of its ring.
func blocklist(args []string, out io.Writer) error {
	var given blocklistOptions
	words, err := parseWords(given.flags(), args, "")
	if err != nil {
		return err
	}
	o := operator(given.data)
	switch {
	case len(words) == 1 && words[0] == "list":
		return o.blocks(out)
	case len(words) == 3 && words[0] == "add":
		if given.reason == "" {
			return errors.New("blocklist add needs --reason")
		}
		return o.block(out, "/blocklist/additions", words, given.reason, "on the blocklist")
	case len(words) == 3 && words[0] == "remove":
		return o.block(out, "/blocklist/removals", words, "", "on the blocklist no longer")
	}
	return misused("blocklist")
}

// block changes the blocklist by the kind and the entry in words.
func (o operator) block(out io.Writer, path string, words []string, reason, done string) error {
	var b ledger.Block
	order := server.Blocking{Kind: ledger.BlockKind(words[1]), Text: words[2], Reason: reason, By: asking()}
	if err := o.ask(http.MethodPost, path, order, &b); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s %s is %s\n", b.Kind, shownEntry(b), done)
	return err
}

// shownEntry is an entry as it is compared, except for words: those are written with one
// letter for all that look alike, which is not for people.
func shownEntry(b ledger.Block) string {
	if b.Kind == ledger.BlockWord {
		return fmt.Sprintf("%q", b.Text)
	}
	return b.Value
}

func (o operator) blocks(out io.Writer) error {
	var all []ledger.Block
	if err := o.ask(http.MethodGet, "/blocklist", nil, &all); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "KIND\tENTRY\tADDED\tBY\tREASON")
	for _, b := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%q\n", b.Kind, shownEntry(b), b.At.UTC().Format(time.RFC3339), b.By, b.Reason)
	}
	return w.Flush()
}
