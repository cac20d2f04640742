package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"webring/core"
	"webring/server/devchain"
)

// joined registers by a payment and gives the answer's document.
func (o *origin) joined(changes map[string]any) map[string]any {
	o.t.Helper()
	p := o.pay(wallet(o.t), "/api/register", registration(o.t, changes))
	if p.Status != 201 {
		o.t.Fatalf("joining: status %d: %s", p.Status, p.Body)
	}
	checkReceipt(o.t, p)
	o.everyAnswer(replyTo(p))
	return paidDocument(o.t, p)
}

func replyTo(p devchain.Payment) reply { return reply{p.Status, p.Header, p.Body} }

// TestInterfaceRegister holds RegisterResponse, what is kept of the texts, and
// the rules for slugs, by real payments on one ring.
func TestInterfaceRegister(t *testing.T) {
	t.Parallel()
	o := ring(t, freely...)
	t.Run("without an opening bid: leaderboard_rank is left out", func(t *testing.T) {
		o := o.in(t)
		doc := o.joined(map[string]any{"name": "  Ünïcode\u0000 Ñame\n&\tSo\u0308hne\u200b ", "url": "HTTPS://www.Unicode.dev:443/x/../App/index.html#top",
			"description": "\u202eFirst\r\nof all ", "category": "tools"})
		names(t, doc, "joined member to_take_first_usd welcome")
		names(t, doc["member"], timedMemberNames+" description")
		for name, want := range map[string]any{"slug": "unicode-name-sohne", "name": "Ünïcode Ñame & Söhne", "description": "First of all",
			"url": "https://www.unicode.dev/App/index.html", "kind": "agent", "category": "tools", "ring_position": 1.0,
			"agentic_score": 72.0, "agentic_report": nil, "bid_total_usd": "0.00", "last_bid_at": nil} {
			if got := at(t, doc, "member", name); got != want {
				t.Errorf("member.%s = %q, want %q", name, got, want)
			}
		}
		if doc["joined"] != true || doc["to_take_first_usd"] != nil || doc["welcome"] == "" {
			t.Errorf("%v", doc)
		}
	})
	t.Run("with an opening bid: leaderboard_rank", func(t *testing.T) {
		o := o.in(t)
		doc := o.joined(map[string]any{"name": "Opener", "url": "https://opener.dev", "kind": "mcp", "bid": "1.25"})
		names(t, doc, "joined member leaderboard_rank to_take_first_usd welcome")
		if doc["leaderboard_rank"] != 1.0 || doc["to_take_first_usd"] != nil || at(t, doc, "member", "bid_total_usd") != "1.25" {
			t.Errorf("%v", doc)
		}
		if at(t, doc, "member", "url") != "https://opener.dev" || at(t, doc, "member", "category") != "general" {
			t.Errorf("%v", doc["member"])
		}
		if o.received() != 325 {
			t.Errorf("%d cents were paid, want 325", o.received())
		}
	})
	t.Run("to_take_first_usd when somebody else leads", func(t *testing.T) {
		doc := o.in(t).joined(map[string]any{"name": "Late", "url": "https://late.dev/"})
		if doc["to_take_first_usd"] != "1.26" { // 1.00 + 1.26 is above 2.25
			t.Errorf("%v", doc["to_take_first_usd"])
		}
	})
	long := strings.Repeat("x", 80)
	for i, s := range []struct{ rule, name, want string }{
		{"reserved: next", "Next", "next-2"},
		{"reserved and then taken: next", "nExT!", "next-3"},
		{"reserved: prev", "prev", "prev-2"},
		{"reserved: random", "-random-", "random-2"},
		{"taken", "Late", "late-2"},
		{"taken twice", "LATE", "late-3"},
		{"transliterated", "日本", "ri-ben"},
		{"runs of anything else become one -", "a__b  c…d", "a-b-c-d"},
		{"at most 48 characters", long, long[:48]},
		{"at most 48 characters with its number", long, long[:46] + "-2"},
		{"made from the host when empty", "🦊", "host-10-dev"},
	} {
		t.Run("slug: "+s.rule, func(t *testing.T) {
			o := o.in(t)
			site := fmt.Sprintf("https://host-%d.dev/", i)
			if got := at(t, o.joined(map[string]any{"name": s.name, "url": site}), "member", "slug"); got != s.want {
				t.Errorf("%v, want %s", got, s.want)
			}
			if m := at(t, o.read("/api/ring/"+s.want), "member"); at(t, m, "url") != site {
				t.Errorf("%v", m)
			}
		})
	}
	t.Run("an international name is kept as an A-label", func(t *testing.T) {
		o := o.in(t)
		doc := o.joined(map[string]any{"name": "Bücher", "url": "https://Bücher.de/käse/%7euser?q=ü"})
		want := "https://xn--bcher-kva.de/k%C3%A4se/~user?q=%C3%BC"
		if at(t, doc, "member", "url") != want || at(t, doc, "member", "slug") != "bucher" {
			t.Errorf("%v", doc["member"])
		}
		o.redirects("/api/ring/prev?format=redirect", want)
		if got := at(t, o.read("/api/widget?from="+url.QueryEscape(want)), "member", "slug"); got != "bucher" {
			t.Errorf("from names %v", got)
		}
	})
}

// TestInterfaceBid holds BidResponse, and the exchange from 402 to 409.
func TestInterfaceBid(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", c.RPC)...)
	body := `{"member":"http://data.dev/index.html","amount":"1.5"}`
	credential := o.sign(wallet(t), "/api/bid", body)
	paid := o.post("/api/bid", body, "Authorization", credential)
	t.Run("200 BidResponse with Payment-Receipt", func(t *testing.T) {
		o := o.in(t)
		if paid.Status != 200 {
			t.Fatalf("%d %s", paid.Status, paid.Body)
		}
		o.everyAnswer(paid)
		checkReceipt(t, devchain.Payment{Exchange: devchain.Exchange{Status: 200, Header: paid.Header, Body: paid.Body}})
		doc := paid.document(t)
		names(t, doc, "bid bid_total_usd leaderboard_rank to_take_first_usd links")
		names(t, doc["bid"], "member amount_usd")
		// 1.00 + 2.00 had decayed to nothing; the full total is back at once.
		if at(t, doc, "bid", "member") != "epsilon" || at(t, doc, "bid", "amount_usd") != "1.50" || doc["bid_total_usd"] != "3.50" ||
			doc["leaderboard_rank"] != 3.0 || doc["to_take_first_usd"] != "1.51" {
			t.Errorf("%s", paid.Body)
		}
		for rel, link := range doc["links"].(map[string]any) {
			if s, _ := link.(string); !strings.HasPrefix(s, "http") {
				t.Errorf("links.%s = %v", rel, link)
			}
		}
		m := at(t, o.read("/api/ring/epsilon"), "member")
		if at(t, m, "effective_bid_usd") != "4.50" || at(t, m, "paid_total_usd") != "4.50" || at(t, m, "leaderboard_rank") != 3.0 {
			t.Errorf("%v", m)
		}
	})
	t.Run("409 credential_reused with its outcome, and no challenge", func(t *testing.T) {
		o := o.in(t)
		doc := o.refused(o.post("/api/bid", body, "Authorization", credential), 409, "credential_reused")
		if doc["outcome"] != "applied" || at(t, doc, "links", "self") != o.base+"/api/ring/epsilon" {
			t.Errorf("%v", doc)
		}
		o.refused(o.post("/api/bid", strings.Replace(body, "1.5", "2.5", 1), "Authorization", credential), 409, "credential_reused")
		o.refused(o.post("/api/register", registration(t, nil), "Authorization", credential), 409, "credential_reused")
		if o.received() != 150 {
			t.Errorf("%d cents were paid", o.received())
		}
	})
	t.Run("the same Idempotency-Key, credential and body: the stored response", func(t *testing.T) {
		o := o.in(t)
		body := `{"member":"alpha","amount":"1"}`
		credential := o.sign(wallet(t), "/api/bid", body)
		first := o.post("/api/bid", body, "Authorization", credential, "Idempotency-Key", "a-key-of-the-tests")
		again := o.post("/api/bid", body, "Authorization", credential, "Idempotency-Key", "a-key-of-the-tests")
		if first.Status != 200 || again.Status != 200 || string(first.Body) != string(again.Body) {
			t.Errorf("%d %s, then %d %s", first.Status, first.Body, again.Status, again.Body)
		}
		o.fields(again, "Payment-Receipt", first.Header.Get("Payment-Receipt"))
		other := o.post("/api/bid", `{"member":"alpha","amount":"2"}`, "Authorization", credential, "Idempotency-Key", "a-key-of-the-tests")
		o.refused(other, 422, "invalid_request")
		o.refused(o.post("/api/bid", body, "Authorization", credential), 409, "credential_reused")
		o.refused(o.post("/api/bid", body, "Idempotency-Key", "a-key-of-the-tests"), 409, "idempotency_key_used")
	})
}

// TestInterfaceKeptPromises holds how a request with a good credential may
// still fail, with nothing charged: the URL or the member went in between.
func TestInterfaceKeptPromises(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", c.RPC)...)
	t.Run("the same URL was registered in between: 409 already_registered", func(t *testing.T) {
		o := o.in(t)
		late := o.sign(wallet(t), "/api/register", registration(t, nil))
		o.joined(map[string]any{"name": "Faster", "url": "http://www.newcomer.dev"})
		o.refused(o.post("/api/register", registration(t, nil), "Authorization", late), 409, "already_registered")
		if o.received() != 100 {
			t.Errorf("%d cents were paid, want 100", o.received())
		}
	})
	t.Run("the member was removed in between: 410 member_removed", func(t *testing.T) {
		o := o.in(t)
		body := `{"member":"delta","amount":"1.00"}`
		late := o.sign(wallet(t), "/api/bid", body)
		if out, err := o.operate("members", "remove", "delta", "--reason", "asked to"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		o.refused(o.post("/api/bid", body, "Authorization", late), 410, "member_removed")
		if o.received() != 100 {
			t.Errorf("%d cents were paid, want 100", o.received())
		}
	})
	t.Run("fee and minimum changed in between: what was offered is kept", func(t *testing.T) {
		o := o.in(t)
		join, bid := registration(t, map[string]any{"name": "Old Price", "url": "https://old-price.dev/"}), `{"member":"beta","amount":"1.00"}`
		w, v := wallet(t), wallet(t)
		joining, bidding := o.sign(w, "/api/register", join), o.sign(v, "/api/bid", bid)
		o.stop()
		o.args = append(o.args, "--fee", "5.00", "--min-bid", "3.00", "--scorer", "fixed:10")
		o.launch()
		t.Cleanup(o.kill)
		if r := o.post("/api/register", join, "Authorization", joining); r.Status != 201 {
			t.Errorf("joining: %d %s", r.Status, r.Body)
		}
		if r := o.post("/api/bid", bid, "Authorization", bidding); r.Status != 200 {
			t.Errorf("bidding: %d %s", r.Status, r.Body)
		}
		if o.received() != 300 {
			t.Errorf("%d cents were paid, want 300", o.received())
		}
	})
}

// TestInterfaceRemoval holds what is left of a removed member.
func TestInterfaceRemoval(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", c.RPC)...)
	o.refused(o.get("/api/ring/eta"), 410, "member_removed")
	o.refused(o.post("/api/bid", `{"member":"eta","amount":"1.00"}`), 410, "member_removed")
	o.refused(o.get("/api/ring/next?from=eta"), 404, "unknown_member")
	doc := o.joined(map[string]any{"name": "Eta", "url": "https://eta.dev/"})
	if slug := at(t, doc, "member", "slug"); slug != "eta-2" {
		t.Errorf("the URL registers again, as %v: a slug is never given to another member", slug)
	}
	o.refused(o.get("/api/ring/eta"), 410, "member_removed")
	if got := at(t, o.read("/api/widget?from=eta.dev"), "member", "slug"); got != "eta-2" {
		t.Errorf("its host names %v", got)
	}
	out, err := o.operate("members", "show", "eta")
	if err != nil || !strings.Contains(out, `"total_cents": 100`) {
		t.Errorf("totals stay in the ledger: %v %s", err, out)
	}
}

// TestInterfaceFullRing holds 503 ring_full, 422 category_unavailable and the
// bound on totals, all before any 402.
func TestInterfaceFullRing(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	t.Run("a ring at 90 % of its capacity: 503 ring_full", func(t *testing.T) {
		for members, status := range map[int]int{8: 402, 9: 503, 10: 503} {
			o := founded(t, func(f *founding) { f.join(manyMembers(members)...) }, append(freely, "--tempo-rpc", c.RPC, "--capacity", "10")...)
			r := o.post("/api/register", registration(t, nil))
			if status == 402 {
				o.offered(r, "payment_required")
			} else if o.refused(r, 503, "ring_full"); r.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			// Bids on who is there go on.
			o.offered(o.post("/api/bid", `{"member":"m0000","amount":"1.00"}`), "payment_required")
		}
	})
	t.Run("a new category when 1 024 are in use: 422 category_unavailable", func(t *testing.T) {
		members := manyMembers(1025)
		members[1024].category = "cm0000"
		o := founded(t, func(f *founding) { f.join(members[1:]...) }, append(freely, "--tempo-rpc", c.RPC)...)
		if n := o.read("/api/categories")["count"]; n != 1024.0 {
			t.Fatalf("%v categories", n)
		}
		o.refused(o.post("/api/register", registration(t, map[string]any{"category": "new"})), 422, "category_unavailable")
		o.offered(o.post("/api/register", registration(t, nil)), "payment_required") // the default is always open
		o.offered(o.post("/api/register", registration(t, map[string]any{"category": "cm0007"})), "payment_required")
	})
	t.Run("a total that would go beyond 2³⁶−1 cents is refused before the 402", func(t *testing.T) {
		o := founded(t, func(f *founding) {
			f.join(manyMembers(1)...)
			var bids []core.Event
			for range 687 {
				bids = append(bids, &core.Bid{Member: "m0000", Amount: core.MaxAmount})
			}
			f.append(nil, bids...)
		}, append(freely, "--tempo-rpc", c.RPC)...)
		if got := at(t, o.read("/api/ring/m0000"), "member", "paid_total_usd"); got != "687000001.00" {
			t.Fatalf("%v", got)
		}
		o.refused(o.post("/api/bid", `{"member":"m0000","amount":"194766.36"}`), 422, "total_too_high")
		o.offered(o.post("/api/bid", `{"member":"m0000","amount":"194766.35"}`), "payment_required")
	})
}
