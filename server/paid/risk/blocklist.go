package risk

import (
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
		// As identity has it, without "www.".
		host, ok := idn.ToASCII(strings.TrimSuffix(text, "."))
		if b.Value = string(core.KeyHost(core.AppendKey(nil, []byte("https://"+host+"/")))); !ok || b.Value == "" {
			err = fmt.Errorf("%q is no host name; give it without scheme, port and path", text)
		}
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

// addressOf gives the address in the name of an account, in lower case, or "".
func addressOf(payer string) string {
	if core.AccountOf(payer) == (core.Account{}) {
		return ""
	}
	return strings.ToLower(payer[strings.LastIndexByte(payer, ':')+1:])
}

// BlockOf makes the entry that keeps out the site of a member: its host.
func BlockOf(url string) (ledger.Block, error) { return NewBlock(ledger.BlockHost, form.HostOf(url)) }

// Blocked says why the operator keeps a member out that has this URL, account and words: for
// its host or a name above it, for a word, or for its account. payer is "" for an account that
// is not known. Words are read as in names that are reserved: see [form.NamePolicy].
func Blocked(v *ledger.View, url, payer, name string, others ...string) error {
	if url != "" && v.BlocksOf(ledger.BlockHost) > 0 {
		for host, more := form.HostOf(url), true; more; _, host, more = strings.Cut(host, ".") {
			if v.Blocked(ledger.BlockHost, host) {
				return NotAdmitted("The operator of this ring does not admit sites on this host.")
			}
		}
	}
	if v.BlocksOf(ledger.BlockWord) > 0 {
		for phrase := range form.Phrases(maxBlockWords, append(others, name, form.Slugify(name))...) {
			if v.Blocked(ledger.BlockWord, phrase) {
				return NotAdmitted("The name, the description or the category holds a word that the operator of this ring does not admit.")
			}
		}
	}
	if address := addressOf(payer); address != "" && v.Blocked(ledger.BlockPayer, address) {
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
