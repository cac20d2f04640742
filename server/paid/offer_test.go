package paid_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/sites/score"
)

// in runs a test in a bubble, where time passes when everybody waits: one of several if it
// has a name.
func in(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	if name == "" {
		synctest.Test(t, f)
		return
	}
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// inRing runs a test on a new ring, to which changes come before it starts.
func inRing(t *testing.T, name string, f func(t *testing.T, r *ring), changes ...func(*ring)) {
	t.Helper()
	in(t, name, func(t *testing.T) { f(t, newRing(t, changes...)) })
}

// inAdasRing runs a test on a ring with one member, which alice has paid for.
func inAdasRing(t *testing.T, name string, f func(t *testing.T, r *ring), changes ...func(*ring)) {
	t.Helper()
	inRing(t, name, func(t *testing.T, r *ring) {
		r.join(ada, "alice")
		f(t, r)
	}, changes...)
}

// A challenge means that paying is safe: everything that can refuse the
// request does so before, at no cost.
func TestNoChallengeBeforeValidationAndScore(t *testing.T) {
	const odd = `{"name":"Odd","url":"https://odd.dev","kind":"agent"}`
	for _, c := range []struct {
		rule, op, body string
		before         func(r *ring)
		status         int
		code           api.Code
		asked          int // times that the scorer is asked
		shows          map[string]any
	}{
		{rule: "an empty body", op: paid.OpRegister, status: 422, code: api.InvalidRequest},
		{rule: "an invalid URL", op: paid.OpRegister, body: `{"name":"X","url":"https://10.0.0.1","kind":"agent"}`, status: 422, code: api.InvalidURL},
		{rule: "an opening bid below the minimum", op: paid.OpRegister, body: `{"name":"X","url":"https://x.dev","kind":"agent","bid":"0.99"}`, status: 422, code: api.BidTooLow},
		{rule: "a bid below the minimum", op: paid.OpBid, body: `{"member":"ada","amount":"0.99"}`, status: 422, code: api.BidTooLow},
		{rule: "a minimum that was raised", op: paid.OpBid, body: `{"member":"ada","amount":"1.99"}`, status: 422, code: api.BidTooLow,
			before: func(r *ring) { r.rules(func(e *core.Rules) { e.MinBid = 200 }) }},
		{rule: "a URL that is registered", op: paid.OpRegister, body: `{"name":"X","url":"http://www.ada.dev/index.html","kind":"agent"}`, status: 409, code: api.AlreadyRegistered},
		{rule: "an unknown member", op: paid.OpBid, body: `{"member":"nobody","amount":"1.00"}`, status: 404, code: api.UnknownMember},
		{rule: "a URL below a member's", op: paid.OpBid, body: `{"member":"https://ada.dev/page","amount":"1.00"}`, status: 404, code: api.UnknownMember},
		{rule: "a bare host", op: paid.OpBid, body: `{"member":"ada.dev","amount":"1.00"}`, status: 404, code: api.UnknownMember},
		{rule: "a removed member", op: paid.OpBid, body: fund, status: 410, code: api.MemberRemoved,
			before: func(r *ring) {
				r.must(r.remove("ada", false))
			}},
		{rule: "a score of 40", op: paid.OpRegister, body: odd, status: 402, code: api.PaymentRequired, asked: 1,
			before: func(r *ring) { r.scorer.results["https://odd.dev"] = score.Result{Score: 40, Provider: "test"} }},
		{rule: "a score of 39", op: paid.OpRegister, body: odd, status: 422, code: api.ScoreTooLow, asked: 1,
			shows:  map[string]any{"score": 39.0, "required": 40.0, "report": nil},
			before: func(r *ring) { r.scorer.results["https://odd.dev"] = score.Result{Score: 39, Provider: "test"} }},
		{rule: "no score for this site", op: paid.OpRegister, body: odd, status: 422, code: api.ScoreTooLow, asked: 1,
			shows: map[string]any{"score": nil, "required": 40.0, "report": nil,
				"detail": "There is no agent-readiness score for this site: it was not scanned yet; have it scanned at https://score.example and send the request again"},
			before: func(r *ring) { r.scorer.err = &score.NotScorable{Where: "https://score.example", Never: true} }},
		{rule: "a site that is not examined", op: paid.OpRegister, body: odd, status: 422, code: api.InvalidURL, asked: 1,
			before: func(r *ring) { r.scorer.err = score.ErrBadTarget }},
		{rule: "a score on its way", op: paid.OpRegister, body: odd, status: 503, code: api.ScorePending, asked: 1,
			before: func(r *ring) { r.scorer.err = &score.Pending{RetryAfter: 7 * time.Second} }},
		{rule: "a silent scorer", op: paid.OpRegister, body: odd, status: 503, code: api.ScoreUnavailable, asked: 1,
			before: func(r *ring) {
				r.scorer.err = &score.Unavailable{RetryAfter: 9 * time.Second, Err: errors.New("no answer")}
			}},
		{rule: "any other error of the scorer", op: paid.OpRegister, body: odd, status: 503, code: api.ScoreUnavailable, asked: 1,
			before: func(r *ring) { r.scorer.err = errors.New("a broken scorer") }},
		{rule: "a score out of range", op: paid.OpRegister, body: odd, status: 503, code: api.ScoreUnavailable, asked: 1,
			before: func(r *ring) { r.scorer.results["https://odd.dev"] = score.Result{Score: 300, Provider: "test"} }},
		{rule: "a report that no event can hold", op: paid.OpRegister, body: odd, status: 503, code: api.ScoreUnavailable, asked: 1,
			before: func(r *ring) {
				r.scorer.results["https://odd.dev"] = score.Result{Score: 90, Provider: "test", Report: "https://x/" + strings.Repeat("r", core.MaxReport)}
			}},
		{rule: "a report that no challenge can hold", op: paid.OpRegister, body: odd, status: 503, code: api.ScoreUnavailable, asked: 1,
			before: func(r *ring) {
				r.scorer.results["https://odd.dev"] = score.Result{Score: 90, Provider: "test", Report: "https://x/?" + strings.Repeat(`"`, 2000)}
			}},
	} {
		inAdasRing(t, c.rule, func(t *testing.T, r *ring) {
			if c.before != nil {
				c.before(r)
			}
			asked, size := r.scorer.count(), r.size()
			a := r.post(c.op, c.body).is(c.status, c.code)
			same(t, r.scorer.count()-asked, c.asked)
			if c.asked > 0 {
				same(t, r.scorer.client, clientAddress)
			}
			same(t, r.size(), size)
			for name, want := range c.shows {
				a.shows(name, want)
			}
			if c.code == api.ScorePending && a.field("Retry-After") != "7" || c.rule == "a silent scorer" && a.field("Retry-After") != "9" {
				t.Errorf("Retry-After: %s", a.field("Retry-After"))
			}
		})
	}
}

// What a 402 says: amount, expiry, one challenge for each offer, bound to this
// request and to no Host.
func TestChallengeSaysWhatIsAsked(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		a := r.post(paid.OpRegister, `{"name":"Ada","url":"https://ada.dev","kind":"agent","bid":"2.50"}`).is(402, api.PaymentRequired)
		a.shows("amount_usd", "3.50")
		first := a.challenges()
		if len(first) != 1 || first[0].Realm != realm || first[0].Method != "coin" || first[0].Intent != "charge" {
			t.Fatalf("offers: %+v", first)
		}
		expires, err := first[0].ExpiresAt()
		if err != nil || expires.Sub(r.now()) != 5*time.Minute || a.member("expires") != first[0].Expires {
			t.Errorf("expires %v, %v: %s", expires, err, a.Body)
		}
		offers, _ := a.member("offers").([]any)
		if len(offers) != 1 || offers[0].(map[string]any)["method"] != "coin" || offers[0].(map[string]any)["expires"] != first[0].Expires {
			t.Errorf("offers of the document: %v", offers)
		}
		if help := a.field("Link"); help != `<`+base+`/llms.txt>; rel="help"; type="text/plain"` {
			t.Errorf("help: %s", help)
		}
		again := r.post(paid.OpRegister, `{"name":"Ada","url":"https://ada.dev","kind":"agent","bid":"2.50"}`).challenges()
		if first[0].ID == again[0].ID {
			t.Error("two payers in one instant share a challenge")
		}
	})
}

// A method can have its challenges live for less than others, and the document says
// until when all of its offers hold.
func TestOffersExpireAsTheirMethodsSay(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		for accept, shortest := range map[string]time.Duration{"": time.Minute, "coin/charge": paid.ChallengeLife} {
			a := r.handle(paid.Call{Operation: paid.OpRegister, Body: []byte(ada), AcceptPayment: accept}).is(402, api.PaymentRequired)
			lives := map[string]time.Duration{"coin": paid.ChallengeLife, "token": time.Minute}
			for _, c := range a.challenges() {
				if expires, err := c.ExpiresAt(); err != nil || expires.Sub(r.now()) != lives[c.Method] {
					t.Errorf("%s expires at %v, %v", c.Method, expires, err)
				}
			}
			if want := r.now().Add(shortest).UTC().Format(time.RFC3339); a.member("expires") != want {
				t.Errorf("%q: expires %s, want %s", accept, a.member("expires"), want)
			}
		}
	}, two)
}

// What the challenge pinned is kept: no service is asked again, and a limit that
// was met in between, or a rule that was changed, refuses no payment.
func TestWhatTheChallengePromisedIsKept(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		body := `{"name":"Last","url":"https://last.dev","kind":"website","category":"the-last-one","bid":"1.00"}`
		join := r.challenge(paid.OpRegister, body)
		bid := r.challenge(paid.OpBid, fund)
		scored := r.scorer.count()

		r.scorer.err = errors.New("asked again")
		r.rules(func(e *core.Rules) { e.Fee, e.MinBid, e.RequiredScore = 700, 800, 99 })
		r.fillCategories(core.MaxCategories)

		r.post(paid.OpRegister, body).is(422, api.BidTooLow) // the new rules hold for who comes now
		a := r.post(paid.OpRegister, body, r.sign(join, "bob", 200)).is(201, "")
		if a.member("member", "agentic_score") != 72.0 || r.total("last") != 200 {
			t.Errorf("joined as %s", a.Body)
		}
		r.post(paid.OpBid, fund, r.sign(bid, "bob", 150)).is(200, "")
		r.has(amounts{"ada": 250, "bob paid": 350})
		same(t, r.scorer.count()-scored, 0)
		r.scorer.err = nil
		r.rules(func(e *core.Rules) { e.RequiredScore = 40 })
		r.post(paid.OpRegister, `{"name":"Late","url":"https://late.dev","kind":"mcp","category":"one-more"}`).is(422, api.CategoryUnavailable)
		r.post(paid.OpRegister, `{"name":"Late","url":"https://late.dev","kind":"mcp"}`).is(402, api.PaymentRequired)
	}, func(r *ring) { r.capacity = 3000 })
}

// A host that is no longer admitted is refused to who comes now, and not to who
// holds a challenge for it, before a restart or after.
func TestPromisedSiteIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, func(r *ring) {
			r.config = func(c *paid.Config) { c.Sites.AllowHosts = []string{"ada.test"} }
		})
		body := `{"name":"Ada","url":"https://ada.test","kind":"agent"}`
		credential := r.sign(r.challenge(paid.OpRegister, body), "alice", 100)
		r.config = nil
		r.restart()
		r.post(paid.OpRegister, body).is(422, api.InvalidURL)
		r.post(paid.OpRegister, body, credential).is(201, "")
		r.has(amounts{"ada": 100, "alice paid": 100})
	})
}

// What a challenge cannot promise: the ring has changed so that the order makes
// no sense any more. Nothing is charged.
func TestWhatComesBetweenChallengeAndPayment(t *testing.T) {
	for _, c := range []struct {
		rule, op, body string
		between        func(r *ring)
		status         int
		code           api.Code
	}{
		{"the same URL was registered", paid.OpRegister, bob, func(r *ring) { r.join(bob, "quick") }, 409, api.AlreadyRegistered},
		{"the member was removed", paid.OpBid, fund, func(r *ring) { r.must(r.remove("ada", false)) }, 410, api.MemberRemoved},
		{"the member was removed, and its URL joined under another slug", paid.OpBid, `{"member":"https://ada.dev","amount":"1.00"}`, func(r *ring) {
			r.must(r.remove("ada", false))
			r.join(`{"name":"Ada Again","url":"https://ada.dev","kind":"agent"}`, "quick")
		}, 410, api.MemberRemoved},
		{"a clock two days ahead", paid.OpRegister, bob, func(r *ring) { r.back.Store(int64(-48 * time.Hour)) }, 503, api.PaymentsUnavailable},
		{"a chain that stopped", paid.OpRegister, bob, func(r *ring) {
			r.network.change(func() { r.network.skew = -61 * time.Second })
			time.Sleep(15 * time.Second)
		}, 503, api.PaymentsUnavailable},
		{"a chain that went silent", paid.OpRegister, bob, func(r *ring) {
			r.network.change(func() { r.network.down = true })
			time.Sleep(15 * time.Second)
		}, 503, api.PaymentsUnavailable},
	} {
		inAdasRing(t, c.rule, func(t *testing.T, r *ring) {
			ch := r.challenge(c.op, c.body)
			c.between(r)
			size := r.size()
			a := r.post(c.op, c.body, r.sign(ch, "bob", 100, func(tx *transaction) {
				if c.op == paid.OpBid && c.body == fund {
					tx.Cents = 150
				}
			})).is(c.status, c.code)
			if r.network.charged("bob") != 0 || r.size() != size || r.stored(ch) != nil {
				t.Errorf("charged %d, ledger %s, was %s", r.network.charged("bob"), r.size(), size)
			}
			if c.code == api.AlreadyRegistered && a.member("links", "self") != base+"/api/ring/bob" {
				t.Errorf("links: %s", a.Body)
			}
		})
	}
}

// Accept-Payment orders and filters the offers; it never leaves none.
func TestAcceptPaymentChoosesAmongOffers(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		for _, c := range []struct{ header, want string }{
			{"", "coin token"},
			{"token/charge, coin/charge;q=0.5", "token coin"},
			{"*/*;q=0.1, token/*", "token coin"},
			{"coin/charge;q=0, */*", "token"},
			{"evm/charge", "coin token"},
			{"!!!", "coin token"},
		} {
			a := r.handle(paid.Call{Operation: paid.OpRegister, Body: []byte(ada), AcceptPayment: c.header}).is(402, api.PaymentRequired)
			var got []string
			ids := map[string]bool{}
			for _, ch := range a.challenges() {
				got = append(got, ch.Method)
				ids[ch.ID] = true
			}
			if strings.Join(got, " ") != c.want || len(ids) != len(got) {
				t.Errorf("%q: offers %v, want %s", c.header, got, c.want)
			}
		}
		// Any one of the offers may be paid, and no second one.
		offers := r.post(paid.OpRegister, ada).challenges()
		r.post(paid.OpRegister, ada, r.sign(offers[1], "alice", 100)).is(201, "")
		r.post(paid.OpRegister, ada, r.sign(offers[0], "alice", 100)).is(409, api.AlreadyRegistered)
		if r.second.charged("alice") != 100 || r.network.charged("alice") != 0 {
			t.Errorf("charged %d and %d", r.second.charged("alice"), r.network.charged("alice"))
		}
	}, two)
}

func TestCallsThatCanNotBePaidFor(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		ch := r.challenge(paid.OpRegister, ada)
		credential := r.sign(ch, "alice", 100)
		for _, authorization := range [][]string{nil, {credential}} {
			a := answer{t, r.service.Handle(t.Context(), paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Authorization: authorization})}
			a.form()
			a.is(403, api.TLSRequired)
		}
		same(t, r.network.questions("decode", "simulate", "broadcast"), 0)

		r.methods = nil
		none, err := paid.New(paid.Config{Ledger: r.books, Now: r.now, Scorer: r.scorer})
		if err != nil {
			t.Fatal(err)
		}
		defer none.Close(t.Context())
		a := answer{t, none.Handle(t.Context(), paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Secure: true})}
		a.form()
		a.is(503, api.PaymentsUnconfigured).waits(3600, 3600)
		if found, err := none.Scan(t.Context(), r.now().Add(-time.Hour), false); err == nil {
			t.Errorf("without a network, a scan is done: %v", found)
		}
	})
}

// A ring that takes no payments is still asked for what there is not, and for what is
// already there.
func TestWithoutAPaymentMethodInvalidRequestsAreToldSo(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		asked := r.scorer.count()
		none, err := paid.New(paid.Config{Ledger: r.books, Now: r.now, Scorer: r.scorer})
		if err != nil {
			t.Fatal(err)
		}
		defer none.Close(t.Context())
		for _, c := range []struct {
			op, body, key string
			status        int
			code          api.Code
		}{
			{paid.OpRegister, "", "", 422, api.InvalidRequest},
			{paid.OpRegister, `{"name":"Bob","url":"http://localhost/","kind":"agent"}`, "", 422, api.InvalidURL},
			{paid.OpRegister, ada, "", 409, api.AlreadyRegistered},
			{paid.OpRegister, ada, strings.Repeat("k", 256), 400, api.InvalidIdempotencyKey},
			{paid.OpBid, `{"member":"ada","amount":"0.99"}`, "", 422, api.BidTooLow},
			{paid.OpBid, `{"member":"nobody","amount":"1.00"}`, "", 404, api.UnknownMember},
			{paid.OpBid, `{"member":"ada","amount":"1.00"}`, "", 503, api.PaymentsUnconfigured},
			{paid.OpRegister, bob, "", 503, api.PaymentsUnconfigured},
		} {
			for _, secure := range []bool{true, false} {
				for _, authorization := range [][]string{nil, {"Payment e30"}} {
					a := answer{t, none.Handle(t.Context(), paid.Call{Operation: c.op, Body: []byte(c.body), IdempotencyKey: c.key, Authorization: authorization, Secure: secure})}
					a.form()
					a.is(c.status, c.code)
				}
			}
		}
		same(t, r.scorer.count(), asked)
	})
}

// What a challenge binds are the bytes that came, in their content coding.
func TestChallengesCoverTheBytesAsReceived(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		coded := []byte("\x1f\x8b as it came")
		call := paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Received: coded}
		ch := r.handle(call).is(402, api.PaymentRequired).challenges()[0]
		same(t, ch.Digest, mpp.Digest(coded))
		credential := r.sign(ch, "alice", 100)
		for _, other := range []paid.Call{
			{Operation: paid.OpRegister, Body: []byte(ada)},
			{Operation: paid.OpRegister, Body: []byte(ada), Received: append(coded, 'x')},
		} {
			other.Authorization = []string{credential}
			r.handle(other).is(402, api.InvalidChallenge)
		}
		call.Authorization, call.IdempotencyKey = []string{credential}, "0123456789abcdef"
		first := r.handle(call).is(201, "")
		if again := r.handle(call).is(201, ""); string(again.Body) != string(first.Body) {
			t.Errorf("the stored answer differs: %s, was %s", again.Body, first.Body)
		}
		if stored := r.stored(ch); string(stored.Body) != ada || stored.BodyDigest != mpp.Digest(coded) {
			t.Errorf("%q is stored, with the digest %s", stored.Body, stored.BodyDigest)
		}
	})
}

func TestServiceRefusesWhatItCanNotWorkWith(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		for name, cfg := range map[string]paid.Config{
			"a short key":        {Realm: realm, Keys: mpp.Keys{Current: make([]byte, 31)}},
			"a realm with ports": {Realm: "ring.example:443", Keys: mpp.Keys{Current: challengeKey}},
			"no realm":           {Keys: mpp.Keys{Current: challengeKey}},
		} {
			cfg.Ledger, cfg.Methods = r.books, []paid.Method{&method{name: "coin"}}
			if s, err := paid.New(cfg); err == nil {
				s.Close(t.Context())
				t.Errorf("%s is taken", name)
			} else {
				r.keepsSecrets(name, fmt.Sprint(err))
			}
		}
	})
}
