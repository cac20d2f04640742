package webhooks_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/server/aside"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
	"webring/server/sites/fetch"
	"webring/server/sites/webhooks"
)

// ring is a ledger of two members, m0 before m1, and a receiver of webhooks.
type ring struct {
	*ledger.Ledger
	t      *testing.T
	store  *ledgertest.Store
	dir    string
	stamp  int64 // milliseconds
	sender *webhooks.Sender
	hosts  map[string]netip.AddrPort

	mu     sync.Mutex
	status int // that the receiver answers
	after  string
	got    []*http.Request
	bodies []string
}

func TestMain(m *testing.M) {
	webhooks.SetPatience(time.Hour) // a machine may be slow
	m.Run()
}

const hook = "http://hook.example/told?token=secret"

func newRing(t *testing.T) *ring {
	r := &ring{t: t, store: ledgertest.NewStore(), dir: t.TempDir(), stamp: coretest.Start * 1000, status: 204}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got, r.bodies = append(r.got, q), append(r.bodies, string(body))
		if r.after != "" {
			w.Header().Set("Retry-After", r.after)
		}
		w.WriteHeader(r.status)
	}))
	t.Cleanup(receiver.Close)
	r.hosts = map[string]netip.AddrPort{"hook.example": netip.MustParseAddrPort(receiver.Listener.Addr().String())}
	r.open()
	t.Cleanup(func() { r.Close() })
	r.add(&core.Rules{Stamp: r.stamp, Name: "Example Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Grace: 30 * 86400, Decay: 90 * 86400,
		Networks: []core.Network{{Name: "tempo", Method: "tempo", Currency: "usd"}}, Scorer: "is-agentic", RequiredScore: 40}, nil)
	for n := range 2 {
		texts := &core.Texts{Name: core.Text{Value: fmt.Sprint("M ", n)}, URL: core.Text{Value: fmt.Sprintf("https://m%d.example/", n)}}
		r.add(&core.Joined{Stamp: r.stamp, Slug: fmt.Sprint("m", n), Kind: core.Website, Category: "general", Fee: 100,
			Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL)}, texts)
	}
	return r
}

func (r *ring) open() {
	r.t.Helper()
	var err error
	r.Ledger, err = ledger.Open(ledger.Config{Store: r.store, HeadPath: filepath.Join(r.dir, "head"), Capacity: 1 << 10,
		Now: func() time.Time { return time.UnixMilli(r.stamp) },
		Observe: func(tx *ledger.Tx, e core.Event) func(uint64) error {
			news, owners := aside.ObserveNews(tx, e), aside.ObserveOwners(tx, e)
			return func(seq uint64) error { return errors.Join(news(seq), owners(seq)) }
		}})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := aside.CatchUpNews(context.Background(), r.Ledger); err != nil {
		r.t.Fatal(err)
	}
	r.sender = webhooks.New(webhooks.Config{Ledger: r.Ledger, Now: func() time.Time { return time.UnixMilli(r.stamp) }, Log: slog.New(slog.DiscardHandler),
		Fetch: fetch.New(fetch.Config{Map: r.hosts})})
	if err := r.sender.Resume(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *ring) add(e core.Event, texts *core.Texts) {
	r.t.Helper()
	s := coretest.NewStep(e, texts)
	if err := r.Do(r.t.Context(), func(tx *ledger.Tx) error { return tx.Adopt(ledger.Record{Event: s.EventBytes, Texts: s.TextBytes}) }); err != nil {
		r.t.Fatal(err)
	}
}

// bid lets a member pass the other one.
func (r *ring) bid(slug string, cents int64) {
	r.t.Helper()
	r.stamp += 1000
	r.add(&core.Bid{Stamp: r.stamp, Member: slug, Amount: cents}, nil)
}

func (r *ring) set(slug, url string) {
	r.t.Helper()
	if err := r.Do(r.t.Context(), func(tx *ledger.Tx) error {
		o, _ := tx.State().BySlug([]byte(slug))
		return aside.SetWebhook(tx, slug, tx.State().Member(o).Owner, url)
	}); err != nil {
		r.t.Fatal(err)
	}
}

// pass lets a time go by, and gives how many requests came then.
func (r *ring) pass(after time.Duration) int {
	r.t.Helper()
	r.stamp += after.Milliseconds()
	before := len(r.got)
	if err := r.sender.Pass(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return len(r.got) - before
}

// state is what the news of a member say of its webhook, and all that they say.
func (r *ring) state(slug string) (state, key, body string) {
	var d struct{ Webhook struct{ Key, State string } }
	r.View(func(v *ledger.View) {
		a, _ := aside.News(v, "/api/ring/"+slug+"/events", "", nil)
		body = string(a.Body)
		if err := json.Unmarshal(a.Body, &d); err != nil {
			r.t.Fatal(err)
		}
	})
	return d.Webhook.State, d.Webhook.Key, body
}

// A receiver verifies what it gets with the key that the ring shows and with nothing else, and
// the URL is in no document.
func TestAMemberIsToldThatItWasOutbid(t *testing.T) {
	r := newRing(t)
	r.bid("m1", 100) // before there is a webhook
	r.set("m1", hook)
	if n := r.pass(0); n != 0 {
		t.Fatalf("%d requests before any news", n)
	}
	r.bid("m0", 500)
	if n := r.pass(0); n != 1 {
		t.Fatalf("%d requests for one loss of a rank", n)
	}
	state, key, document := r.state("m1")
	public, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(key, "whpk_"))
	if state != "on" || err != nil || strings.Contains(document, "secret") {
		t.Fatalf("%s %v: %s", state, err, document)
	}
	h := r.got[0].Header
	signature, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(h.Get("webhook-signature"), "v1a,"))
	content := h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "." + r.bodies[0]
	if err != nil || !ed25519.Verify(public, []byte(content), signature) {
		t.Errorf("%q does not sign %q", h.Get("webhook-signature"), content)
	}
	if strings.Contains(h.Get("webhook-id"), ".") || h.Get("webhook-timestamp") != strconv.FormatInt(r.stamp/1000, 10) || r.got[0].URL.String() != "/told?token=secret" {
		t.Errorf("%s %v", r.got[0].URL, h)
	}
	var letter struct {
		Type, Timestamp string
		Data            struct {
			Member, By string
			Rank       int
			Regain     string `json:"to_regain_usd"`
		}
	}
	if err := json.Unmarshal([]byte(r.bodies[0]), &letter); err != nil || letter.Type != "member.outbid" || letter.Timestamp == "" {
		t.Errorf("%v: %s", err, r.bodies[0])
	}
	// m0 stands at 6.00, m1 at 2.00 and joined later.
	if d := letter.Data; d.Member != "m1" || d.By != "m0" || d.Rank != 2 || d.Regain != "4.01" {
		t.Errorf("%s", r.bodies[0])
	}
	if n := r.pass(time.Hour); n != 0 {
		t.Errorf("it was told again")
	}
	r.set("m1", "")
	r.bid("m1", 1000)
	r.bid("m0", 1000)
	if state, _, _ := r.state("m1"); r.pass(0) != 0 || state != "" {
		t.Errorf("it is told after its owner has switched that off (%q)", state)
	}
}

func TestAFailingReceiverIsTriedByTheScheduleAndThenSwitchedOff(t *testing.T) {
	for _, c := range []struct {
		name     string
		status   int
		after    string
		waits    []time.Duration // from one try to the next
		ends     string
		unmapped bool
	}{
		{name: "it fails", status: 500, ends: "failing", waits: []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
			10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour}},
		{name: "it is gone", status: 410, ends: "gone"},
		{name: "it redirects", status: 302, ends: "retrying", waits: []time.Duration{5 * time.Second}},
		{name: "it asks to wait", status: 503, after: "600", ends: "retrying", waits: []time.Duration{10 * time.Minute}},
		{name: "its address is private", unmapped: true, ends: "retrying"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRing(t)
			r.status, r.after = c.status, c.after
			url := hook
			if c.unmapped {
				url = "http://localhost:80/"
			}
			r.set("m0", url)
			r.bid("m1", 500)
			want := 1
			if c.unmapped {
				want = 0
			}
			if n := r.pass(0); n != want {
				t.Fatalf("%d requests at once", n)
			}
			for i, wait := range c.waits {
				if n := r.pass(wait - time.Second); n != 0 {
					t.Errorf("try %d comes before %s", i+1, wait)
				}
				// What is not sent yet survives another process.
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				r.open()
				if n := r.pass(time.Second); n != 1 {
					t.Errorf("%d requests after %s", n, wait)
				}
			}
			for _, q := range r.got {
				if q.Header.Get("webhook-id") != r.got[0].Header.Get("webhook-id") {
					t.Error("a try has another id")
				}
			}
			if state, _, _ := r.state("m0"); state != c.ends {
				t.Errorf("it is %q, not %q", state, c.ends)
			}
			if c.ends == "retrying" {
				return
			}
			if r.status = 204; r.pass(1000*time.Hour) != 0 {
				t.Error("it is told after it was switched off")
			}
			r.set("m0", hook)
			r.bid("m0", 1000)
			r.bid("m1", 5000)
			if n := r.pass(0); n != 1 {
				t.Errorf("%d requests after it was set again", n)
			}
		})
	}
}

// Receivers that do not answer cost nobody else anything, however many they are, and get their
// letters all the same.
func TestSlowReceiversDelayNobodyElse(t *testing.T) {
	webhooks.SetPatience(time.Second)
	defer webhooks.SetPatience(time.Hour)
	r := newRing(t)
	const slow = 64
	letters, release := make(chan string, 10*slow), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		io.Copy(io.Discard, q.Body)
		select {
		case <-release:
			letters <- q.Host + " " + q.Header.Get("webhook-id")
			w.WriteHeader(204)
		case <-q.Context().Done():
		}
	}))
	t.Cleanup(receiver.Close)
	for n := range slow {
		slug := fmt.Sprint("slow", n)
		texts := &core.Texts{Name: core.Text{Value: slug}, URL: core.Text{Value: "https://" + slug + ".example/"}}
		r.add(&core.Joined{Stamp: r.stamp, Slug: slug, Kind: core.Website, Category: "general", Fee: 100, Bid: 200,
			Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL)}, texts)
		r.hosts[slug+".example"] = netip.MustParseAddrPort(receiver.Listener.Addr().String())
		r.set(slug, "http://"+slug+".example/told")
	}
	r.set("m1", hook)
	r.bid("m1", 500)
	r.bid("m0", 1000) // passes all others
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for rounds := 0; len(r.got) == 0; rounds++ { // a machine may be slow, too
		if r.stamp += 1000; rounds > 100 {
			t.Fatal("the quick receiver was not told")
		}
		if err := r.sender.Pass(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for n := range slow { // all of their time would be ten seconds
		r.View(func(v *ledger.View) {
			if w, err := aside.WebhookOf(v, fmt.Sprint("slow", n)); err != nil || w.Tries > 0 {
				t.Errorf("slow%d was waited for: %+v, %v", n, w, err)
			}
		})
	}
	close(release)
	told := map[string]bool{}
	for late := time.After(2 * time.Minute); len(told) < slow; {
		if err := r.sender.Pass(ctx); err != nil {
			t.Fatal(err)
		}
		select {
		case letter := <-letters:
			told[letter] = true
		case <-late:
			t.Fatalf("%d of %d slow receivers were told", len(told), slow)
		default:
		}
	}
	for n := range slow {
		if state, _, _ := r.state(fmt.Sprint("slow", n)); state != "on" {
			t.Errorf("the webhook of slow%d is %s", n, state)
		}
	}
	r.sender.Wait()
}

// A hub is told once of the feeds that have news, and again after it failed.
func TestAHubIsToldOfFeedsWithNews(t *testing.T) {
	r := newRing(t)
	if err := r.sender.Resume(); err != nil { // behind the joins
		t.Fatal(err)
	}
	r.sender.Hub, r.sender.Base, r.status = "http://hook.example/hub", "https://ring.example", 500
	if n := r.pass(0); n != 0 {
		t.Fatalf("%d requests before any news", n)
	}
	r.bid("m1", 500)
	if r.pass(0) != 1 || r.pass(0) != 0 {
		t.Fatalf("%d requests", len(r.got))
	}
	r.status = 204
	if r.pass(time.Minute) != 1 || r.pass(time.Hour) != 0 {
		t.Fatalf("%d requests", len(r.got))
	}
	form, err := url.ParseQuery(r.bodies[1])
	var want []string
	for _, feed := range []string{"joins", "lead", "members/m0", "members/m1"} {
		want = append(want, "https://ring.example/feeds/"+feed+".atom", "https://ring.example/feeds/"+feed+".json")
	}
	if err != nil || form.Get("hub.mode") != "publish" || !slices.Equal(form["hub.url"], want) {
		t.Errorf("%v %v", err, form)
	}
}

// A webhook ends with the ownership of who set it.
func TestAWebhookEndsWithItsOwner(t *testing.T) {
	for name, end := range map[string]core.Event{
		"claimed": &core.Claimed{Member: "m0", Owner: core.AccountOf("0x00000000000000000000000000000000000000aa"), Proof: core.ByFile},
		"left":    &core.Departed{Member: "m0"},
		"removed": &core.Removed{Member: "m0", Redacted: true, Reason: "asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRing(t)
			r.set("m0", hook)
			switch e := end.(type) {
			case *core.Claimed:
				e.Stamp = r.stamp
			case *core.Departed:
				e.Stamp = r.stamp
			case *core.Removed:
				e.Stamp = r.stamp
			}
			r.add(end, nil)
			r.View(func(v *ledger.View) {
				if slugs, err := aside.Webhooks(v, "", 9); err != nil || len(slugs) != 0 {
					t.Errorf("%v: %v is left", err, slugs)
				}
			})
			r.bid("m1", 500)
			if n := r.pass(0); n != 0 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// The earlier owner of a member that its site gave to another one is told of that, and of what happens
// next, for as long as it can take the member back. The webhook of the new owner is its own.
func TestAnEarlierOwnerIsTold(t *testing.T) {
	r := newRing(t)
	account := func(n byte) core.Account { return core.Account{19: n} }
	claim := func(by byte) {
		r.stamp += 1000
		r.add(&core.Claimed{Stamp: r.stamp, Member: "m0", Owner: account(by), Proof: core.ByFile}, nil)
	}
	tells := func(what string, want ...string) {
		t.Helper()
		before := len(r.bodies)
		for range 5 {
			r.pass(0)
		}
		var got []string
		for _, body := range r.bodies[before:] {
			var letter struct {
				Type string
				Data struct {
					Until string            `json:"take_back_until"`
					Links map[string]string `json:"links"`
				}
			}
			if err := json.Unmarshal([]byte(body), &letter); err != nil {
				t.Fatal(err)
			}
			got = append(got, letter.Type)
			if former := letter.Data.Until != ""; former != (letter.Data.Links["return"] == "https://ring.example/api/ring/m0/return") || former == (letter.Type == "member.outbid") {
				t.Errorf("%s: %s", what, body)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	claim(1)
	r.set("m0", hook)
	tells("before")
	claim(2)
	tells("a claim", "member.claimed")
	r.set("m0", "") // the new owner has no webhook to delete
	if state, _, body := r.state("m0"); state != "" || !strings.Contains(body, `"take_back":{"account":"`+account(1).String()) {
		t.Errorf("%s %s", state, body)
	}
	claim(3)
	tells("another claim", "member.claimed")
	r.stamp += 1000
	texts := &core.Texts{URL: core.Text{Value: "https://elsewhere.example/"}}
	r.add(&core.Moved{Stamp: r.stamp, Member: "m0", URL: coretest.Commit(texts.URL)}, texts)
	tells("a move", "member.moved")
	r.add(&core.Departed{Stamp: r.stamp, Member: "m0"}, nil)
	tells("a departure", "member.left")
	r.stamp += 1000
	r.add(&core.Returned{Stamp: r.stamp, Member: "m0", Owner: account(1)}, nil)
	tells("it is back")
	r.bid("m1", 500)
	tells("the webhook is the member's again", "member.outbid")
	if state, _, body := r.state("m0"); state != "on" || strings.Contains(body, "take_back") {
		t.Errorf("%s %s", state, body)
	}
	claim(2)
	tells("once more", "member.claimed")
	r.stamp += core.ReturnSpan
	claim(4)
	tells("when the claim is final")
	r.add(&core.Removed{Stamp: r.stamp, Member: "m0", Redacted: true, Reason: "asked for"}, nil)
	r.View(func(v *ledger.View) {
		if rows, err := v.Scan(ledger.News, "tm0", "tm0", 9); err != nil || len(rows) != 0 {
			t.Errorf("%v: what was lost is kept after a redaction: %s", err, rows)
		}
	})
}
