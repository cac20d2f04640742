package paid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// Money that reached the recipient without an event is found, daily and on
// request, and credited once.
func TestMoneyWithoutAnEventIsFoundAndCredited(t *testing.T) {
	inAdasRing(t, "stray", func(t *testing.T, r *ring) {
		synctest.Wait()
		r.network.change(func() {
			r.network.arrives("0xfeed", "carol", 250, time.Now())
		})
		strays, err := r.service.Scan(context.Background(), time.Now().Add(-time.Hour), false)
		if err != nil || len(strays) != 1 || strays[0].Missing != 250 || strays[0].Transfer.Payer != "carol" {
			t.Fatalf("%+v, %v", strays, err)
		}
		time.Sleep(25 * time.Hour)
		if !strings.Contains(r.log.String(), "money without an event") {
			t.Error("the daily scan reported nothing")
		}
		asked := r.network.questions("transfers")
		r.restart()
		time.Sleep(time.Hour)
		same(t, r.network.questions("transfers")-asked, 0)

		r.network.change(func() { r.network.down = true })
		credit := paid.Adjustment{Kind: core.Credit, Transaction: "0xFEED", Member: "ada", Reason: "paid by hand"}
		if _, err := r.service.Adjust(context.Background(), credit); !errors.Is(err, mpp.ErrUnavailable) {
			t.Errorf("credited without asking: %v", err)
		}
		r.network.change(func() { r.network.down = false })
		for _, bad := range []paid.Adjustment{
			{Kind: core.Credit, Transaction: "0xfeed", Member: "ada"},
			{Kind: core.Credit, Transaction: "0xfeed", Member: "nobody", Reason: "x"},
			{Kind: core.Credit, Transaction: "0xbeef", Member: "ada", Reason: "x"},
			{Kind: core.Credit, Transaction: r.onlyReference(), Member: "ada", Reason: "x"},
			{Kind: core.Void, Transaction: "0xfeed", Member: "ada", Reason: "x"},
			{Kind: 9, Transaction: "0xfeed", Reason: "x"},
		} {
			r.refused(r.adjust(bad), "")
		}
		if e, err := r.service.Adjust(context.Background(), credit); err != nil || e.Amount != 250 {
			t.Fatalf("%+v, %v", e, err)
		}
		r.refused(r.adjust(credit), "")
		if strays, err := r.service.Scan(context.Background(), time.Now().Add(-48*time.Hour), false); err != nil || len(strays) != 0 || r.total("ada") != 350 {
			t.Errorf("%+v, %v, total %d", strays, err, r.total("ada"))
		}
	})
}

// Money of which a node said that it went elsewhere is found once the node says otherwise.
func TestMoneyThatWasCalledDivertedIsFound(t *testing.T) {
	inAdasRing(t, "", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["carol"] = fate{state: mpp.Mismatched} })
		r.post(paid.OpBid, fund, r.sign(r.challenge(paid.OpBid, fund), "carol", 150)).is(409, api.PaymentMismatch)
		r.findsNoStray(time.Now().Add(-time.Hour))
		r.network.change(func() { delete(r.network.fates, "carol") })
		strays, err := r.service.Scan(context.Background(), time.Now().Add(-time.Hour), false)
		if err != nil || len(strays) != 1 || strays[0].Missing != 150 || strays[0].Transfer.Payer != "carol" || r.total("ada") != 100 {
			t.Errorf("%+v, %v, total %d", strays, err, r.total("ada"))
		}
	})
}

// However much there is without an event, none of it is passed over: one scan says what
// it leaves out and from when on, and the daily one goes on with that.
func TestMoneyWithoutAnEventIsAllTold(t *testing.T) {
	inAdasRing(t, "strays", func(t *testing.T, r *ring) {
		synctest.Wait()
		began := time.Now()
		arrive := func(count int, at time.Time) {
			for range count {
				reference := fmt.Sprintf("0x%04x", len(r.network.sent))
				r.network.arrives(reference, "carol", 250, at)
			}
		}
		r.network.change(func() {
			arrive(900, began)
			arrive(1100, began.Add(time.Second)) // of one block, so none of it is a beginning
			arrive(1000, began.Add(time.Minute))
			arrive(500, began.Add(2*time.Minute))
		})
		told := map[string]bool{}
		time.Sleep(3 * time.Minute)
		for since, count := range map[time.Time]int{began: 2000, began.Add(time.Second): 1100, began.Add(time.Minute): 1000, began.Add(2 * time.Minute): 500} {
			strays, err := r.service.Scan(context.Background(), since, false)
			same(t, len(strays), count)
			for _, x := range strays {
				told[x.Transfer.Reference] = true
			}
			says := map[int]string{2000: "--since " + began.Add(time.Minute).UTC().Format(time.RFC3339),
				1100: "--since " + began.Add(time.Minute).UTC().Format(time.RFC3339),
				1000: "--since " + began.Add(2*time.Minute).UTC().Format(time.RFC3339)}[count]
			if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
				t.Errorf("since %s: %v", since.Sub(began), err)
			}
		}
		same(t, len(told), 3500)
		time.Sleep(25 * time.Hour)
		for reference := range told {
			if n := strings.Count(r.log.String(), "transaction="+reference+" "); n != 1 {
				t.Fatalf("the log tells %d times of %s", n, reference)
			}
		}
	})
}

// tells fails unless the log tells so often of money that no event accounts for.
func (r *ring) tells(reference string, times int) {
	r.t.Helper()
	if n := strings.Count(r.log.String(), "transaction="+reference+" "); n != times {
		r.t.Errorf("the log tells %d times of %s, not %d", n, reference, times)
	}
}

// What was paid on a network that a restored backup does not know is not passed over.
func TestMoneyWhoseEventWasLostIsFound(t *testing.T) {
	inAdasRing(t, "lost", func(t *testing.T, r *ring) {
		time.Sleep(5 * 24 * time.Hour)
		synctest.Wait()
		disk, head := r.store.Copy(), r.headBytes(r.process)
		time.Sleep(24 * time.Hour)
		two(r)
		r.restart()
		time.Sleep(24 * time.Hour)
		r.second.change(func() { r.second.arrives("0x2ea", "carol", 250, time.Now()) })
		time.Sleep(time.Hour)
		r.stop()
		r.start(disk, head)
		time.Sleep(25 * time.Hour)
		r.tells("0x2ea", 1)
	})
}

// A payer's own payment does not hide what it sent before, unasked.
func TestMoneyWithoutAnEventBesideAPayment(t *testing.T) {
	inAdasRing(t, "beside", func(t *testing.T, r *ring) {
		time.Sleep(20 * time.Hour)
		r.network.change(func() { r.network.arrives("0xfeed", "carol", 150, time.Now()) })
		time.Sleep(4*time.Hour + 50*time.Second)
		r.network.change(func() { r.network.fates["carol"] = fate{after: 20 * time.Second} })
		r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "carol", 150)}})
		time.Sleep(11 * time.Second)
		r.has(amounts{"open": 1})
		// Its own transfer, by a clock that is behind and in another transaction, is none.
		r.brings("0xc10c", "carol", 150, time.Now().Add(-5*time.Minute))
		r.findsNoStray(time.Now().Add(-time.Hour))
		r.network.change(func() { delete(r.network.sent, "0xc10c") })
		time.Sleep(72 * time.Hour)
		r.tells("0xfeed", 1)
	})
}

// brings has the money of the oldest open payment come, in another transaction than it names.
func (r *ring) brings(reference, payer string, cents int64, at time.Time) {
	r.t.Helper()
	p, err := paid.StoredPayment(r.open()[0])
	r.must(err)
	r.network.change(func() {
		r.network.arrives(reference, payer, cents, at)
		s := r.network.sent[reference]
		s.payment.Binding = p.Binding
		r.network.sent[reference] = s
	})
}

// An open payment accounts for one transfer: that which names it.
func TestAnOpenPaymentHidesOneTransfer(t *testing.T) {
	inAdasRing(t, "open", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["carol"] = fate{lost: true, forgotten: true} })
		r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "carol", 150)}})
		time.Sleep(3 * time.Hour)
		reserved := time.Now().Add(-3 * time.Hour)
		type arrival struct {
			payer string
			cents int64
			names bool
		}
		its := arrival{"carol", 150, true}
		look := func(name string, all []arrival, strays int) {
			t.Helper()
			for i, a := range all {
				reference, at := fmt.Sprintf("0x%d", i), reserved.Add(time.Second+time.Duration(i))
				if a.names {
					r.brings(reference, a.payer, a.cents, at)
				} else {
					r.network.change(func() { r.network.arrives(reference, a.payer, a.cents, at) })
				}
			}
			for range 2 {
				found, err := r.service.Scan(context.Background(), reserved.Add(-time.Hour), false)
				if err != nil || len(found) != strays || len(r.open()) != 1 {
					t.Errorf("%s: %v, %v, with %d open", name, found, err, len(r.open()))
				}
			}
		}
		for name, step := range map[string]struct {
			all    []arrival
			strays int
		}{
			"its own":               {[]arrival{its}, 0},
			"two with its name":     {[]arrival{its, its}, 1},
			"one like it":           {[]arrival{{"carol", 150, false}}, 1},
			"its own after another": {[]arrival{{"carol", 150, false}, its}, 1},
			"its name by another":   {[]arrival{{"dora", 150, true}}, 1},
			"more than its own":     {[]arrival{{"carol", 151, true}}, 1},
			"two like it":           {[]arrival{{"carol", 150, false}, {"carol", 150, false}}, 2},
			"less than its own":     {[]arrival{{"carol", 149, true}}, 0},
		} {
			look(name, step.all, step.strays)
			r.network.change(func() {
				for i := range step.all {
					delete(r.network.sent, fmt.Sprintf("0x%d", i))
				}
			})
		}
		r.network.change(func() {
			for i := range 600 { // more than a daily look is about
				r.network.arrives(fmt.Sprintf("0x%d", 1000+i), "dora", 100, reserved.Add(2*time.Second))
			}
		})
		look("three", []arrival{its, its, {"carol", 150, false}}, 602)
		time.Sleep(48 * time.Hour)
		if n := strings.Count(r.log.String(), "money without an event"); n != 602 {
			t.Errorf("of three transfers and 600 others %d are told", n)
		}
	})
	inAdasRing(t, "two open", func(t *testing.T, r *ring) {
		r.network.change(func() { r.network.fates["carol"] = fate{lost: true, forgotten: true} })
		for range 2 {
			r.begin(paid.Call{Operation: paid.OpBid, Body: []byte(fund), Authorization: []string{r.sign(r.challenge(paid.OpBid, fund), "carol", 150)}})
			time.Sleep(time.Second)
		}
		for i, strays := range []int{0, 1, 2} {
			r.brings(fmt.Sprintf("0x%d", i), "carol", 150, time.Now())
			time.Sleep(time.Second)
			found, err := r.service.Scan(context.Background(), time.Now().Add(-time.Hour), false)
			if err != nil || len(found) != strays || len(r.open()) != 2 {
				t.Errorf("%v, %v, with %d open", found, err, len(r.open()))
			}
		}
	})
}

// A node that answers so many questions at a time, fewer than there are transfers in a
// day, does not keep a ring from being looked through.
func TestScanOfABusyRingOnANodeWithAQuota(t *testing.T) {
	const busy, quota = 3000, 500
	inAdasRing(t, "busy", func(t *testing.T, r *ring) {
		synctest.Wait()
		for i := range busy {
			reference := fmt.Sprintf("0x%04x", i)
			r.network.change(func() { r.network.arrives(reference, "bob", 100, time.Now().Add(time.Duration(i)*time.Second)) })
			r.must(r.books.Do(context.Background(), func(tx *ledger.Tx) error {
				_, err := tx.Append(&core.Bid{Stamp: tx.Stamp(), Member: "ada", Amount: 100,
					Payment: core.Payment{Method: "coin", Network: "coin:test", Transaction: reference, Payer: "bob"}}, nil)
				return err
			}))
		}
		r.network.change(func() { r.network.arrives("0xfeed", "carol", 150, time.Now().Add(2*time.Hour)) })
		for range 28 * 6 {
			r.network.change(func() { r.network.patience, r.network.silent = quota, "" })
			time.Sleep(10 * time.Minute)
		}
		r.tells("0xfeed", 1)
	})
}

// A network that has forgotten what is to be looked through keeps the daily look there
// from going on, until the operator says from when it is to.
func TestTheDailyLookGoesOnWhereTheOperatorSays(t *testing.T) {
	for name, c := range map[string]struct {
		behind time.Duration  // the network, then
		strays int            // that the operator is shown
		told   map[string]int // by the daily look
	}{
		"at once":  {0, 3, map[string]int{"0xf125": 0, "0xb10c": 0, "0x1a57": 1}},
		"up to it": {40 * time.Minute, 1, map[string]int{"0xf125": 0, "0xb10c": 1, "0x1a57": 1}},
	} {
		inAdasRing(t, name, func(t *testing.T, r *ring) {
			time.Sleep(30 * time.Hour)
			r.stop()
			time.Sleep(40 * 24 * time.Hour)
			unasked := func(on *network, reference string, ago time.Duration) {
				on.change(func() { on.arrives(reference, "carol", 150, time.Now().Add(-ago)) })
			}
			r.network.change(func() { r.network.oldest = time.Now() })
			r.start(r.store, r.headBytes(r.process))
			time.Sleep(45 * time.Hour)
			if !strings.Contains(r.log.String(), "not looked through") {
				t.Fatal("what the network has forgotten was looked through")
			}
			unasked(r.second, "0x5ec0", 3*time.Hour) // after its last daily look
			unasked(r.network, "0xf125", time.Hour)
			unasked(r.network, "0xb10c", 30*time.Minute)
			unasked(r.network, "0x1a57", 5*time.Minute)
			scan := func(goOn bool, strays int, fails bool) {
				t.Helper()
				got, err := r.service.Scan(context.Background(), time.Now().Add(-2*time.Hour), goOn)
				if len(got) != strays || (err != nil) != fails || strings.Contains(r.log.String(), "left out") {
					t.Errorf("%v, %v", got, err)
				}
			}
			scan(false, 3, false)
			r.network.change(func() { r.network.silent = "transfers" })
			scan(true, 0, true)
			r.network.change(func() { r.network.silent, r.network.skew = "", -c.behind })
			strays, err := r.service.Scan(context.Background(), time.Now().Add(-2*time.Hour), true)
			if len(strays) != c.strays || err != nil || strings.Count(r.log.String(), "left out") != 1 {
				t.Errorf("%v, %v", strays, err)
			}
			r.network.change(func() { r.network.skew = 0 })
			time.Sleep(25 * time.Hour)
			for reference, times := range c.told {
				r.tells(reference, times)
			}
			r.tells("0x5ec0", 1) // of the second network, nothing is left out
		}, two)
	}
}

// What can be looked through is not left out because there is much of it.
func TestNothingIsLeftOutOfABusyRing(t *testing.T) {
	inAdasRing(t, "busy", func(t *testing.T, r *ring) {
		time.Sleep(26 * time.Hour)
		began := time.Now()
		r.network.change(func() {
			for i := range 900 {
				r.network.arrives(fmt.Sprintf("0x%04x", i), "carol", 150, began.Add(time.Duration(i)*time.Second))
			}
		})
		time.Sleep(time.Hour)
		r.network.change(func() { r.network.patience = 400 })
		if strays, err := r.service.Scan(context.Background(), began.Add(600*time.Second), true); err != nil || len(strays) != 300 {
			t.Errorf("%d, %v", len(strays), err)
		}
		r.network.change(func() { r.network.patience, r.network.silent = 0, "" })
		asked := r.network.questions("transfers")
		if strays, err := r.service.Scan(context.Background(), began.Add(-24*time.Hour), true); err != nil || len(strays) != 900 || r.network.questions("transfers") != asked+1 {
			t.Errorf("%d, %v, after %d questions", len(strays), err, r.network.questions("transfers")-asked)
		}
		time.Sleep(25 * time.Hour)
		for i := range 900 {
			r.tells(fmt.Sprintf("0x%04x", i), 1)
		}
		if strings.Contains(r.log.String(), "left out") {
			t.Error("something is left out")
		}
	})
}

// However much there is of what is too young to be told, a look ends.
func TestScanLeavesHoweverMuchIsYoung(t *testing.T) {
	inAdasRing(t, "crowd", func(t *testing.T, r *ring) {
		time.Sleep(24*time.Hour - 4*time.Minute) // five before the scan
		r.network.change(func() {
			for i := range 3000 {
				r.network.arrives(fmt.Sprintf("0x%04x", i), "carol", 250, time.Now().Add(time.Duration(i/1000)*time.Second))
			}
		})
		time.Sleep(25 * time.Hour)
		if n := strings.Count(r.log.String(), "money without an event"); n != 3000 {
			t.Errorf("the log tells of %d", n)
		}
	})
}

// A network that tells of the newest first is not asked the same again and again.
func TestScanOfANetworkThatGoesBackwardsEnds(t *testing.T) {
	inAdasRing(t, "backwards", func(t *testing.T, r *ring) {
		synctest.Wait()
		r.network.change(func() {
			r.network.backwards, r.network.patience = true, 50_000
			for i := range 2500 {
				at := time.Now().Add(time.Duration(i/1250) * time.Minute)
				reference := fmt.Sprintf("0x%04x", len(r.network.sent))
				r.network.arrives(reference, "carol", 250, at)
			}
		})
		time.Sleep(25 * time.Hour)
		if log := r.log.String(); !strings.Contains(log, "do not come oldest first") {
			t.Errorf("%d questions; the log says %.2000s", 50_000-r.network.patience, log)
		}
	})
}

// A scan of however much asks for each transfer about once, and one that a fault
// ends repeats no more than its last look: the log tells once of each.
func TestScanGoesOnAfterAFault(t *testing.T) {
	const count = 5500
	for name, fault := range map[string]struct {
		begin, end func(r *ring)
		within     time.Duration // until all is told
	}{
		"no fault": {func(r *ring) {}, func(r *ring) {}, 0},
		"a network that falls silent": {
			func(r *ring) { r.network.change(func() { r.network.patience = count - 100 }) },
			func(r *ring) { r.network.change(func() { r.network.silent = "" }) }, time.Hour},
		"a disk that is full": {
			func(r *ring) { r.full.Store(true) },
			func(r *ring) { r.full.Store(false) }, time.Hour},
		"a process that ends": {
			func(r *ring) { r.network.change(func() { r.network.patience = count - 100 }) },
			func(r *ring) {
				r.network.change(func() { r.network.silent = "" })
				r.restart()
			}, 25 * time.Hour},
	} {
		inAdasRing(t, name, func(t *testing.T, r *ring) {
			synctest.Wait()
			r.network.change(func() {
				for i := range count {
					reference, at := fmt.Sprintf("0x%04x", i), time.Now().Add(time.Duration(i)*time.Second)
					r.network.arrives(reference, "carol", 1, at)
				}
			})
			time.Sleep(24 * time.Hour)
			fault.begin(r)
			time.Sleep(time.Hour)
			fault.end(r)
			time.Sleep(fault.within)
			told := map[string]int{}
			for _, line := range strings.Split(r.log.String(), "\n") {
				if _, rest, stray := strings.Cut(line, `msg="money without an event`); stray {
					_, rest, _ = strings.Cut(rest, " transaction=")
					reference, _, _ := strings.Cut(rest, " ")
					told[reference]++
				}
			}
			for reference, n := range told {
				if n != 1 {
					t.Fatalf("the log tells %d times of %s", n, reference)
				}
			}
			if asked := r.network.questions("block"); len(told) != count || asked > count+1100 {
				t.Errorf("%d are told of, after %d questions", len(told), asked)
			}
		})
	}
}

// What may yet be of an open payment is told by the scan of the next day, and once.
func TestScanLeavesWhatIsYoung(t *testing.T) {
	inAdasRing(t, "young", func(t *testing.T, r *ring) {
		time.Sleep(24*time.Hour - 4*time.Minute) // five before the scan
		r.network.change(func() {
			r.network.arrives("0xfeed", "carol", 250, time.Now())
		})
		for day, want := range []int{0, 1, 1} {
			asked := r.network.questions("transfers")
			time.Sleep(24 * time.Hour)
			if n := strings.Count(r.log.String(), "0xfeed"); n != want || r.network.questions("transfers") == asked {
				t.Errorf("after %d days it was told %d times", day+1, n)
			}
		}
	})
}
