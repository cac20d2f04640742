package ledger_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"webring/core"
	"webring/server/ledger"
)

func entry(kind ledger.BlockKind, value string) *ledger.Block {
	return &ledger.Block{Kind: kind, Value: value, Text: strings.ToUpper(value), Reason: "spam", By: "olga"}
}

// listed gives kinds and values of the blocklist.
func (r *ring) listed() (all string) {
	r.View(func(v *ledger.View) {
		for _, b := range v.Blocks() {
			if !v.Blocked(b.Kind, b.Value) {
				r.t.Errorf("%s is listed and not blocked", b.Value)
			}
			all += fmt.Sprintf("%s %s (%s) ", b.Kind, b.Value, b.Text)
		}
	})
	return strings.TrimSpace(all)
}

func TestBlocklistIsKept(t *testing.T) {
	r := openedRing(t)
	for _, b := range []*ledger.Block{entry(ledger.BlockWord, "casino"), entry(ledger.BlockHost, "bad.dev"), entry(ledger.BlockPayer, "0xaa"), entry(ledger.BlockHost, "casino")} {
		r.must(func(tx *ledger.Tx) error { return tx.Block(b) })
		if !b.At.Equal(r.now()) {
			t.Errorf("added at %s, want %s", b.At, r.now())
		}
	}
	if err := r.do(func(tx *ledger.Tx) error { return tx.Block(entry(ledger.BlockHost, "bad.dev")) }); err != ledger.ErrBlocked {
		t.Errorf("a second time: %v", err)
	}
	r.must(func(tx *ledger.Tx) error { return tx.Unblock(ledger.BlockHost, "casino") })
	for _, absent := range []string{"casino", "ad.dev", ""} {
		if err := r.do(func(tx *ledger.Tx) error { return tx.Unblock(ledger.BlockHost, absent) }); err != ledger.ErrNotBlocked {
			t.Errorf("%q: %v", absent, err)
		}
	}
	const want = "host bad.dev (BAD.DEV) payer 0xaa (0XAA) word casino (CASINO)"
	for range 2 {
		if got := r.listed(); got != want {
			t.Errorf("the list is %s, want %s", got, want)
		}
		r.reopen()
	}
	r.View(func(v *ledger.View) {
		if b := v.Blocks()[0]; b.Reason != "spam" || b.By != "olga" || !b.At.Equal(start) || v.BlocksOf(ledger.BlockHost) != 1 {
			t.Errorf("%+v of %d", b, v.BlocksOf(ledger.BlockHost))
		}
	})
	if a, err := r.Audit(t.Context()); err != nil || len(a.Findings) > 0 {
		t.Errorf("%v, %v", a.Findings, err)
	}
}

func TestBlocklistIsBounded(t *testing.T) {
	r := openedRing(t)
	for name, b := range map[string]*ledger.Block{
		"no kind":         {Value: "a"},
		"another kind":    {Kind: "name", Value: "a"},
		"no value":        {Kind: ledger.BlockHost},
		"a long value":    {Kind: ledger.BlockHost, Value: strings.Repeat("a", ledger.MaxBlockText+1)},
		"a zero byte":     {Kind: ledger.BlockHost, Value: "a\x00b"},
		"a long text":     {Kind: ledger.BlockHost, Value: "a", Text: strings.Repeat("a", ledger.MaxBlockText+1)},
		"a long reason":   {Kind: ledger.BlockHost, Value: "a", Reason: strings.Repeat("a", core.MaxNote+1)},
		"a long operator": {Kind: ledger.BlockHost, Value: "a", By: strings.Repeat("a", ledger.MaxBlockText+1)},
	} {
		if err := r.do(func(tx *ledger.Tx) error { return tx.Block(b) }); !errors.Is(err, ledger.ErrBlock) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for from := 0; from < ledger.MaxBlocks; from += 1000 {
		r.must(func(tx *ledger.Tx) error {
			for i := range 1000 {
				if err := tx.Block(entry(ledger.BlockHost, fmt.Sprintf("h%d.dev", from+i))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := r.do(func(tx *ledger.Tx) error { return tx.Block(entry(ledger.BlockWord, "more")) }); err != ledger.ErrBlocklistFull {
		t.Errorf("one too many: %v", err)
	}
	r.must(func(tx *ledger.Tx) error { return tx.Unblock(ledger.BlockHost, "h7.dev") })
	r.must(func(tx *ledger.Tx) error { return tx.Block(entry(ledger.BlockWord, "more")) })
}
