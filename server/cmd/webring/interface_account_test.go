package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"webring/server/devchain"
)

// TestInterfaceWhosePageItIs has strangers pay for members on somebody's domain: they
// name none of its pages but their own address, no more than three accounts are on it,
// and one account does not take all categories.
func TestInterfaceWhosePageItIs(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := ring(t, freely...)
	victim, mallory, third, fourth := c.Accounts[80], c.Accounts[81], c.Accounts[82], c.Accounts[83]
	joins := func(by devchain.Account, at, category string) devchain.Payment {
		t.Helper()
		return o.pay(by, "/api/register", registration(t, map[string]any{"name": "The Bank", "url": at, "category": category}))
	}
	joined := func(p devchain.Payment) {
		t.Helper()
		if p.Status != 201 {
			t.Fatalf("status %d: %s", p.Status, p.Body)
		}
	}
	limited := func(p devchain.Payment, code, pointer string) {
		t.Helper()
		if got := errorPointers(t, o.refused(replyTo(p), 422, code)); len(got) != 1 || got[0] != pointer {
			t.Errorf("found at %q, want %s", got, pointer)
		}
	}
	joined(joins(mallory, "https://bank.dev/blog/", "general")) // before the victim, even
	joined(joins(victim, "https://bank.dev/", "general"))
	joined(joins(third, "https://www.bank.dev/shop/", "general"))
	limited(joins(fourth, "https://login.bank.dev/", "general"), "invalid_request", "/url")
	for from, slug := range map[string]string{
		"bank.dev": "the-bank-2", "https://bank.dev/blog/post": "the-bank-2", "https://bank.dev/blog/?p=1": "the-bank-2", "https://bank.dev/shop/a/b": "the-bank-2",
		"https://bank.dev/blog/": "the-bank", "https://bank.dev/shop": "the-bank-3",
	} {
		doc := o.get("/api/widget?from=" + url.QueryEscape(from)).document(t)
		if got := at(t, doc, "member", "slug"); got != slug {
			t.Errorf("%s is %v's page, want %s's", from, got, slug)
		}
	}
	for n := range 3 {
		joined(joins(mallory, fmt.Sprintf("https://mallory-%d.dev/", n), fmt.Sprint("taken-", n)))
	}
	limited(joins(mallory, "https://mallory-3.dev/", "taken-3"), "category_unavailable", "/category")
	joined(joins(fourth, "https://fourth.dev/", "taken-3"))
	if got := o.received(); got != 700 {
		t.Errorf("%d cents were paid, want 700", got)
	}
	// The same name, repeated, is told apart by the host next to it.
	home := string(o.get("/", "Accept", "text/html").Body)
	for _, where := range []string{"bank.dev", "bank.dev/blog", "www.bank.dev/shop", "fourth.dev"} {
		if !strings.Contains(home, `<bdi>The Bank</bdi></a><div class="lb-about">  <small class="host"><span dir="ltr">`+where+`</span></small>`) {
			t.Errorf("no %s beside a name on the front page", where)
		}
	}
}
