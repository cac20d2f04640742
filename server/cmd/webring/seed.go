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
	"webring/server"
	"webring/server/ledger/synthetic"
)

// seed writes a ledger of made-up members and bids, for development and
// measurement.
func seed(fs *flag.FlagSet) action {
	members := fs.Int("members", 1000, "`number` of members")
	data := fs.String("data", "./data", "`folder` of the new ledger; it must not hold one")
	number := fs.Uint64("seed", 1, "`number` that decides everything but the present time")
	hard := fs.Bool("hard-names", false, "names that are hard to show: of 80 characters, right to left, with stacked marks, of markup")
	return func(words []string, out io.Writer) error {
		var o options
		if err := parse(o.flags(), nil); err != nil { // what serve takes for the rules unless told otherwise
			return err
		}
		switch {
		case len(words) > 0:
			return errUsage
		case *members < 1 || *members > 50_000_000:
			return errors.New("--members must be from 1 to 50000000")
		}
		if err := synthetic.Vacant(*data); err != nil {
			return err
		}
		if err := os.MkdirAll(*data, 0o700); err != nil {
			return err
		}
		// Half a history is of no use.
		work, keep, end, err := workFolder(*data, seeding)
		if err != nil {
			return err
		}
		defer os.RemoveAll(work)
		defer end()
		began := time.Now()
		events, err := synthetic.Write(synthetic.Config{Dir: work, Members: *members, Number: *number, End: began, Hard: *hard,
			Rules: core.Rules{Name: o.name, BaseURL: o.baseURL, Fee: int64(o.fee), MinBid: int64(o.minBid), Grace: seconds(o.grace), Decay: seconds(o.decay),
				Scorer: o.score.Spec, RequiredScore: requiredScore},
			Room: (&server.Volume{Dir: work}).AtLeast(server.StartFloor), Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		if err != nil {
			return err
		}
		keep() // from here on a signal must not remove what was moved
		if err := synthetic.Install(work, *data); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s holds a synthetic ring of %d members, %d events, made in %s\n", *data, *members, events, time.Since(began).Round(time.Millisecond))
		return err
	}
}
