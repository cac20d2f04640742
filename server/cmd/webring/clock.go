package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"webring/server"
	"webring/server/ledger"
)

// clockPath is the file by which the operator vouches for the clock of a machine.
func clockPath(data string) string { return filepath.Join(data, "clock") }

// askTheTime says which instants are certain, before anything is written: the last event, and
// until, up to which checkpoints may have been signed, in milliseconds. Of a new ring nothing
// is, and a network that is silent keeps none from beginning. If the clock is not
// believed by them alone, or the rules change, the payment networks are asked for their newest
// blocks. It fails if the rules cannot change by this clock, or ctx has ended: an operator
// who stops a start may have seen that its flags are wrong.
func (n *originNode) askTheTime(ctx context.Context, books *ledger.Ledger, until int64, changes bool) error {
	books.View(func(v *ledger.View) {
		switch st := v.State(); {
		case st.Seq() > 0:
			n.o.stamps.Kept(time.UnixMilli(max(st.LastStamp(), until)))
		case len(n.methods) == 0:
			n.o.stamps.Kept(n.o.now()) // a new ring has nothing to lose
		}
	})
	if changes || books.CheckClock() != nil {
		var asked sync.WaitGroup
		for _, m := range n.methods {
			asked.Go(func() {
				within, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				block, _ := m.Clock(within) // a network that does not answer tells nothing
				n.o.stamps.Told("the newest block of "+m.Network(), block)
			})
		}
		asked.Wait()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	n.answers.Tick(n.o.now()) // readers are shown the ring as of then
	switch err := books.CheckClock(); {
	case err != nil && changes:
		return fmt.Errorf("the ring's flags have changed and need an event: %w", err)
	case err != nil:
		n.log.Error("nothing is written, and no payment is taken", "err", err)
	}
	return nil
}

// clockOptions are the flags of `webring clock`.
type clockOptions struct{ data, reason string }

func (o *clockOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring clock", flag.ContinueOnError)
	defineData(fs, &o.data, "`folder` of the origin")
	fs.StringVar(&o.reason, "reason", "", "back: why; it is kept in the ledger, which is public")
	return fs
}

// changeClock sets the clock of the ring back, or vouches for that of this machine.
func changeClock(args []string, out io.Writer) error {
	var given clockOptions
	fs := given.flags()
	words, err := parseMixed(fs, args)
	if err != nil {
		return err
	}
	if err := belong(fs, words, map[string]string{"reason": "back"}); err != nil {
		return err
	}
	switch {
	case len(words) == 1 && words[0] == "trust":
		if err := ledger.Vouch(clockPath(given.data)); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "the origin on %s believes for an hour that it is %s now\n", given.data, time.Now().UTC().Format(time.RFC3339))
	case len(words) == 1 && words[0] == "back":
		var done server.Clock
		if err := operator(given.data).ask(http.MethodPost, "/clock/back", server.Moderation{Reason: given.reason, By: asking()}, &done); err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "the clock of the ring was set back from %s to %s; nothing is lost\n", done.From.Format(time.RFC3339), done.To.Format(time.RFC3339))
	default:
		return misused("clock")
	}
	return err
}

// testClock is the clock of the process. It is ahead by the duration that
// WEBRING_TEST_CLOCK names, or behind if that is negative: "7s", "-3s". As
// [failpoints], it is for the project's own tests and needs --dev.
func testClock(o *options, log *slog.Logger) func() time.Time {
	ahead, err := time.ParseDuration(os.Getenv("WEBRING_TEST_CLOCK"))
	if err != nil || !o.sites.dev {
		return time.Now
	}
	log.Warn("the clock of this process is set wrong for a test", "ahead", ahead)
	return func() time.Time { return time.Now().Add(ahead) }
}

// testUnfenced says whether transactions of a cluster leave out what makes them safe, so
// that a test which finds nothing otherwise must find something now. It needs
// WEBRING_TEST_UNFENCED=yes, and --dev.
func testUnfenced(o *options) bool {
	return o.sites.dev && os.Getenv("WEBRING_TEST_UNFENCED") == "yes"
}
