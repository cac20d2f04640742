package aside_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/server/aside"
	"webring/server/ledger"
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

// pictured is what a picture of the ring shows at an instant, apart from what has faded: how many members
// there are, and place and money of the first, by rank.
func pictured(st *core.State, second int64) (members int, marks [][3]int64) {
	st.Advance(second)
	for _, o := range st.AppendRanked(nil, 0, 40) {
		paid, _ := st.Paid(o)
		marks = append(marks, [3]int64{int64(o), int64(st.Position(o)), paid})
	}
	return st.Len(), marks
}

// Each event that changes the picture has a moment, of whatever kind it is, and others have none. The
// events are those of random histories, in which every kind is.
func TestEveryEventThatChangesThePictureHasAMoment(t *testing.T) {
	kinds, moved := map[byte]bool{}, map[byte]int{}
	var version byte
	for seed := uint64(coretest.Matched); seed < coretest.Matched+40; seed++ {
		r := newRing(t)
		for _, step := range coretest.Generate(seed, 90) {
			if step.Event != nil {
				r.add(step.Event, step.Texts)
			}
		}
		var size uint64
		r.View(func(v *ledger.View) { size = v.State().Seq() })
		records, err := r.Records(0, int(size))
		if err != nil {
			t.Fatal(err)
		}
		want, none := map[uint64]bool{}, map[uint64]bool{}
		st := core.NewState(1<<10, 1)
		for i, record := range records {
			e, err := core.DecodeEvent(record.Event)
			if err != nil {
				t.Fatal(err)
			}
			version, kinds[record.Event[1]] = record.Event[0], true
			second := max(st.Clock(), e.When()/1000)
			members, marks := 0, [][3]int64(nil)
			if i > 0 {
				members, marks = pictured(st, second)
			}
			if err := st.Apply(record.Event, record.Texts); err != nil {
				t.Fatal(err)
			}
			seq := uint64(i + 1)
			if now, shown := pictured(st, 0); now != members || !slices.Equal(shown, marks) {
				want[seq] = true
				moved[record.Event[1]]++
				continue
			}
			switch e.(type) {
			case *core.Rules, *core.SetBack: // they change how standings fade
			default:
				none[seq] = true
			}
		}
		d := readMoments(t, aside.NewMoments(r, 1000, func() time.Time { return time.UnixMilli(r.stamp) }))
		for _, m := range d.Moments {
			if none[m.Seq] {
				t.Errorf("seed %d: event %d, %x, changes nothing and has a moment", seed, m.Seq, records[m.Seq-1].Event[:2])
			}
			delete(want, m.Seq)
		}
		for seq := range want {
			t.Errorf("seed %d: event %d, %x, has no moment", seed, seq, records[seq-1].Event[:2])
		}
	}
	for kind := byte(1); kind > 0; kind++ {
		if _, err := core.DecodeEvent([]byte{version, kind, 0}); errors.Is(err, core.ErrNewer) {
			break
		} else if !kinds[kind] {
			t.Errorf("no history has an event of kind %d", kind)
		}
	}
	t.Logf("moments by kind of event: %v", moved)
}

// The last moment is the ring as it is, however long the history is.
func TestTheLastMomentIsOfNow(t *testing.T) {
	r := newRing(t)
	r.add(rules(r.stamp, 86400), nil)
	for n := range 30 {
		e, texts := joins(r.stamp, n, 0)
		r.add(e, texts)
	}
	now := time.UnixMilli(r.stamp)
	moments := aside.NewMoments(r, 4000, func() time.Time { return now })
	for n := range 900 {
		r.stamp += 1000
		if !r.add(&core.Bid{Stamp: r.stamp, Member: "m" + strconv.Itoa(10+n%20), Amount: 100}, nil) {
			t.Fatal(n)
		}
		if n%41 > 0 {
			continue
		}
		for _, e := range []core.Event{
			&core.Departed{Stamp: r.stamp, Member: "m0"}, &core.Hidden{Stamp: r.stamp, Member: "m1", Why: core.Why{Code: core.Spam}}, &core.Returned{Stamp: r.stamp, Member: "m0"}, &core.Shown{Stamp: r.stamp, Member: "m1"},
			&core.Asleep{Stamp: r.stamp, Member: "m2"}, &core.Awake{Stamp: r.stamp, Member: "m2"},
		} {
			if !r.add(e, nil) {
				t.Fatalf("%T", e)
			}
			now = now.Add(time.Minute)
			d := readMoments(t, moments)
			last := d.Moments[len(d.Moments)-1]
			r.View(func(v *ledger.View) {
				if last.Members != v.State().Len() || len(last.Marks) != v.State().Len() || len(d.Moments) > 192 {
					t.Errorf("after %d bids and %T: %d members, %d marks in the last of %d moments, want %d", n, e, last.Members, len(last.Marks), len(d.Moments), v.State().Len())
				}
			})
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
	// It never was in the ring, so neither its joining nor its removal changes the picture.
	if d := readMoments(t, moments); len(d.Moments) != 1 || d.Moments[0].Members != 1 || len(d.Members) != 1 {
		t.Errorf("later %+v", d)
	}
	if d := readMoments(t, aside.NewMoments(r, 3, func() time.Time { return now })); d.Complete || len(d.Moments) > 0 {
		t.Errorf("of too long a history %+v", d)
	}
}
