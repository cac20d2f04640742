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
	"sync"

	"webring/core"
	"webring/server/sites/fetch"
	"webring/server/sites/markup"
)

const (
	// File is where a site shows tokens and accounts, one in a line. It is text/plain and holds
	// nothing else but comments, which begin with #, and empty lines: a page to which readers
	// add is no such file.
	File = "/.well-known/webring-online.txt"
	// Label is the label below which a host has tokens in TXT records.
	Label = "_webring-online"

	// Meta is the name of the element meta in the head of a page by which the page names an
	// account.
	Meta = "webring-account"

	// claims is what calls itself so when it looks for the token of a claim.
	claims = "webring/1 (looks for the proof of a claim)"

	// maxFile is how much of a file is read, in bytes: hundreds of tokens.
	maxFile = 64 << 10

	// maxNamed is how many accounts of one site are looked at.
	maxNamed = 8
	// joins is what calls itself so when it looks for accounts that may join.
	joins = "webring/1 (looks for an account that is to join)"
)

// tokenSize is the length of a token in bytes: the account that it names, and a mark of the ring with
// 16 bytes. In base64url it is 48 characters.
const tokenSize = len(core.Account{}) + 16

// ReadToken gives the account of a token, and its mark.
func ReadToken(token string) (account core.Account, mark []byte, ok bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != tokenSize || strings.ContainsAny(token, "\r\n") {
		return account, nil, false
	}
	copy(account[:], b)
	return account, b[len(account):], true
}

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

// noFileError is errAbsent by what the site has in place of a file of tokens.
type noFileError string

func (e noFileError) Error() string        { return string(e) }
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

// Names says where a site shows a token that names an account, or its address, 0 if nowhere. known is false if
// it may show one and could not be read. agent is what the look calls itself.
//
// It does not ask by which key, and for which member, a token was made: its presence on the site
// names the account. So a token stays valid when its key is gone.
func Names(ctx context.Context, client Client, at Place, account core.Account, agent string) (proof core.Proof, known bool) {
	file, dns := look(ctx, client, at, agent, func(text string) bool {
		if named, ok := address(text); ok {
			return named == account
		}
		named, _, ok := ReadToken(text)
		return ok && named == account
	})
	switch {
	case file == nil:
		return core.ByFile, true
	case dns == nil:
		return core.ByDNS, true
	}
	return 0, errors.Is(file, errAbsent) && errors.Is(dns, errAbsent)
}

// Accounts gives the accounts that may register a URL by what its site says: their addresses
// stand in the file of its host, each in a line of its own, in TXT records, or in the page
// itself, in an element meta with the name [Meta]. At most 8 are given. known is false if a limit of this
// process kept it from looking.
func Accounts(ctx context.Context, client Client, site string) (all []core.Account, known bool) {
	at, err := PlaceOf(site)
	if err != nil {
		return nil, true
	}
	var mu sync.Mutex
	add := func(text string) bool {
		mu.Lock()
		defer mu.Unlock()
		if account, ok := address(text); ok && len(all) < maxNamed {
			all = append(all, account)
		}
		return false
	}
	onPage := make(chan error, 1)
	go func() {
		page, err := client.Get(ctx, fetch.Request{URL: site, Accept: "text/html", UserAgent: joins})
		defer func() { onPage <- err }()
		// Another page of the host can be somebody else's.
		if err != nil || page.Status != http.StatusOK || keyOf(page.URL.String()) != keyOf(site) {
			return
		}
		for _, text := range metas(page.Body, page.Header.Get("Content-Type")) {
			add(text)
		}
	}()
	file, dns := look(ctx, client, at, joins, add)
	_, busy := errors.AsType[*fetch.Busy](errors.Join(file, dns, <-onPage))
	return all, !busy
}

// keyOf gives the identity key of a URL, "" if it is none.
func keyOf(site string) string {
	canonical, err := core.AppendURL(nil, []byte(site))
	if err != nil {
		return ""
	}
	return string(core.AppendKey(nil, canonical))
}

// address reads the address of an account.
func address(text string) (core.Account, bool) {
	account := core.AccountOf(text)
	return account, account != core.Account{} && strings.HasPrefix(text, "0x")
}

// metas gives the contents of the elements meta with the name [Meta] in the head of a page.
func metas(page []byte, contentType string) (all []string) {
	for t := range head(page, contentType) {
		if t.Kind == markup.Start && t.Name == "meta" && t.Attributes["name"] == Meta {
			all = append(all, strings.TrimSpace(t.Attributes["content"]))
		}
	}
	return all
}

// inHead are the elements up to the end of a head. Every other one begins the body, where a
// page need not say so.
var inHead = map[string]bool{"html": true, "head": true, "base": true, "link": true, "meta": true, "noscript": true, "script": true, "style": true,
	"template": true, "title": true}

// look looks for a text in both places. Errors match errAbsent where it certainly is not.
func look(ctx context.Context, client Client, at Place, agent string, is func(text string) bool) (file, dns error) {
	inDNS := make(chan error, 1)
	go func() { inDNS <- findDNS(ctx, client, at, is) }()
	file = findFile(ctx, client, at, agent, is)
	return file, <-inDNS
}

// findFile reads the file at its own address: what other paths of the site show, or other hosts of
// its domain, can be its users'.
func findFile(ctx context.Context, client Client, at Place, agent string, is func(text string) bool) error {
	got, err := client.Get(ctx, fetch.Request{URL: at.URL, Accept: "text/plain", UserAgent: agent, MaxBody: maxFile})
	if err != nil {
		return err
	}
	switch got.Status {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return noFileError(fmt.Sprintf("the site answers %d", got.Status))
	default:
		return fmt.Errorf("the site answers %d", got.Status)
	}
	contentType := got.Header.Get("Content-Type")
	switch {
	case got.URL.Scheme == "http" && strings.HasPrefix(at.URL, "https:"), // which anybody on the way can write
		got.URL.EscapedPath() != File || got.URL.RawQuery != "" || strings.TrimPrefix(got.URL.Hostname(), "www.") != at.Host:
		return noFileError("its address leads to another one")
	case markup.MediaType(contentType) != "text/plain":
		return noFileError("it is not text/plain")
	case got.Truncated:
		return noFileError(fmt.Sprintf("it is longer than %d bytes", maxFile))
	}
	var lines []string
	for line := range strings.Lines(string(markup.Text(got.Body, contentType))) {
		line = strings.TrimSpace(line)
		_, named := address(line)
		_, _, token := ReadToken(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case !named && !token:
			return noFileError("it holds a line that is neither a token, an account nor a comment")
		default:
			lines = append(lines, line)
		}
	}
	if !slices.ContainsFunc(lines, is) {
		return errAbsent
	}
	return nil
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
