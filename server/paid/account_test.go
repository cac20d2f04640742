package paid_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"webring/core/api"
	"webring/server/paid"
)

// account is the n-th account as the network of a chain names it.
func account(n, chain int) string { return fmt.Sprintf("did:pkh:eip155:%d:0x%040x", chain, n) }

// site is a registration at a URL, in a category.
func site(url, category string) string {
	return fmt.Sprintf(`{"name":"Somebody","url":%q,"kind":"website","category":%q}`, url, category)
}

// tries registers by a payment of an account, up to whatever comes of it.
func (r *ring) tries(body, payer string) answer {
	r.t.Helper()
	return r.post(paid.OpRegister, body, r.sign(r.challenge(paid.OpRegister, body), payer, 100))
}

// atOnce has n registrations paid for while none of them is mined, and says how many
// joined. The others are refused with the code.
func (r *ring) atOnce(n int, code api.Code, of func(n int) (body, payer string)) (joined int) {
	r.t.Helper()
	var all []*held
	for i := range n {
		body, payer := of(i)
		r.network.change(func() { r.network.fates[payer] = fate{after: 10 * time.Second} })
		all = append(all, r.begin(paid.Call{Operation: paid.OpRegister, Body: []byte(body),
			Authorization: []string{r.sign(r.challenge(paid.OpRegister, body), payer, 100)}}))
	}
	for _, h := range all {
		if a := h.wait(); a.Status == 201 {
			joined++
		} else {
			a.is(422, code)
		}
	}
	return joined
}

// limited fails unless a field was refused for the account, and nothing charged.
func (r *ring) limited(a answer, code api.Code, pointer, payer string, charged int64) {
	r.t.Helper()
	a.is(422, code)
	found, _ := a.member("errors").([]any)
	if len(found) != 1 || found[0].(map[string]any)["pointer"] != pointer {
		r.t.Errorf("found at %v, want %s", found, pointer)
	}
	if got := r.network.charged(payer); got != charged {
		r.t.Errorf("%d cents were charged, want %d", got, charged)
	}
}

func TestAnAccountOpensThreeNewCategoriesADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		in := func(n int, category string) string { return site(fmt.Sprintf("https://s%d.dev", n), category) }
		mallory, elsewhere, alice := account(1, 42431), account(1, 8453), account(2, 42431)
		for n := range 2 {
			r.tries(in(n, fmt.Sprint("new-", n)), mallory).is(201, "")
		}
		r.tries(in(2, "new-2"), elsewhere).is(201, "") // the same account on another network
		for range 2 {
			r.limited(r.tries(in(3, "new-3"), mallory), api.CategoryUnavailable, "/category", mallory, 200)
			r.limited(r.tries(in(3, "new-3"), elsewhere), api.CategoryUnavailable, "/category", elsewhere, 100)
			r.restart()
		}
		r.tries(in(30, "general"), mallory).is(201, "") // is everybody's
		r.tries(in(31, "new-3"), account(3, 42431)).is(201, "")
		r.must(r.remove("somebody-5", false))
		r.tries(in(3, "new-0"), mallory).is(201, "") // is open
		r.tries(in(4, "new-3"), alice).is(201, "")   // another account
		r.tries(in(5, "new-3"), mallory).is(201, "") // is open now
		time.Sleep(24*time.Hour + time.Second)
		r.tries(in(6, "new-4"), mallory).is(201, "")
	})
}

// What an account has open counts as well, or all at once would be let in.
func TestAnAccountOpensThreeNewCategoriesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		mallory := account(1, 42431)
		joined := r.atOnce(8, api.CategoryUnavailable, func(n int) (body, payer string) {
			return site(fmt.Sprintf("https://s%d.dev", n), fmt.Sprint("new-", n)), mallory
		})
		if charged := r.network.charged(mallory); joined != 3 || charged != 300 {
			t.Errorf("%d joined, and %d cents were charged", joined, charged)
		}
	})
}

func TestThreeMembersByDifferentAccountsAreOnADomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		at := func(url string) string { return site(url, "general") }
		ada, bob, cyn, dan := account(1, 42431), account(2, 42431), account(3, 42431), account(4, 42431)
		r.tries(at("https://victim.dev"), ada).is(201, "")
		r.tries(at("https://a.victim.dev"), bob).is(201, "")
		r.tries(at("https://www.victim.dev/~cyn"), cyn).is(201, "")
		for range 2 {
			for payer, charged := range map[string]int64{bob: 100, cyn: 100, dan: 0} {
				r.limited(r.tries(at("https://b.a.victim.dev"), payer), api.InvalidRequest, "/url", payer, charged)
			}
			r.restart()
		}
		// The account that was first has as many as it likes, on whichever network.
		r.tries(at("https://x.victim.dev"), account(1, 8453)).is(201, "")
		r.tries(at("https://victim.dev/y"), ada).is(201, "")
		// Names below a public suffix are domains of their own.
		for n, url := range []string{"https://one.github.io", "https://two.github.io", "https://three.github.io", "https://four.github.io", "https://victim.co.uk", "https://notvictim.dev"} {
			r.tries(at(url), account(10+n, 42431)).is(201, "")
		}
		r.must(r.remove("somebody-2", true)) // bob's
		r.tries(at("https://b.a.victim.dev"), dan).is(201, "")
		r.limited(r.tries(at("https://c.victim.dev"), bob), api.InvalidRequest, "/url", bob, 100)
	})
}

// withSites has the ring look at sites that show what is put on them.
func withSites(r *ring) *sites {
	shown := &sites{shown: map[string][]string{}}
	r.config = func(cfg *paid.Config) { cfg.Prover, cfg.MemberSites = signer{}, shown }
	return shown
}

// Strangers who fill a host that many share do not keep those out whom its pages name.
func TestASiteThatNamesAnAccountOpensItsDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown *sites
		r := newRing(t, func(r *ring) { shown = withSites(r) })
		at := func(url string) string { return site(url, "general") }
		for n, url := range []string{"https://shared.dev/~a", "https://shared.dev/~b", "https://c.shared.dev"} {
			r.tries(at(url), account(n+1, 42431)).is(201, "")
		}
		if shown.asked > 0 {
			t.Errorf("%d sites were asked though nobody was kept out", shown.asked)
		}
		dan, eve := account(4, 42431), account(5, 42431)
		r.limited(r.tries(at("https://shared.dev/~dan"), dan), api.InvalidRequest, "/url", dan, 0)
		shown.show("https://shared.dev/~dan", dan)
		r.limited(r.tries(at("https://shared.dev/~dan"), eve), api.InvalidRequest, "/url", eve, 0)  // another account
		r.limited(r.tries(at("https://shared.dev/~dan2"), dan), api.InvalidRequest, "/url", dan, 0) // another page
		r.tries(at("https://shared.dev/~dan"), dan).is(201, "")
		shown.show("e.shared.dev", eve)
		r.tries(at("https://e.shared.dev/x"), eve).is(201, "")
	})
}

// The default category is open when all that money opens are in use, and so are others to
// sites that name the account.
func TestNoMoneyClosesCategories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown *sites
		r := newRing(t, func(r *ring) { shown, r.capacity = withSites(r), 10_000 })
		r.fillCategories()
		new := func(n int) string { return site(fmt.Sprintf("https://www.honest-%d.dev/x", n), fmt.Sprint("new-", n)) }
		ada := account(1, 42431)
		r.post(paid.OpRegister, new(0)).is(422, api.CategoryUnavailable)
		r.tries(site("https://plain.dev", "general"), ada).is(201, "")
		shown.show("https://www.honest-0.dev/x", ada)
		r.post(paid.OpRegister, new(0)).is(422, api.CategoryUnavailable) // the page is not the host
		shown.show("www.honest-0.dev", ada)
		bob := account(2, 42431)
		r.post(paid.OpRegister, new(0), r.sign(r.challenge(paid.OpRegister, new(0)), bob, 100)).is(422, api.CategoryUnavailable)
		r.tries(new(0), ada).is(201, "")
		r.tries(site("https://joins.dev", "new-0"), bob).is(201, "") // it is open to all now

		// One domain opens one, whichever account it names, and all domains some each day.
		shown.show("b.honest-0.dev", bob)
		r.limited(r.tries(site("https://b.honest-0.dev", "another"), bob), api.CategoryUnavailable, "/category", bob, 100)
		n := 1
		for ; n < 100; n++ {
			payer := account(10+n, 42431)
			shown.show(fmt.Sprintf("www.honest-%d.dev", n), payer)
			if a := r.tries(new(n), payer); a.Status != 201 {
				r.limited(a, api.CategoryUnavailable, "/category", payer, 0)
				break
			}
		}
		if n < 25 || n > 32 {
			t.Errorf("%d categories were opened in a day", n)
		}
		time.Sleep(24*time.Hour + time.Second)
		r.tries(new(n), account(10+n, 42431)).is(201, "")
	})
}

// Strangers who fill a domain do not keep its root from its owner.
func TestTheRootOfADomainStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		for n, url := range []string{"https://victim.dev/a", "https://b.victim.dev", "https://victim.dev/c"} {
			r.tries(site(url, "general"), account(n+1, 42431)).is(201, "")
		}
		r.limited(r.tries(site("https://victim.dev/d", "general"), account(4, 42431)), api.InvalidRequest, "/url", account(4, 42431), 0)
		r.tries(site("https://www.victim.dev/", "general"), account(5, 42431)).is(201, "")
	})
}

// Payments that are open count, and one that has come in spite of a limit has its
// effect: money in hand is not sent back.
func TestAccountsThatPayAtOnceShareADomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t)
		joined := r.atOnce(6, api.InvalidRequest, func(n int) (body, payer string) {
			return site(fmt.Sprintf("https://s%d.victim.dev", n), "general"), account(1+n, 42431)
		})
		if joined != 3 {
			t.Errorf("%d joined", joined)
		}
		const late = "https://late.victim.dev"
		bob := account(20, 42431)
		rows := r.rows()
		r.must(r.remove("somebody", false)) // there is room for one more
		r.must(r.remove("somebody-2", false))
		ch := r.challenge(paid.OpRegister, site(late, "general"))
		credential := r.sign(ch, bob, 100)
		r.post(paid.OpRegister, site(late, "general"), credential).is(201, "")
		r.restore(rows, 0) // and it was lost with a disk
		r.post(paid.OpRegister, site(late, "general"), credential).is(201, "")
		if charged := r.network.charged(bob); charged != 100 {
			t.Errorf("%d cents were charged", charged)
		}
	})
}
