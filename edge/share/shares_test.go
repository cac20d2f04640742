package share

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestAskersAreClientsAndNetworks(t *testing.T) {
	for client, want := range map[string][2]string{
		"198.51.100.7":      {"198.51.100.0", "198.51.0.0"},
		"2001:db8:1:2::/64": {"2001:db8:1::/64", "2001:db8::/64"},
		"behind 192.0.2.1":  {"behind 192.0.2.1", "behind 192.0.2.1"},
		"local":             {"local", "local"},
		"":                  {"", ""},
	} {
		if a := AskerOf(client); a.Client() != client || a.Network() != AskerOf(want[0]) || a.Wide() != AskerOf(want[1]) {
			t.Errorf("%q: %q of %q and %q", client, a.Client(), a.Network().Client(), a.Wide().Client())
		}
	}
	a := AskerOf("198.51.100.7")
	if FromContext(NewContext(t.Context(), a)) != a || FromContext(t.Context()) != (Asker{}) {
		t.Error("a context does not say for whom work is done")
	}
}

// each takes for n askers in turn until none has room, and gives what the first has.
func each(s *Shares, n int, asker func(i int) Asker) int {
	for more := true; more; {
		more = false
		for i := range n {
			more = s.Take(asker(i)) || more
		}
	}
	return s.Had(asker(0))
}

func TestSharesOfTheTableInThePackagesComment(t *testing.T) {
	for n, want := range map[int]int{1: 25, 2: 18, 4: 12, 8: 8, 16: 5, 64: 2} {
		s := NewShares(Rule{Most: 180, Half: 4})
		if got := each(s, n, func(i int) Asker { return AskerOf(fmt.Sprint("asker ", i)) }); got != want {
			t.Errorf("each of %d askers has %d, want %d", n, got, want)
		}
	}
}

// TestNoAskerIsRefusedWhatOthersWhoHadMoreAreGiven is the rule, in any order of asking:
// an asker that is refused has had more than every asker that is not, and no more is given
// than there is.
func TestNoAskerIsRefusedWhatOthersWhoHadMoreAreGiven(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		r := Rule{Most: 1 + random.IntN(100), Half: 1 + random.IntN(8), Step: 1 + random.IntN(8)}
		s := NewShares(r)
		askers := 1 + random.IntN(30)
		for range 500 {
			a, b := AskerOf(fmt.Sprint(random.IntN(askers))), AskerOf(fmt.Sprint(random.IntN(askers)))
			if s.Had(a) >= s.Had(b) && s.Room(a) && !s.Room(b) {
				t.Fatalf("%+v: room for who had %d, and none for who had %d", r, s.Had(a), s.Had(b))
			}
			had, taken := s.Had(a), s.Taken()
			if room := s.Room(a); s.Take(a) != room || room != (s.Taken() == taken+1) {
				t.Fatalf("%+v: room %t, and %d after %d", r, room, s.Taken(), taken)
			} else if !room && had < r.Step && taken < r.Most {
				t.Fatalf("%+v: who had %d is refused when %d are taken", r, had, taken)
			}
		}
		if s.Taken() > r.Most {
			t.Errorf("%+v: %d are taken", r, s.Taken())
		}
	}
}

func TestClientsOfOneNetworkShare(t *testing.T) {
	for name, c := range map[string]struct {
		client func(i int) string
		most   int
	}{
		"a /48": {func(i int) string { return fmt.Sprintf("2001:db8:1:%x::/64", i) }, 30},
		"a /24": {func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }, 30},
		"a /20": {func(i int) string { return fmt.Sprintf("198.51.%d.%d", i%16, i/16) }, 40},
		"a /40": {func(i int) string { return fmt.Sprintf("2001:db8:%x:%x::/64", i%256, i) }, 40},
		"a /16": {func(i int) string { return fmt.Sprintf("198.51.%d.1", i) }, 50},
		"a /32": {func(i int) string { return fmt.Sprintf("2001:db8:%x::/64", 256*i) }, 50},
	} {
		s := NewShares(Rule{Most: 100, Half: 4})
		each(s, 200, func(i int) Asker { return AskerOf(c.client(i)) })
		if s.Taken() > c.most {
			t.Errorf("%s has %d of 100", name, s.Taken())
		}
		if !s.Room(AskerOf("203.0.113.1")) {
			t.Errorf("%s leaves others no room", name)
		}
	}
	// One client does not keep its neighbours out.
	s := NewShares(Rule{Most: 100, Half: 4})
	each(s, 1, func(int) Asker { return AskerOf("198.51.100.1") })
	if !s.Room(AskerOf("198.51.100.2")) {
		t.Error("one client takes all that its network may have")
	}
}

func TestWhatIsReturnedIsFree(t *testing.T) {
	s := NewShares(Rule{Most: 6})
	a, b := AskerOf("198.51.100.1"), AskerOf("198.51.100.2")
	for range 10 {
		var got []bool
		for _, asker := range []Asker{a, a, a, b} {
			got = append(got, s.Take(asker))
		}
		if !slices.Equal(got, []bool{true, true, false, true}) {
			t.Fatalf("two of one client, and one of a neighbour: %v", got)
		}
		for _, asker := range []Asker{a, a, b} {
			s.Return(asker)
		}
		if left := slices.IndexFunc(s.had[:], func(counts map[Asker]int) bool { return len(counts) > 0 }); s.Taken() != 0 || left >= 0 {
			t.Fatalf("%d are taken by %v", s.Taken(), s.had)
		}
	}
	s.Take(a)
	s.Clear()
	if s.Taken() != 0 || s.Had(a) != 0 {
		t.Error("something is left")
	}
}

func TestNoLimit(t *testing.T) {
	s := NewShares(Rule{Most: -1})
	for range 1000 {
		if !s.Take(Asker{}) {
			t.Fatal("refused")
		}
	}
}

func TestMemoryIsBounded(t *testing.T) {
	s := NewShares(Rule{Most: 1 << 30})
	for i := range 3 * maxKnown {
		if !s.Take(AskerOf(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))) {
			t.Fatal("refused")
		}
	}
	for level, counts := range s.had {
		if len(counts) > maxKnown || s.Taken() != 3*maxKnown {
			t.Errorf("%d are remembered at level %d, %d taken", len(counts), level, s.Taken())
		}
	}
	// Clients without number do not have their networks forgotten.
	if wide := s.had[levels-1][AskerOf("10.0.0.0")]; wide != 3*maxKnown {
		t.Errorf("their /16 has %d", wide)
	}
}

// Those who have cost much are held to a quarter, those who have cost nothing have all, and
// after a while they are alike.
func TestThePastCountsUntilItFades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		past := NewPast()
		s := NewShares(Rule{Most: 100, Past: past})
		crowd := func(i int) Asker { return AskerOf(fmt.Sprintf("100.%d.0.1", i)) }
		newcomer := AskerOf("203.0.113.1")
		for i := range 200 {
			past.ChargeTime(crowd(i), 20*time.Second, 5*time.Second)
		}
		if w := s.Weight(AskerOf("100.1.255.255")); w != Piece/2 {
			t.Errorf("a neighbour of one client weighs %d", w)
		}
		if each(s, 200, crowd); s.Taken() != 25 {
			t.Errorf("a crowd with a past has %d of 100", s.Taken())
		}
		neighbours := 0
		for i := range 100 {
			if s.Take(AskerOf(fmt.Sprintf("100.%d.200.1", i))) {
				neighbours++
			}
		}
		if neighbours < 20 || s.Taken() > 80 {
			t.Errorf("neighbours of the crowd have %d of 100", neighbours)
		}
		if s.Weight(newcomer) != 0 || !s.Room(newcomer) {
			t.Error("the past of others counts against a newcomer")
		}
		time.Sleep(time.Hour)
		s.Clear()
		if each(s, 200, crowd); s.Taken() != 100 {
			t.Errorf("an hour later it has %d of 100", s.Taken())
		}
	})
}

func TestAskingInVainCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewShares(Rule{Most: 10, Past: NewPast()})
		each(s, 10, func(i int) Asker { return AskerOf(fmt.Sprintf("100.%d.0.1", i)) })
		impatient, patient := AskerOf("198.51.100.1"), AskerOf("203.0.113.1")
		for range 20 {
			s.Take(impatient)
		}
		s.Take(patient)
		s.Return(AskerOf("100.0.0.1"))
		s.Return(AskerOf("100.1.0.1"))
		if s.Take(impatient) || !s.Take(patient) {
			t.Error("the impatient one is first")
		}
	})
}
