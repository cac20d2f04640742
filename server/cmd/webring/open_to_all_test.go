package main

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
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
