package aside_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// ring is a ledger with news, next to the obvious ring.
type ring struct {
	*ledger.Ledger
	t     testing.TB
	dir   string
	store *ledgertest.Store
	stamp int64 // milliseconds
	model *coretest.Model
}

func newRing(t testing.TB) *ring {
	r := &ring{t: t, dir: t.TempDir(), store: ledgertest.NewStore(), stamp: coretest.Start * 1000, model: &coretest.Model{Capacity: 1 << 10}}
	r.open(aside.ObserveNews)
	t.Cleanup(func() { r.Close() })
	return r
}

func (r *ring) open(observe func(*ledger.Tx, core.Event) func(uint64) error) {
	r.openBehind(observe)
	if err := aside.CatchUpNews(context.Background(), r.Ledger); err != nil {
		r.t.Fatal(err)
	}
}

// openBehind opens the ledger without catching up.
func (r *ring) openBehind(observe func(*ledger.Tx, core.Event) func(uint64) error) {
	var err error
	r.Ledger, err = ledger.Open(ledger.Config{Store: r.store, HeadPath: filepath.Join(r.dir, "head"), Capacity: 1 << 10, Observe: observe,
		Now: func() time.Time { return time.UnixMilli(r.stamp) }})
	if err != nil {
		r.t.Fatal(err)
	}
}

// restart opens the ledger anew, and catches up. Without observe it catches up before the
// events that follow, which are not observed.
func (r *ring) restart(observe func(*ledger.Tx, core.Event) func(uint64) error) {
	if err := r.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.open(observe)
}

// add gives an event to the ledger, unless it does not apply.
func (r *ring) add(e core.Event, texts *core.Texts) (applies bool) {
	s := coretest.NewStep(e, texts)
	err := r.Do(context.Background(), func(tx *ledger.Tx) error {
		return tx.Adopt(ledger.Record{Event: s.EventBytes, Texts: s.TextBytes})
	})
	return err == nil
}

func (r *ring) pass() {
	if err := aside.PassNews(context.Background(), r.Ledger); err != nil {
		r.t.Fatal(err)
	}
}

type event struct {
	ID                   uint64
	At, Type, Member, By string
	Was                  int `json:"was_rank"`
	Rank                 int
	Amount               string `json:"amount_usd"`
	Seq                  uint64
}

type document struct {
	Events         []event
	Next           uint64
	More, Complete bool
	Leads          []struct{ Member, From, Until string }
}

func (r *ring) read(path, query string) (d document) {
	r.t.Helper()
	r.View(func(v *ledger.View) {
		a, _ := aside.News(v, path, query, nil)
		if err := json.Unmarshal(a.Body, &d); a.Status != 200 || err != nil {
			r.t.Fatalf("%s?%s: %d %s", path, query, a.Status, a.Body)
		}
	})
	return d
}

// poll reads on from the last news that it knows, as a reader does.
type poller struct {
	next uint64
	seen []event
}

func (p *poller) poll(r *ring, limit int) {
	for more := true; more; {
		d := r.read("/api/events", fmt.Sprintf("since=%d&limit=%d", p.next, limit))
		if !d.Complete || len(d.Events) > limit {
			r.t.Fatalf("since %d: %+v", p.next, d)
		}
		p.seen = append(p.seen, d.Events...)
		p.next, more = d.Next, d.More
	}
}

func rules(stamp int64, grace int64) *core.Rules {
	return &core.Rules{Stamp: stamp, Name: "Example Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Grace: grace, Decay: 90 * 86400,
		Networks: []core.Network{{Name: "tempo", Method: "tempo", Currency: "usd"}}, Scorer: "is-agentic", RequiredScore: 40}
}

func joins(stamp int64, n int, bid int64) (*core.Joined, *core.Texts) {
	e := &core.Joined{Stamp: stamp, Slug: fmt.Sprint("m", n), Kind: core.Website, Category: "general", Fee: 100, Bid: bid}
	texts := &core.Texts{}
	texts.Name.Value, texts.URL.Value = fmt.Sprint("M ", n), fmt.Sprintf("https://m%d.example/", n)
	e.Name, e.URL = coretest.Commit(texts.Name), coretest.Commit(texts.URL)
	return e, texts
}

// ranks gives the ranks of the model, from 1, by slug.
func (r *ring) ranks() map[string]int {
	all := map[string]int{}
	for i, o := range r.model.Ranked() {
		all[r.model.Members[o].Event.Slug] = i + 1
	}
	return all
}

// moved gives what the obvious ring says of ranks that have changed: of every member, and in
// no order. payer is who paid, or "".
func moved(before, now map[string]int, payer string) (list []string) {
	passed := func(slug string) bool {
		return payer != "" && before[slug] != 0 && (before[payer] == 0 || before[payer] > before[slug]) && now[payer] != 0 && now[payer] < now[slug]
	}
	for slug, rank := range now {
		was := before[slug]
		if was > 100 {
			was = 0
		}
		switch {
		case was == rank || was == 0 && rank > 100 || slug == payer:
		case passed(slug) && was != 0:
			list = append(list, fmt.Sprintf("outbid %s by %s %d %d", slug, payer, was, rank))
		default:
			list = append(list, fmt.Sprintf("rank %s by  %d %d", slug, was, rank))
		}
	}
	return list
}

func said(e event) string {
	if e.Type == "rank" || e.Type == "outbid" {
		return fmt.Sprintf("%s %s by %s %d %d", e.Type, e.Member, e.By, e.Was, e.Rank)
	}
	return e.Type + " " + e.Member
}

// Whatever happens, news are what the obvious ring says: of ranks among the first hundred, of
// standings that begin to fade, and of each event. A poller and the feeds of members see each
// once, across restarts.
func TestNewsAgreeWithTheObviousRing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	r := newRing(t)
	p := &poller{}
	grace := int64(30 * 86400)
	apply := func(e core.Event, texts *core.Texts) {
		t.Helper()
		seen := len(p.seen)
		r.model.Advance(r.stamp / 1000)
		before := r.ranks()
		if r.model.Apply(e, texts) != nil {
			if r.add(e, texts) {
				t.Fatalf("%+v applies", e)
			}
			return
		}
		if !r.add(e, texts) {
			t.Fatalf("%+v does not apply", e)
		}
		now := r.ranks()
		var want []string
		payer, slug := "", core.MemberOf(e)
		switch e := e.(type) {
		case *core.Joined:
			payer, want = e.Slug, []string{"joined " + e.Slug}
		case *core.Bid:
			if payer = slug; now[slug] > 0 { // of one that has left nothing is told
				want = []string{"bid " + slug}
			}
		case *core.Removed:
			want = []string{"removed " + slug}
		case *core.Left, *core.Departed:
			want = []string{"left " + slug}
		case *core.Returned:
			want = []string{"returned " + slug}
		case *core.Asleep:
			want = []string{"asleep " + slug}
		case *core.Awake:
			want = []string{"awake " + slug}
		}
		if now[payer] == 0 {
			payer = ""
		}
		want = append(want, moved(before, now, payer)...)
		p.poll(r, 1+rnd.IntN(200))
		var got []string
		for _, s := range p.seen[seen:] {
			if s.Seq != 0 { // what time alone did is compared below
				got = append(got, said(s))
			}
		}
		want = slices.DeleteFunc(want, func(w string) bool { return hidden(r, strings.Fields(w)[1]) })
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%T %s:\n got %q\nwant %q", e, slug, got, want)
		}
	}
	apply(rules(r.stamp, grace), nil)
	for n := range 115 {
		r.stamp += 1000
		bid := int64(0)
		if n%3 == 0 {
			bid = 100 + rnd.Int64N(3000)
		}
		apply(joins(r.stamp, n, bid))
	}
	for n := range 250 {
		r.stamp += 1 + rnd.Int64N(10*1000)
		slug := fmt.Sprint("m", rnd.IntN(115))
		switch rnd.IntN(14) {
		case 13:
			if !hidden(r, slug) {
				apply(&core.Departed{Stamp: r.stamp, Member: slug}, nil)
				if rnd.IntN(3) > 0 {
					apply(&core.Returned{Stamp: r.stamp, Member: slug}, nil)
				} else {
					apply(&core.Lapsed{Stamp: r.stamp, Member: slug}, nil)
				}
			}
		case 0:
			apply(&core.Removed{Stamp: r.stamp, Member: slug, Reason: "asked for"}, nil)
		case 1, 2:
			apply(&core.Hidden{Stamp: r.stamp, Member: slug, Reason: "reported"}, nil)
		case 3, 4:
			apply(&core.Shown{Stamp: r.stamp, Member: slug, Reason: "answered"}, nil)
		case 5:
			apply(&core.Asleep{Stamp: r.stamp, Member: slug}, nil)
			apply(&core.Awake{Stamp: r.stamp, Member: slug}, nil)
		case 6:
			before := board(r)
			r.stamp += rnd.Int64N(5 * 86400 * 1000)
			r.model.Advance(r.stamp / 1000)
			seen := len(p.seen)
			r.pass()
			p.poll(r, 100)
			if got := ordersAfter(before, p.seen[seen:]); !slices.Equal(got, ordersAfter(board(r), nil)) {
				t.Fatalf("the order after a pass is %v, want %v", got, board(r))
			}
		case 7:
			r.restart(aside.ObserveNews)
		case 8:
			apply(joins(r.stamp, 200+n, rnd.Int64N(2)*(100+rnd.Int64N(9000))))
		default:
			apply(&core.Bid{Stamp: r.stamp, Member: slug, Amount: 100 + rnd.Int64N(4000)}, nil)
		}
	}
	for i, e := range p.seen {
		if i > 0 && e.ID <= p.seen[i-1].ID {
			t.Fatalf("%+v comes after %+v", e, p.seen[i-1])
		}
	}
	for _, m := range r.model.Members {
		if !m.Live() {
			continue
		}
		var want []event
		for _, e := range slices.Backward(p.seen) {
			if e.Member == m.Event.Slug && len(want) < aside.OfMember {
				want = append(want, e)
			}
		}
		// A poller misses what was hidden when it asked, or learns the bidder only later.
		got := r.read("/api/ring/"+m.Event.Slug+"/events", "").Events
		for _, e := range want {
			if !slices.ContainsFunc(got, func(g event) bool { return g.ID == e.ID && g.Type == e.Type }) && len(got) < aside.OfMember {
				t.Fatalf("%s has not %+v", m.Event.Slug, e)
			}
		}
	}
}

func hidden(r *ring, slug string) bool {
	for _, m := range r.model.Members {
		if m.Event.Slug == slug {
			return m.Hidden
		}
	}
	return true
}

// board is the first hundred of the obvious ring.
func board(r *ring) map[string]int {
	all := r.ranks()
	for slug, rank := range all {
		if rank > 100 {
			delete(all, slug)
		}
	}
	return all
}

// ordersAfter is the first hundred in order, once news of ranks have come.
func ordersAfter(before map[string]int, list []event) (order []string) {
	for _, e := range list {
		if e.Type == "rank" {
			if delete(before, e.Member); e.Rank <= 100 {
				before[e.Member] = e.Rank
			}
		}
	}
	order = make([]string, 101)
	for slug, rank := range before {
		order[rank] += slug
	}
	return order
}

// A standing that begins to fade is told once, with its instant, however passes lie; a bid
// puts it off, and rules with a shorter grace bring it on.
func TestAStandingThatFadesIsToldOnce(t *testing.T) {
	r := newRing(t)
	const day = 86400
	r.add(rules(r.stamp, 30*day), nil)
	for n, bid := range []int64{500, 400, 0, 300} {
		e, texts := joins(r.stamp, n, bid)
		r.add(e, texts)
	}
	begin := r.stamp
	at := func(days float64) { r.stamp = begin + int64(days*day*1000) }
	fading := func() (all string) {
		for _, e := range r.read("/api/events", "since=0").Events {
			if e.Type == "fading" {
				all += e.Member + " " + e.At[:10] + " "
			}
		}
		return all
	}
	for _, step := range []struct {
		days float64
		do   func()
		want string
	}{
		{20, func() { r.add(&core.Bid{Stamp: r.stamp, Member: "m1", Amount: 100}, nil) }, ""},
		{29.99, func() {}, ""},
		{30.01, func() {}, "m0 2026-03-02 m3 2026-03-02 "},
		{40, func() { r.restart(aside.ObserveNews) }, "m0 2026-03-02 m3 2026-03-02 "},
		{49.99, func() { r.add(rules(r.stamp, 25*day), nil) }, "m0 2026-03-02 m3 2026-03-02 m1 2026-03-17 "},
		{51, func() {}, "m0 2026-03-02 m3 2026-03-02 m1 2026-03-17 "},
	} {
		at(step.days)
		step.do()
		r.pass()
		r.pass()
		if got := fading(); got != step.want {
			t.Errorf("after %v days: %q, want %q", step.days, got, step.want)
		}
	}
}

// Events of an earlier version, or of a backup, have news once the ledger catches up, and
// nothing is told twice however often that breaks off. Redacted, hidden and unknown members have none,
// and neither has who outbid somebody and is hidden now.
func TestNewsOfEventsThatCameUnobserved(t *testing.T) {
	r := newRing(t)
	r.add(rules(r.stamp, 86400), nil)
	e, texts := joins(r.stamp, 0, 100)
	r.add(e, texts)
	r.restart(nil)
	for n := 1; n < 80; n++ {
		r.stamp += 1000
		e, texts := joins(r.stamp, n, int64(n)*200)
		r.add(e, texts)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.openBehind(aside.ObserveNews)
	r.stamp += 1000
	r.add(&core.Bid{Stamp: r.stamp, Member: "m79", Amount: 100}, nil) // its news wait, too
	if d := r.read("/api/ring/m79/events", ""); len(d.Events) != 0 {
		t.Errorf("%+v", d)
	}
	for range 2 {
		if err := aside.CatchUpNews(context.Background(), r.Ledger); err != nil {
			t.Fatal(err)
		}
	}
	d := r.read("/api/events", "since=0&limit=500")
	told := map[string]int{}
	for _, e := range d.Events {
		if e.Type == "joined" {
			told[e.Member]++
		}
	}
	if len(told) != 80 || told["m0"] != 1 || told["m79"] != 1 || d.Leads[0].Member != "m79" || d.Leads[1].Member != "m0" || d.Leads[1].Until != d.Leads[0].From {
		t.Errorf("%v, %+v", told, d.Leads)
	}
	// One turn that changes more than it may leaves the rest for later.
	if err := r.Do(context.Background(), func(tx *ledger.Tx) error {
		for n := 80; n < 110; n++ {
			s := coretest.NewStep(joins(r.stamp, n, 20000+int64(n)*100))
			if err := tx.Adopt(ledger.Record{Event: s.EventBytes, Texts: s.TextBytes}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	r.pass()
	r.pass()
	for n := range 110 {
		times := 0
		for _, e := range r.read(fmt.Sprintf("/api/ring/m%d/events", n), "").Events {
			if e.Type == "joined" {
				times++
			}
		}
		if times != 1 && n > 40 { // earlier ones have much other news
			t.Errorf("m%d has joined %d times", n, times)
		}
	}
	r.stamp += 1000
	r.add(&core.Bid{Stamp: r.stamp, Member: "m79", Amount: 90000}, nil)
	r.stamp += 1000
	r.add(&core.Bid{Stamp: r.stamp, Member: "m3", Amount: 109900}, nil)
	of := r.read("/api/ring/m79/events", "").Events[0]
	if of.Type != "outbid" || of.By != "m3" || of.Was != 1 || of.Rank != 2 {
		t.Errorf("%+v", of)
	}
	r.add(&core.Hidden{Stamp: r.stamp, Member: "m3", Reason: "reported"}, nil)
	if of := r.read("/api/ring/m79/events", "").Events; of[1].By != "" || of[0].Rank != 1 {
		t.Errorf("%+v", of)
	}
	r.add(&core.Removed{Stamp: r.stamp, Member: "m5", Reason: "asked for", Redacted: true}, nil)
	all := fmt.Sprintf("%+v", r.read("/api/events", "since=0&limit=500"))
	for _, slug := range []string{"m3", "m5"} {
		if strings.Contains(all, "Member:"+slug+" ") || strings.Contains(all, "By:"+slug+" ") {
			t.Errorf("%s is named", slug)
		}
	}
	r.View(func(v *ledger.View) {
		for path, status := range map[string]int{"/api/ring/m3/events": 404, "/api/ring/m5/events": 410, "/api/ring/x/events": 404, "/api/events": 200} {
			if a, _ := aside.News(v, path, "", nil); a.Status != status {
				t.Errorf("%s: %d", path, a.Status)
			}
		}
		for _, query := range []string{"since=x", "since=-1", "limit=0", "limit=501"} {
			if a, _ := aside.News(v, "/api/events", query, nil); a.Status != 400 || !strings.Contains(string(a.Body), `"parameter":"`+query[:5]) {
				t.Errorf("%s: %d %s", query, a.Status, a.Body)
			}
		}
	})
	if last := r.read("/api/events", "limit=1"); len(last.Events) > 1 || last.More {
		t.Errorf("%+v", last)
	}
	if ahead := r.read("/api/events", "since=9007199254740991"); ahead.Complete || len(ahead.Events) != 0 {
		t.Errorf("%+v", ahead)
	}
}
