package paid_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/paid"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
	"webring/server/pay/x402"
	"webring/server/sites/score"
	"webring/server/sites/siteproof"
)

// signer verifies proofs: an account signs by writing down what it signs.
type signer struct{}

func (signer) Method() string  { return "coin" }
func (signer) Request() string { return "bm90aGluZw" }

func (signer) Verify(c mpp.Credential) (string, error) {
	var payload struct{ Signature string }
	if json.Unmarshal(c.Payload, &payload) != nil || payload.Signature != signature(c.Source, c.Challenge) {
		return "", &mpp.Rejection{Code: mpp.CodeVerify, Reason: mpp.ReasonSigner, Detail: "the signature is another's"}
	}
	return c.Source, nil
}

func signature(account string, c mpp.Challenge) string {
	return fmt.Sprintf("%s signs %s for %s", account, c.ID, c.Realm)
}

// prove answers a challenge for nothing.
func (r *ring) prove(c mpp.Challenge, account string) string {
	r.t.Helper()
	payload, err := json.Marshal(map[string]string{"signature": signature(account, c)})
	r.must(err)
	return r.present(mpp.Credential{Challenge: c, Payload: payload, Source: account})
}

// sites show what is put on them, by host.
type sites struct {
	mu    sync.Mutex
	shown map[string][]string
	dns   bool
	busy  time.Duration
	asked int
}

func (s *sites) Place(url string) (siteproof.Place, error) {
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "/")
	return siteproof.Place{Host: host, URL: "https://" + host + "/token.txt", Name: "_token." + host}, nil
}

func (s *sites) Look(_ context.Context, client string, at siteproof.Place, token string) paid.Sight {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	proof := core.ByFile
	if s.dns {
		proof = core.ByDNS
	}
	switch {
	case s.busy > 0:
		return paid.Sight{RetryAfter: s.busy}
	case slices.Contains(s.shown[at.Host], token) && client == clientAddress:
		return paid.Sight{Proof: proof}
	}
	return paid.Sight{Why: "it is empty"}
}

// show puts the address of an account on a host, or on the page with a URL.
func (s *sites) show(at, account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shown[at] = append(s.shown[at], account)
}

// Accounts gives the addresses that a host shows, and those that a page does: by the URL.
func (s *sites) Accounts(_ context.Context, client, url string) (all []core.Account, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.busy > 0 {
		return nil, false
	}
	host, _, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "/")
	for _, at := range []string{host, url} {
		for _, text := range s.shown[at] {
			if a := core.AccountOf(text); a != (core.Account{}) && client == clientAddress {
				all = append(all, a)
			}
		}
	}
	return all, true
}

// owned is a ring with members that prove themselves: ada is alice's, and bob is bob's.
type owned struct {
	*ring
	sites *sites
}

var alice, bobby, carol = account(1, 8453), account(2, 8453), account(3, 8453)

func newOwned(t *testing.T, changes ...func(*ring)) *owned {
	o := &owned{sites: &sites{shown: map[string][]string{}}}
	o.ring = newRing(t, append(changes, func(r *ring) {
		r.config = func(cfg *paid.Config) { cfg.Prover, cfg.MemberSites, cfg.Visit = signer{}, o.sites, r.visit }
	})...)
	o.join(ada, alice)
	o.join(bob, bobby)
	synctest.Wait()
	return o
}

// inOwnedRing runs a test on a ring with members that prove themselves.
func inOwnedRing(t *testing.T, f func(t *testing.T, o *owned)) {
	t.Helper()
	in(t, "", func(t *testing.T) { f(t, newOwned(t)) })
}

func (o *owned) call(op, slug, body string, authorization ...string) answer {
	o.t.Helper()
	return o.handle(paid.Call{Operation: op, Slug: slug, Body: []byte(body), Authorization: authorization})
}

// challengeFor asks for a challenge and holds it to be one for nothing.
func (o *owned) challengeFor(op, slug, body string) mpp.Challenge {
	o.t.Helper()
	a := o.call(op, slug, body).is(402, api.PaymentRequired)
	all := a.challenges()
	if len(all) != 1 || all[0].Request != (signer{}).Request() || a.member("amount_usd") != "0.00" || a.field(x402.RequiredField) != "" {
		o.t.Fatalf("%v %s", a.Header, a.Body)
	}
	return all[0]
}

// deed has an account do something.
func (o *owned) deed(op, slug, body, by string) answer {
	o.t.Helper()
	return o.call(op, slug, body, o.prove(o.challengeFor(op, slug, body), by))
}

func (o *owned) memberNow(slug string) (m core.Member) {
	o.look(func(v *ledger.View) {
		if at, ok := v.State().BySlug([]byte(slug)); ok {
			m = v.State().Member(at)
			m.Name, m.URL, m.Description, m.Category = strings.Clone(m.Name), strings.Clone(m.URL), strings.Clone(m.Description), strings.Clone(m.Category)
		}
	})
	return m
}

// unchanged fails if f leaves a trace in the ledger.
func (o *owned) unchanged(what string, f func()) {
	o.t.Helper()
	before := o.size()
	f()
	if after := o.size(); after != before {
		o.t.Errorf("%s: %s, and before %s", what, after, before)
	}
}

func TestOwnersChangeTheirMembers(t *testing.T) {
	in(t, "", func(t *testing.T) {
		o := newOwned(t, func(r *ring) { r.capacity = 2 * core.MaxCategories })
		a := o.deed(paid.OpChange, "ada", `{"name":" Ada  Lovelace","description":"Counts","category":"people","kind":"website"}`, alice).is(200, "")
		if got := fmt.Sprint(a.member("changed")); got != "[name kind category description]" || a.member("member", "name") != "Ada  Lovelace" || a.member("member", "slug") != "ada" || a.field("Webring-Seq") != fmt.Sprint(o.books.Size()) {
			t.Errorf("%s %s %v", got, a.Body, a.Header)
		}
		m := o.memberNow("ada")
		if m.Name != "Ada  Lovelace" || m.Description != "Counts" || m.Category != "people" || m.Kind != core.Website || m.URL != "https://ada.dev" || m.Changed == 0 || m.Total() != 100 {
			t.Errorf("%+v", m)
		}
		o.deed(paid.OpChange, "ada", `{"description":""}`, alice).is(200, "")
		if m := o.memberNow("ada"); m.Description != "" || m.Name != "Ada  Lovelace" {
			t.Errorf("%+v", m)
		}
		for _, wrong := range []string{``, `{}`, `[]`, `{"name":""}`, `{"name":"The official Ada"}`, `{"name":null,"kind":null}`, `{"kind":"robot"}`, `{"category":"People"}`, `{"category":""}`,
			`{"name":"x","bid":"1.00"}`, `{"slug":"x"}`, `{"name":1}`, `{"name":"a","name":"b"}`, `{"description":"` + strings.Repeat("x", 301) + `"}`,
			`{"name":"Ada  Lovelace","description":"","kind":"website","category":"people"}`} {
			o.call(paid.OpChange, "ada", wrong).is(422, api.InvalidRequest)
		}
		size := o.books.Size()
		a = o.deed(paid.OpChange, "ada", `{"webhook":"https://Told.dev/at?key=s3cret"}`, alice).is(200, "")
		hook := func() (w *aside.Webhook) {
			o.books.View(func(v *ledger.View) { w, _ = aside.WebhookOf(v, "ada") })
			return w
		}
		if w := hook(); w == nil || w.URL != "https://Told.dev/at?key=s3cret" || o.books.Size() != size || strings.Contains(string(a.Body), "s3cret") {
			t.Errorf("%+v %s, %d events after %d", w, a.Body, o.books.Size(), size)
		}
		for _, wrong := range []string{"http://localhost/", "https://10.0.0.1/", "https://told.dev:8443/", "ftp://told.dev/", "https://a:b@told.dev/", "https://told.dev/'", " https://told.dev/", "https://told.dev/" + strings.Repeat("x", 300)} {
			o.call(paid.OpChange, "ada", `{"webhook":"`+wrong+`"}`).is(422, api.InvalidRequest)
		}
		if o.deed(paid.OpChange, "ada", `{"webhook":""}`, alice).is(200, ""); hook() != nil {
			t.Errorf("%+v", hook())
		}
		o.fillCategories(core.MaxCategories)
		o.call(paid.OpChange, "ada", `{"category":"one-more"}`).is(422, api.CategoryUnavailable)
		o.deed(paid.OpChange, "ada", `{"category":"general"}`, alice).is(200, "")
		same(t, o.scorer.count(), 2)
	})
}

func TestMembersMove(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		o.scorer.results["https://low.dev/"] = score.Result{Score: 39, Provider: "test"}
		o.call(paid.OpChange, "ada", `{"url":"https://low.dev/"}`).is(422, api.ScoreTooLow)
		same(t, o.scorer.client, clientAddress)
		o.call(paid.OpChange, "ada", `{"url":"https://www.bob.dev/"}`).is(409, api.AlreadyRegistered)
		o.call(paid.OpChange, "ada", `{"url":"http://localhost/"}`).is(422, api.InvalidURL)
		a := o.deed(paid.OpChange, "ada", `{"url":"https://ada.example.dev/","name":"Moved"}`, alice).is(200, "")
		m := o.memberNow("ada")
		if m.URL != "https://ada.example.dev/" || m.Name != "Moved" || m.Score.Value != 72 || a.member("member", "url") != m.URL || a.field("Webring-Seq") != fmt.Sprint(o.books.Size()) {
			t.Errorf("%+v %s", m, a.Body)
		}
		// The old URL is free, and the new one is not.
		o.join(`{"name":"Another","url":"https://ada.dev","kind":"agent"}`, carol)
		o.post(paid.OpRegister, `{"name":"Another","url":"https://ada.example.dev","kind":"agent"}`).is(409, api.AlreadyRegistered)
		// Another spelling of its own URL is no other member's.
		o.deed(paid.OpChange, "ada", `{"url":"http://www.ada.example.dev/"}`, alice).is(200, "")
	})
}

// A move to a domain counts there as a registration does, and no longer where it was.
func TestMovesCountOnTheirNewDomain(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		for i := range 3 {
			o.join(fmt.Sprintf(`{"name":"S%d","url":"https://s%d.shared.dev","kind":"agent"}`, i, i), account(10+i, 8453))
		}
		const there = `{"url":"https://ada.shared.dev"}`
		o.call(paid.OpChange, "ada", there).is(422, api.InvalidRequest)
		o.deed(paid.OpChange, "s1", `{"url":"https://s1.dev"}`, account(11, 8453)).is(200, "")
		o.deed(paid.OpChange, "ada", there, alice).is(200, "")
		o.post(paid.OpRegister, `{"name":"X","url":"https://x.shared.dev","kind":"agent"}`).is(402, api.PaymentRequired)
		body := `{"name":"X","url":"https://x.shared.dev","kind":"agent"}`
		o.post(paid.OpRegister, body, o.sign(o.challenge(paid.OpRegister, body), carol, 100)).is(422, api.InvalidRequest)
		o.call(paid.OpChange, "s1", `{"url":"https://s1.shared.dev/"}`).is(422, api.InvalidRequest)
		// A site that has named its owner takes no other's place.
		o.claim("ada", alice)
		o.deed(paid.OpChange, "s1", `{"url":"https://s1.shared.dev/"}`, account(11, 8453)).is(200, "")
		o.restart()
		o.call(paid.OpChange, "bob", `{"url":"https://bob.shared.dev/"}`).is(422, api.InvalidRequest)
	})
}

// claim has the site of a member name an account.
func (o *owned) claim(slug, by string) answer {
	o.t.Helper()
	address := by[strings.LastIndexByte(by, ':')+1:]
	a := o.call(paid.OpClaim, slug, `{"account":"`+address+`"}`)
	token, _ := a.member("token").(string)
	host, _ := a.member("host").(string)
	o.sites.shown[host] = append(o.sites.shown[host], token)
	return o.deed(paid.OpClaim, slug, `{"token":"`+token+`"}`, by)
}

func TestOwnersLeave(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		o.call(paid.OpLeave, "ada", `{"name":"x"}`).is(422, api.InvalidRequest)
		o.unchanged("a stranger", func() { o.deed(paid.OpLeave, "ada", "", bobby).is(403, api.NotOwner) })
		o.deed(paid.OpLeave, "ada", "", alice).is(200, "")
		o.deed(paid.OpLeave, "bob", " {} ", bobby).is(200, "")
		o.call(paid.OpLeave, "ada", "").is(410, api.MemberRemoved)
		o.call(paid.OpChange, "ada", `{"name":"x"}`).is(410, api.MemberRemoved)
		o.post(paid.OpBid, fund).is(410, api.MemberRemoved)
		// The URL stays with the owner as long as it can return.
		o.post(paid.OpRegister, ada).is(409, api.AlreadyRegistered)
		o.join(`{"name":"Carol","url":"https://carol.dev","kind":"agent"}`, carol)
		o.call(paid.OpChange, "carol", `{"url":"https://ada.dev"}`).is(409, api.AlreadyRegistered)
		time.Sleep(core.ReturnSpan*time.Millisecond + time.Hour)
		synctest.Wait()
		o.call(paid.OpReturn, "ada", "").is(410, api.MemberRemoved)
		o.join(ada, carol)
		o.has(amounts{"all": 400})
	})
}

// A return opens no category that its owner could not open otherwise, or members that leave and
// come back would open any number. Then the member is back in the default one. A claim by the
// site brings it back in the same way.
func TestAReturnOpensNoMoreCategories(t *testing.T) {
	in(t, "", func(t *testing.T) {
		o := newOwned(t, func(r *ring) { r.capacity = 2 * core.MaxCategories })
		for n := range 4 {
			body := fmt.Sprintf(`{"name":"N","url":"https://new-%d.dev/","kind":"agent","category":"new-%[1]d"}`, n)
			o.post(paid.OpRegister, body, o.sign(o.challenge(paid.OpRegister, body), carol, 100)).is(201, "")
			if n == 0 {
				o.deed(paid.OpLeave, "n", "", carol).is(200, "")
			}
		}
		back := func(a answer, category string) {
			t.Helper()
			if a.is(200, ""); o.memberNow("n").Category != category || a.field("Webring-Seq") != fmt.Sprint(o.books.Size()) {
				t.Errorf("%s, %d events: %v %s", o.memberNow("n").Category, o.books.Size(), a.Header, a.Body)
			}
		}
		back(o.deed(paid.OpReturn, "n", "", carol), "general")
		time.Sleep(25 * time.Hour)
		o.deed(paid.OpChange, "n", `{"category":"new-0"}`, carol).is(200, "")
		o.deed(paid.OpLeave, "n", "", carol).is(200, "")
		back(o.deed(paid.OpReturn, "n", "", carol), "new-0")
		o.deed(paid.OpLeave, "n", "", carol).is(200, "")
		o.fillCategories(core.MaxCategories)
		back(o.claim("n", bobby), "general")
	})
}

// A signature that took a member out of the ring, by mistake or by a trick, costs the owner
// nothing: for seven days it returns to its place, with its money. Nobody else has the URL
// meanwhile.
func TestAnOwnerReturnsToItsPlace(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		o.call(paid.OpReturn, "ada", "").is(422, api.InvalidRequest) // it has not left
		o.call(paid.OpReturn, "nobody", "").is(404, api.UnknownMember)
		before := o.memberNow("ada")
		o.deed(paid.OpLeave, "ada", "", alice).is(200, "")
		if a := o.call(paid.OpLeave, "ada", "").is(410, api.MemberRemoved); !strings.Contains(fmt.Sprint(a.member("detail")), "2000-01-08T") {
			t.Errorf("%s", a.Body)
		}
		time.Sleep(core.ReturnSpan*time.Millisecond - time.Minute)
		o.unchanged("a stranger", func() { o.deed(paid.OpReturn, "ada", "", bobby).is(403, api.NotOwner) })
		a := o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		if a.member("returned") != true || a.member("member", "slug") != "ada" || a.field("Webring-Seq") != fmt.Sprint(o.books.Size()) {
			t.Errorf("%s %v", a.Body, a.Header)
		}
		after := o.memberNow("ada")
		before.Slug, before.Report, before.Changed = after.Slug, after.Report, after.Changed
		before.Score.Provider, before.Score.Version = after.Score.Provider, after.Score.Version
		same(t, after, before)
		time.Sleep(2 * time.Hour) // what would have ended the return finds nothing
		synctest.Wait()
		o.call(paid.OpChange, "ada", `{"name":"x"}`).is(402, api.PaymentRequired)
		o.call(paid.OpReturn, "ada", "").is(422, api.InvalidRequest)

		// The proof of a departure is spent: it does not undo the return.
		leave := o.prove(o.challengeFor(paid.OpLeave, "ada", ""), alice)
		o.call(paid.OpLeave, "ada", "", leave).is(200, "")
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		o.unchanged("the departure once more", func() { o.call(paid.OpLeave, "ada", "", leave).is(409, api.CredentialReused) })
		for range 9 {
			o.deed(paid.OpLeave, "ada", "", alice).is(200, "")
			o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		}
		o.call(paid.OpLeave, "ada", "").is(429, api.RateLimited)
		time.Sleep(25 * time.Hour)
		o.deed(paid.OpLeave, "ada", "", alice).is(200, "")

		// An owner that has left does not keep the site itself out: its claim puts it back.
		a = o.claim("ada", carol).is(200, "")
		if a.member("member", "slug") != "ada" || a.field("Webring-Seq") != fmt.Sprint(o.books.Size()) {
			t.Errorf("%s %v", a.Body, a.Header)
		}
		o.deed(paid.OpChange, "ada", `{"description":"The site's"}`, alice).is(403, api.NotOwner)

		// What the operator removes or keeps out does not return.
		o.deed(paid.OpLeave, "bob", "", bobby).is(200, "")
		late := o.prove(o.challengeFor(paid.OpReturn, "bob", ""), bobby)
		o.must(o.remove("bob", false))
		o.unchanged("after a removal", func() { o.call(paid.OpReturn, "bob", "", late).is(410, api.MemberRemoved) })
		o.join(bob, bobby)
		o.deed(paid.OpLeave, "bob-2", "", bobby).is(200, "")
		o.must(o.books.Do(t.Context(), func(tx *ledger.Tx) error {
			b, err := risk.NewBlock(ledger.BlockHost, "bob.dev")
			b.Reason = "test"
			if err == nil {
				err = tx.Block(&b)
			}
			return err
		}))
		o.call(paid.OpReturn, "bob-2", "").is(403, api.NotAdmitted)
	})
}

// A wallet shows the id of a challenge and the realm, so the id says what is signed for, in
// words that no member can shape into others, and that hold for this request only.
func TestWhatAnOwnerSignsSaysWhatItDoes(t *testing.T) {
	in(t, "", func(t *testing.T) {
		o := newOwned(t, func(r *ring) { r.visit = func(string) {} })
		words := func(op, slug, body string) string {
			t.Helper()
			w, unique := o.challengeFor(op, slug, body).SplitID()
			same(t, len(unique), 43)
			return w
		}
		for _, c := range []struct{ op, body, want string }{
			{paid.OpLeave, "", "Remove ada from the ring"},
			{paid.OpVisit, "", "Visit the site of ada now"},
			{paid.OpChange, `{"name":"Moss & Signal"}`, "Change ada: name 'Moss & Signal'"},
			{paid.OpChange, `{"kind":"website","category":"tools","description":""}`, "Change ada: kind 'website'; category 'tools'; description ''"},
			{paid.OpChange, `{"url":"https://evil.example.dev/a,b?c='d'"}`, "Change ada: url 'https://evil.example.dev/a b?c= d'"},
			{paid.OpChange, `{"name":"Łódź"}`, "Change ada: name 'Lodz'"},
			// What looks like other words stays between its quotes.
			{paid.OpChange, `{"name":"x'; kind 'mcp' #AAAA | \"Sign in\", \\ \u2019"}`, "Change ada: name 'x kind mcp AAAA Sign in'"},
			{paid.OpChange, `{"description":"` + strings.Repeat("word ", 40) + `"}`, "Change ada: description '" + strings.TrimRight(strings.Repeat("word ", 40)[:77], " ") + "...'"},
		} {
			same(t, words(c.op, "ada", c.body), c.want)
		}
		o.deed(paid.OpLeave, "ada", "", alice).is(200, "")
		same(t, words(paid.OpReturn, "ada", ""), "Put ada back into the ring")
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")

		// A cheat has the owner sign the challenge for a departure under other words.
		leave := o.challengeFor(paid.OpLeave, "ada", "")
		_, unique := leave.SplitID()
		for _, id := range []string{unique, "Sign in to a shop #" + unique, " #" + unique, "Visit the site of ada now #" + unique, leave.ID + " #" + unique, "Remove bob from the ring #" + unique} {
			c := leave
			c.ID = id
			o.unchanged(id, func() { o.call(paid.OpLeave, "ada", "", o.prove(c, alice)).is(402, api.InvalidChallenge) })
		}
		// Not even the ring's key makes other words hold.
		for _, w := range []string{"", "Visit the site of ada now", "Remove ada from the ring "} {
			c := leave
			mpp.Keys{Current: challengeKey}.SignWords(&c, w)
			o.unchanged(w, func() { o.call(paid.OpLeave, "ada", "", o.prove(c, alice)).is(402, api.InvalidChallenge) })
		}
		o.call(paid.OpLeave, "ada", "", o.prove(leave, alice)).is(200, "")
	})
}

// What a proof does not fit is refused, with a challenge where another proof may help,
// and leaves no trace.
func TestProofsHoldForOneRequest(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		const body = `{"name":"Other"}`
		good := o.challengeFor(paid.OpChange, "ada", body)
		fresh := func(change func(*mpp.Challenge)) mpp.Challenge {
			c := good
			change(&c)
			mpp.Keys{Current: challengeKey}.Sign(&c)
			return c
		}
		payment := o.challenge(paid.OpBid, fund)
		for _, c := range []struct {
			about, op, slug, body, credential string
			status                            int
			code                              api.Code
		}{
			{"another account", paid.OpChange, "ada", body, o.prove(good, bobby), 403, api.NotOwner},
			{"an account on another chain is the same", paid.OpChange, "ada", `{"name":"ADA"}`, o.prove(good, account(1, 1)), 402, api.InvalidChallenge},
			{"no account", paid.OpChange, "ada", body, o.prove(good, "alice"), 403, api.NotOwner},
			{"another body", paid.OpChange, "ada", `{"name":"Others"}`, o.prove(good, alice), 402, api.InvalidChallenge},
			{"another member", paid.OpChange, "bob", body, o.prove(good, bobby), 402, api.InvalidChallenge},
			{"another operation", paid.OpLeave, "ada", "", o.prove(good, alice), 402, api.InvalidChallenge},
			{"another realm", paid.OpChange, "ada", body, o.prove(fresh(func(c *mpp.Challenge) { c.Realm = "other.example" }), alice), 402, api.InvalidChallenge},
			{"another ring", paid.OpChange, "ada", body, o.prove(func() mpp.Challenge {
				c := good
				mpp.Keys{Current: []byte(strings.Repeat("another key", 4))}.Sign(&c)
				return c
			}(), alice), 402, api.InvalidChallenge},
			{"another member in the challenge", paid.OpChange, "ada", body, o.prove(fresh(func(c *mpp.Challenge) {
				c.Opaque, _ = mpp.EncodeJSON(map[string]string{"op": paid.OpChange, "member": "bob"})
			}), alice), 402, api.InvalidChallenge},
			{"no digest", paid.OpChange, "ada", body, o.prove(fresh(func(c *mpp.Challenge) { c.Digest = "" }), alice), 402, api.InvalidChallenge},
			{"no expiry", paid.OpChange, "ada", body, o.prove(fresh(func(c *mpp.Challenge) { c.Expires = "" }), alice), 402, api.PaymentExpired},
			{"another intent", paid.OpChange, "ada", body, o.prove(fresh(func(c *mpp.Challenge) { c.Intent = "session" }), alice), 402, api.InvalidChallenge},
			{"for money", paid.OpChange, "ada", body, o.prove(fresh(func(c *mpp.Challenge) { c.Request = payment.Request }), alice), 402, api.InvalidChallenge},
			{"a forged signature", paid.OpChange, "ada", body, o.prove(fresh(func(c *mpp.Challenge) { c.Description = "x" }), alice)[:200], 402, api.MalformedCredential},
			{"another's signature", paid.OpChange, "ada", body, o.present(mpp.Credential{Challenge: good, Payload: []byte(`{"signature":"x"}`), Source: alice}), 402, api.VerificationFailed},
			{"a payment", paid.OpChange, "ada", body, o.sign(payment, alice, 150), 402, api.InvalidChallenge},
			{"a removed member", paid.OpChange, "nobody", body, o.prove(good, alice), 404, api.UnknownMember},
		} {
			o.unchanged(c.about, func() {
				a := o.call(c.op, c.slug, c.body, c.credential)
				if a.Status != c.status || a.code() != string(c.code) {
					t.Errorf("%s: %d %s", c.about, a.Status, a.Body)
				}
			})
		}
		o.unchanged("a proof for a bid", func() { o.post(paid.OpBid, fund, o.prove(good, alice)).is(402, api.InvalidChallenge) })
		o.unchanged("two credentials", func() {
			o.call(paid.OpChange, "ada", body, o.prove(good, alice), o.prove(good, alice)).is(400, api.MultipleCredentials)
		})
		o.unchanged("in the clear", func() {
			a := o.service.Handle(t.Context(), paid.Call{Operation: paid.OpChange, Slug: "ada", Body: []byte(body), Client: clientAddress})
			answer{t, a}.is(403, api.TLSRequired)
		})
		late := o.prove(good, alice)
		time.Sleep(5 * time.Minute)
		o.unchanged("late", func() { o.call(paid.OpChange, "ada", body, late).is(402, api.PaymentExpired) })
		if m := o.memberNow("ada"); m.Name != "Ada" || o.credited() != 200 {
			t.Errorf("%+v", m)
		}
	})
}

// Of copies of a proof that wait for their turn at once, one is done. Later ones are told so, and by
// the Idempotency-Key of the first they get its answer, also from the next process.
func TestAProofIsSpentOnce(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		const body, key = `{"name":"Other"}`, "a key of sixteen characters"
		credential := o.prove(o.challengeFor(paid.OpChange, "ada", body), alice)
		call := paid.Call{Operation: paid.OpChange, Slug: "ada", Body: []byte(body), Authorization: []string{credential}, IdempotencyKey: strings.ReplaceAll(key, " ", "-")}
		events, plain := o.books.Size(), call
		plain.IdempotencyKey = ""
		o.copiesAt("proved", plain, 200)
		o.handle(plain).is(409, api.CredentialReused).shows("outcome", "applied").shows("links.self", base+"/api/ring/ada")
		if o.books.Size() != events+1 {
			t.Fatalf("%d events", o.books.Size()-events)
		}
		o.restart()
		o.unchanged("a replay", func() { o.handle(call).is(409, api.CredentialReused) })

		challenge := o.challengeFor(paid.OpChange, "ada", `{"name":"Third"}`)
		second := o.prove(challenge, alice)
		call.Body, call.Authorization = []byte(`{"name":"Third"}`), []string{second}
		first := o.handle(call).is(200, "")
		_, id := challenge.SplitID()
		if r, err := o.service.Find(id); err != ledger.ErrNoReservation {
			t.Errorf("it is found as a payment: %+v, %v", r, err)
		}
		o.restart()
		o.unchanged("a repeat", func() {
			if again := o.handle(call).is(200, ""); string(again.Body) != string(first.Body) || fmt.Sprint(again.Header) != fmt.Sprint(first.Header) {
				t.Errorf("%s %v\nwant %s %v", again.Body, again.Header, first.Body, first.Header)
			}
			other := call
			other.Body = []byte(body)
			o.handle(other).is(422, api.InvalidRequest)
			other = call
			other.Authorization = nil
			o.handle(other).is(409, api.IdempotencyKeyUsed)
			other.Slug = "bob"
			o.handle(other).is(402, api.PaymentRequired)
		})
		fourth := paid.Call{Operation: paid.OpChange, Slug: "ada", Body: []byte(`{"name":"Fourth"}`), IdempotencyKey: call.IdempotencyKey}
		one, two := o.challengeFor(paid.OpChange, "ada", string(fourth.Body)), o.challengeFor(paid.OpChange, "ada", string(fourth.Body))
		fourth.Authorization = []string{o.prove(one, alice)}
		o.handle(fourth).is(200, "")
		fourth.Authorization = []string{o.prove(two, alice)}
		o.unchanged("another proof under the key", func() { o.handle(fourth).is(409, api.IdempotencyKeyUsed) })
		time.Sleep(24 * time.Hour)
		call.Authorization = nil
		call.Body = []byte(`{"name":"Third","kind":"mcp"}`)
		o.handle(call).is(402, api.PaymentRequired)
	})
}

// A proof is not good any more if its challenge expires while it waits for its turn.
func TestAProofExpiresWhileItWaits(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		const body = `{"name":"Other"}`
		challenge := o.challengeFor(paid.OpChange, "ada", body)
		expires, err := challenge.ExpiresAt()
		o.must(err)
		open := o.hold("proved")
		h := o.begin(paid.Call{Operation: paid.OpChange, Slug: "ada", Body: []byte(body), Authorization: []string{o.prove(challenge, alice)}})
		time.Sleep(expires.Sub(o.now()))
		o.unchanged("an expired proof", func() {
			open()
			h.wait().is(402, api.PaymentExpired)
		})
	})
}

func TestTenChangesADay(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		for i := range 10 {
			o.deed(paid.OpChange, "ada", fmt.Sprintf(`{"name":"Ada %c"}`, 'a'+i), alice).is(200, "")
			time.Sleep(time.Hour)
		}
		const next = `{"name":"Ada z"}`
		early := o.call(paid.OpChange, "ada", next).is(429, api.RateLimited)
		same(t, early.field("Retry-After"), fmt.Sprint(14*3600))
		o.deed(paid.OpChange, "bob", next, bobby).is(200, "")
		time.Sleep(14*time.Hour + time.Second)
		o.deed(paid.OpChange, "ada", next, alice).is(200, "")
		o.call(paid.OpChange, "ada", `{"name":"Ada y"}`).is(429, api.RateLimited)
		o.look(func(v *ledger.View) {
			rows, err := v.Proofs("ada", nil, 100)
			if err != nil || len(rows) != 10 {
				t.Errorf("%d proofs are kept, %v", len(rows), err)
			}
		})
	})
}

// Proofs are cleared up after a day, also of members that have left.
func TestOldProofsGo(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		kept := func() (n int) {
			o.look(func(v *ledger.View) {
				rows, err := v.Proofs("", nil, 1000)
				if err != nil {
					t.Error(err)
				}
				n = len(rows)
			})
			return n
		}
		o.deed(paid.OpChange, "bob", `{"name":"Robert"}`, bobby).is(200, "")
		time.Sleep(20 * time.Hour)
		o.deed(paid.OpChange, "ada", `{"name":"Ada L"}`, alice).is(200, "")
		o.deed(paid.OpLeave, "ada", "", alice).is(200, "")
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		same(t, kept(), 3)
		time.Sleep(2*time.Hour + time.Second)
		synctest.Wait()
		same(t, kept(), 2)
		time.Sleep(20 * time.Hour)
		synctest.Wait()
		same(t, kept(), 0)
	})
}

// An account opens three categories a day, by registrations and by changes; another change of
// a member that is alone in its category opens none.
func TestChangesOpenThreeCategoriesADay(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		for n := range 3 {
			o.join(fmt.Sprintf(`{"name":"S%d","url":"https://s%d.dev","kind":"agent","category":"old-%d"}`, n, n, n), alice)
		}
		time.Sleep(25 * time.Hour)
		for n := range 3 {
			o.deed(paid.OpChange, fmt.Sprint("s", n), `{"name":"Renamed"}`, alice).is(200, "")
		}
		o.deed(paid.OpChange, "ada", `{"category":"new-0"}`, alice).is(200, "")
		o.deed(paid.OpChange, "s0", `{"category":"new-1","name":"Again"}`, alice).is(200, "")
		o.join(`{"name":"S4","url":"https://s4.dev","kind":"agent","category":"new-2"}`, alice)
		o.call(paid.OpChange, "s1", `{"category":"new-3"}`).is(422, api.CategoryUnavailable)
		o.deed(paid.OpChange, "s1", `{"category":"new-0"}`, alice).is(200, "") // it is open
		o.deed(paid.OpChange, "bob", `{"category":"new-3"}`, bobby).is(200, "")
		time.Sleep(24*time.Hour + time.Second)
		o.deed(paid.OpChange, "s1", `{"category":"new-4"}`, alice).is(200, "")
	})
}

// What a squatter has done in a day does not keep the owner of the site from undoing it.
func TestASquattersChangesDoNotCountForTheOwner(t *testing.T) {
	in(t, "", func(t *testing.T) {
		o := newOwned(t, func(r *ring) { r.visit = func(string) {} })
		for i := range 10 {
			o.deed(paid.OpChange, "ada", fmt.Sprintf(`{"name":"Ada %c"}`, 'a'+i), alice).is(200, "")
			o.deed(paid.OpVisit, "ada", "", alice).is(200, "")
		}
		o.claim("ada", carol).is(200, "")
		for i := range 10 {
			o.deed(paid.OpChange, "ada", fmt.Sprintf(`{"name":"Hers %c"}`, 'a'+i), carol).is(200, "")
			o.deed(paid.OpVisit, "ada", "", carol).is(200, "")
		}
		o.call(paid.OpChange, "ada", `{"name":"Hers z"}`).is(429, api.RateLimited)
		o.call(paid.OpVisit, "ada", "").is(429, api.RateLimited)
		// A site that names two accounts in turn has no more claims for that, and neither
		// account more changes.
		for i := range 9 {
			o.claim("ada", []string{alice, carol}[i%2]).is(200, "")
		}
		o.call(paid.OpChange, "ada", `{"name":"Ada z"}`).is(429, api.RateLimited)
		o.call(paid.OpClaim, "ada", `{"token":"`+o.sites.shown["ada.dev"][0]+`"}`).is(429, api.RateLimited)
	})
}

// A bid on a URL goes to no other site: not after its member has moved, and not to the next
// member at the URL. A bid on a slug goes with its member.
func TestBidsOnAURLDoNotMove(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		const byURL, bySlug = `{"member":"https://ada.dev/","amount":"1.50"}`, `{"member":"ada","amount":"1.50"}`
		onURL, onSlug := o.challenge(paid.OpBid, byURL), o.challenge(paid.OpBid, bySlug)
		o.deed(paid.OpChange, "ada", `{"url":"http://www.ada.dev"}`, alice).is(200, "")
		o.post(paid.OpBid, byURL, o.sign(o.challenge(paid.OpBid, byURL), carol, 150)).is(200, "")
		o.deed(paid.OpChange, "ada", `{"url":"https://elsewhere.dev/"}`, alice).is(200, "")
		o.unchanged("a bid on the URL", func() { o.post(paid.OpBid, byURL, o.sign(onURL, carol, 150)).is(404, api.UnknownMember) })
		o.join(`{"name":"Other","url":"https://ada.dev","kind":"agent"}`, bobby)
		onURL = o.challenge(paid.OpBid, byURL)
		o.deed(paid.OpChange, "other", `{"url":"https://other.dev/"}`, bobby).is(200, "")
		o.deed(paid.OpChange, "ada", `{"url":"https://ada.dev"}`, alice).is(200, "")
		o.unchanged("a bid on who had the URL", func() { o.post(paid.OpBid, byURL, o.sign(onURL, carol, 150)).is(404, api.UnknownMember) })
		o.post(paid.OpBid, bySlug, o.sign(onSlug, carol, 150)).is(200, "")
		o.has(amounts{"ada": 400, "other": 100})
	})
}

// A member that is being paid for leaves, moves and returns at once. The payment counts for it, and
// new ones are refused once it has left.
func TestPaymentsCountForMembersThatLeaveOrMove(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		o.network.fates[carol] = fate{after: 8 * time.Second}
		late := o.sign(o.challenge(paid.OpBid, fund), bobby, 150)
		begin := func() *held {
			h := o.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{o.sign(o.challenge(paid.OpBid, fund), carol, 150)}})
			time.Sleep(time.Second)
			same(t, len(o.open()), 1)
			return h
		}
		paying := begin()
		o.deed(paid.OpChange, "ada", `{"url":"https://ada.example.dev"}`, alice).is(200, "")
		o.deed(paid.OpLeave, "ada", "", alice).is(200, "")
		o.unchanged("a new bid", func() {
			o.post(paid.OpBid, fund).is(410, api.MemberRemoved)
			o.post(paid.OpBid, fund, late).is(410, api.MemberRemoved)
		})
		paying.wait().is(200, "").shows("leaderboard_rank", nil).shows("to_take_first_usd", nil)
		if m := o.memberNow("ada"); !m.Departed || o.total("ada") != 250 {
			t.Errorf("%+v", m)
		}
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		paying = begin() // it is back before the payment has settled
		o.deed(paid.OpLeave, "ada", "", alice).is(200, "")
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		paying.wait().is(200, "").shows("leaderboard_rank", 1.0)

		_, credential := o.lose(paid.OpBid, fund, 150)
		o.deed(paid.OpLeave, "ada", "", alice).is(200, "")
		time.Sleep(core.ReturnSpan*time.Millisecond + time.Hour)
		synctest.Wait()
		if m := o.memberNow("ada"); m.Departed || !m.Removed {
			t.Errorf("%+v", m)
		}
		o.join(`{"name":"Other","url":"https://ada.example.dev","kind":"agent"}`, bobby)
		o.post(paid.OpBid, fund, credential).is(200, "").shows("leaderboard_rank", nil)
		o.has(amounts{"ada": 550, "other": 100, "all": 750, "open": 0})
		o.audited()
	})
}

// A URL that somebody pays for is not taken by a move, and the other way around.
func TestMovesAndRegistrationsExcludeEachOther(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		o.network.fates[carol] = fate{after: 8 * time.Second}
		const move = `{"url":"https://cyn.dev"}`
		first := o.prove(o.challengeFor(paid.OpChange, "ada", move), alice)
		promised := o.challenge(paid.OpRegister, cyn)
		joining := o.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(cyn), Authorization: []string{o.sign(promised, carol, 100)}})
		time.Sleep(time.Second)
		o.unchanged("a move to it", func() {
			o.call(paid.OpChange, "ada", move, first).is(503, api.PaymentPending)
			o.call(paid.OpChange, "ada", move).is(503, api.PaymentPending)
		})
		joining.wait().is(201, "")
		o.call(paid.OpChange, "ada", move, first).is(409, api.AlreadyRegistered)

		const dee = `{"name":"Dee","url":"https://dee.dev","kind":"agent"}`
		late := o.challenge(paid.OpRegister, dee)
		o.deed(paid.OpChange, "ada", `{"url":"https://dee.dev"}`, alice).is(200, "")
		before := o.credited()
		o.post(paid.OpRegister, dee, o.sign(late, bobby, 100)).is(409, api.AlreadyRegistered)
		o.has(amounts{"all": before})
	})
}

func TestTheBlocklistHoldsForOwners(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		good := o.prove(o.challengeFor(paid.OpChange, "ada", `{"name":"Casino"}`), alice)
		o.block(ledger.BlockWord, "casino")
		o.call(paid.OpChange, "ada", `{"description":"the best"}`).is(402, api.PaymentRequired)
		o.unchanged("words", func() {
			o.call(paid.OpChange, "ada", `{"description":"A CASINO"}`).is(403, api.NotAdmitted)
			o.call(paid.OpChange, "ada", `{"name":"Casino"}`, good).is(403, api.NotAdmitted)
		})
		o.block(ledger.BlockHost, "bad.dev")
		o.call(paid.OpChange, "ada", `{"url":"https://www.bad.dev/"}`).is(403, api.NotAdmitted)
		o.block(ledger.BlockPayer, alice)
		o.call(paid.OpChange, "ada", `{"name":"Good"}`).is(403, api.NotAdmitted)
		o.deed(paid.OpLeave, "ada", "", alice).is(200, "")
		o.block(ledger.BlockHost, "bob.dev")
		o.call(paid.OpChange, "bob", `{"name":"Good"}`).is(403, api.NotAdmitted)
		o.must(o.hide("bob"))
		o.call(paid.OpLeave, "bob", "").is(403, api.NotAdmitted)
	})
}

// What the site says beats what the payer says.
func TestSitesNameTheirOwners(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		address := carol[strings.LastIndexByte(carol, ':')+1:]
		ask := func(slug string) answer { return o.call(paid.OpClaim, slug, `{"account":"`+address+`"}`) }
		a := ask("ada").is(200, "")
		token, _ := a.member("token").(string)
		if len(token) != 48 || a.member("file", "url") != "https://ada.dev/token.txt" || a.member("file", "content") != token || a.member("dns", "name") != "_token.ada.dev" || a.member("dns", "value") != token {
			t.Errorf("%s", a.Body)
		}
		body := `{"token":"` + token + `"}`
		o.unchanged("before it is shown", func() {
			refused := o.call(paid.OpClaim, "ada", body).is(422, api.TokenNotFound)
			refused.shows("file", "https://ada.dev/token.txt").shows("dns", "_token.ada.dev")
			o.call(paid.OpClaim, "ada", body).is(422, api.TokenNotFound) // looked for anew
		})
		same(t, o.sites.asked, 2)
		o.sites.shown["ada.dev"] = []string{token}
		squatting := o.prove(o.challengeFor(paid.OpChange, "ada", `{"name":"Mine"}`), alice)
		o.unchanged("others", func() {
			o.deed(paid.OpClaim, "ada", body, alice).is(403, api.NotOwner)
			o.deed(paid.OpClaim, "ada", body, bobby).is(403, api.NotOwner)
		})
		claimed := o.deed(paid.OpClaim, "ada", body, carol).is(200, "")
		if claimed.member("owner") != address || claimed.member("member", "slug") != "ada" {
			t.Error(string(claimed.Body))
		}
		if m := o.memberNow("ada"); m.Owner.String() != address || !m.Claimed || m.Proof != core.ByFile || m.Verified == 0 {
			t.Errorf("%+v", m)
		}
		o.unchanged("the squatter", func() {
			o.call(paid.OpChange, "ada", `{"name":"Mine"}`, squatting).is(403, api.NotOwner)
			o.deed(paid.OpLeave, "ada", "", alice).is(403, api.NotOwner)
		})
		o.deed(paid.OpChange, "ada", `{"name":"Hers"}`, carol).is(200, "")

		o.unchanged("other tokens", func() {
			o.call(paid.OpClaim, "bob", body).is(422, api.InvalidRequest) // another member's
			for _, wrong := range []string{`{}`, `{"token":"x"}`, `{"token":"` + token + `","account":"` + address + `"}`, `{"account":"ada"}`, `{"account":"` + carol + `"}`,
				`{"token":"` + token[:47] + `"}`, `{"token":"` + strings.Repeat("A", 48) + `"}`, `{"account":null}`, ``, `[]`, `{"account":1}`} {
				o.call(paid.OpClaim, "ada", wrong).is(422, api.InvalidRequest)
			}
			o.call(paid.OpClaim, "nobody", body).is(404, api.UnknownMember)
			ask("nobody").is(404, api.UnknownMember)
		})
		o.sites.busy = 7 * time.Second
		if busy := o.call(paid.OpClaim, "ada", body).is(429, api.RateLimited); busy.field("Retry-After") != "7" {
			t.Errorf("%v", busy.Header)
		}
		o.sites.busy, o.sites.dns = 0, true
		o.block(ledger.BlockPayer, carol)
		o.call(paid.OpClaim, "ada", body).is(403, api.NotAdmitted)
		// A member that has moved takes the tokens of its new host.
		o.claim("bob", bobby).is(200, "")
		if m := o.memberNow("bob"); m.Proof != core.ByDNS {
			t.Errorf("%+v", m)
		}
		old := o.sites.shown["bob.dev"][0]
		o.deed(paid.OpChange, "bob", `{"url":"https://bob.example.dev/"}`, bobby).is(200, "")
		o.call(paid.OpClaim, "bob", `{"token":"`+old+`"}`).is(422, api.InvalidRequest)
	})
}

// An owner has its site visited at once, at most ten times a day. That is no event.
func TestOwnersAskForVisits(t *testing.T) {
	in(t, "", func(t *testing.T) {
		var visited []string
		o := newOwned(t, func(r *ring) { r.visit = func(slug string) { visited = append(visited, slug) } })
		events := o.books.Size()
		if a := o.deed(paid.OpVisit, "ada", "", alice).is(200, ""); a.member("visiting") != true || a.member("member", "slug") != "ada" || a.field("Webring-Seq") != fmt.Sprint(events) {
			t.Errorf("%s %v", a.Body, a.Header)
		}
		o.deed(paid.OpVisit, "ada", "", bobby).is(403, api.NotOwner)
		for range 9 {
			o.deed(paid.OpVisit, "ada", "{}", alice).is(200, "")
		}
		o.call(paid.OpVisit, "ada", "").is(429, api.RateLimited)
		if len(visited) != 10 || o.books.Size() != events {
			t.Errorf("visited %q, %d events", visited, o.books.Size()-events)
		}
	})
}

// Each write of an owner's deeds fails once, stored or not, and ends the process. The next one,
// on the same machine or as another node of a cluster, does with the same proof what was not
// done: each deed is done once.
func TestDeedsSurviveEveryFault(t *testing.T) {
	deeds := []struct{ op, slug, body, by string }{
		{paid.OpChange, "ada", `{"name":"Other"}`, alice},
		{paid.OpChange, "ada", `{"url":"https://ada.example.dev/","description":"Both"}`, alice},
		{paid.OpClaim, "ada", "", carol},
		{paid.OpLeave, "bob", "", bobby},
	}
	run := func(t *testing.T, o *owned) {
		t.Helper()
		for i, d := range deeds {
			if d.body == "" && d.op == paid.OpClaim {
				a := o.call(paid.OpClaim, "ada", `{"account":"`+carol[strings.LastIndexByte(carol, ':')+1:]+`"}`).is(200, "")
				token, _ := a.member("token").(string)
				o.sites.shown["ada.example.dev"] = []string{token}
				d.body = `{"token":"` + token + `"}`
			}
			credential := o.prove(o.challengeFor(d.op, d.slug, d.body), d.by)
			for try := 0; ; try++ {
				a := o.call(d.op, d.slug, d.body, credential)
				synctest.Wait()
				o.revive()
				if a.Status == 200 || a.Status == 409 && a.code() == string(api.CredentialReused) {
					break
				}
				if a.Status != 503 || try > 5 {
					t.Fatalf("deed %d: %d %s", i, a.Status, a.Body)
				}
			}
			o.unchanged("a replay", func() { o.call(d.op, d.slug, d.body, credential).is(409, api.CredentialReused) })
		}
		a, b := o.memberNow("ada"), o.memberNow("bob")
		if a.Name != "Other" || a.URL != "https://ada.example.dev/" || a.Description != "Both" || !a.Claimed || !b.Removed {
			t.Errorf("%+v\n%+v", a, b)
		}
		same(t, o.books.Size(), 1+1+2+1+2+1+1)
	}
	for _, fault := range []ledgertest.Fault{ledgertest.FailNotStored, ledgertest.FailButStored} {
		for commit := 1; commit <= 4; commit++ {
			for _, elsewhere := range []bool{false, true} {
				in(t, fmt.Sprintf("fault %d of write %d, another node %t", fault, commit, elsewhere), func(t *testing.T) {
					o := newOwned(t, func(r *ring) { r.elsewhere = elsewhere })
					o.store.FailAt(commit, fault)
					run(t, o)
				})
			}
		}
	}
}

// What a claim takes from an owner, it takes back for seven days, with its own signature: the member,
// and its URL if that was moved. Then what the site has proved is final.
func TestAnOwnerTakesBackWhatAClaimTook(t *testing.T) {
	const thiefs = `{"url":"https://thief.dev/"}`
	mallory, trent := account(7, 8453), account(8, 8453)
	run := func(name string, f func(t *testing.T, o *owned)) {
		in(t, name, func(t *testing.T) {
			o := newOwned(t)
			o.post(paid.OpBid, fund, o.sign(o.challenge(paid.OpBid, fund), bobby, 150)).is(200, "")
			f(t, o)
		})
	}
	nothing := func(o *owned) {
		o.t.Helper()
		o.unchanged("nothing to take back", func() { o.call(paid.OpReturn, "ada", "{}").is(422, api.InvalidRequest) })
	}
	is := func(o *owned, owner, url string) {
		o.t.Helper()
		if m := o.memberNow("ada"); m.Owner != core.AccountOf(owner) || m.URL != url || m.Total() != 250 || m.Removed {
			o.t.Errorf("%+v, want %s at %s", m, owner, url)
		}
	}
	run("its owner moves it", func(t *testing.T, o *owned) {
		o.deed(paid.OpChange, "ada", `{"url":"https://ada.example.dev/"}`, alice).is(200, "")
		nothing(o)
		o.claim("ada", alice).is(200, "") // by its own site
		nothing(o)
	})
	run("a claim and a move", func(t *testing.T, o *owned) {
		before := o.memberNow("ada")
		o.claim("ada", mallory).is(200, "")
		o.deed(paid.OpChange, "ada", thiefs, mallory).is(200, "")
		o.restart()
		time.Sleep(6 * 24 * time.Hour)
		c := o.challengeFor(paid.OpReturn, "ada", "")
		if words, _ := c.SplitID(); words != "Put ada back as it was" {
			t.Errorf("signed is %q", words)
		}
		for _, other := range []string{mallory, bobby} {
			o.unchanged(other, func() { o.call(paid.OpReturn, "ada", "", o.prove(c, other)).is(403, api.NotOwner) })
		}
		proof := o.prove(c, alice)
		a := o.call(paid.OpReturn, "ada", "", proof).is(200, "")
		if a.member("returned") != true || a.member("member", "url") != "https://ada.dev" || a.field("Webring-Seq") != fmt.Sprint(o.books.Size()) {
			t.Errorf("%s %v", a.Body, a.Header)
		}
		is(o, alice, "https://ada.dev")
		if m := o.memberNow("ada"); m.Score.Value != before.Score.Value || m.Claimed || m.Proof != 0 {
			t.Errorf("%+v, was %+v", m, before)
		}
		o.unchanged("once more", func() { o.call(paid.OpReturn, "ada", "", proof).is(409, api.CredentialReused) })
		nothing(o)
		o.deed(paid.OpChange, "ada", `{"name":"Hers"}`, mallory).is(403, api.NotOwner)
		o.join(`{"name":"T","url":"https://thief.dev","kind":"agent"}`, carol)
	})
	run("another node leads", func(t *testing.T, o *owned) {
		o.elsewhere = true
		o.claim("ada", mallory).is(200, "")
		o.deed(paid.OpChange, "ada", thiefs, mallory).is(200, "")
		o.restart()
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		is(o, alice, "https://ada.dev")
	})
	run("the site names an owner again and again", func(t *testing.T, o *owned) {
		o.claim("ada", mallory).is(200, "")
		for range 3 {
			o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
			o.claim("ada", mallory).is(200, "")
			time.Sleep(2 * 24 * time.Hour)
		}
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		time.Sleep(24 * time.Hour)
		late := o.prove(o.challengeFor(paid.OpChange, "ada", `{"name":"Hers"}`), alice)
		o.claim("ada", mallory).is(200, "")
		nothing(o)
		o.call(paid.OpChange, "ada", `{"name":"Hers"}`, late).is(403, api.NotOwner)
		is(o, mallory, "https://ada.dev")
		o.claim("ada", trent).is(200, "") // from the one that the site had named
		o.deed(paid.OpReturn, "ada", "", alice).is(403, api.NotOwner)
		o.deed(paid.OpReturn, "ada", "", mallory).is(200, "")
		if m := o.memberNow("ada"); !m.Claimed {
			t.Errorf("%+v", m)
		}
	})
	run("through several hands", func(t *testing.T, o *owned) {
		o.claim("ada", mallory).is(200, "")
		o.claim("ada", trent).is(200, "")
		o.deed(paid.OpReturn, "ada", "", mallory).is(403, api.NotOwner)
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		nothing(o)
	})
	run("the site gives it back", func(t *testing.T, o *owned) {
		o.claim("ada", mallory).is(200, "")
		o.claim("ada", alice).is(200, "")
		nothing(o)
		time.Sleep(8 * 24 * time.Hour)
		o.claim("ada", mallory).is(200, "") // a second theft
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
	})
	run("it has left", func(t *testing.T, o *owned) {
		o.claim("ada", mallory).is(200, "")
		o.deed(paid.OpChange, "ada", thiefs, mallory).is(200, "")
		o.deed(paid.OpLeave, "ada", "", mallory).is(200, "")
		o.deed(paid.OpReturn, "ada", "", bobby).is(403, api.NotOwner)
		o.deed(paid.OpReturn, "ada", "", mallory).is(200, "")
		o.deed(paid.OpLeave, "ada", "", mallory).is(200, "")
		is := func(owner string, claimed bool, url string) {
			t.Helper()
			if m := o.memberNow("ada"); m.Owner != core.AccountOf(owner) || m.Claimed != claimed || m.URL != url {
				t.Errorf("%+v", m)
			}
		}
		is(mallory, true, "https://thief.dev/")
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		is(alice, false, "https://ada.dev")
		o.deed(paid.OpLeave, "ada", "", alice).is(200, "")
		o.claim("ada", trent).is(200, "") // its owner had left
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
	})
	run("others have its URL", func(t *testing.T, o *owned) {
		o.claim("ada", mallory).is(200, "")
		o.deed(paid.OpChange, "ada", thiefs, mallory).is(200, "")
		o.join(ada, mallory)
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		is(o, alice, "https://thief.dev/")
	})
	run("a move gives seven days more", func(t *testing.T, o *owned) {
		o.claim("ada", mallory).is(200, "")
		time.Sleep(core.ReturnSpan*time.Millisecond - time.Minute)
		o.deed(paid.OpChange, "ada", thiefs, mallory).is(200, "")
		time.Sleep(core.ReturnSpan*time.Millisecond - time.Minute)
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		o.claim("ada", mallory).is(200, "")
		nothing(o)
		o.deed(paid.OpChange, "ada", thiefs, mallory).is(200, "")
		nothing(o)
	})
	run("a payment for it is open", func(t *testing.T, o *owned) {
		o.claim("ada", mallory).is(200, "")
		o.deed(paid.OpChange, "ada", thiefs, mallory).is(200, "")
		o.network.fates[carol] = fate{after: 8 * time.Second}
		paying := o.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{o.sign(o.challenge(paid.OpBid, fund), carol, 150)}})
		time.Sleep(time.Second)
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "") // nobody can hold it up
		is(o, alice, "https://ada.dev")
		paying.wait().is(200, "")
		o.call(paid.OpChange, "ada", `{"url":"https://squat.dev/"}`).is(422, api.InvalidRequest)
	})
	run("ten a day", func(t *testing.T, o *owned) {
		for range 10 {
			o.claim("ada", mallory).is(200, "")
			o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		}
		o.call(paid.OpClaim, "ada", `{"token":"`+o.sites.shown["ada.dev"][0]+`"}`).is(429, api.RateLimited)
	})
	run("who only paid takes no money from the site", func(t *testing.T, o *owned) {
		const squat = `{"url":"https://squat.dev/"}`
		o.claim("ada", trent).is(200, "") // alice had listed a site of trent
		time.Sleep(6 * 24 * time.Hour)
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		o.restart()
		days := func() { // that remain
			o.t.Helper()
			o.unchanged("a move away", func() {
				if a := o.call(paid.OpChange, "ada", squat).is(422, api.InvalidRequest); !strings.Contains(string(a.Body), "stays until") {
					t.Errorf("%s", a.Body)
				}
			})
			o.deed(paid.OpChange, "ada", `{"url":"https://www.ada.dev"}`, alice).is(200, "")
			o.deed(paid.OpChange, "ada", `{"url":"https://ada.dev"}`, alice).is(200, "")
		}
		days()
		time.Sleep(core.ReturnSpan*time.Millisecond - time.Minute)
		days()
		o.claim("ada", trent).is(200, "")
		nothing(o) // it is final
		is(o, trent, "https://ada.dev")
		o.deed(paid.OpChange, "ada", squat, trent).is(200, "")
	})
	run("who has taken back moves after seven days", func(t *testing.T, o *owned) {
		early := o.prove(o.challengeFor(paid.OpChange, "ada", thiefs), alice)
		o.claim("ada", mallory).is(200, "")
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		o.unchanged("a move that was signed before", func() { o.call(paid.OpChange, "ada", thiefs, early).is(422, api.InvalidRequest) })
		time.Sleep(core.ReturnSpan * time.Millisecond)
		o.deed(paid.OpChange, "ada", thiefs, alice).is(200, "")
	})
	run("the site of who has taken back names it", func(t *testing.T, o *owned) {
		o.claim("ada", mallory).is(200, "")
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		o.claim("ada", alice).is(200, "")
		o.deed(paid.OpChange, "ada", thiefs, alice).is(200, "")
	})
	run("more claims than are remembered", func(t *testing.T, o *owned) {
		for i := range 45 {
			o.claim("ada", account(100+i, 8453)).is(200, "")
			if i%10 == 9 {
				time.Sleep(24*time.Hour + time.Minute)
			}
		}
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		is(o, alice, "https://ada.dev")
		nothing(o)
	})
	run("the operator keeps out what the thief has made of it", func(t *testing.T, o *owned) {
		o.claim("ada", mallory).is(200, "")
		o.deed(paid.OpChange, "ada", `{"url":"https://thief.dev/","name":"Casino","category":"stolen"}`, mallory).is(200, "")
		o.deed(paid.OpLeave, "ada", "", mallory).is(200, "")
		for i := range 3 { // so alice opens no more today
			o.join(fmt.Sprintf(`{"name":"S%d","url":"https://s%d.dev","kind":"agent","category":"new-%d"}`, i, i, i), alice)
		}
		o.block(ledger.BlockHost, "thief.dev")
		o.block(ledger.BlockWord, "casino")
		o.block(ledger.BlockPayer, mallory)
		o.deed(paid.OpReturn, "ada", "", alice).is(200, "")
		is(o, alice, "https://ada.dev")
		if m := o.memberNow("ada"); m.Category != "general" {
			t.Errorf("%+v", m)
		}
	})
	run("the operator keeps out the site to which it would return", func(t *testing.T, o *owned) {
		o.claim("ada", mallory).is(200, "")
		o.deed(paid.OpChange, "ada", thiefs, mallory).is(200, "")
		o.deed(paid.OpLeave, "ada", "", mallory).is(200, "")
		o.join(ada, carol)
		o.block(ledger.BlockHost, "thief.dev")
		o.unchanged("a return", func() { o.call(paid.OpReturn, "ada", "").is(403, api.NotAdmitted) })
	})
	run("the operator keeps out its earlier owner", func(t *testing.T, o *owned) {
		o.claim("ada", mallory).is(200, "")
		o.deed(paid.OpChange, "ada", thiefs, mallory).is(200, "")
		o.deed(paid.OpLeave, "ada", "", mallory).is(200, "")
		o.block(ledger.BlockPayer, alice)
		o.unchanged("a return", func() { o.call(paid.OpReturn, "ada", "").is(403, api.NotAdmitted) })
	})
	run("it is hidden", func(t *testing.T, o *owned) {
		o.must(o.hide("bob"))
		o.unchanged("without a claim", func() { o.call(paid.OpReturn, "bob", "").is(403, api.NotAdmitted) })
		o.claim("ada", mallory).is(200, "")
		o.deed(paid.OpChange, "ada", thiefs, mallory).is(200, "")
		o.must(o.hide("ada"))
		c := o.challengeFor(paid.OpReturn, "ada", "")
		o.unchanged("another's", func() { o.call(paid.OpReturn, "ada", "", o.prove(c, mallory)).is(403, api.NotOwner) })
		if a := o.call(paid.OpReturn, "ada", "", o.prove(c, alice)).is(200, ""); a.member("member") != nil {
			t.Errorf("%s", a.Body)
		}
		o.restart()
		if m := o.memberNow("ada"); !m.Hidden {
			t.Errorf("%+v", m)
		}
		is(o, alice, "https://ada.dev")
		o.unchanged("once more", func() { o.call(paid.OpReturn, "ada", "").is(403, api.NotAdmitted) })
		o.join(`{"name":"T","url":"https://thief.dev","kind":"agent"}`, carol)
	})
	run("it is removed", func(t *testing.T, o *owned) {
		o.claim("ada", mallory).is(200, "")
		o.must(o.remove("ada", true))
		o.call(paid.OpReturn, "ada", "").is(410, api.MemberRemoved)
	})
}
