package risk

import (
	"fmt"
	"testing"
	"time"

	"webring/server/ledger"
)

// What is in flight leaves no room for an offer once half of the budget is wasted, and only then.
func TestFlightsCloseTheOfferWhenHalfIsWasted(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	const budget, gas = 1_000_000, 100_000
	for wasted, closed := range map[int]bool{0: false, 4: false, 6: true} {
		var stored []ledger.Waste
		for i := range wasted {
			stored = append(stored, ledger.Waste{At: now.Add(-time.Minute), Network: "evm", Transaction: fmt.Sprint(i), Payer: fmt.Sprint(i), Client: fmt.Sprintf("10.%d.0.1", i), Gas: gas})
		}
		x := NewGas(budget, stored)
		for i := range 10 - wasted {
			x.Launch(fmt.Sprint(i), Flight{Network: "evm", Payer: fmt.Sprintf("f%d", i), Client: fmt.Sprintf("11.%d.0.1", i), Gas: gas})
		}
		if until := x.FullUntil("evm", "203.0.113.1", now); until.IsZero() == closed {
			t.Errorf("%d wasted: closed until %v", wasted, until)
		}
		if until := x.FullUntil("other", "203.0.113.1", now); !until.IsZero() {
			t.Errorf("%d wasted: another network is closed until %v", wasted, until)
		}
	}
}
