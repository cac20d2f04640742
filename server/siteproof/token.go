package siteproof

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"webring/core"
	"webring/server/fetch"
)

const (
	// File is where a site shows tokens, one in a line.
	File = "/.well-known/webring-online.txt"
	// Label is the label below which a host has tokens in TXT records.
	Label = "_webring-online"

	// maxFile is how much of a file is read, in bytes: hundreds of tokens.
	maxFile = 64 << 10
	agent   = "webring/1 (looks for the proof of a claim)"
)

// Place says where the site at a member's URL shows tokens.
type Place struct {
	URL  string // of the file
	Name string // of TXT records
	Host string // the host without a leading "www."
}

// PlaceOf gives the place for a member's URL, in the form in which the ring keeps it.
func PlaceOf(site string) (Place, error) {
	u, err := url.Parse(site)
	if err != nil || u.Host == "" {
		return Place{}, errors.New("siteproof: the member has no URL")
	}
	host := string(core.KeyHost(core.AppendKey(nil, []byte(site))))
	return Place{URL: u.Scheme + "://" + u.Host + File, Name: Label + "." + host, Host: host}, nil
}

// NotFoundError says of each place why it does not show a token.
type NotFoundError struct{ File, DNS error }

// Error may be shown to callers.
func (e *NotFoundError) Error() string {
	return "the file: " + strings.TrimPrefix(e.File.Error(), "fetch: ") + "; the TXT record: " + strings.TrimPrefix(e.DNS.Error(), "fetch: ")
}

var errAbsent = errors.New("it does not hold the token")

// Find says where a site shows a token: in its file, or in its DNS. It looks at both anew.
// It fails with a [*NotFoundError], or with a [*fetch.Busy] if it could not look.
func Find(ctx context.Context, client *fetch.Client, at Place, token string) (core.Proof, error) {
	inDNS := make(chan error, 1)
	go func() { inDNS <- findDNS(ctx, client, at, token) }()
	file := findFile(ctx, client, at, token)
	dns := <-inDNS
	var busy *fetch.Busy
	switch {
	case file == nil:
		return core.ByFile, nil
	case dns == nil:
		return core.ByDNS, nil
	case errors.As(file, &busy), errors.As(dns, &busy):
		return 0, busy
	}
	return 0, &NotFoundError{file, dns}
}

func findFile(ctx context.Context, client *fetch.Client, at Place, token string) error {
	got, err := client.Get(ctx, fetch.Request{URL: at.URL, Accept: "text/plain", UserAgent: agent, MaxBody: maxFile})
	if err != nil {
		return err
	}
	if got.Status != 200 {
		return fmt.Errorf("the site answers %d", got.Status)
	}
	const mark = "\ufeff" // with which some editors begin a file
	for line := range strings.Lines(strings.TrimPrefix(string(got.Body), mark)) {
		if strings.TrimSpace(line) == token {
			return nil
		}
	}
	return errAbsent
}

func findDNS(ctx context.Context, client *fetch.Client, at Place, token string) error {
	texts, err := client.TXT(ctx, Label, at.Host)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(texts, func(text string) bool { return strings.TrimSpace(text) == token }) {
		return errAbsent
	}
	return nil
}
