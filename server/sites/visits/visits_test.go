package visits

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/sites/fetch"
	"webring/server/sites/siteproof"
)

// web is what the sites of members answer, by host and at the present time.
type web struct {
	mu     sync.Mutex
	answer func(host string, r fetch.Request) (*fetch.Response, error)
	texts  func(host string) ([]string, error) // in DNS; nil: none
	takes  time.Duration

	asked   map[string]int // requests by host
	minutes map[int64]int  // requests by minute
	now     map[string]int // under way, by host
	atOnce  int            // at most, of a host
	all     int
	inAll   int // at most
}

func newWeb(answer func(host string, r fetch.Request) (*fetch.Response, error)) *web {
	return &web{answer: answer, asked: map[string]int{}, minutes: map[int64]int{}, now: map[string]int{}}
}

// TXT implements [siteproof.Client].
func (w *web) TXT(_ context.Context, _, host string) ([]string, error) {
	if w.texts == nil {
		return nil, nil
	}
	return w.texts(host)
}

// Get implements [siteproof.Client].
func (w *web) Get(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	u, err := url.Parse(r.URL)
	if err != nil {
		return nil, err
	}
	if u.Path == iconPath { // what is counted below are visits
		return page(404, ""), nil
	}
	w.mu.Lock()
	host := u.Hostname()
	w.asked[host]++
	w.minutes[time.Now().Unix()/60]++
	w.now[host]++
	w.all++
	w.atOnce, w.inAll = max(w.atOnce, w.now[host]), max(w.inAll, w.all)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.now[host]--
		w.all--
		w.mu.Unlock()
	}()
	select {
	case <-time.After(w.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return w.answer(host, r)
}

func page(status int, html string) *fetch.Response {
	at, _ := url.Parse("https://x.example/")
	return &fetch.Response{Status: status, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, Body: []byte(html), URL: at}
}

// file is an answer with the file of tokens of a site.
func file(at, text string) *fetch.Response {
	r := page(200, text)
	r.Header.Set("Content-Type", "text/plain")
	r.URL, _ = url.Parse(at)
	return r
}

// books is a ledger with members at https://HOST/.
type books struct {
	*ledger.Ledger
	t       *testing.T
	batches *[]ledger.Batch // that were committed
}

// noted is a store that notes what is committed.
type noted struct {
	ledger.Store
	batches *[]ledger.Batch
}

// Commit implements [ledger.Store].
func (s noted) Commit(b ledger.Batch) error {
	*s.batches = append(*s.batches, maps.Clone(b))
	return s.Store.Commit(b)
}

// handOver ends the ledger, and gives it as another node has it, which has followed and leads
// now.
func (b *books) handOver() *books {
	b.t.Helper()
	if err := b.Close(); err != nil {
		b.t.Fatal(err)
	}
	store := ledgertest.NewStore()
	f, err := ledger.Follow(ledger.Config{Store: store, HeadPath: filepath.Join(b.t.TempDir(), "head"), Capacity: 100})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, batch := range *b.batches {
		if err := f.Apply(batch); err != nil {
			b.t.Fatal(err)
		}
	}
	l, err := f.Lead(store)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { l.Close() })
	return &books{l, b.t, nil}
}

func open(t *testing.T, hosts ...string) *books {
	t.Helper()
	batches := new([]ledger.Batch)
	l, err := ledger.Open(ledger.Config{Store: noted{ledgertest.NewStore(), batches}, HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: len(hosts)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	b := &books{l, t, batches}
	b.do(func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Rules{Stamp: tx.Stamp(), Name: "Test", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Grace: 10, Decay: 1000,
			Networks: []core.Network{{Name: "tempo:42431", Method: "tempo", Currency: "usd"}}, Scorer: "fixed", RequiredScore: 40}, nil)
		return err
	})
	for first := 0; first < len(hosts); first += 500 {
		b.do(func(tx *ledger.Tx) error {
			for _, host := range hosts[first:min(first+500, len(hosts))] {
				slug, _, _ := strings.Cut(host, ".")
				texts := &core.Texts{Name: core.Text{Value: slug}, URL: core.Text{Value: "https://" + host + "/"}}
				if _, err := tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: slug, Kind: core.Website, Category: "general",
					Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL), Fee: 100}, texts); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return b
}

func (b *books) do(fn func(*ledger.Tx) error) {
	b.t.Helper()
	if err := b.Do(context.Background(), fn); err != nil {
		b.t.Fatal(err)
	}
}

func (b *books) member(slug string) (m core.Member) {
	b.View(func(v *ledger.View) {
		o, ok := v.State().BySlug([]byte(slug))
		if !ok {
			b.t.Errorf("no member %s", slug)
			return
		}
		m = v.State().Member(o)
	})
	return m
}

// rows counts the rows of members.
func (b *books) rows() (n int) {
	b.View(func(v *ledger.View) {
		rows, err := v.Scan(ledger.Visits, memberPrefix, memberPrefix, 1000)
		if err != nil {
			b.t.Error(err)
		}
		n = len(rows)
	})
	return n
}

// run visits until end is called.
func (b *books) run(w siteproof.Client, seen func(Outcome)) (v *Visitor, end func()) {
	v = New(Config{Ledger: b, Fetch: w, Visited: seen, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		v.Run(ctx)
	}()
	return v, func() {
		cancel()
		<-over
	}
}

func TestTenThousandMembersAreVisitedInADay(t *testing.T) {
	const members = 10_000
	var hosts []string
	for i := range members {
		hosts = append(hosts, fmt.Sprintf("m%d.example", i))
	}
	synctest.Test(t, func(t *testing.T) {
		b := open(t, hosts...)
		w := newWeb(func(string, fetch.Request) (*fetch.Response, error) { return page(200, "<p>Hello</p>"), nil })
		w.takes = 3 * time.Second
		before := b.Size()
		_, end := b.run(w, nil)
		time.Sleep(11*time.Hour + 30*time.Second)
		end() // another process goes on
		time.Sleep(time.Hour)
		v, end := b.run(w, nil)
		time.Sleep(12*time.Hour - 30*time.Second)
		behind := v.Behind()
		end()
		most := 0
		for _, n := range w.minutes {
			most = max(most, n)
		}
		t.Logf("%d members: at most %d requests in a minute and %d at once, %d sites asked", members, most, w.inAll, len(w.asked))
		twice := 0
		for _, n := range w.asked {
			if n > 2 {
				t.Fatal("a site is visited three times")
			}
			twice += n - 1
		}
		// The minute in which the first process ended is repeated.
		if len(w.asked) != members || twice > 32 {
			t.Errorf("%d of %d were visited, %d of them twice", len(w.asked), members, twice)
		}
		// After the pause of an hour, 420 are due.
		if w.inAll > atOnce || w.atOnce != 1 || most > 600 || behind > 2*time.Minute {
			t.Errorf("%d at once, %d at a site, %d in a minute, %s behind", w.inAll, w.atOnce, most, behind)
		}
		if b.Size() != before || b.rows() != 0 {
			t.Errorf("%d events, %d rows, and nothing has changed", b.Size()-before, b.rows())
		}
	})
}

// down says whether it is one of the days, counted from 0 from the beginning of a test.
func down(began time.Time, days ...int) bool {
	for _, d := range days {
		if int(time.Since(began)/(24*time.Hour)) == d {
			return true
		}
	}
	return false
}

func TestWhoSleepsAndWhoWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, "fine.example", "dead.example", "day.example", "twice.example", "back.example", "gated.example", "linked.example", "asked.example", "moved.example")
		began := time.Now()
		const link = `<a href="https://ring.example/next?from=linked">Next</a>`
		w := newWeb(func(host string, r fetch.Request) (*fetch.Response, error) {
			switch name, _, _ := strings.Cut(host, "."); {
			case name == "dead",
				name == "day" && down(began, 1),
				name == "twice" && down(began, 1, 2, 4, 5),
				(name == "back" || name == "asked") && down(began, 0, 1, 2, 3, 4):
				return nil, fetch.ErrUnreachable
			case name == "moved":
				return nil, fetch.ErrRedirect
			case name == "gated":
				return page(403, "Go away"), nil
			case name == "linked" && !down(began, 3, 5, 6, 7, 8):
				return page(200, link), nil
			}
			return page(200, "Hello"), nil
		})
		v, end := b.run(w, nil)
		defer end()
		want := func(after int, slugs string) {
			t.Helper()
			time.Sleep(time.Until(began.Add(time.Duration(after)*24*time.Hour + time.Minute)))
			synctest.Wait()
			var asleep []string
			b.View(func(view *ledger.View) {
				for o := range core.Ordinal(view.State().Rows()) {
					if m := view.State().Member(o); m.Asleep {
						asleep = append(asleep, m.Slug)
					}
				}
			})
			if is := strings.Join(asleep, " "); is != slugs {
				t.Errorf("after %d days %q are asleep, want %q", after, is, slugs)
			}
		}
		want(2, "")
		if m := b.member("linked"); m.Proof != core.ByLink {
			t.Error("a link does not verify its member")
		}
		want(3, "dead back asked moved")
		v.Ask("asked") // it does not answer yet
		v.Ask("nobody")
		time.Sleep(time.Minute)
		want(4, "dead back asked moved")
		time.Sleep(time.Until(began.Add(5*24*time.Hour + 2*time.Minute)))
		v.Ask("asked") // it answers, and wakes before its time of the day
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if m := b.member("asked"); m.Asleep || time.UnixMilli(m.HealthSince).Before(began.Add(5*24*time.Hour)) {
			t.Errorf("an answer to an owner's visit does not wake: %+v", m)
		}
		want(6, "dead moved")
		if m := b.member("linked"); m.Proof != core.ByLink {
			t.Error("a link that was missing once is taken for lost")
		}
		want(8, "dead moved")
		if m := b.member("linked"); m.Proof != 0 {
			t.Error("a link that is gone still verifies")
		}
		var events int
		b.View(func(view *ledger.View) { events = int(view.State().Seq()) })
		// Rules and nine members; four fell asleep, two woke, one was verified and is no longer.
		if events != 1+9+4+2+2 || b.rows() != 0 {
			t.Errorf("%d events, %d rows", events, b.rows())
		}
		if w.atOnce != 1 {
			t.Errorf("%d requests at once at a site", w.atOnce)
		}
	})
}

// What a token has verified stays so while the site shows a token that names the owner, or links
// back, and while that cannot be read. Three visits that find neither end it, and it comes
// back with the token. A member that changes is not forgiven for that.
func TestATokenThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, "gone.example", "dns.example", "linked.example", "shut.example", "silent.example", "back.example", "renamed.example", "moving.example")
		owner := core.Account{7}
		names := base64.RawURLEncoding.EncodeToString(append(owner[:], "0123456789abcdef"...))
		other := base64.RawURLEncoding.EncodeToString(append(make([]byte, 20), "0123456789abcdef"...))
		for slug, proof := range map[string]core.Proof{"gone": core.ByFile, "dns": core.ByDNS, "linked": core.ByFile, "shut": core.ByFile, "silent": core.ByDNS, "back": core.ByFile} {
			b.do(func(tx *ledger.Tx) error {
				_, err := tx.Append(&core.Claimed{Stamp: tx.Stamp(), Member: slug, Owner: owner, Proof: proof}, nil)
				return err
			})
		}
		began := time.Now()
		w := newWeb(func(host string, r fetch.Request) (*fetch.Response, error) {
			switch name, _, _ := strings.Cut(host, "."); {
			case name == "renamed" || name == "moving":
				return nil, fetch.ErrUnreachable
			case !strings.HasSuffix(r.URL, siteproof.File):
				if name == "linked" {
					return page(200, `<a href="https://ring.example/next?from=linked">Next</a>`), nil
				}
				return page(200, "Hello"), nil
			case name == "shut":
				return page(500, ""), nil
			case name == "gone" && down(began, 0, 2), name == "back" && !down(began, 2, 3, 4, 5):
				return file(r.URL, "# ours\n"+other+"\n"+names+"\n"), nil
			case name == "gone":
				return file(r.URL, other), nil
			}
			return page(404, ""), nil
		})
		w.texts = func(host string) ([]string, error) {
			switch host {
			case "dns.example":
				return []string{"v=other", names}, nil
			case "silent.example":
				return nil, fetch.ErrTooSlow
			}
			return nil, nil
		}
		_, end := b.run(w, nil)
		defer end()
		want := func(days int, proofs map[string]core.Proof) {
			t.Helper()
			for time.Since(began) < time.Duration(days)*24*time.Hour {
				time.Sleep(12 * time.Hour)
				n := int(time.Since(began) / time.Hour)
				b.do(func(tx *ledger.Tx) error {
					_, err := tx.Append(&core.Changed{Stamp: tx.Stamp(), Member: "renamed"}, &core.Texts{Name: core.Text{Value: fmt.Sprint("Name ", n)}})
					if err != nil || n > 60 {
						return err
					}
					_, err = tx.Append(&core.Moved{Stamp: tx.Stamp(), Member: "moving"}, &core.Texts{URL: core.Text{Value: fmt.Sprintf("https://moving.example/%d", n)}})
					return err
				})
			}
			synctest.Wait()
			for slug, proof := range proofs {
				if m := b.member(slug); m.Proof != proof {
					t.Errorf("after %d days %s is verified by %q, want %q", days, slug, m.Proof, proof)
				}
			}
		}
		stay := map[string]core.Proof{"dns": core.ByDNS, "linked": core.ByFile, "shut": core.ByFile, "silent": core.ByDNS}
		want(4, stay)
		if m := b.member("gone"); m.Proof != core.ByFile { // missed on days 1 and 3, and seen between them
			t.Error("a token that was gone for a day ends its proof")
		}
		if m := b.member("moving"); m.Asleep {
			t.Error("failures at a URL count at the next one")
		}
		want(5, map[string]core.Proof{"back": 0})
		want(7, map[string]core.Proof{"gone": 0, "back": core.ByFile})
		want(9, stay)
		if m := b.member("gone"); m.Owner != owner || !m.Claimed {
			t.Error("an owner has lost its member with the proof")
		}
		if !b.member("renamed").Asleep || !b.member("moving").Asleep {
			t.Error("a dead site stays awake by changes of its name")
		}
	})
}

// Failures in a row go on where another node leads.
func TestAnotherNodeGoesOnWithVisits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, "fine.example", "dead.example")
		w := newWeb(func(host string, _ fetch.Request) (*fetch.Response, error) {
			if host == "dead.example" {
				return nil, fetch.ErrUnreachable
			}
			return page(200, ""), nil
		})
		_, end := b.run(w, nil)
		time.Sleep(36 * time.Hour) // two visits to each
		end()
		before := w.asked["fine.example"]
		next := b.handOver()
		if next.rows() != 1 || next.member("dead").Asleep {
			t.Errorf("%d rows at the next leader", next.rows())
		}
		_, end = next.run(w, nil)
		defer end()
		time.Sleep(36 * time.Hour)
		synctest.Wait()
		if !next.member("dead").Asleep || next.rows() != 0 {
			t.Errorf("three failures under two leaders: asleep %v, %d rows", next.member("dead").Asleep, next.rows())
		}
		t.Logf("fine.example was asked %d times by the first and %d by the next", before, w.asked["fine.example"]-before)
	})
}

func TestNobodyIsBlamedByWhoIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hosts []string
		for i := range 300 {
			hosts = append(hosts, fmt.Sprintf("m%d.example", i))
		}
		b := open(t, hosts...)
		began := time.Now()
		w := newWeb(func(host string, _ fetch.Request) (*fetch.Response, error) {
			if hour := time.Since(began).Hours(); host == "m7.example" || hour > 20 && hour < 110 {
				return nil, fetch.ErrUnreachable
			}
			return page(200, ""), nil
		})
		seen := map[Outcome]int{}
		v, end := b.run(w, func(o Outcome) {
			w.mu.Lock()
			seen[o]++
			w.mu.Unlock()
		})
		defer end()
		time.Sleep(109 * time.Hour)
		synctest.Wait()
		if b.Size() != 301 || b.rows() > 1 || v.Behind() < time.Hour {
			t.Errorf("cut off: %d events, %d rows, %s behind", b.Size(), b.rows(), v.Behind())
		}
		if requests := seen[Failed]; requests > 90*60 {
			t.Errorf("%d visits while cut off", requests)
		}
		w.mu.Lock()
		clear(w.asked)
		w.mu.Unlock()
		time.Sleep(60 * time.Hour)
		synctest.Wait()
		if m := b.member("m7"); !m.Asleep || b.Size() != 302 || len(w.asked) != 300 || v.Behind() > time.Minute {
			t.Errorf("back again: %v, %d events, %d visited, %s behind", m.Asleep, b.Size(), len(w.asked), v.Behind())
		}
	})
}

func TestARingOfOneSiteBlamesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, "a.example.org", "b.example.org")
		w := newWeb(func(string, fetch.Request) (*fetch.Response, error) { return nil, fetch.ErrUnreachable })
		_, end := b.run(w, nil)
		defer end()
		time.Sleep(10 * 24 * time.Hour)
		synctest.Wait()
		if b.Size() != 3 || b.rows() != 0 {
			t.Errorf("%d events, %d rows", b.Size(), b.rows())
		}
	})
}

func TestWhatIsStoredIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, "fine.example", "dead.example")
		w := newWeb(func(host string, _ fetch.Request) (*fetch.Response, error) {
			if host == "dead.example" {
				return nil, fetch.ErrTooSlow
			}
			return page(200, ""), nil
		})
		full := &fullLedger{books: b, until: time.Now().Add(75 * time.Hour)}
		v := New(Config{Ledger: full, Fetch: w, Log: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			v.Run(ctx)
		}()
		time.Sleep(150 * time.Hour)
		synctest.Wait()
		if !b.member("dead").Asleep {
			t.Error("a member whose failures could not be stored for some time does not sleep")
		}
		cancel()
		<-over
	})
}

// fullLedger takes nothing up to an instant.
type fullLedger struct {
	*books
	until time.Time
}

// Do implements [Ledger].
func (f *fullLedger) Do(ctx context.Context, fn func(*ledger.Tx) error) error {
	if time.Now().Before(f.until) {
		return errors.Join(ledger.ErrNoRoom)
	}
	return f.books.Do(ctx, fn)
}
