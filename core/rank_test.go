package core

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// floor is standing by its definition.
func floor(total, elapsed, decay int64) int64 {
	if elapsed <= 0 {
		return total
	}
	if elapsed >= decay {
		return 0
	}
	n := new(big.Int).Mul(big.NewInt(total), big.NewInt(decay-elapsed))
	return n.Div(n, big.NewInt(decay)).Int64()
}

func TestStandingFallsInAStraightLineRoundedDown(t *testing.T) {
	for _, c := range [][4]int64{
		{1000, -5, 100, 1000}, {1000, 0, 100, 1000}, {1000, 1, 100, 990}, {1000, 50, 100, 500}, {1000, 99, 100, 10},
		{1000, 100, 100, 0}, {1000, 101, 100, 0}, {1, 1, 100, 0}, {199, 50, 100, 99}, {7, 1, 1, 0},
		{MaxTotal, 1, MaxWindow, MaxTotal - 22}, {MaxTotal, MaxWindow - 1, MaxWindow, 21},
	} {
		if got := standing(c[0], c[1], c[2]); got != c[3] {
			t.Errorf("%d cents, %d of %d s: %d, want %d", c[0], c[1], c[2], got, c[3])
		}
	}
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	for range 100_000 {
		total, decay := 1+random.Int64N(MaxTotal), 1+random.Int64N(MaxWindow)
		elapsed := random.Int64N(decay+20) - 10
		if got, want := standing(total, elapsed, decay), floor(total, elapsed, decay); got != want {
			t.Fatalf("%d cents, %d of %d s: %d, want %d (seed %d)", total, elapsed, decay, got, want, seed)
		}
	}
}

func TestTheNextStepOfAStandingIsTheFirstSecondBelow(t *testing.T) {
	step := func(total, cents, decay int64) {
		t.Helper()
		at := stepBelow(total, cents, decay)
		if at < 1 || at > decay || floor(total, at, decay) >= cents || floor(total, at-1, decay) < cents {
			t.Fatalf("%d cents over %d s: below %d at %d, where it is %d after %d", total, decay, cents, at, floor(total, at, decay), floor(total, at-1, decay))
		}
	}
	for total := int64(1); total <= 40; total++ {
		for decay := int64(1); decay <= 40; decay++ {
			for cents := int64(1); cents <= total; cents++ {
				step(total, cents, decay)
			}
		}
	}
	const seed = 8
	random := rand.New(rand.NewPCG(seed, seed))
	t.Logf("seed %d", seed)
	for range 100_000 {
		total, decay := 1+random.Int64N(MaxTotal), 1+random.Int64N(MaxWindow)
		step(total, 1+random.Int64N(total), decay)
	}
	step(MaxTotal, 1, MaxWindow)
	step(MaxTotal, MaxTotal, MaxWindow)
	step(1, 1, MaxWindow)
}

// The seconds of the last change and of the next are the ones that going through
// time second by second finds.
func TestTheBoundsOfAStandingAreExact(t *testing.T) {
	const seed = 9
	random := rand.New(rand.NewPCG(seed, seed))
	t.Logf("seed %d", seed)
	for range 300 {
		d := decline{1 + random.Int64N(200), 5 + random.Int64N(20), 1 + random.Int64N(60)}
		const end = 5 + 20 + 60 + 5
		at := func(now int64) int64 { return floor(d.total, now-d.start, d.decay) }
		for now := int64(5); now < end; now++ {
			cents := d.worth(now)
			since, until := d.since(cents), d.until(cents)
			wantSince, wantUntil := int64(0), int64(never)
			for second := now; second > 5 && wantSince == 0; second-- {
				if at(second) != at(second-1) {
					wantSince = second
				}
			}
			for second := now + 1; second <= end && wantUntil == never; second++ {
				if at(second) != at(now) {
					wantUntil = second
				}
			}
			if cents != at(now) || since != wantSince || until != wantUntil {
				t.Fatalf("%+v at %d: %d from %d until %d, want %d from %d until %d", d, now, cents, since, until, at(now), wantSince, wantUntil)
			}
		}
	}
}

func TestAFeeStandsForEver(t *testing.T) {
	d := decline{100, never, 1}
	if cents, since, until := d.worth(1<<40), d.since(100), d.until(100); cents != 100 || since != 0 || until != never {
		t.Errorf("%d cents from %d until %d", cents, since, until)
	}
}

func TestReadingRanksBeforeAdvancePanics(t *testing.T) {
	s := NewState(1, 1)
	event, err := AppendEvent(nil, &Rules{Name: "n", BaseURL: "b", MinBid: 1, Decay: 1})
	if err == nil {
		err = s.Apply(event, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("ranks were read that were behind")
		}
	}()
	s.AppendRanked(nil, 0, 1)
}

// A price that would take a member's total beyond the highest is none.
func TestNoPriceIsBeyondTheHighestTotal(t *testing.T) {
	for _, tc := range []struct {
		a, b   int64 // totals; a joined first
		behind string
		cents  int64
		ok     bool
	}{
		{MaxTotal, MaxTotal - 500, "b", 0, false},
		{MaxTotal - 501, MaxTotal - 600, "b", 100, true},
		{MaxTotal - 1, MaxTotal - 500, "b", 500, true},
		{MaxTotal - 500, MaxTotal, "a", 500, true},
		{MaxTotal - 50, MaxTotal, "a", 0, false}, // the least bid is too much
	} {
		s := pair()
		for slug, total := range map[string]int64{"a": tc.a, "b": tc.b} {
			o, _ := s.bySlug(slug)
			if err := s.pay(slug, total-s.accounts[o].total, 1000); err != nil {
				t.Fatal(err)
			}
		}
		s.Advance(1)
		behind, _ := s.bySlug(tc.behind)
		cents, ok := s.ToTakeFirst(behind)
		pass, rank, may := s.ToPass(behind, 1-behind)
		if ok != tc.ok || may != tc.ok || ok && (cents != tc.cents || pass != cents || rank != 1) {
			t.Errorf("%+v: first for %d %t, passes for %d %t at rank %d", tc, cents, ok, pass, may, rank)
		}
	}
}

// While a long ledger is folded, no rank is asked for before its end. Memory must not grow
// with the events until then.
func TestALongLedgerIsFoldedWithoutANoteOfEachEvent(t *testing.T) {
	s := pair()
	s.Advance(1)
	for stamp := range int64(10_000) {
		if err := s.pay([]string{"a", "b", "b"}[stamp%3], 100, stamp); err != nil {
			t.Fatal(err)
		}
	}
	if n := cap(s.ranking.pending); n > 1000 {
		t.Errorf("room for %d notes", n)
	}
	s.Advance(9) // none of it has decayed
	a, _ := s.bySlug("a")
	b, _ := s.bySlug("b")
	if s.Rank(b) != 1 || s.Rank(a) != 2 || s.Standing(a) != 100+3334*100 || s.ranks.Len != 2 {
		t.Errorf("ranks %d and %d, %d cents of %d members", s.Rank(a), s.Rank(b), s.Standing(a), s.ranks.Len)
	}
}
