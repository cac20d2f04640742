package aside_test

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"webring/core"
	"webring/server/aside"
)

type momentsDocument struct {
	Members []struct{ Slug, Name, URL, Kind string }
	Moments []struct {
		Seq     uint64
		At      time.Time
		Members int
		Marks   [][4]int64
	}
	Complete bool
}

func readMoments(t *testing.T, m *aside.Moments) (d momentsDocument) {
	t.Helper()
	a := m.Document()
	if err := json.Unmarshal(a.Body, &d); a.Status != 200 || a.Seq == 0 || err != nil {
		t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	return d
}

// Each moment is the ring as it was: the slow second model says the same of its members.
func TestMomentsAreTheRingAsItWas(t *testing.T) {
	for _, events := range []int{5, 150, 500} {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		r := newRing(t)
		at := map[uint64][]int64{} // paid by member, by event
		paid := []int64{}
		seq := uint64(0)
		add := func(e core.Event, texts *core.Texts) {
			if !r.add(e, texts) {
				t.Fatalf("seed %d: %T does not apply", seed, e)
			}
			seq++
			at[seq] = append([]int64(nil), paid...)
			r.stamp += 3_600_000
		}
		add(rules(r.stamp, 86400), nil)
		for range events {
			if n := len(paid); n == 0 || random.IntN(4) == 0 {
				paid = append(paid, 100)
				e, texts := joins(r.stamp, n, 0)
				add(e, texts)
			} else {
				m, amount := random.IntN(n), 100+random.Int64N(900)
				paid[m] += amount
				add(&core.Bid{Stamp: r.stamp, Member: "m" + strconv.Itoa(m), Amount: amount}, nil)
			}
		}
		d := readMoments(t, aside.NewMoments(r, 1000, func() time.Time { return time.UnixMilli(r.stamp) }))
		if !d.Complete || len(d.Moments) > 192 || len(d.Moments) < min(events, 97) || d.Moments[0].Members != 1 {
			t.Fatalf("seed %d: %d moments of %d events", seed, len(d.Moments), events)
		}
		for _, m := range d.Moments {
			want := at[m.Seq]
			if m.Members != len(want) || len(m.Marks) != min(len(want), 40) {
				t.Fatalf("seed %d: after event %d %d members and %d marks, want %d members", seed, m.Seq, m.Members, len(m.Marks), len(want))
			}
			for i, mark := range m.Marks {
				slug := d.Members[mark[0]].Slug
				if place := mark[1] - 1; slug != "m"+strconv.Itoa(int(place)) || mark[2] != want[place] || mark[3] > mark[2] {
					t.Errorf("seed %d: after event %d %s has %v, want %d cents", seed, m.Seq, slug, mark, want[place])
				}
				if i > 0 && mark[3] > m.Marks[i-1][3] {
					t.Errorf("seed %d: after event %d the marks are not in order", seed, m.Seq)
				}
			}
		}
	}
}

// A member that may not be named any more has no words, and is in no moment that is made later. Moments are made once a minute.
func TestMomentsHaveNoWithdrawnWords(t *testing.T) {
	r := newRing(t)
	r.add(rules(r.stamp, 86400), nil)
	for n := range 2 {
		e, texts := joins(r.stamp, n, 0)
		r.add(e, texts)
	}
	now := time.UnixMilli(r.stamp)
	moments := aside.NewMoments(r, 1000, func() time.Time { return now })
	if d := readMoments(t, moments); len(d.Members) != 2 || d.Members[0].Slug != "m0" || d.Members[0].Name == "" {
		t.Fatalf("%+v", d.Members)
	}
	if !r.add(&core.Removed{Stamp: r.stamp, Member: "m0", Redacted: true, Why: core.Why{Code: core.Spam}}, nil) {
		t.Fatal("no removal")
	}
	d := readMoments(t, moments)
	if len(d.Moments) != 2 || d.Members[0].Slug != "" || d.Members[0].Name != "A former member" || d.Members[0].URL != "" {
		t.Errorf("at once %+v", d)
	}
	now = now.Add(time.Minute)
	if d := readMoments(t, moments); len(d.Moments) != 3 || d.Moments[2].Members != 1 || len(d.Members) != 1 {
		t.Errorf("later %+v", d)
	}
	if d := readMoments(t, aside.NewMoments(r, 3, func() time.Time { return now })); d.Complete || len(d.Moments) > 0 {
		t.Errorf("of too long a history %+v", d)
	}
}
