package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"webring/server/sites/fetch"
	"webring/server/sites/score"
	"webring/server/sites/score/local"
)

// scoreSite scans a site and prints its report. Nothing is stored.
func scoreSite(fs *flag.FlagSet) action {
	var sites sitesFlags
	sites.define(fs)
	asJSON := fs.Bool("json", false, "print the report as JSON")
	return func(words []string, out io.Writer) error {
		if len(words) != 1 {
			return errUsage
		}
		if err := sites.validate(); err != nil {
			return err
		}
		url, _, err := sites.policy().Canonical(words[0])
		if err != nil {
			return err
		}
		cfg, err := sites.fetch()
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		ctx, cancel := context.WithTimeout(ctx, local.ScanTime+10*time.Second)
		defer cancel()
		client := fetch.New(cfg)
		defer client.Close()
		r, err := local.New(client, requiredScore, nil, nil).Scan(ctx, url)
		switch {
		case errors.As(err, new(*score.NotScorable)):
			return fmt.Errorf("%s has no score: %w", url, err)
		case err != nil:
			return err
		}
		text := r.Markdown()
		if *asJSON {
			text = r.JSON()
		}
		_, err = out.Write(text)
		return err
	}
}
