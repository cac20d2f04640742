package main

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"webring/core"
	"webring/server/devchain"
)

// TestNewcomersComeInBesideAttackers holds that strangers who fill a shared host do not keep out
// whom its pages name, that disguised words are refused in names and categories, that an
// address keeps its normal form up to the redirect, and that nothing is charged for what is
// refused.
func TestNewcomersComeInBesideAttackers(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	sites := newOwnSites(t)
	o := start(t, append([]string{"--tempo-rpc", c.RPC, "--core", "native"}, sites.args()...)...)
	const shared = "http://shared.strangers.test/"
	body := func(name, site, category string) string {
		return fmt.Sprintf(`{"name":%q,"url":%q,"kind":"website","category":%q}`, name, site, category)
	}
	joins := func(name, site string) {
		t.Helper()
		if p := o.pay(wallet(t), "/api/register", body(name, site, "general")); p.Status != http.StatusCreated {
			t.Fatalf("%s: %d %s", site, p.Status, p.Body)
		}
	}
	for _, page := range []string{"~a", "~b", "~c"} {
		joins("Squatter", shared+page)
	}
	honest, received := wallet(t), o.received()
	request := body("Honest", shared+"~honest", "general")
	if p, err := o.tryPay(honest, "/api/register", request); err == nil && p.Status != 422 {
		t.Errorf("a stranger on a full host: %d %s", p.Status, p.Body)
	}
	for _, disguised := range []string{body("ᴏꜰꜰɪᴄɪᴀʟ Acme", shared+"x", "general"), body("Acme \u2714", shared+"x", "general"), body("ᗩᗪᗰIᑎ", shared+"x", "general"), body("Acme", shared+"x", "0fficial")} {
		o.refused(o.post("/api/register", disguised), 422, "invalid_request")
	}
	if now := o.received(); now != received {
		t.Errorf("%d cents were charged for what was refused", now-received)
	}
	sites.show(sites.files, "shared.strangers.test", honest.Address.Hex())
	if p := o.pay(honest, "/api/register", request); p.Status != http.StatusCreated {
		t.Errorf("an account that the site names: %d %s", p.Status, p.Body)
	}

	joins("Composed", "http://nfc.strangers.test/caf\u00e9")
	joins("می\u200cخواهم", "http://nfc.strangers.test/cafe\u0301")
	for from, want := range map[string]string{
		"caf\u00e9": "Composed", "caf%C3%A9": "Composed", "cafe\u0301": "می\u200cخواهم", "cafe%CC%81": "می\u200cخواهم",
	} {
		r := o.get("/api/widget?from=" + url.QueryEscape("http://nfc.strangers.test/"+from))
		if got := at(t, r.document(t), "member", "name"); got != want {
			t.Errorf("from %q is %v, want %q", from, got, want)
		}
	}
	o.confirmed()
	o.balanced()
}

// TestASiteOpensACategoryBesideBoughtOnes has all categories bought that money opens. The default
// one is open, and a newcomer whose site names its account opens one of its own; a stranger pays for
// nothing, and the owner of a bought place changes what is said of it.
func TestASiteOpensACategoryBesideBoughtOnes(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	sites := newOwnSites(t)
	o := prepare(t, nil, append([]string{"--tempo-rpc", c.RPC, "--core", "native"}, sites.args()...)...)
	buyer := wallet(t)
	o.write(func(f *founding) {
		events := []core.Event{&core.Rules{Name: "Ring", BaseURL: o.base, Fee: 100, MinBid: 100, Decay: 7 * 24 * 3600, Scorer: "none"}}
		texts := []*core.Texts{nil}
		for i := range core.MaxCategories {
			events = append(events, &core.Joined{Slug: fmt.Sprint("b", i), Kind: core.Agent, Category: fmt.Sprint("bought-", i), Fee: 100,
				Payment: core.Payment{Payer: buyer.Address.Hex()}})
			texts = append(texts, &core.Texts{Name: core.Text{Value: fmt.Sprint("Bought ", i)}, URL: core.Text{Value: fmt.Sprintf("https://b%d.dev/", i)}})
		}
		f.append(texts, events...)
	})
	o.launch()
	t.Cleanup(o.kill)
	body := func(name, category string) string {
		return fmt.Sprintf(`{"name":%q,"url":"http://%s.strangers.test/","kind":"website","category":%q}`, name, name, category)
	}
	joins := func(w devchain.Account, name, category string) {
		t.Helper()
		if p := o.pay(w, "/api/register", body(name, category)); p.Status != http.StatusCreated {
			t.Errorf("%s in %s: %d %s", name, category, p.Status, p.Body)
		}
	}
	joins(wallet(t), "plain", "general")
	joins(wallet(t), "joiner", "bought-7")
	honest, stranger := wallet(t), wallet(t)
	received := o.received()
	o.refused(o.post("/api/register", body("honest", "mine")), 422, "category_unavailable")
	sites.show(sites.files, "honest.strangers.test", honest.Address.Hex())
	if p, err := o.tryPay(stranger, "/api/register", body("honest", "mine")); err == nil && p.Status != 422 {
		t.Errorf("a stranger opens a category: %d %s", p.Status, p.Body)
	}
	if now := o.received(); now != received {
		t.Errorf("%d cents were charged for what was refused", now-received)
	}
	joins(honest, "honest", "mine")
	joins(wallet(t), "second", "mine") // it is open to all now
	o.prove(buyer, http.MethodPatch, "/api/ring/b7", `{"description":"changed"}`).does(t, 200, "")
	if now := o.received(); now != received+200 {
		t.Errorf("%d cents were charged for two places", now-received)
	}
}
