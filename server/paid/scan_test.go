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
	"webring/server/mpp"
	"webring/server/paid"
)

// Money that reached the recipient without an event is found, daily and on
// request, and credited once.
func TestMoneyWithoutAnEventIsFoundAndCredited(t *testing.T) {
	in(t, "stray", func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
		synctest.Wait()
		r.network.change(func() {
			r.network.arrives("0xfeed", "carol", 250, time.Now())
		})
		strays, err := r.service.Scan(context.Background(), time.Now().Add(-time.Hour))
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
		if more := r.network.questions("transfers") - asked; more != 0 {
			t.Errorf("a restart looked through the transfers %d times on the same day", more)
		}

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
			if _, err := r.service.Adjust(context.Background(), bad); !errors.Is(err, paid.ErrAdjustment) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		if e, err := r.service.Adjust(context.Background(), credit); err != nil || e.Amount != 250 {
			t.Fatalf("%+v, %v", e, err)
		}
		if _, err := r.service.Adjust(context.Background(), credit); !errors.Is(err, paid.ErrAdjustment) {
			t.Errorf("credited twice: %v", err)
		}
		if strays, err := r.service.Scan(context.Background(), time.Now().Add(-48*time.Hour)); err != nil || len(strays) != 0 || r.total("ada") != 350 {
			t.Errorf("%+v, %v, total %d", strays, err, r.total("ada"))
		}
	})
}

// However much there is without an event, none of it is passed over: one scan says what
// it leaves out and from when on, and the daily one goes on with that.
func TestMoneyWithoutAnEventIsAllTold(t *testing.T) {
	in(t, "strays", func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
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
			strays, err := r.service.Scan(context.Background(), since)
			if len(strays) != count {
				t.Errorf("%d are told of since %s", len(strays), since.Sub(began))
			}
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
		if len(told) != 3500 {
			t.Errorf("%d are told of in all", len(told))
		}
		time.Sleep(25 * time.Hour)
		for reference := range told {
			if n := strings.Count(r.log.String(), "reference="+reference+" "); n != 1 {
				t.Fatalf("the log tells %d times of %s", n, reference)
			}
		}
	})
}

// A network that tells of the newest first is not asked the same again and again.
func TestScanOfANetworkThatGoesBackwardsEnds(t *testing.T) {
	in(t, "backwards", func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
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
		in(t, name, func(t *testing.T) {
			r := newRing(t)
			r.join(ada, "alice")
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
					_, rest, _ = strings.Cut(rest, " reference=")
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
	in(t, "young", func(t *testing.T) {
		r := newRing(t)
		r.join(ada, "alice")
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
