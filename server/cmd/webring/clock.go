package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"webring/server"
	"webring/server/ledger"
)

// clockPath is the file by which the operator vouches for the clock of a machine.
func clockPath(data string) string { return filepath.Join(data, "clock") }

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
	words, err := parseWords(given.flags(), args, "")
	if err != nil {
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
