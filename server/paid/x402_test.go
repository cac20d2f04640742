package paid_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/pay/x402"
)

// exact has the ring take x402 payments, too.
func exact(r *ring) { r.network.exact = true }

// required reads the PAYMENT-REQUIRED field, as a client does.
func (a answer) required() (required x402.Required) {
	a.t.Helper()
	text, err := base64.StdEncoding.DecodeString(a.field(x402.RequiredField))
	if err == nil {
		err = json.Unmarshal(text, &required)
	}
	if err != nil {
		a.t.Fatalf("%d with %s %q: %v", a.Status, x402.RequiredField, a.field(x402.RequiredField), err)
	}
	return required
}

// response reads the PAYMENT-RESPONSE field.
func (a answer) response() (response x402.Response) {
	a.t.Helper()
	text, err := base64.StdEncoding.DecodeString(a.field(x402.ResponseField))
	if err == nil {
		err = json.Unmarshal(text, &response)
	}
	if err != nil {
		a.t.Fatalf("%d with %s %q: %v", a.Status, x402.ResponseField, a.field(x402.ResponseField), err)
	}
	return response
}

// exactOffer asks for an offer of x402.
func (r *ring) exactOffer(op, body string) x402.Offer {
	r.t.Helper()
	return r.post(op, body).is(402, api.PaymentRequired).required().Accepts[0]
}

// bearer is a transaction that answers any challenge.
func (r *ring) bearer(payer string, cents int64, changes ...func(*transaction)) json.RawMessage {
	r.t.Helper()
	var tx transaction
	r.sign(mpp.Challenge{}, payer, cents, append(changes, func(t *transaction) { t.Challenge = ""; tx = *t })...)
	text, err := json.Marshal(map[string]any{"challenge": "", "payer": tx.Payer, "cents": tx.Cents, "validBefore": tx.ValidBefore, "salt": tx.Salt})
	r.must(err)
	return text
}

// exactly spells a payment as a PAYMENT-SIGNATURE field.
func (r *ring) exactly(offer x402.Offer, payload json.RawMessage, changes ...func(map[string]any)) string {
	r.t.Helper()
	text, err := json.Marshal(x402.Payment{Version: x402.Version, Accepted: offer, Payload: payload})
	r.must(err)
	if len(changes) > 0 {
		whole := map[string]any{}
		r.must(json.Unmarshal(text, &whole))
		for _, change := range changes {
			change(whole)
		}
		text, err = json.Marshal(whole)
		r.must(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(r.secrets, string(payload), base64.StdEncoding.EncodeToString(text))
	return base64.StdEncoding.EncodeToString(text)
}

// x402Call is a request with a PAYMENT-SIGNATURE.
func x402Call(op, body string, signature ...string) paid.Call {
	return paid.Call{Operation: op, Body: []byte(body), PaymentSignature: signature}
}

// Every 402 that offers a method that x402 clients can pay says so to them, and their
// payment has the same effect, once.
func TestX402PaymentHasItsEffect(t *testing.T) {
	for _, o := range orders {
		inAdasRing(t, o.op, func(t *testing.T, r *ring) {
			unpaid := r.post(o.op, o.body).is(402, api.PaymentRequired)
			required := unpaid.required()
			if len(unpaid.challenges()) != 2 || len(required.Accepts) != 1 || required.Version != 2 || required.Error == "" ||
				required.Resource.URL != base+"/api/"+strings.TrimPrefix(o.op, "api/") || required.Resource.Description == "" {
				t.Errorf("%+v", required)
			}
			offer := required.Accepts[0]
			if offer.Amount != fmt.Sprint(o.cents) || offer.Extra.Challenge.Expires == "" || offer.Extra.Challenge.ID == unpaid.challenges()[0].ID {
				t.Errorf("%+v", offer)
			}
			r.second.change(func() { r.second.exact = false })
			if some := r.handle(paid.Call{Operation: o.op, Body: []byte(o.body), AcceptPayment: "token/charge"}); some.field(x402.RequiredField) != "" || len(some.challenges()) != 1 {
				t.Errorf("of the other method: %v", some.Header)
			}
			credential := r.exactly(offer, r.bearer("did:pkh:eip155:1:0xb0b", o.cents))
			a := r.handle(x402Call(o.op, o.body, credential)).is(o.status, "")
			if got := a.response(); !got.Success || got.Payer != "0xb0b" || got.Network != "eip155:1" || !strings.HasPrefix(got.Transaction, "0x") || got.ErrorReason != "" {
				t.Errorf("%+v", got)
			}
			again := r.handle(x402Call(o.op, o.body, credential)).is(409, api.CredentialReused)
			if got := again.response(); got.Success || got.ErrorReason != "credential_reused" || got.Network != "eip155:1" {
				t.Errorf("again: %+v", got)
			}
			if r.total(o.slug) != o.total || r.network.charged("did:pkh:eip155:1:0xb0b") != o.cents {
				t.Errorf("%s has %d", o.slug, r.total(o.slug))
			}
		}, exact, two)
	}
}

// What is presented must be what was offered, for this request, in time. Each of these is
// refused before the network is asked, and leaves nothing behind.
func TestX402PaymentsThatAreRefused(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.join(bob, "bob")
		offer := r.exactOffer(paid.OpBid, fund)
		forged, charge := offer, offer
		forged.Extra.Challenge.Opaque += "A"
		charge.Extra.Challenge = r.challenge(paid.OpBid, fund)
		extended := offer
		extended.Extra.Challenge.Expires = "2099-01-01T00:00:00Z"
		carol := func() json.RawMessage { return r.bearer("carol", 150) }
		set := func(path string, value any) func(map[string]any) {
			return func(whole map[string]any) {
				names := strings.Split(path, ".")
				at := whole
				for _, n := range names[:len(names)-1] {
					at = at[n].(map[string]any)
				}
				at[names[len(names)-1]] = value
			}
		}
		asCharge := func() paid.Call {
			return paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.present(mpp.Credential{Challenge: offer.Extra.Challenge, Payload: carol()})}}
		}
		before := r.size()
		asked := r.network.questions("simulate", "broadcast", "seen")
		for name, c := range map[string]struct {
			call   paid.Call
			status int
			code   api.Code
		}{
			"forged challenge":              {x402Call(paid.OpBid, fund, r.exactly(forged, carol())), 402, api.InvalidChallenge},
			"later expiry":                  {x402Call(paid.OpBid, fund, r.exactly(extended, carol())), 402, api.InvalidChallenge},
			"a charge as an offer":          {x402Call(paid.OpBid, fund, r.exactly(charge, carol())), 402, api.InvalidChallenge},
			"an offer as a charge":          {asCharge(), 402, api.InvalidChallenge},
			"another amount accepted":       {x402Call(paid.OpBid, fund, r.exactly(offer, carol(), set("accepted.amount", "1"))), 402, api.InvalidChallenge},
			"another payee accepted":        {x402Call(paid.OpBid, fund, r.exactly(offer, carol(), set("accepted.payTo", "mallory"))), 402, api.InvalidChallenge},
			"another token accepted":        {x402Call(paid.OpBid, fund, r.exactly(offer, carol(), set("accepted.asset", "token"))), 402, api.InvalidChallenge},
			"another network accepted":      {x402Call(paid.OpBid, fund, r.exactly(offer, carol(), set("accepted.network", "eip155:2"))), 402, api.InvalidChallenge},
			"another scheme accepted":       {x402Call(paid.OpBid, fund, r.exactly(offer, carol(), set("accepted.scheme", "upto"))), 402, api.InvalidChallenge},
			"another domain accepted":       {x402Call(paid.OpBid, fund, r.exactly(offer, carol(), set("accepted.extra.name", "other"))), 402, api.InvalidChallenge},
			"no challenge":                  {x402Call(paid.OpBid, fund, r.exactly(offer, carol(), set("accepted.extra", map[string]any{}))), 400, api.UnsupportedMethod},
			"another amount paid":           {x402Call(paid.OpBid, fund, r.exactly(offer, r.bearer("carol", 149))), 402, api.VerificationFailed},
			"version 1":                     {x402Call(paid.OpBid, fund, r.exactly(offer, carol(), set("x402Version", 1))), 400, api.UnsupportedMethod},
			"no payload":                    {x402Call(paid.OpBid, fund, r.exactly(offer, carol(), set("payload", "x"))), 400, api.Malformed},
			"no base64":                     {x402Call(paid.OpBid, fund, "{}"), 400, api.Malformed},
			"not encoded":                   {x402Call(paid.OpBid, fund, `{"x402Version":2,"accepted":{},"payload":{"signature":"0x"}}`), 400, api.Malformed},
			"version 1, in its own field":   {paid.Call{Operation: paid.OpBid, Body: []byte(fund), OldPayment: true}, 400, api.UnsupportedMethod},
			"two of them":                   {x402Call(paid.OpBid, fund, r.exactly(offer, carol()), r.exactly(offer, carol())), 400, api.MultipleCredentials},
			"two in one line":               {x402Call(paid.OpBid, fund, r.exactly(offer, carol())+", "+r.exactly(offer, carol())), 400, api.MultipleCredentials},
			"beside a credential":           {paid.Call{Operation: paid.OpBid, Body: []byte(fund), PaymentSignature: []string{r.exactly(offer, carol())}, Authorization: asCharge().Authorization}, 400, api.MultipleCredentials},
			"too long":                      {x402Call(paid.OpBid, fund, strings.Repeat("A", mpp.MaxCredential+1)), 431, api.CredentialTooLarge},
			"another scheme than ours, too": {paid.Call{Operation: paid.OpBid, Body: []byte(fund), PaymentSignature: []string{"", " "}, Authorization: []string{"Bearer x"}}, 402, api.PaymentRequired},
		} {
			a := r.handle(c.call)
			if presented := !strings.Contains(name, "charge") && !strings.Contains(name, "too"); presented || name == "too long" {
				// Whatever is wrong, the client of x402 reads it in a field of its own.
				if got := a.response(); got.Success || got.Network != "eip155:1" || got.Transaction != "" || got.ErrorReason == "" || got.ErrorMessage != a.member("detail") {
					t.Errorf("%s: %+v", name, got)
				}
			}
			if a.Status != c.status || a.code() != string(c.code) || (a.Status == 402) != (a.field(x402.RequiredField) != "") {
				t.Errorf("%s: %d %s %v", name, a.Status, a.Body, a.Header)
			}
		}
		if r.size() != before || r.network.questions("simulate", "broadcast", "seen") != asked {
			t.Errorf("something is left: %s, before %s", r.size(), before)
		}
		// For these a payment could be meant that was made: the network is asked first.
		for name, c := range map[string]paid.Call{
			"another body":      x402Call(paid.OpBid, `{"member":"ada","amount":"1.51"}`, r.exactly(offer, carol())),
			"another member":    x402Call(paid.OpBid, `{"member":"bob","amount":"1.50"}`, r.exactly(offer, carol())),
			"another operation": x402Call(paid.OpRegister, cyn, r.exactly(offer, carol())),
		} {
			if a := r.handle(c).is(402, api.InvalidChallenge); a.response().ErrorReason != string(api.InvalidChallenge) || a.required().Error == "" {
				t.Errorf("%s: %+v", name, a.response())
			}
		}
		for name, reason := range map[string]string{"no base64": x402.InvalidPayload, "1": x402.InvalidVersion} {
			call := x402Call(paid.OpBid, fund, "{}")
			if name == "1" {
				call = paid.Call{Operation: paid.OpBid, Body: []byte(fund), OldPayment: true}
			}
			same(t, r.handle(call).response().ErrorReason, reason)
		}
		time.Sleep(paid.ChallengeLife)
		late := r.exactly(offer, r.bearer("carol", 150, func(tx *transaction) { tx.ValidBefore = r.now().Unix() - 30 }))
		if a := r.handle(x402Call(paid.OpBid, fund, late)).is(402, api.PaymentExpired); a.response().ErrorReason != mpp.ReasonExpired {
			t.Errorf("%+v", a.response())
		}
		if r.size() != before || r.network.charged("carol") != 0 || r.total("ada") != 100 {
			t.Errorf("something is left: %s, before %s", r.size(), before)
		}
	}, exact)
}

// An offer holds for as long as it says.
func TestX402OffersHoldForAsLongAsTheySay(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		for _, c := range []struct {
			op, body string
			seconds  int
		}{{paid.OpBid, fund, 90}, {paid.OpRegister, cyn, 90}} {
			a := r.post(c.op, c.body).is(402, api.PaymentRequired)
			offer := a.required().Accepts[0]
			until, err := time.Parse(time.RFC3339, offer.Extra.Challenge.Expires)
			if offer.MaxTimeoutSeconds != c.seconds || err != nil || until.Sub(r.now()) > time.Duration(c.seconds)*time.Second || until.Sub(r.now()) <= time.Duration(c.seconds-1)*time.Second {
				t.Errorf("%s: %d seconds, until %s, at %s", c.op, offer.MaxTimeoutSeconds, until, r.now())
			}
			if first, err := time.Parse(time.RFC3339, fmt.Sprint(a.member("expires"))); err != nil {
				t.Errorf("the first ends at %s, this one at %s", first, until)
			}
		}
	}, exact)
}

// What was never sent is not said to be being settled: an x402 client gets a new offer at once. But
// a process cannot know what an earlier one has sent if the record of that was lost, nor what the
// payer of a charge has sent.
func TestLatePaymentsAreToldTheTruth(t *testing.T) {
	for name, c := range map[string]struct {
		x402, restarted bool
		ahead           int64 // seconds that are left
		code            api.Code
	}{
		"x402, too little is left":      {true, false, 3, api.PaymentExpired},
		"x402, nothing is left":         {true, false, -3, api.PaymentExpired},
		"charge, too little is left":    {false, false, 3, api.PaymentPending},
		"charge, nothing is left":       {false, false, -3, api.PaymentExpired},
		"x402, of an earlier process":   {true, true, 3, api.PaymentPending},
		"charge, of an earlier process": {false, true, 3, api.PaymentPending},
	} {
		inAdasRing(t, name, func(t *testing.T, r *ring) {
			call := paid.Call{Operation: paid.OpBid, Body: []byte(fund)}
			ends := func(tx *transaction) { tx.ValidBefore = r.now().Unix() + c.ahead }
			if c.x402 {
				call.PaymentSignature = []string{r.exactly(r.exactOffer(paid.OpBid, fund), r.bearer("bob", 150, ends))}
			} else {
				call.Authorization = []string{r.sign(r.challenge(paid.OpBid, fund), "bob", 150, ends)}
			}
			if c.restarted {
				r.restart()
			}
			sent := r.network.questions("simulate", "broadcast")
			a := r.handle(call)
			detail := fmt.Sprint(a.member("detail"))
			if a.code() != string(c.code) || strings.Contains(detail, "being settled") {
				t.Errorf("%d %s", a.Status, a.Body)
			}
			told, words := x402.Pending, "it is not known yet whether it was made before"
			if c.code == api.PaymentExpired {
				told, words = mpp.ReasonExpired, "the time here is "+r.now().UTC().Format(time.RFC3339)
				if len(a.required().Accepts) != 1 {
					t.Errorf("no new offer: %v", a.Header)
				}
			}
			if !strings.Contains(detail, words) {
				t.Errorf("%q lacks %q", detail, words)
			}
			if c.x402 {
				same(t, a.response().ErrorReason, told)
			}
			if r.network.questions("simulate", "broadcast") != sent {
				t.Error("it was sent")
			}
		}, exact)
	}
}

// One signed payment has one effect, whatever envelopes carry it, in either order and at
// once.
func TestOnePaymentInBothEnvelopes(t *testing.T) {
	for _, o := range orders {
		for name, first := range map[string]string{"charge first": "charge", "x402 first": "x402", "at once": ""} {
			inAdasRing(t, o.op+", "+name, func(t *testing.T, r *ring) {
				payload := r.bearer("bob", o.cents)
				credential := r.present(mpp.Credential{Challenge: r.challenge(o.op, o.body), Payload: payload})
				calls := map[string]paid.Call{
					"charge": {Operation: o.op, Body: []byte(o.body), Authorization: []string{credential}},
					"x402":   x402Call(o.op, o.body, r.exactly(r.exactOffer(o.op, o.body), payload)),
					"other":  x402Call(paid.OpBid, `{"member":"ada","amount":"1.00"}`, r.exactly(r.exactOffer(paid.OpBid, `{"member":"ada","amount":"1.00"}`), payload)),
				}
				if o.cents != 100 {
					delete(calls, "other")
				}
				if first != "" {
					r.handle(calls[first]).is(o.status, "")
					delete(calls, first)
					for _, c := range calls {
						r.handle(c).is(409, api.CredentialReused)
					}
				} else {
					r.network.change(func() { r.network.fates["bob"] = fate{after: 3 * time.Second} })
					var all []paid.Call
					for _, c := range calls {
						all = append(all, c, c)
					}
					r.oneOf(all)
				}
				r.has(amounts{"bob paid": o.cents, "all": 100 + o.cents, "open": 0})
			}, exact)
		}
	}
}

// An x402 payment that was made before the ring has reserved it has no effect when it is
// presented, and is kept for the operator, once. The credential that it was signed for
// has its effect all the same.
func TestX402PaymentThatWasMadeBefore(t *testing.T) {
	for _, deep := range []bool{true, false} {
		inAdasRing(t, fmt.Sprint("deep ", deep), func(t *testing.T, r *ring) {
			r.join(cyn, "carol")
			payload := r.bearer("bob", 150)
			rightful := r.challenge(paid.OpBid, fund)
			credential := r.present(mpp.Credential{Challenge: rightful, Payload: payload})
			r.send(credential)
			r.network.change(func() { r.network.simulate, r.network.fates["bob"] = refuse, fate{shallow: !deep} })
			words := `{"member":"cyn","amount":"1.50"}`
			thief := r.exactOffer(paid.OpBid, words)
			other := r.exactOffer(paid.OpBid, fund)
			if !deep {
				r.handle(x402Call(paid.OpBid, words, r.exactly(thief, payload))).is(503, api.PaymentPending)
				r.network.change(func() { r.network.fates["bob"] = fate{} })
				time.Sleep(10 * time.Second)
			}
			a := r.handle(x402Call(paid.OpBid, words, r.exactly(thief, payload))).is(409, api.PaymentUnapplied)
			if got := a.response(); got.Success || got.Transaction == "" || got.Transaction != a.member("reference") || !strings.Contains(got.ErrorMessage, paid.ReasonForeign) {
				t.Errorf("%+v", got)
			}
			// Late, under another challenge, and again after a restart, too.
			time.Sleep(time.Hour)
			r.handle(x402Call(paid.OpBid, words, r.exactly(thief, payload))).is(409, api.PaymentUnapplied)
			r.restart()
			r.handle(x402Call(paid.OpBid, fund, r.exactly(other, payload))).is(409, api.PaymentUnapplied)
			r.handle(x402Call(paid.OpBid, `{"member":"cyn","amount":"1.51"}`, r.exactly(other, payload))).is(409, api.PaymentUnapplied)
			kept := r.stored(thief.Extra.Challenge)
			if kept == nil || kept.State != ledger.Failed || kept.Outcome != "settled" || kept.Reason != paid.ReasonForeign || r.stored(other.Extra.Challenge) != nil {
				t.Fatalf("kept %+v, and %+v", kept, r.stored(other.Extra.Challenge))
			}
			r.has(amounts{"cyn": 100, "ada": 100})
			r.post(paid.OpBid, fund, credential).is(200, "")
			r.post(paid.OpBid, fund, credential).is(409, api.CredentialReused)
			r.handle(x402Call(paid.OpBid, words, r.exactly(thief, payload))).is(409, api.PaymentUnapplied)
			if kept = r.stored(thief.Extra.Challenge); kept.Reason != paid.ReasonElsewhere {
				t.Errorf("kept as %q", kept.Reason)
			}
			r.has(amounts{"ada": 250, "all": 350, "bob paid": 150})
		}, exact)
	}
}

// A backup may have as open the payment that a kept one turned out to be: its event, which an edge brings back,
// accounts for both.
func TestKeptPaymentWhoseEventCameBack(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		payload := r.bearer("bob", 150)
		credential := r.present(mpp.Credential{Challenge: r.challenge(paid.OpBid, fund), Payload: payload})
		r.send(credential)
		offer := r.exactOffer(paid.OpBid, fund)
		r.network.change(func() { r.network.simulate = refuse })
		r.handle(x402Call(paid.OpBid, fund, r.exactly(offer, payload))).is(409, api.PaymentUnapplied)
		open := r.hold("reserved")
		h := r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{credential}})
		synctest.Wait()
		rows := r.rows()
		open()
		h.wait().is(200, "")
		if r.restore(rows) != 1 {
			t.Fatal("the backup does not know the payment")
		}
		time.Sleep(10 * time.Second)
		if kept := r.stored(offer.Extra.Challenge); kept.Reason != paid.ReasonElsewhere {
			t.Errorf("kept as %q", kept.Reason)
		}
		r.has(amounts{"ada": 250, "bob paid": 150, "open": 0})
	}, exact)
}

// A payment that can have no effect is kept for the operator when its block is final, though nobody presents it again, and
// its request waits for that. The credential that an x402 payment was signed for has its effect meanwhile.
func TestPaymentThatCannotCountIsKeptWhenItsBlockIsFinal(t *testing.T) {
	final := func(r *ring) { r.network.change(func() { r.network.fates["bob"] = fate{} }) }
	for name, takes := range map[string]time.Duration{"soon": 10 * time.Second, "later": 10 * time.Minute} {
		inAdasRing(t, name, func(t *testing.T, r *ring) {
			payload := r.bearer("bob", 150)
			r.send(r.present(mpp.Credential{Challenge: r.challenge(paid.OpBid, fund), Payload: payload}))
			r.network.change(func() { r.network.simulate, r.network.fates["bob"] = refuse, fate{shallow: true} })
			offer := r.exactOffer(paid.OpBid, fund)
			time.AfterFunc(takes, func() { final(r) })
			a := r.handle(x402Call(paid.OpBid, fund, r.exactly(offer, payload)))
			if takes < time.Minute {
				a.is(409, api.PaymentUnapplied)
			} else {
				a.is(503, api.PaymentPending)
			}
			again := r.exactOffer(paid.OpBid, fund)
			time.Sleep(takes + time.Minute)
			if kept := r.stored(offer.Extra.Challenge); kept == nil || kept.Reason != paid.ReasonForeign || kept.Outcome != "settled" {
				t.Errorf("kept %+v", kept)
			}
			r.handle(x402Call(paid.OpBid, fund, r.exactly(again, payload))).is(409, api.PaymentUnapplied)
			r.has(amounts{"ada": 100, "open": 0})
		}, exact)
	}
	inAdasRing(t, "its own credential", func(t *testing.T, r *ring) {
		payload := r.bearer("bob", 150)
		credential := r.present(mpp.Credential{Challenge: r.challenge(paid.OpBid, fund), Payload: payload})
		r.send(credential)
		r.network.change(func() { r.network.simulate, r.network.fates["bob"] = refuse, fate{shallow: true} })
		var thieves []*held
		for range 2 {
			thieves = append(thieves, r.begin(x402Call(paid.OpBid, fund, r.exactly(r.exactOffer(paid.OpBid, fund), payload))))
			time.Sleep(time.Second)
		}
		if thieves[0].answered() || !thieves[1].answered() {
			t.Error("not one of the two waits")
		}
		r.post(paid.OpBid, fund, credential).is(200, "")
		final(r)
		for _, h := range thieves {
			h.wait()
		}
		r.has(amounts{"ada": 250, "bob paid": 150, "open": 0})
	}, exact)
	// So it is with a payment that names its challenge.
	inAdasRing(t, "by its own challenge", func(t *testing.T, r *ring) {
		ch, credential := r.lose(paid.OpRegister, bob, 100)
		r.join(bob, "dave")
		r.network.change(func() { r.network.fates["bob"] = fate{shallow: true} })
		time.AfterFunc(5*time.Minute, func() { final(r) })
		r.post(paid.OpRegister, bob, credential).is(503, api.PaymentPending)
		time.Sleep(10 * time.Minute)
		if kept := r.stored(ch); kept == nil || kept.Outcome != "settled" {
			t.Errorf("kept %+v", kept)
		}
	})
}

// A reserved x402 payment is finished by the next process, wherever the last one ended,
// and the answer says so in its own field.
func TestPowerFailsAtEveryStepOfAnX402Payment(t *testing.T) {
	for _, o := range orders {
		for _, step := range stepsWithGas {
			inAdasRing(t, o.op+" at "+step, func(t *testing.T, r *ring) {
				r.network.gas = true
				r.network.fates["bob"] = fate{after: 4 * time.Second}
				synctest.Wait()
				credential := r.exactly(r.exactOffer(o.op, o.body), r.bearer("bob", o.cents))
				next := r.failAt(step)
				r.begin(x402Call(o.op, o.body, credential))
				time.Sleep(6 * time.Second)
				r.network.change(func() { clear(r.network.submitted) })
				next()
				time.Sleep(10 * time.Second)
				if a := r.handle(x402Call(o.op, o.body, credential)).is(o.status, ""); !a.response().Success || a.field("Payment-Receipt") == "" {
					t.Errorf("%+v", a.response())
				}
				r.handle(x402Call(o.op, o.body, credential)).is(409, api.CredentialReused)
				r.has(amounts{o.slug: o.total, "bob paid": o.cents, "open": 0})
			}, exact)
		}
	}
}

// If a disk lost the record of a payment that was sent before, the payment is not given to
// the client that presents it: the operator credits it.
func TestLostX402PaymentIsKept(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		rows := r.rows()
		credential := r.exactly(r.exactOffer(paid.OpBid, fund), r.bearer("bob", 150))
		r.handle(x402Call(paid.OpBid, fund, credential)).is(200, "")
		r.restore(rows, 0)
		time.Sleep(time.Hour)
		a := r.handle(x402Call(paid.OpBid, fund, credential)).is(409, api.PaymentUnapplied)
		reference, _ := a.member("reference").(string)
		if r.total("ada") != 100 || reference == "" {
			t.Fatalf("ada has %d, reference %q", r.total("ada"), reference)
		}
		if found, err := r.service.Find(reference); err != nil || found.Reason != paid.ReasonForeign {
			t.Errorf("%+v, %v", found, err)
		}
	}, exact)
}

// A request that is let go by an edge is found by its x402 payment, too.
func TestLetGoOfAnX402Payment(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["bob"] = fate{after: 10 * time.Second} })
		call := x402Call(paid.OpBid, fund, r.exactly(r.exactOffer(paid.OpBid, fund), r.bearer("bob", 150)))
		h := r.begin(call)
		synctest.Wait()
		if a := r.service.StopWaiting(call); a.Status != 204 {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		if a := h.wait().is(503, api.PaymentPending); a.response().ErrorReason != x402.Pending {
			t.Errorf("%+v", a.response())
		}
		time.Sleep(20 * time.Second)
		r.handle(call).is(200, "")
	}, exact)
}

// A proof is no payment: nothing is offered to x402 clients, and what they sign is not
// looked at.
func TestProofsAreNoX402Payments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOwned(t, exact)
		offer := o.exactOffer(paid.OpBid, `{"member":"ada","amount":"1.00"}`)
		a := o.handle(paid.Call{Operation: paid.OpLeave, Slug: "ada", PaymentSignature: []string{o.exactly(offer, o.bearer("bob", 100))}}).is(402, api.PaymentRequired)
		same(t, a.field(x402.RequiredField)+a.field(x402.ResponseField), "")
	})
}
