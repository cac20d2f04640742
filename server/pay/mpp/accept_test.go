package mpp_test

import (
	"slices"
	"strings"
	"testing"

	"webring/server/pay/mpp"
)

func TestAcceptFiltersAndOrders(t *testing.T) {
	offers := []mpp.Offer{{"tempo", "charge"}, {"tempo", "session"}, {"evm", "charge"}}
	const all = "tempo/charge tempo/session evm/charge"
	for header, want := range map[string]string{
		"":                       all,
		"*/*":                    all,
		"tempo/*, evm/*":         all,
		"evm/charge":             "evm/charge",
		"evm/charge, tempo/*":    all, // equal weights: the server's order
		"tempo/*;q=0.5, evm/*":   "evm/charge tempo/charge tempo/session",
		"*/charge;q=0.3, evm/*":  "evm/charge tempo/charge",
		"*/*;q=0.1, */charge":    "tempo/charge evm/charge tempo/session",
		"*/*, tempo/charge;q=0":  "tempo/session evm/charge",
		"tempo/*;q=0, evm/*;q=1": "evm/charge",
		"tempo/charge;q=0.2, tempo/charge;q=0.9, evm/*;q=0.5": "tempo/charge evm/charge",
		"tempo/*;q=0.2, */charge;q=0.9, evm/*;q=0.5":          "tempo/charge evm/charge tempo/session",
		" , tempo/charge ; Q=1.000 ,, ":                       "tempo/charge",
		"evm/charge;x=y;q=0.5":                                "evm/charge",
		// Nothing matches, or it cannot be read: all.
		"solana/charge":              all,
		"tempo/charge;q=0":           all,
		"*/*;q=0":                    all,
		"tempo":                      all,
		"tempo/":                     all,
		"tempo/charge;q=2":           all,
		"tempo/charge;q=1.001":       all,
		"tempo/charge;q=0.1234":      all,
		"tempo/charge;q=":            all,
		"tempo/charge;q=-1":          all,
		"evm/charge, tempo charge":   all,
		"evm/charge/x":               all,
		"tempo/cha rge":              all,
		strings.Repeat("a/b,", 5000): all,
	} {
		before := slices.Clone(offers)
		var got []string
		for _, o := range mpp.Accept(header, offers) {
			got = append(got, o.Method+"/"+o.Intent)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("Accept(%.60q) = %v, want %s", header, got, want)
		}
		if !slices.Equal(before, offers) {
			t.Fatalf("Accept(%.60q) changed its argument", header)
		}
	}
}

// Whatever the header, what comes back is a choice among the offers, never
// none of them and none twice.
func FuzzAccept(f *testing.F) {
	f.Add("tempo/charge;q=0.5, */*;q=0.1")
	f.Add("*/*;q=0")
	f.Fuzz(func(t *testing.T, header string) {
		offers := []mpp.Offer{{"tempo", "charge"}, {"evm", "charge"}, {"tempo", "session"}}
		got := mpp.Accept(header, offers)
		if len(got) == 0 || len(got) > len(offers) {
			t.Fatalf("%d offers", len(got))
		}
		for i, o := range got {
			if !slices.Contains(offers, o) || slices.Contains(got[:i], o) {
				t.Fatalf("offer %v at %d", o, i)
			}
		}
	})
}
