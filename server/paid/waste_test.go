package paid_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// burning is a ring with a second method that submits at the ring's expense; what
// mallory and malcolm pay by it fails, at 60000 gas each time.
func burning(t *testing.T, budget uint64) *ring {
	return newRing(t, two, func(r *ring) {
		r.second.gas = true
		r.second.fates["mallory"], r.second.fates["malcolm"] = fate{burns: 60_000}, fate{burns: 60_000}
		r.config = func(c *paid.Config) { c.GasBudget = budget }
	})
}

// by is a request of bob's registration by a client.
func (r *ring) by(client string, authorization ...string) answer {
	r.t.Helper()
	return r.handle(paid.Call{Operation: paid.OpRegister, Body: []byte(bob), Client: client, Authorization: authorization})
}

// offers names the methods that a client is offered.
func (r *ring) offers(client string) string {
	r.t.Helper()
	return r.by(client).methods()
}

func (a answer) methods() string {
	a.t.Helper()
	var names []string
	for _, c := range a.challenges() {
		names = append(names, c.Method)
	}
	return strings.Join(names, " ")
}

// token answers the second offer that a client gets.
func (r *ring) token(client, payer string) (credential string) {
	r.t.Helper()
	for _, c := range r.by(client).is(402, api.PaymentRequired).challenges() {
		if c.Method == "token" {
			return r.sign(c, payer, 100)
		}
	}
	r.t.Fatalf("%s is not offered to pay by token", client)
	return ""
}

// barred says whether an account is refused for what it has wasted.
func (r *ring) barred(payer string) bool {
	r.t.Helper()
	for _, w := range r.service.GasWasted().Wasters {
		if w.Payer == payer && w.Until.After(r.now()) {
			return true
		}
	}
	return false
}

// A payment that was submitted and failed is not submitted again, and its account is
// refused by that method alone, by any client, for an hour, twice as long the next time,
// and by the next process too. Its client is not.
func TestWhoWastesGasIsRefusedForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := burning(t, 0)
		for turn, refused := range []time.Duration{time.Hour, 2 * time.Hour, 4 * time.Hour} {
			sent, began := r.second.questions("broadcast"), time.Now()
			first := r.by("192.0.2.66", r.token("192.0.2.66", "mallory")).is(402, api.VerificationFailed)
			if first.member("reason") != mpp.ReasonNotMined || first.methods() != "coin" {
				t.Errorf("offered %q: %s", first.methods(), first.Body)
			}
			if n := r.second.questions("broadcast") - sent; n != 1 {
				t.Errorf("submitted %d times", n)
			}
			if turn == 1 {
				r.restart()
			}
			asked := r.second.questions("simulate")
			for _, client := range []string{"192.0.2.66", "192.0.2.67"} {
				if got := r.offers(client); got != "coin token" {
					t.Errorf("others by %s are offered %q", client, got)
				}
				again := r.by(client, r.token(client, "mallory")).is(402, api.VerificationFailed)
				if again.member("reason") != mpp.ReasonWaste || again.methods() != "coin" || r.second.questions("simulate") != asked {
					t.Errorf("the account by %s, offered %q: %s", client, again.methods(), again.Body)
				}
			}
			time.Sleep(time.Until(began.Add(refused - time.Second)))
			if !r.barred("mallory") {
				t.Error("not refused a second before its end")
			}
			time.Sleep(3 * time.Second)
			if r.barred("mallory") {
				t.Errorf("refused after %v", refused)
			}
		}
		r.by("192.0.2.66", r.token("192.0.2.66", "honest")).is(201, "")
	})
}

// Without another method, whoever is refused is told until when.
func TestARefusedClientIsToldUntilWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, func(r *ring) { r.network.gas, r.network.fates["mallory"] = true, fate{burns: 60_000} })
		a := r.post(paid.OpRegister, bob, r.sign(r.challenge(paid.OpRegister, bob), "mallory", 100)).is(503, api.PaymentsUnavailable)
		if wait, err := strconv.Atoi(a.field("Retry-After")); err != nil || wait < 3500 || wait > 3600 || a.member("reason") != mpp.ReasonWaste {
			t.Errorf("Retry-After %s: %s", a.field("Retry-After"), a.Body)
		}
	})
}

// A transaction that the chain was late with counts against nobody, and not in the
// budget either; the operator sees it all the same.
func TestNobodyIsRefusedForALateBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := burning(t, 30_000)
		r.second.fates["unlucky"] = fate{burns: 30_000, late: true}
		r.by("192.0.2.8", r.token("192.0.2.8", "unlucky")).is(402, api.VerificationFailed)
		for range 2 {
			if got := r.offers("192.0.2.8"); got != "coin token" {
				t.Errorf("offered %q", got)
			}
			if g := r.service.GasWasted(); g.LastHour != 0 || len(g.Wasters) != 1 || g.Wasters[0].Gas != 30_000 || !g.Wasters[0].Until.IsZero() {
				t.Errorf("%+v", g)
			}
			r.restart()
		}
	})
}

// When accounts that never paid have wasted an hour's budget the offer is withdrawn from
// their like, which the log says once, until what was wasted is an hour old; a restart
// changes nothing.
func TestTheOfferIsWithdrawnWhenTheGasBudgetIsWasted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := burning(t, 160_000)
		began := time.Now()
		r.by("192.0.2.66", r.token("192.0.2.66", "mallory")).is(402, api.VerificationFailed)
		if got := r.offers("192.0.2.7"); got != "coin token" {
			t.Errorf("below the budget: %q", got)
		}
		time.Sleep(30 * time.Minute)
		r.by("192.0.2.67", r.token("192.0.2.67", "malcolm")).is(402, api.VerificationFailed)
		const says = "level=ERROR msg=\"no payments of accounts that have never paid are taken by this method; webring payments gas says what was wasted\" method=token budget=160000"
		if n := strings.Count(r.log.String(), says); n != 1 {
			t.Errorf("the log says so %d times: %s", n, r.log)
		}
		for range 2 {
			if got := r.offers("192.0.2.7"); got != "coin" {
				t.Errorf("over the budget: %q", got)
			}
			r.restart()
		}
		g := r.service.GasWasted()
		if g.LastHour != 120_000 || g.Budget != 160_000 || len(g.Wasters) != 2 {
			t.Errorf("%+v", g)
		}
		for _, w := range g.Wasters {
			client := map[string]string{"mallory": "192.0.2.66", "malcolm": "192.0.2.67"}[w.Payer]
			if w.Network != "token:test" || w.Client != client || w.Times != 1 || w.Gas != 60_000 || w.Wei != "60000000" || w.Until.Sub(w.Last) != time.Hour {
				t.Errorf("%+v", w)
			}
		}
		time.Sleep(time.Until(began.Add(time.Hour + time.Minute)))
		if got := r.offers("192.0.2.7"); got != "coin token" {
			t.Errorf("an hour later: %q", got)
		}
		time.Sleep(7 * 24 * time.Hour)
		if g := r.service.GasWasted(); len(g.Wasters) != 0 {
			t.Errorf("a week later: %+v", g)
		}
		r.by("192.0.2.66", r.token("192.0.2.66", "mallory")).is(402, api.VerificationFailed)
		if g := r.service.GasWasted(); len(g.Wasters) != 1 || g.Wasters[0].Times != 1 {
			t.Errorf("and then once more: %+v", g)
		}
		r.restart()
		if g := r.service.GasWasted(); len(g.Wasters) != 1 || g.LastHour != 60_000 {
			t.Errorf("a week later, after a restart: %+v", g)
		}
	})
}
