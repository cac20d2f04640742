package synthetic

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"webring/core"
	"webring/server/ledger"
)

// seeded makes a history that ends at a given time, and gives its tree's root.
func seeded(t *testing.T, number uint64, members int, look func(*ledger.View)) tlog.Hash {
	t.Helper()
	s, err := open(Config{Dir: t.TempDir(), Members: members, Number: number, End: time.Unix(1_800_000_000, 0), Log: slog.New(slog.DiscardHandler),
		Rules: core.Rules{Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Grace: 30 * 86400, Decay: 90 * 86400, Scorer: "local", RequiredScore: 40}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.write(); err != nil {
		t.Fatalf("seed %d: %v", number, err)
	}
	_, root := s.books.Root()
	s.books.View(look)
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestASeedDecidesTheWholeHistory(t *testing.T) {
	ignore := func(*ledger.View) {}
	one, again, two := seeded(t, 1, 300, ignore), seeded(t, 1, 300, ignore), seeded(t, 2, 300, ignore)
	if one != again {
		t.Error("the same seed gave two histories")
	}
	if one == two {
		t.Error("two seeds gave one history")
	}
}

func TestASyntheticRingIsVaried(t *testing.T) {
	seeded(t, 3, 3000, func(v *ledger.View) {
		st := v.State()
		rules := st.Rules()
		if st.Len() != 3000 || !rules.Synthetic || rules.Grace != 30*86400 || rules.Decay != 90*86400 {
			t.Errorf("%d members under %+v", st.Len(), rules)
		}
		kinds, bids, words := map[core.Kind]int{}, 0, 0
		first, last := int64(core.MaxStamp), int64(0)
		for o := range st.Rows() {
			m := st.Member(core.Ordinal(o))
			kinds[m.Kind]++
			if m.Bids > 0 {
				bids++
			}
			if m.Description != "" {
				words++
			}
			if !strings.Contains(m.URL, ".example/") {
				t.Fatalf("%s may be somebody's", m.URL)
			}
			first, last = min(first, m.Joined), max(last, m.Joined)
		}
		if kinds[core.Agent] < 600 || kinds[core.MCP] < 600 || kinds[core.Website] < 600 || bids < 1000 || bids > 2500 || words < 2000 || words == 3000 || len(st.Categories()) < 40 {
			t.Errorf("kinds %v, %d with bids, %d with descriptions, %d categories", kinds, bids, words, len(st.Categories()))
		}
		if days := (last - first) / 86_400_000; days < 500 || days > 731 {
			t.Errorf("joined within %d days", days)
		}
	})
}
