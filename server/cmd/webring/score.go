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

	"webring/server/fetch"
	"webring/server/score"
	"webring/server/score/local"
)

// scoreSite scans a site and prints its report. Nothing is stored.
func scoreSite(args []string, out io.Writer) error {
	var sites sitesFlags
	var asJSON bool
	fs := flag.NewFlagSet("webring score", flag.ContinueOnError)
	sites.define(fs)
	fs.BoolVar(&asJSON, "json", false, "print the report as JSON")
	words, err := parseMixed(fs, args)
	if err != nil {
		return err
	}
	if len(words) != 1 {
		return misused("score")
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, local.ScanTime+10*time.Second)
	defer cancel()
	client := fetch.New(cfg)
	defer client.Close()
	r, err := local.New(client, nil).Scan(ctx, url)
	switch {
	case errors.As(err, new(*score.NotScorable)):
		return fmt.Errorf("%s has no score: %w", url, err)
	case err != nil:
		return err
	}
	text := r.Markdown()
	if asJSON {
		text = r.JSON()
	}
	_, err = out.Write(text)
	return err
}
