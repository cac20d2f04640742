package paid_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// place is the registration of some site.
func place(n int) string {
	return fmt.Sprintf(`{"name":"Site %d","url":"https://site-%d.dev","kind":"agent"}`, n, n)
}

// paying has a payer pay by token for a registration, from a client of its own.
func (r *ring) paying(body, payer string) *held {
	r.t.Helper()
	c := paid.Call{Operation: paid.OpRegister, Body: []byte(body), AcceptPayment: "token/charge", Client: "client of " + payer}
	c.Authorization = []string{r.sign(r.handle(c).is(402, api.PaymentRequired).challenges()[0], payer, 100)}
	return r.begin(c)
}

// payment is an open payment of a payer, or one that is not confirmed yet, by what it
// registers.
func (r *ring) payment(payer, body string) (p mpp.Payment) {
	r.t.Helper()
	r.look(func(v *ledger.View) {
		for _, x := range append(v.Open(), v.Unconfirmed()...) {
			if x.Payer == payer && string(x.Body) == body {
				if err := json.Unmarshal(x.Payment, &p); err != nil {
					r.t.Error(err)
				}
			}
		}
	})
	if p.Reference == "" {
		r.t.Fatalf("no payment of %s for %s", payer, body)
	}
	return p
}

// abandon ends the process without waiting for payments, and starts the next one.
func (r *ring) abandon() {
	r.t.Helper()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.service.Close(ended); err != nil && !errors.Is(err, context.Canceled) {
		r.t.Error(err)
	}
	if err := r.books.Close(); err != nil {
		r.t.Error(err)
	}
	r.start(r.store, r.headBytes(r.process))
}

// Where the service pays for gas, an account that has never paid here has one open
// payment, however many it brings at a time; one that has paid has more.
func TestAnAccountThatNeverPaidHasOneOpenPaymentWhereGasIsPaid(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.second.fates["novice"] = fate{after: 10 * time.Second}
		r.second.simulate = func(context.Context, mpp.Payment) error { // so that all five are looked at before one is open
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		open := func() (joined int) {
			t.Helper()
			var all []*held
			for n := range 5 {
				all = append(all, r.paying(place(n), "novice"))
			}
			time.Sleep(2 * time.Second)
			asked := r.second.questions("holds", "simulate")
			r.paying(place(5), "novice").wait().is(503, api.PaymentPending)
			same(t, r.second.questions("holds", "simulate"), asked)
			for _, h := range all {
				if a := h.wait(); a.Status == 201 {
					joined++
				} else if a.is(503, api.PaymentPending); !strings.Contains(string(a.Body), "Nothing was sent or charged") {
					t.Errorf("%s", a.Body)
				}
			}
			return joined
		}
		if n := open(); n != 1 || r.second.charged("novice") != 100 || r.second.questions("submit") != 1 {
			t.Errorf("%d joined, %d paid, %d submitted", n, r.second.charged("novice"), r.second.questions("submit"))
		}
		second, third := r.paying(place(5), "novice"), r.paying(place(6), "novice")
		second.wait().is(201, "")
		third.wait().is(201, "")
	}, burning(0))
}

// However many accounts that never paid have a payment reserved, no more of their gas is
// in flight than the budget has left. The others wait, in the next process too, the
// offer stays, and accounts that have paid do not wait.
func TestGasInFlightCountsInTheBudget(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.paying(place(0), "patron").wait().is(201, "")
		slow := fate{after: 8 * time.Second, limit: 50_000}
		r.second.change(func() {
			for _, payer := range []string{"patron", "anne", "ben", "cleo"} {
				r.second.fates[payer] = slow
			}
		})
		before := r.second.questions("submit")
		first := r.paying(place(1), "anne")
		synctest.Wait()
		r.paying(place(2), "ben")
		synctest.Wait()
		r.abandon()
		first.wait()
		r.paying(place(3), "cleo")
		patron := r.paying(place(4), "patron")
		time.Sleep(4 * time.Second)
		same(t, r.second.questions("submit")-before, 3)
		same(t, r.offers("192.0.2.7"), "coin token")
		patron.wait().is(201, "")
		time.Sleep(20 * time.Second)
		if n := r.second.questions("submit") - before; n != 4 || r.second.charged("cleo") != 100 || len(r.open()) != 0 {
			t.Errorf("%d submitted, cleo paid %d, %d open", n, r.second.charged("cleo"), len(r.open()))
		}
	}, burning(120_000))
}

// Accounts that were opened for it waste no more than the budget together.
func TestManyAccountsAtOnceWasteNoMoreThanTheBudget(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		var all []*held
		for n := range 20 {
			payer := fmt.Sprintf("mallory-%d", n)
			r.second.change(func() { r.second.fates[payer] = fate{burns: 60_000} })
			all = append(all, r.paying(place(n), payer))
		}
		for _, h := range all {
			h.wait()
		}
		if gas, _ := r.wasted(); gas != 180_000 {
			t.Errorf("%d gas wasted, of at most 200000", gas)
		}
	}, burning(200_000))
}

// What an account had open when it wasted gas is not submitted any more; what was
// submitted is sent on until it is mined, as others may wait for its turn.
func TestWhatAWasterHadOpenIsNotSubmitted(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.second.change(func() { r.second.fates["mallory"] = fate{} })
		r.paying(place(0), "mallory").wait().is(201, "")
		becomes := func(f fate) { r.second.change(func() { r.second.fates["mallory"] = f }) }
		becomes(fate{lost: true})
		first, second := r.paying(place(1), "mallory"), r.paying(place(2), "mallory")
		synctest.Wait()
		becomes(fate{lost: true, untimely: true})
		third := r.paying(place(3), "mallory")
		synctest.Wait()
		submitted := r.second.questions("submit")
		one, two, three := r.payment("mallory", place(1)), r.payment("mallory", place(2)), r.payment("mallory", place(3))
		r.second.change(func() { r.second.burnt[one.Reference] = 60_000 })
		time.Sleep(5 * time.Second)
		if _, gas := r.wasted(); gas != 60_000 {
			t.Fatalf("%d gas wasted", gas)
		}
		becomes(fate{lost: true})
		count := func(p mpp.Payment) int { return r.second.questions("broadcast " + p.Reference) }
		was := []int{count(one), count(two), count(three)}
		time.Sleep(20 * time.Second)
		if now := []int{count(one), count(two), count(three)}; now[0] != was[0] || now[1] == was[1] || now[2] != was[2] {
			t.Errorf("sent %v times, and %v times before", now, was)
		}
		same(t, r.second.questions("submit"), submitted)
		for _, h := range []*held{first, second, third} {
			h.wait().is(402, api.VerificationFailed)
		}
	}, burning(0))
}

// dropped is a reorganisation after which a wasted payment is mined and pays.
func (n *network) dropped(p mpp.Payment) {
	n.change(func() {
		delete(n.burnt, p.Reference)
		n.fates[p.Payer] = fate{}
		n.sent[p.Reference] = sent{p, n.now(), n.payee}
	})
}

// Waste in a block that is dropped is forgotten when the same transaction settles the
// payment after all, by the next process too; other waste is not.
func TestWasteInADroppedBlockIsForgiven(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.paying(place(0), "malcolm").wait().is(402, api.VerificationFailed)
		h := r.paying(place(1), "mallory")
		time.Sleep(3 * time.Second)
		if !r.barred("mallory") {
			t.Error("mallory is not refused")
		}
		r.second.dropped(r.payment("mallory", place(1)))
		h.wait().is(201, "")
		for range 2 {
			if g := r.service.GasWasted(); len(g.Last) != 1 || g.Last[0].Payer != "malcolm" || g.Last[0].Gas != 60_000 {
				t.Errorf("%+v", g)
			}
			if r.barred("mallory") {
				t.Error("mallory is refused")
			}
			r.restart()
		}
		r.paying(place(2), "mallory").wait().is(201, "")
	}, burning(0))
}

// If the block of an applied payment is dropped and its transaction then fails, it has wasted
// gas: its account is refused, and it is not sent again. When it settles
// all the same, that is forgiven.
func TestWasteOfAnAppliedPaymentIsNoted(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.second.change(func() { r.second.fates["mallory"] = fate{shallow: true} })
		r.paying(place(1), "mallory").wait().is(201, "")
		p := r.payment("mallory", place(1))
		r.restart()
		r.second.change(func() {
			delete(r.second.sent, p.Reference)
			r.second.burnt[p.Reference] = 60_000
		})
		sent := r.second.questions("broadcast")
		time.Sleep(20 * time.Second)
		if g := r.service.GasWasted(); len(g.Last) != 1 || g.Last[0].Gas != 60_000 || g.Last[0].Client != "client of mallory" {
			t.Errorf("%+v", g)
		}
		if !r.barred("mallory") || r.second.questions("broadcast") != sent {
			t.Errorf("refused: %v; sent %d times", r.barred("mallory"), r.second.questions("broadcast")-sent)
		}
		r.second.dropped(p)
		time.Sleep(20 * time.Second)
		if g := r.service.GasWasted(); len(g.Last) != 0 || r.unconfirmed() != 0 || r.total("site-1") != 100 {
			t.Errorf("%+v, %d to confirm, %d paid", g, r.unconfirmed(), r.total("site-1"))
		}
	}, burning(0))
}

// An applied payment that has vanished is not submitted anew for an account that is
// refused. What others have wasted does not matter to it, as it has paid.
func TestAVanishedPaymentIsSubmittedWithinBounds(t *testing.T) {
	for name, c := range map[string]struct {
		waster string
		budget int64
		again  int
	}{
		"nobody has wasted gas":       {"", 60_000, 1},
		"its account has":             {"anne", 0, 0},
		"others have used the budget": {"mallory", 60_000, 1},
	} {
		inRing(t, name, func(t *testing.T, r *ring) {
			r.second.change(func() { r.second.fates["anne"] = fate{shallow: true} })
			r.paying(place(1), "anne").wait().is(201, "")
			p := r.payment("anne", place(1))
			if c.waster != "" {
				was := r.second.fates["anne"]
				r.second.change(func() { r.second.fates[c.waster] = fate{burns: 60_000} })
				h := r.paying(place(2), c.waster)
				time.Sleep(time.Second)
				r.second.change(func() { r.second.fates["anne"] = was })
				defer h.wait()
			}
			submitted := r.second.questions("submit")
			r.second.change(func() { // the method has forgotten it, too
				delete(r.second.sent, p.Reference)
				delete(r.second.submitted, p.Reference)
			})
			time.Sleep(20 * time.Second)
			if n := r.second.questions("submit") - submitted; n != c.again || r.second.charged("anne") != int64(c.again)*100 {
				t.Errorf("submitted %d times, anne paid %d", n, r.second.charged("anne"))
			}
		}, burning(c.budget))
	}
}

// The next process knows the client of a payment that wasted gas after the last one had
// ended, and what was submitted for it before it was sent.
func TestTheNextProcessKnowsWhatWasSubmittedForWhom(t *testing.T) {
	for _, step := range []string{"submitted", "broadcast"} {
		inRing(t, step, func(t *testing.T, r *ring) {
			r.second.change(func() { r.second.fates["mallory"] = fate{lost: true} })
			r.second.step = func() {
				r.mu.Lock()
				fn := r.steps
				r.mu.Unlock()
				if fn != nil {
					fn("submitted")
				}
			}
			next := r.failAt(step)
			r.paying(place(1), "mallory")
			time.Sleep(3 * time.Second)
			p := r.payment("mallory", place(1))
			if len(p.Submissions) != 1 || p.Submissions[0].Transaction != p.Reference {
				t.Errorf("submissions %+v", p.Submissions)
			}
			r.second.change(func() {
				r.second.step = nil
				r.second.burnt[p.Reference] = 60_000
			})
			next()
			time.Sleep(5 * time.Second)
			if got := r.payment("mallory", place(1)).Submissions; len(got) != 1 {
				t.Errorf("submissions %+v", got)
			}
			if !r.barred("mallory") {
				t.Error("mallory is not refused")
			}
			if g := r.service.GasWasted(); len(g.Last) != 1 || g.Last[0].Client != "client of mallory" {
				t.Errorf("%+v", g)
			}
		}, burning(0))
	}
}

// Where payers pay for their gas, or the outcome is final, no client is kept.
func TestClientsAreKeptNoLongerThanNeeded(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.network.fates["alice"] = fate{shallow: true}
		r.join(ada, "alice")
		r.paying(place(1), "anne").wait().is(201, "")
		r.paying(place(2), "mallory").wait().is(402, api.VerificationFailed)
		synctest.Wait()
		all, err := r.books.Reservations("", 10)
		clients := map[string]string{}
		for _, x := range all {
			clients[x.Payer] = x.Client
			if x.State == ledger.Failed && strings.Contains(string(x.Payment), "submissions") {
				t.Errorf("kept of a failed payment: %s", x.Payment)
			}
		}
		if want := map[string]string{"alice": "", "anne": "", "mallory": ""}; err != nil || !maps.Equal(clients, want) {
			t.Errorf("%v, %v", clients, err)
		}
	}, burning(0))
}

// When waste leaves no room in the budget for another new account, none is offered the
// method, and one that was offered it before is told so before anything is reserved.
// Accounts that have paid go on, and are offered it when they name themselves.
func TestNewAccountsAreRefusedWhenWasteLeavesNoRoom(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.second.change(func() { r.second.fates[patron] = fate{limit: 100_000} })
		r.paying(place(1), patron).wait().is(201, "")
		early := r.by("192.0.2.7").is(402, api.PaymentRequired).challenges()[1]
		r.waste(9, fate{burns: 45_000, limit: 100_000})
		if spent, _ := r.wasted(); spent <= 400_000 || spent >= 500_000 {
			t.Fatalf("%d was wasted", spent)
		}
		asked := r.second.questions("simulate")
		for _, account := range []string{"", newcomer} {
			a := r.handle(paid.Call{Operation: paid.OpRegister, Body: []byte(bob), Client: "192.0.2.7", WalletAccount: account})
			same(t, a.is(402, api.PaymentRequired).methods(), "coin")
			if says := strings.Contains(string(a.Body), "Wallet-Account"); says != (account == "") {
				t.Errorf("%q is told to name an account: %v\n%s", account, says, a.Body)
			}
		}
		a := r.by("192.0.2.7", r.sign(early, "newcomer", 100)).is(503, api.PaymentsUnavailable)
		a.shows("reason", mpp.ReasonWaste).waits(3000, 3600)
		if r.second.questions("simulate") != asked || r.second.charged("newcomer") != 0 {
			t.Error("its payment went further")
		}
		known := r.handle(paid.Call{Operation: paid.OpRegister, Body: []byte(bob), Client: "192.0.2.7", WalletAccount: patron})
		same(t, known.is(402, api.PaymentRequired).methods(), "coin token")
		r.by("192.0.2.7", r.sign(known.challenges()[1], patron, 100)).is(201, "")
		time.Sleep(time.Hour)
		r.paying(place(3), "newcomer").wait().is(201, "")
	}, burning(500_000))
}

// An account that has paid, and one that never has, as wallets name themselves.
const (
	patron   = "0x00000000000000000000000000000000000000aa"
	newcomer = "0x00000000000000000000000000000000000000bb"
)

// waste has so many accounts that never paid fail, each from a client of its own.
func (r *ring) waste(n int, f fate) {
	r.t.Helper()
	var all []*held
	for i := range n {
		payer := fmt.Sprintf("waster-%d", i)
		r.second.change(func() { r.second.fates[payer] = f })
		all = append(all, r.paying(place(1000+i), payer))
	}
	for _, h := range all {
		h.wait()
	}
}

// Where nothing else can be paid, an account that would be refused gets no 402, and is told how
// long that will be so; after a restart, too. An account that has paid gets its 402.
func TestNo402IsWrittenThatNobodyMayPay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, func(r *ring) {
			r.network.gas, r.second = true, r.network
			r.config = func(c *paid.Config) { c.GasBudget = big.NewInt(160_000 * gasPrice) }
		})
		pay := func(body, payer string) answer {
			c := paid.Call{Operation: paid.OpRegister, Body: []byte(body), Client: "client of " + payer}
			c.Authorization = []string{r.sign(r.handle(c).is(402, api.PaymentRequired).challenges()[0], payer, 100)}
			return r.handle(c)
		}
		pay(ada, patron).is(201, "")
		r.network.change(func() {
			r.network.fates["mallory"], r.network.fates["malcolm"] = fate{burns: 60_000}, fate{burns: 60_000}
		})
		pay(bob, "mallory")
		time.Sleep(time.Minute)
		if a := pay(cyn, "malcolm").is(503, api.PaymentsUnavailable); a.member("reason") != mpp.ReasonWaste {
			t.Errorf("%s", a.Body)
		}
		for range 2 {
			a := r.handle(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Client: "192.0.2.7"}).is(503, api.PaymentsUnavailable)
			a.shows("reason", mpp.ReasonWaste).waits(3000, 3600)
			r.handle(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Client: "192.0.2.7", WalletAccount: patron}).is(402, api.PaymentRequired)
			r.restart()
		}
	})
}

// Accounts that have paid waste no more than a budget together, however much they have open at
// once. It is not that of newcomers, who pay meanwhile. When it is spent, all that have paid are
// refused the method and told until when, in the next process too.
func TestAccountsThatHavePaidWasteNoMoreThanTheirBudget(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		const many = 14
		wallet := func(k int) string { return fmt.Sprintf("patron-%d", k) }
		r.paying(place(0), patron).wait().is(201, "")
		known := func() answer {
			t.Helper()
			return r.handle(paid.Call{Operation: paid.OpRegister, Body: []byte(bob), WalletAccount: patron}).is(402, api.PaymentRequired)
		}
		early := known().challenges()[1]
		for k := range many {
			r.paying(place(1+k), wallet(k)).wait().is(201, "")
		}
		// Everything that is sent is lost from sight, until all of it has failed.
		r.second.change(func() {
			for k := range many {
				r.second.fates[wallet(k)] = fate{lost: true, limit: 60_000}
			}
		})
		var all []*held
		for k := range many {
			for i := range 3 {
				all = append(all, r.paying(place(100+10*k+i), wallet(k)))
			}
		}
		for range 5 {
			time.Sleep(5 * time.Second)
			r.second.change(func() {
				for reference := range r.second.submitted {
					if _, sent := r.second.sent[reference]; !sent {
						r.second.burnt[reference] = 60_000
					}
				}
			})
		}
		for _, h := range all {
			h.wait().is(402, api.VerificationFailed)
		}
		if fresh, spent := r.wasted(); fresh != 0 || spent != 480_000 {
			t.Errorf("%d and %d gas were wasted, of at most 500000", fresh, spent)
		}
		for n := range 2 {
			same(t, known().methods(), "coin")
			a := r.by("192.0.2.7", r.sign(early, patron, 100)).is(503, api.PaymentsUnavailable)
			a.shows("reason", mpp.ReasonWaste).waits(3000, 3600)
			same(t, r.offers("192.0.2.7"), "coin token")
			r.paying(place(50+n), fmt.Sprintf("newcomer-%d", n)).wait().is(201, "")
			r.restart()
		}
		time.Sleep(time.Hour)
		same(t, known().methods(), "coin token")
		r.paying(place(60), patron).wait().is(201, "")
	}, burning(500_000))
}

// What the usual budget buys at a usual price on Base, 0.011 gwei, 180 million gas, is more than a crowd of
// throwaway accounts wastes for cents: newcomers pay meanwhile, and what the crowd has in
// flight is given back.
func TestThrowawayAccountsCloseTheOfferForNobody(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		r.waste(58, fate{burns: 85_000, limit: 100_000})
		if gas, _ := r.wasted(); gas != 58*85_000 {
			t.Errorf("%d gas was wasted", gas)
		}
		same(t, r.offers("192.0.2.7"), "coin token")
		r.paying(place(1), "newcomer").wait().is(201, "")
	}, burning(180_000_000))
}

// burning gives a ring a second method that submits at the ring's expense; what mallory and
// malcolm pay by it fails, at 60000 gas each time. The budget is in gas, 0 for any.
func burning(budget int64) func(*ring) {
	return func(r *ring) {
		two(r)
		r.second.gas = true
		r.second.fates["mallory"], r.second.fates["malcolm"] = fate{burns: 60_000}, fate{burns: 60_000}
		r.config = func(c *paid.Config) { c.GasBudget = big.NewInt(budget * gasPrice) }
	}
}

// wasted is how much gas has been wasted within the hour, by new accounts and by those that had paid.
func (r *ring) wasted() (new, paid int64) {
	g := r.service.GasWasted()
	return g.New.Int64() / gasPrice, g.Paid.Int64() / gasPrice
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
	return slices.ContainsFunc(r.service.GasWasted().Last, func(w ledger.Waste) bool { return w.Payer == payer })
}

// A payment that was submitted and failed is not submitted again, and its account is refused by
// that method alone, by any client, for an hour, by the next process too. Its client is not.
func TestWhoWastesGasIsRefusedForAWhile(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		for turn := range 2 {
			sent, began := r.second.questions("broadcast"), time.Now()
			first := r.by("192.0.2.66", r.token("192.0.2.66", "mallory")).is(402, api.VerificationFailed)
			if first.member("reason") != mpp.ReasonNotMined || first.methods() != "coin" {
				t.Errorf("offered %q: %s", first.methods(), first.Body)
			}
			same(t, r.second.questions("broadcast")-sent, 1)
			if turn == 1 {
				r.restart()
			}
			asked := r.second.questions("simulate")
			for _, client := range []string{"192.0.2.66", "192.0.2.67"} {
				same(t, r.offers(client), "coin token")
				again := r.by(client, r.token(client, "mallory")).is(402, api.VerificationFailed)
				if again.member("reason") != mpp.ReasonWaste || again.methods() != "coin" || r.second.questions("simulate") != asked {
					t.Errorf("the account by %s, offered %q: %s", client, again.methods(), again.Body)
				}
			}
			time.Sleep(time.Until(began.Add(time.Hour - time.Second)))
			if !r.barred("mallory") {
				t.Error("not refused a second before its end")
			}
			time.Sleep(3 * time.Second)
			if r.barred("mallory") {
				t.Error("refused after an hour")
			}
		}
		r.by("192.0.2.66", r.token("192.0.2.66", "honest")).is(201, "")
	}, burning(0))
}

// Without another method, a refused account is told until when.
func TestARefusedClientIsToldUntilWhen(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		a := r.post(paid.OpRegister, bob, r.sign(r.challenge(paid.OpRegister, bob), "mallory", 100)).is(503, api.PaymentsUnavailable)
		a.shows("reason", mpp.ReasonWaste).waits(3500, 3600)
	}, func(r *ring) { r.network.gas, r.network.fates["mallory"] = true, fate{burns: 60_000} })
}

// When accounts that never paid have wasted an hour's budget the offer is withdrawn from
// their like, which the log says once, until what was wasted is an hour old; a restart
// changes nothing.
func TestTheOfferIsWithdrawnWhenTheGasBudgetIsWasted(t *testing.T) {
	inRing(t, "", func(t *testing.T, r *ring) {
		began := time.Now()
		r.by("192.0.2.66", r.token("192.0.2.66", "mallory")).is(402, api.VerificationFailed)
		same(t, r.offers("192.0.2.7"), "coin token")
		time.Sleep(30 * time.Minute)
		r.by("192.0.2.67", r.token("192.0.2.67", "malcolm")).is(402, api.VerificationFailed)
		const says = "level=ERROR msg=\"no payments of accounts that have never paid are taken by this method; webring payments gas says what was wasted\" method=token budget=160000000"
		if n := strings.Count(r.log.String(), says); n != 1 {
			t.Errorf("the log says so %d times: %s", n, r.log)
		}
		for range 2 {
			same(t, r.offers("192.0.2.7"), "coin")
			r.restart()
		}
		g := r.service.GasWasted()
		if g.New.Int64() != 120_000_000 || g.Paid.Sign() != 0 || g.Budget.Int64() != 160_000_000 || len(g.Last) != 2 || g.Last[0].Payer != "malcolm" {
			t.Errorf("%+v", g)
		}
		for _, w := range g.Last {
			client := map[string]string{"mallory": "192.0.2.66", "malcolm": "192.0.2.67"}[w.Payer]
			if w.Network != "token:test" || w.Client != client || w.Gas != 60_000 || w.Wei != "60000000" {
				t.Errorf("%+v", w)
			}
		}
		time.Sleep(time.Until(began.Add(time.Hour + time.Minute)))
		same(t, r.offers("192.0.2.7"), "coin token")
		time.Sleep(time.Hour)
		for range 2 {
			if g := r.service.GasWasted(); len(g.Last) != 0 {
				t.Errorf("an hour later: %+v", g)
			}
			r.restart()
		}
		r.by("192.0.2.66", r.token("192.0.2.66", "mallory")).is(402, api.VerificationFailed)
		r.look(func(v *ledger.View) {
			if stored, err := v.Wastes(); err != nil || len(stored) != 1 || stored[0].Payer != "mallory" {
				t.Errorf("%+v, %v are stored", stored, err)
			}
		})
	}, burning(160_000))
}
