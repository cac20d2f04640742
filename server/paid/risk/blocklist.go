package risk

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/edge/idn"
	"webring/server/ledger"
	"webring/server/paid/form"
)

// The blocklist is the operator's (server/HANDBOOK.md, "Moderation and takedown"). It is
// asked before a challenge, before a payment is sent, and in the transaction that
// reserves; money that has come already is not refused for it.

// maxBlockWords bounds the words of an entry together, in bytes: each text is searched for
// entries of up to this length.
const maxBlockWords = 64

// NewBlock makes an entry of the blocklist of what the operator wrote: a host name, the
// address of an account, or a word or several in a row.
func NewBlock(kind ledger.BlockKind, text string) (b ledger.Block, err error) {
	text = strings.TrimSpace(text)
	b = ledger.Block{Kind: kind, Text: text}
	switch kind {
	case ledger.BlockHost:
		b.Value, err = blockHost(text)
	case ledger.BlockPayer:
		if b.Value = addressOf(text); b.Value == "" {
			err = fmt.Errorf("%q is no account: one is 0x and 40 hexadecimal digits", text)
		}
	case ledger.BlockWord:
		if b.Value = form.Fold(text); b.Value == "" {
			err = fmt.Errorf("%q has neither a letter nor a digit", text)
		} else if len(b.Value) > maxBlockWords {
			err = fmt.Errorf("the words have more than %d bytes together", maxBlockWords)
		}
	default:
		err = fmt.Errorf("%q is no kind of entry: host, payer or word", kind)
	}
	if err == nil && max(len(b.Value), len(text)) > ledger.MaxBlockText {
		err = fmt.Errorf("the entry has more than %d bytes", ledger.MaxBlockText)
	}
	return b, err
}

// blockHost gives the host of an entry as identity has it, without "www.".
func blockHost(text string) (string, error) {
	host, ok := idn.ToASCII(strings.TrimSuffix(text, "."))
	if !ok {
		return "", fmt.Errorf("%q is no host name; give it without scheme, port and path", text)
	}
	if host = string(core.KeyHost(core.AppendKey(nil, []byte("https://"+host+"/")))); host == "" {
		return "", errors.New("the host is empty")
	}
	return host, nil
}

// addressOf gives the address in the name of an account, in lower case, or "".
func addressOf(payer string) string {
	if core.AccountOf(payer) == (core.Account{}) {
		return ""
	}
	return strings.ToLower(payer[strings.LastIndexByte(payer, ':')+1:])
}

// BlockOf makes the entry that keeps out the site of a member: its host.
func BlockOf(url string) (ledger.Block, error) { return NewBlock(ledger.BlockHost, form.HostOf(url)) }

// blockedSite says whether the host of a URL, or a name above it, is on the blocklist.
func blockedSite(v *ledger.View, url string) bool {
	if url == "" || v.BlocksOf(ledger.BlockHost) == 0 {
		return false
	}
	for host, more := form.HostOf(url), true; more; _, host, more = strings.Cut(host, ".") {
		if v.Blocked(ledger.BlockHost, host) {
			return true
		}
	}
	return false
}

// blockedPayer says whether an account is on the blocklist.
func blockedPayer(v *ledger.View, payer string) bool {
	address := addressOf(payer)
	return address != "" && v.Blocked(ledger.BlockPayer, address)
}

// blockedWords says whether one of the texts of a member holds a word on the blocklist.
// Words are read as in names that are reserved: see [form.NamePolicy].
func blockedWords(v *ledger.View, name string, others ...string) bool {
	if v.BlocksOf(ledger.BlockWord) == 0 {
		return false
	}
	for phrase := range form.Phrases(maxBlockWords, append(others, name, form.Slugify(name))...) {
		if v.Blocked(ledger.BlockWord, phrase) {
			return true
		}
	}
	return false
}

// Blocked says why the operator keeps a member out that has this URL, account and words: for
// its host, its words or its account. payer is "" for an account that is not known.
func Blocked(v *ledger.View, url, payer, name string, others ...string) error {
	switch {
	case blockedSite(v, url):
		return NotAdmitted("The operator of this ring does not admit sites on this host.")
	case blockedWords(v, name, others...):
		return NotAdmitted("The name, the description or the category holds a word that the operator of this ring does not admit.")
	case blockedPayer(v, payer):
		return NotAdmitted("The operator of this ring takes no payments of this account.")
	}
	return nil
}

// NotAdmitted refuses on behalf of the operator, who may tell why.
func NotAdmitted(detail string) error {
	return &form.Problem{Code: api.NotAdmitted, Detail: detail + " Nothing was charged."}
}

// Seconds is a wait in whole seconds, for Retry-After.
func Seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }
