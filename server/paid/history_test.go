package paid_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

var histories = flag.Int("histories", 4, "histories of payers to go through")

// purchase is one credential of a history, with all answers it got.
type purchase struct {
	call    paid.Call
	payer   string
	cents   int64
	endless bool // its transaction has no end, and a nonce
	mu      sync.Mutex
	answers []int
}

func (p *purchase) note(a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = append(p.answers, a.Status)
}

func (p *purchase) got(status func(int) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.answers {
		if status(s) {
			n++
		}
	}
	return n
}

func granted(status int) bool { return status < 300 }

// TestHistories lets many payers come, in any order, on a network that loses,
// delays, reverts and diverts, replaces transactions and drops blocks, to a service that is
// stopped and killed in between, and goes on in another node in half of the histories. In the
// end the books hold exactly what was paid but for what the operator is told of, which can only
// be payments without an end. Each other payment has one effect, each credential got its 2xx
// once, and no payer that was charged was ever asked to pay again. Blocks have wrong times, final
// blocks are undone, the member that is bid on leaves and returns, and a third of the rings fill up. WEBRING_SEED repeats one
// history.
func TestHistories(t *testing.T) {
	seeds := make([]uint64, *histories)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	if one, err := strconv.ParseUint(os.Getenv("WEBRING_SEED"), 10, 64); err == nil {
		seeds = []uint64{one}
	}
	if testing.Short() {
		seeds = seeds[:1]
	}
	for _, seed := range seeds {
		in(t, fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			h := &history{ring: newRing(t, func(r *ring) {
				if r.capacity, r.elsewhere = 1000, seed%2 == 0; seed%3 == 0 {
					r.capacity = 8 // the ring fills up
				}
			}), random: rand.New(rand.NewPCG(seed, 0))}
			h.join(ada, "alice")
			for range 60 {
				h.step()
			}
			h.settle()
			h.audit()
		})
	}
}

type history struct {
	*ring
	random    *rand.Rand
	purchases []*purchase
}

func (h *history) step() {
	switch n := h.random.IntN(25); {
	case n < 9:
		h.buy()
	case n < 12:
		h.repeat()
	case n < 17:
		time.Sleep(time.Duration(h.random.IntN(12_000)) * time.Millisecond)
	case n < 18:
		h.restart()
	case n < 19: // the power fails
		synctest.Wait()
		disk, head := h.store.Copy(), h.headBytes(h.process)
		h.dead.Store(true)
		h.start(disk, head)
	case n < 20:
		h.replace()
	case n < 21:
		h.drop()
	case n < 22:
		h.reorganise()
	case n < 23: // its blocks have a wrong time for a while
		ahead := time.Duration(h.random.IntN(600)-300) * time.Second
		h.network.change(func() { h.network.skew = ahead })
		time.Sleep(time.Duration(h.random.IntN(40)) * time.Second)
		h.network.change(func() { h.network.skew = 0 })
	case n < 24:
		h.leave()
	default: // the network is silent for a while
		h.network.change(func() { h.network.down = !h.network.down })
		time.Sleep(6 * time.Second) // what was known of its clock is forgotten
	}
}

// leave takes the member out of the ring for which bids are made, or puts it back, if anything can be
// written now.
func (h *history) leave() {
	err := h.books.Do(h.t.Context(), func(tx *ledger.Tx) error {
		at, _ := tx.State().BySlug([]byte("ada"))
		var e core.Event = &core.Departed{Stamp: tx.Stamp(), Member: "ada"}
		if _, left := tx.State().Departed(at); left {
			e = &core.Returned{Stamp: tx.Stamp(), Member: "ada"}
		}
		_, err := tx.Append(e, nil)
		return err
	})
	if !errors.Is(err, ledger.ErrNotNow) {
		h.must(err)
	}
}

// buy pays for one of few things, so that payers meet.
func (h *history) buy() {
	op, body, cents := paid.OpBid, fund, int64(150)
	if h.random.IntN(2) == 0 {
		i := h.random.IntN(12)
		op, body, cents = paid.OpRegister, fmt.Sprintf(`{"name":"Site %d","url":"https://site-%d.dev","kind":"website"}`, i, i), 100
	}
	a := h.post(op, body)
	if a.Status != 402 {
		return
	}
	p := &purchase{payer: fmt.Sprintf("payer-%d", len(h.purchases)), cents: cents, endless: h.random.IntN(3) == 0}
	var changes []func(*transaction)
	if p.endless {
		changes = append(changes, counted(p.payer+":7"))
	}
	p.call = paid.Call{Operation: op, Body: []byte(body), Authorization: []string{h.sign(a.challenges()[0], p.payer, cents, changes...)}}
	if h.random.IntN(3) == 0 {
		p.call.IdempotencyKey = p.payer
	}
	f := fate{after: time.Duration(h.random.IntN(30_000)) * time.Millisecond, mute: h.random.IntN(3) == 0, lost: h.random.IntN(10) == 0}
	if h.random.IntN(5) == 0 {
		f.state = []mpp.State{mpp.Failed, mpp.Mismatched}[h.random.IntN(2)]
	}
	if p.endless && h.random.IntN(2) == 0 {
		f.after = time.Duration(h.random.IntN(100)) * time.Minute
	}
	f.shallow = p.endless && f.state == mpp.Pending
	h.network.change(func() { h.network.fates[p.payer] = f })
	h.purchases = append(h.purchases, p)
	h.send(p)
}

// endless gives a purchase without an end, whose transaction was sent and stands so on the chain, to change.
func (h *history) endless(stands mpp.State, change func(p *purchase, at sent)) {
	for _, i := range h.random.Perm(len(h.purchases)) {
		p, done := h.purchases[i], false
		h.network.change(func() {
			for reference, s := range h.network.sent {
				if p.endless && s.payment.Payer == p.payer && h.network.mined(reference) == stands && !h.network.used[s.payment.Nonce] {
					change(p, s)
					done = true
					return
				}
			}
		})
		if done {
			return
		}
	}
}

// replace has a transaction that is not mined replaced, by one that pays the same or by another.
func (h *history) replace() {
	same := h.random.IntN(2) == 0
	h.endless(mpp.Pending, func(p *purchase, s sent) {
		f := h.network.fates[p.payer]
		if h.network.used[s.payment.Nonce] = true; same || f.dropped {
			f.by, f.brought, f.shallow = "0xby-"+p.payer, p.cents, false
			h.network.fates[p.payer] = f
			h.network.arrives(f.by, p.payer+" again", p.cents, time.Now())
		}
	})
}

// drop has the block of a transaction dropped, which is mined again within an hour.
func (h *history) drop() {
	later := time.Duration(h.random.IntN(50)) * time.Minute
	h.endless(mpp.Settled, func(p *purchase, s sent) {
		if f := h.network.fates[p.payer]; f.shallow {
			f.after, f.dropped = time.Since(s.at)+later, true
			h.network.fates[p.payer] = f
		}
	})
}

// reorganise undoes a payment that is final, and has the network settle it again under another hash.
func (h *history) reorganise() {
	h.network.change(func() {
		for _, i := range h.random.Perm(len(h.purchases)) {
			p := h.purchases[i]
			for _, reference := range slices.Sorted(maps.Keys(h.network.sent)) {
				s, f := h.network.sent[reference], h.network.fates[p.payer]
				if s.payment.Payer != p.payer || p.endless || f.by != "" || h.network.mined(reference) != mpp.Settled {
					continue
				}
				delete(h.network.sent, reference)
				f.by, f.brought = "0xdeep-"+p.payer, p.cents
				s.payment.Reference = f.by
				h.network.sent[f.by], h.network.fates[p.payer] = s, f
				return
			}
		}
	})
}

// repeat presents a credential again.
func (h *history) repeat() {
	if len(h.purchases) > 0 {
		h.send(h.purchases[h.random.IntN(len(h.purchases))])
	}
}

func (h *history) send(p *purchase) {
	service := h.service
	for range 1 + h.random.IntN(2) {
		h.clients.Go(func() { p.note(h.handleBy(service, p.call)) })
	}
	synctest.Wait()
}

// settle lets everything come to its end.
func (h *history) settle() {
	h.network.change(func() { h.network.down = false })
	time.Sleep(2 * time.Hour)
	h.network.change(func() {
		for payer, f := range h.network.fates {
			f.shallow = false
			h.network.fates[payer] = f
		}
	})
	time.Sleep(2 * time.Hour)
	h.clients.Wait()
	if open := h.open(); len(open) != 0 {
		h.t.Fatalf("%d reservations are open for ever", len(open))
	}
}

func (h *history) audit() {
	paidFor := h.network.settled()
	var want int64 = 100 // alice's
	told := map[string]int64{}
	strays, err := h.service.Scan(h.t.Context(), time.Now().Add(-48*time.Hour), false)
	h.must(err)
	for _, x := range strays {
		told[strings.TrimSuffix(x.Transfer.Payer, " again")] += x.Missing
	}
	for _, p := range h.purchases {
		cents := paidFor[p.payer] + paidFor[p.payer+" again"]
		want += cents - told[p.payer]
		asked := p.got(func(s int) bool { return s == 402 })
		if cents > 0 && asked > 0 {
			h.t.Errorf("%s was charged, and asked to pay again: %v", p.payer, p.answers)
		}
		before := p.got(granted)
		a := h.handle(p.call)
		switch keyed := p.call.IdempotencyKey != ""; {
		case cents == 0 && (before > 0 || granted(a.Status)):
			h.t.Errorf("%s paid nothing and got %v, then %d", p.payer, p.answers, a.Status)
		case cents == 0:
		case p.endless && told[p.payer] == cents:
			if a.Status != 409 || before > 0 {
				h.t.Errorf("%s paid, which the operator is told, and got %v, then %d %s", p.payer, p.answers, a.Status, a.Body)
			}
		case told[p.payer] != 0:
			h.t.Errorf("%s paid, and the operator is told of %d cents", p.payer, told[p.payer])
		case keyed && !granted(a.Status):
			h.t.Errorf("%s paid and did not get the stored answer: %v, then %d %s", p.payer, p.answers, a.Status, a.Body)
		case !keyed && before > 1, !keyed && before+btoi(granted(a.Status)) != 1:
			h.t.Errorf("%s paid and got %v, then %d %s", p.payer, p.answers, a.Status, a.Body)
		case !granted(a.Status):
			a.is(409, api.CredentialReused)
		}
	}
	if credited := h.credited(); credited != want {
		h.t.Errorf("the books hold %d cents, paid were %d", credited, want)
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
