package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"webring/core"
	"webring/server/ledger/synthetic"
)

// seedOptions are the flags of `webring seed`.
type seedOptions struct {
	members int
	data    string
	number  uint64
	hard    bool
}

func (o *seedOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring seed", flag.ContinueOnError)
	fs.IntVar(&o.members, "members", 1000, "`number` of members")
	fs.StringVar(&o.data, "data", "./data", "`folder` of the new ledger; it must not hold one")
	fs.Uint64Var(&o.number, "seed", 1, "`number` that decides everything but the present time")
	fs.BoolVar(&o.hard, "hard-names", false, "names that are hard to show: of 80 characters, right to left, with stacked marks, of markup")
	return fs
}

// seed writes a ledger of made-up members and bids, for development and
// measurement.
func seed(args []string, out io.Writer) error {
	var o options
	defaults := o.flags() // what serve takes for the rules unless told otherwise
	if err := parse(defaults, nil); err != nil {
		return err
	}
	var given seedOptions
	if err := parse(given.flags(), args); err != nil {
		return err
	}
	if given.members < 1 || given.members > 50_000_000 {
		return errors.New("--members must be from 1 to 50000000")
	}
	if err := synthetic.Vacant(given.data); err != nil {
		return err
	}
	if err := os.MkdirAll(given.data, 0o700); err != nil {
		return err
	}
	// Half a history is of no use.
	work, keep, end, err := workFolder(given.data, ".seeding-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	defer end()
	began := time.Now()
	events, err := synthetic.Write(synthetic.Config{Dir: work, Members: given.members, Number: given.number, End: began, Hard: given.hard,
		Rules: core.Rules{Name: o.name, BaseURL: o.baseURL, Fee: int64(o.fee), MinBid: int64(o.minBid), Grace: seconds(o.grace), Decay: seconds(o.decay),
			Scorer: o.score.spec, RequiredScore: requiredScore},
		Room: (&volume{dir: work}).atLeast(startFloor), Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return err
	}
	keep() // from here on a signal must not remove what was moved
	if err := synthetic.Install(work, given.data); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s holds a synthetic ring of %d members, %d events, made in %s\n", given.data, given.members, events, time.Since(began).Round(time.Millisecond))
	return nil
}
