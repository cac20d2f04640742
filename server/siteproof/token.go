package siteproof

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"webring/core"
	"webring/server/fetch"
	"webring/server/markup"
)

const (
	// File is where a site shows tokens, one in a line.
	File = "/.well-known/webring-online.txt"
	// Label is the label below which a host has tokens in TXT records.
	Label = "_webring-online"

	// claims is what calls itself so when it looks for the token of a claim.
	claims = "webring/1 (looks for the proof of a claim)"

	// maxFile is how much of a file is read, in bytes: hundreds of tokens.
	maxFile = 64 << 10
)

// Client reads strangers' sites: a [fetch.Client].
type Client interface {
	Get(ctx context.Context, r fetch.Request) (*fetch.Response, error)
	TXT(ctx context.Context, label, host string) ([]string, error)
}

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

var errLong = fmt.Errorf("its first %d bytes do not hold the token", maxFile)

// noFileError is errAbsent by the status of a file that is not there.
type noFileError int

func (e noFileError) Error() string        { return fmt.Sprintf("the site answers %d", int(e)) }
func (e noFileError) Is(target error) bool { return target == errAbsent }

// Find says where a site shows a token: in its file, or in its DNS. It looks at both anew.
// It fails with a [*NotFoundError], or with a [*fetch.Busy] if it could not look.
func Find(ctx context.Context, client Client, at Place, token string) (core.Proof, error) {
	file, dns := look(ctx, client, at, claims, func(text string) bool { return text == token })
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

// Names says where a site shows a token that names an account, 0 if nowhere. known is false if
// it may show one and could not be read. agent is what the look calls itself.
//
// It does not ask by which key, and for which member, a token was made: whoever writes to the
// site has named the account. So a token stays good when its key is gone.
func Names(ctx context.Context, client Client, at Place, account core.Account, agent string) (proof core.Proof, known bool) {
	file, dns := look(ctx, client, at, agent, func(text string) bool {
		token, err := base64.RawURLEncoding.DecodeString(text)
		return err == nil && len(token) > len(account) && core.Account(token[:len(account)]) == account
	})
	switch {
	case file == nil:
		return core.ByFile, true
	case dns == nil:
		return core.ByDNS, true
	}
	return 0, errors.Is(file, errAbsent) && errors.Is(dns, errAbsent)
}

// look looks for a text in both places. Errors match errAbsent where it certainly is not.
func look(ctx context.Context, client Client, at Place, agent string, is func(text string) bool) (file, dns error) {
	inDNS := make(chan error, 1)
	go func() { inDNS <- findDNS(ctx, client, at, is) }()
	file = findFile(ctx, client, at, agent, is)
	return file, <-inDNS
}

func findFile(ctx context.Context, client Client, at Place, agent string, is func(text string) bool) error {
	got, err := client.Get(ctx, fetch.Request{URL: at.URL, Accept: "text/plain", UserAgent: agent, MaxBody: maxFile})
	if err != nil {
		return err
	}
	switch got.Status {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return noFileError(got.Status)
	default:
		return fmt.Errorf("the site answers %d", got.Status)
	}
	for line := range strings.Lines(string(markup.Text(got.Body, got.Header.Get("Content-Type")))) {
		if is(strings.TrimSpace(line)) {
			return nil
		}
	}
	if got.Truncated {
		return errLong
	}
	return errAbsent
}

func findDNS(ctx context.Context, client Client, at Place, is func(text string) bool) error {
	texts, err := client.TXT(ctx, Label, at.Host)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(texts, func(text string) bool { return is(strings.TrimSpace(text)) }) {
		return errAbsent
	}
	return nil
}
