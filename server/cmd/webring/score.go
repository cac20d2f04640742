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

// scoreOptions are the flags of `webring score`.
type scoreOptions struct {
	sites sitesFlags
	json  bool
}

func (o *scoreOptions) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("webring score", flag.ContinueOnError)
	o.sites.define(fs)
	fs.BoolVar(&o.json, "json", false, "print the report as JSON")
	return fs
}

// scoreSite scans a site and prints its report. Nothing is stored.
func scoreSite(args []string, out io.Writer) error {
	var o scoreOptions
	words, err := parseWords(o.flags(), args, "")
	if err != nil {
		return err
	}
	if len(words) != 1 {
		return misused("score")
	}
	if err := o.sites.validate(); err != nil {
		return err
	}
	url, _, err := o.sites.policy().Canonical(words[0])
	if err != nil {
		return err
	}
	cfg, err := o.sites.fetch()
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
	if o.json {
		text = r.JSON()
	}
	_, err = out.Write(text)
	return err
}
