package paid

import (
	"errors"
	"fmt"
	"strings"

	"webring/core"
	"webring/core/api"
	"webring/core/idn"
	"webring/server/ledger"
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
		if b.Value = joined(text); b.Value == "" {
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
func BlockOf(url string) (ledger.Block, error) { return NewBlock(ledger.BlockHost, hostOf(url)) }

// blockedSite says whether the host of a URL, or a name above it, is on the blocklist.
func blockedSite(v *ledger.View, url string) bool {
	if v.BlocksOf(ledger.BlockHost) == 0 {
		return false
	}
	for host, more := hostOf(url), true; more; _, host, more = strings.Cut(host, ".") {
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
// Words are read as in names that are reserved: see [NamePolicy].
func blockedWords(v *ledger.View, name string, others ...string) bool {
	if v.BlocksOf(ledger.BlockWord) == 0 {
		return false
	}
	// A slug spells in ASCII what a name spells in any script.
	for _, text := range append(others, name, slugify(name)) {
		all := words(text)
		for i := range all {
			// An entry can be several words in a row.
			for n, together := i, ""; n < len(all) && len(together) < maxBlockWords; n++ {
				together += all[n].spelled
				if v.Blocked(ledger.BlockWord, together) || v.Blocked(ledger.BlockWord, pairs.Replace(together)) {
					return true
				}
			}
		}
	}
	return false
}

// errPayerBlocked refuses a payment of an account that the operator keeps out.
var errPayerBlocked = notAdmitted("The operator of this ring takes no payments of this account.")

// notAdmitted refuses for the operator. Why, is the operator's to tell.
func notAdmitted(detail string) *Problem {
	return &Problem{Code: api.NotAdmitted, Detail: detail + " Nothing was charged."}
}
