package coretest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"webring/core"
	"webring/core/snap"
)

// Whatever happens to a ring, core and model take the same events, refuse the others for the
// same reason, and answer every question alike. So does a state that is restored from the
// snapshot of the core. A refused event changes nothing: the model has none of it.
func TestCoreAndModelAgreeOnAllHistories(t *testing.T) {
	type outcome struct {
		event string
		err   error
	}
	met := map[outcome]int{}
	each(t, func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 1))
		st, m := core.NewState(capacity, seed), &Model{Capacity: capacity}
		for i, step := range Generate(seed, length) {
			if step.Event == nil {
				st.Advance(step.Now)
				m.Advance(step.Now)
			} else {
				got, want := st.Apply(step.EventBytes, step.TextBytes), m.Apply(step.Event, step.Texts)
				met[outcome{strings.TrimPrefix(fmt.Sprintf("%T", step.Event), "*core."), want}]++
				if !errors.Is(got, want) || (got == nil) != (want == nil) {
					t.Fatalf("step %d, %#v: %v, want %v", i, step.Event, got, want)
				}
			}
			if seed%2 == 1 && random.IntN(12) == 0 {
				st = again(t, st, random)
			}
			if m.Rules != nil && random.IntN(8) == 0 {
				compare(t, st, m, random)
			}
		}
		compare(t, st, m, random)
	})
	for events, errs := range map[string][]error{
		"Rules":                {nil},
		"Joined":               {nil, core.ErrStampOrder, core.ErrCapacity, core.ErrSlugTaken, core.ErrURLTaken},
		"Bid":                  {nil, core.ErrNotOpened, core.ErrStampOrder, core.ErrUnknown},
		"Adjusted":             {nil, core.ErrUnknown},
		"Removed":              {nil, core.ErrUnknown, core.ErrRemoved},
		"Hidden":               {nil, core.ErrUnknown, core.ErrRemoved, core.ErrHidden},
		"Shown":                {nil, core.ErrUnknown, core.ErrRemoved, core.ErrShown},
		"Claimed Changed Left": {nil, core.ErrStampOrder, core.ErrUnknown, core.ErrRemoved},
		"Moved":                {nil, core.ErrUnknown, core.ErrRemoved, core.ErrURLTaken},
		"Verified":             {nil, core.ErrUnknown, core.ErrRemoved, core.ErrVerified},
		"Unverified":           {nil, core.ErrUnknown, core.ErrRemoved, core.ErrUnverified},
		"Asleep":               {nil, core.ErrUnknown, core.ErrRemoved, core.ErrAsleep},
		"Awake":                {nil, core.ErrUnknown, core.ErrRemoved, core.ErrAwake},
		"Departed":             {nil, core.ErrUnknown, core.ErrRemoved, core.ErrHidden},
		"Returned Lapsed":      {nil, core.ErrUnknown, core.ErrNotDeparted},
		"SetBack":              {nil},
	} {
		for event := range strings.FieldsSeq(events) {
			for _, err := range errs {
				if met[outcome{event, err}] == 0 {
					t.Errorf("no history has the outcome %v of %s", err, event)
				}
			}
		}
	}
}

// again gives a state like st: restored from its snapshot, or attached to a copy of its image.
func again(t *testing.T, st *core.State, random *rand.Rand) (other *core.State) {
	t.Helper()
	var err error
	seq, digest, snapshot := st.Seq(), st.Digest(), snap.Append(nil, st)
	if random.IntN(2) == 0 {
		other, err = snap.Open(capacity, random.Uint64(), snapshot, core.Means{})
	} else {
		header, lies := st.Image(nil)
		memory := make([]byte, len(lies)) // at a multiple of 8 bytes
		copy(memory, lies)
		other, err = core.Attach(capacity, header, memory)
	}
	if err != nil {
		t.Fatal(err)
	}
	if other.Seq() != seq || other.Digest() != digest || !bytes.Equal(snap.Append(nil, other), snapshot) {
		t.Fatalf("another state at %d, %x, want %d, %x", other.Seq(), other.Digest(), seq, digest)
	}
	other.Advance(st.Clock())
	return other
}

// totalForRank makes sure that what the core says a rank takes is enough for a
// member, or for the next one to join, and that a cent less is not.
func totalForRank(t *testing.T, st *core.State, m *Model, member, rank int) {
	t.Helper()
	with := func(total int64) (rank int) {
		rank = 1
		for _, o := range m.Ranked() {
			if other := m.Standing(o); o != member && (other > total || other == total && o < member) {
				rank++
			}
		}
		return rank
	}
	total := st.TotalForRank(core.Ordinal(member), rank)
	if total < 0 || with(total) > rank || total > 0 && with(total-1) <= rank {
		t.Fatalf("rank %d takes a total of %d for member %d, which gives rank %d, and a cent less rank %d", rank, total, member, with(total), with(total-1))
	}
}

// compare asks core and model everything.
func compare(t *testing.T, st *core.State, m *Model, random *rand.Rand) {
	t.Helper()
	st.Advance(m.Clock)
	if st.Seq() != m.Seq || st.Clock() != m.Clock || st.LastStamp() != m.Stamp || st.Rows() != len(m.Members) {
		t.Fatalf("seq %d clock %d stamp %d rows %d, want %d %d %d %d", st.Seq(), st.Clock(), st.LastStamp(), st.Rows(), m.Seq, m.Clock, m.Stamp, len(m.Members))
	}
	if paid, voided := st.Books(); paid != m.Paid || voided != m.Voided {
		t.Fatalf("books: paid %d voided %d, want %d %d", paid, voided, m.Paid, m.Voided)
	}
	if got, want := fmt.Sprint(st.AppendRanked(nil, 0, st.Len())), fmt.Sprint(m.Ranked()); got != want {
		t.Fatalf("ranked %s, want %s", got, want)
	}
	if got, want := st.JoinAtFirst(), m.JoinAtFirst(); got != want {
		t.Fatalf("join at first %d, want %d", got, want)
	}
	compareForecasts(t, st, m)
	totalForRank(t, st, m, len(m.Members), 1+random.IntN(len(m.Members)+1))
	ranks, positions := map[int]int{}, map[int]int{}
	ranked := m.Ranked()
	for i, o := range ranked {
		ranks[o] = i + 1
	}
	for i, o := range m.Ring(0, nil) {
		positions[o] = i + 1
	}
	for i, member := range m.Members {
		o := core.Ordinal(i)
		row := st.Member(o)
		if row.Total() != member.Total() || row.Removed != member.Removed || row.Hidden != member.Hidden || st.Hidden(o) != member.Hidden {
			t.Fatalf("member %d: total %d removed %t hidden %t, want %d %t %t", i, row.Total(), row.Removed, row.Hidden, member.Total(), member.Removed, member.Hidden)
		}
		if row.Joined != member.Event.Stamp || row.Bids > 0 && row.LastBid != member.LastBid {
			t.Fatalf("member %d joined at %d, its last bid was at %d, want %d %d", i, row.Joined, row.LastBid, member.Event.Stamp, member.LastBid)
		}
		compareOwned(t, i, row, member)
		if member.holdsURL() {
			if holder, ok := st.Holder(core.AppendKey(nil, []byte(row.URL))); !ok || holder != o {
				t.Fatalf("member %d: its URL is held by %d %t", i, holder, ok)
			}
		}
		if st.Rank(o) != ranks[i] {
			t.Fatalf("member %d: rank %d, want %d", i, st.Rank(o), ranks[i])
		}
		if found, ok := st.BySlug([]byte(member.Event.Slug)); !ok || found != o {
			t.Fatalf("member %d is not found by its slug", i)
		}
		totalForRank(t, st, m, i, 1+random.IntN(len(m.Members)))
		cents, ok := st.ToTakeFirst(o)
		wantCents, wantOK := m.ToTakeFirst(i)
		if cents != wantCents || ok != wantOK {
			t.Fatalf("member %d: to take first %d %t, want %d %t", i, cents, ok, wantCents, wantOK)
		}
		if !member.Live() {
			if st.Standing(o) != 0 {
				t.Fatalf("member %d is not in the ring, and its standing is %d", i, st.Standing(o))
			}
			continue
		}
		if rank := ranks[i]; rank > 1 {
			above := ranked[rank-2]
			cents, takes, ok := st.ToPass(o, core.Ordinal(above))
			if want, wantRank, wantOK := m.ToPass(i, above); cents != want || takes != wantRank || ok != wantOK {
				t.Fatalf("member %d passes %d with %d at rank %d, want %d and %d", i, above, cents, takes, want, wantRank)
			}
		}
		if st.Standing(o) != m.Standing(i) || st.Position(o) != positions[i] {
			t.Fatalf("member %d: standing %d position %d, want %d %d", i, st.Standing(o), st.Position(o), m.Standing(i), positions[i])
		}
	}
	compareLists(t, st, m, random)
	var scratch []byte
	for _, from := range References(m) {
		o, ok := st.Resolve([]byte(from), &scratch)
		if want := m.Resolve(from); ok != (want >= 0) || ok && int(o) != want {
			t.Fatalf("from %q resolves to %d %t, want %d", from, o, ok, want)
		}
	}
}

// compareForecasts asks a model of the future what the core foresees.
func compareForecasts(t *testing.T, st *core.State, m *Model) {
	t.Helper()
	for i, f := range st.Forecasts() {
		at := m.Clock/86400*86400 + int64(core.ForecastDays[i])*86400
		then := m.At(at)
		first, standing := 0, int64(0)
		if ranked := then.Ranked(); len(ranked) > 0 {
			first, standing = ranked[0], then.Standing(ranked[0])
		}
		if want := (core.Forecast{At: at, First: core.Ordinal(first), Standing: standing}); f != want {
			t.Fatalf("forecast %+v, want %+v", f, want)
		}
		if got, want := st.JoinAtFirstThen(&f), then.JoinAtFirst(); got != want {
			t.Fatalf("join at first at %d: %d, want %d", at, got, want)
		}
		for o, member := range m.Members {
			cents, ok := st.ToTakeFirstThen(core.Ordinal(o), &f)
			want, may := int64(0), member.Live() && o != first
			if may {
				want, may = then.toPass(o, first, standing)
			}
			if ok != may || ok && cents != want {
				t.Fatalf("member %d: to take first from %d at %d %d %t, want %d %t", o, first, at, cents, ok, want, may)
			}
			if got, want := st.StandingAt(core.Ordinal(o), at), then.Standing(o); got != want {
				t.Fatalf("member %d: standing %d at %d, want %d", o, got, at, want)
			}
		}
	}
}

// compareOwned compares what an owner and the visits have made of a row.
func compareOwned(t *testing.T, i int, row core.Member, member *Member) {
	t.Helper()
	want := row
	want.Kind, want.Category, want.Score = member.Event.Kind, member.Event.Category, member.Event.Score
	want.Owner, want.Claimed = core.AccountOf(member.owner()), member.Claimed
	want.Proof, want.Verified, want.Changed = member.Proof, member.Verified, member.Changed
	want.Asleep, want.HealthSince = member.Asleep, member.Since
	want.Name, want.URL, want.Description, want.Report = "", "", "", ""
	if member.Texts != nil && !member.Redacted {
		want.Name, want.URL, want.Description, want.Report = member.Texts.Name.Value, member.Texts.URL.Value, member.Texts.Description.Value, member.Texts.Report.Value
	}
	if row != want {
		t.Fatalf("member %d is %+v, want %+v", i, row, want)
	}
}

// compareLists walks every filtered ring from everywhere.
func compareLists(t *testing.T, st *core.State, m *Model, random *rand.Rand) {
	t.Helper()
	used := map[string]bool{}
	for _, c := range []string{"", "general", "tools", "a", "x-", "unused"} {
		category := &c
		if c == "" {
			category = nil
		}
		for kind := core.Kind(0); kind <= core.Website; kind++ {
			l := st.Select(kind, []byte(c))
			if got, want := fmt.Sprint(l.Append([]core.Ordinal{}, 0, l.Len())), fmt.Sprint(m.Ring(kind, category)); got != want {
				t.Fatalf("kind %d category %q: %s, want %s", kind, c, got, want)
			}
			used[c] = used[c] || c != "" && l.Len() > 0
			w, walk := st.Walk(kind, []byte(c)), m.Walkable(kind, category)
			bits := random.Uint64()
			agree := func(what string, o core.Ordinal, ok bool) func(int, bool) {
				return func(want int, wantOK bool) {
					t.Helper()
					if ok != wantOK || ok && int(o) != want {
						t.Fatalf("kind %d category %q: %s is %d %t, want %d %t", kind, c, what, o, ok, want, wantOK)
					}
				}
			}
			o, ok := w.Random(bits)
			agree("random", o, ok)(m.Random(bits, -1, kind, category))
			for _, from := range m.Ring(0, nil) {
				o, ok := w.After(core.Ordinal(from))
				agree(fmt.Sprint("next of ", from), o, ok)(m.Walk(from, 1, kind, category))
				o, ok = w.Before(core.Ordinal(from))
				agree(fmt.Sprint("prev of ", from), o, ok)(m.Walk(from, -1, kind, category))
				o, ok = w.RandomOther(bits, core.Ordinal(from))
				agree(fmt.Sprint("random but ", from), o, ok)(m.Random(bits, from, kind, category))
			}
			if w.Len() != len(walk) {
				t.Fatalf("kind %d category %q: %d to walk to, want %v", kind, c, w.Len(), walk)
			}
			for i, o := range walk {
				agree(fmt.Sprint("place ", i), w.At(i), true)(o, true)
			}
			if w.Len() > 0 {
				o, ok := m.Walk(-1, 1, kind, category)
				agree("first", w.At(0), true)(o, ok)
				o, ok = m.Walk(-1, -1, kind, category)
				agree("last", w.At(w.Len()-1), true)(o, ok)
			}
		}
	}
	for _, c := range st.Categories() {
		if !used[c] {
			t.Fatalf("category %q is listed and not in use", c)
		}
		delete(used, c)
	}
	for c, in := range used {
		if in {
			t.Fatalf("category %q is in use and not listed", c)
		}
	}
}
