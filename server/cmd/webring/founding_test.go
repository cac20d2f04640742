package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/server/devchain"
	"webring/server/ledger"
	"webring/server/ledger/badgerstore"
)

// founding writes the history of a ring, each event at the instant now.
type founding struct {
	t     *testing.T
	books *ledger.Ledger
	now   time.Time
}

// founded starts an origin on a ledger that has the given history already.
// Its rules are those of the flags, from the start of the binary on.
func founded(t *testing.T, history func(*founding), args ...string) *origin {
	t.Helper()
	o := prepared(t, args...)
	o.write(func(f *founding) {
		f.now = time.Now().Add(-400 * day)
		f.append(nil, &core.Rules{Name: "Founding", BaseURL: "https://founding.dev", Fee: 100, MinBid: 100, Grace: 1, Decay: 1, RequiredScore: 40})
		history(f)
	})
	o.launch()
	return o
}

// write adds events to the ledger of an origin that does not run, and vouches for the clock. The start has leave to make
// what belongs to them.
func (o *origin) write(history func(*founding)) {
	o.t.Helper()
	o.args = append(o.args, "--confirm", "base-url,keys")
	store, err := badgerstore.Open(filepath.Join(o.data, "ledger"), slog.New(slog.DiscardHandler))
	if err != nil {
		o.t.Fatal(err)
	}
	f := &founding{t: o.t, now: time.Now()}
	f.books, err = ledger.Open(ledger.Config{Store: store, HeadPath: filepath.Join(o.data, "head"), Capacity: 10_000,
		Now: func() time.Time { return f.now }})
	if err != nil {
		o.t.Fatal(err)
	}
	history(f)
	if err := f.books.Close(); err != nil {
		o.t.Fatal(err)
	}
	// A history may lie far in the past, and nothing else tells the time.
	if err := errors.Join(store.Close(), ledger.Vouch(clockPath(o.data))); err != nil {
		o.t.Fatal(err)
	}
}

// own writes an event about a member that is there, which is made with its stamp.
func (f *founding) own(texts *core.Texts, event func(stamp int64) core.Event) {
	f.t.Helper()
	err := f.books.Do(context.Background(), func(tx *ledger.Tx) error {
		_, err := tx.Append(event(tx.Stamp()), texts)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// prepared is an origin that has not been launched. Unlike that of start it
// has the default rate limit.
func prepared(t *testing.T, args ...string) *origin {
	t.Helper()
	o := &origin{t: t, data: folder(t)}
	rand.Read(o.recipient[:])
	listen := devchain.FreeAddress()
	o.base = "http://" + listen
	o.args = append([]string{"serve", "--dev", "--scorer", "fixed:72", "--listen", listen, "--base-url", o.base,
		"--tempo-recipient", o.recipient.Hex()}, args...)
	t.Cleanup(func() {
		if o.cmd != nil && o.cmd.Process != nil {
			o.kill()
		}
	})
	return o
}

// ago moves the clock of the history; it may only go forwards.
func (f *founding) ago(d time.Duration) { f.now = time.Now().Add(-d) }

// append writes events in one turn of the writer.
func (f *founding) append(texts []*core.Texts, events ...core.Event) {
	f.t.Helper()
	err := f.books.Do(context.Background(), func(tx *ledger.Tx) error {
		for i, e := range events {
			var words *core.Texts
			switch e := e.(type) {
			case *core.Rules:
				e.Stamp = tx.Stamp()
			case *core.Joined:
				e.Stamp, words = tx.Stamp(), texts[i]
			case *core.Bid:
				e.Stamp = tx.Stamp()
			case *core.Removed:
				e.Stamp = tx.Stamp()
			}
			if _, err := tx.Append(e, words); err != nil {
				return fmt.Errorf("event %d: %w", i, err)
			}
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
}

// founder is a member of a history.
type founder struct {
	slug, url, category string
	kind                core.Kind
	bid                 int64 // cents, with the join
	description, report string
	unscored            bool
}

func (f *founding) join(members ...founder) {
	f.t.Helper()
	for part := range slices.Chunk(members, 100) {
		var events []core.Event
		var texts []*core.Texts
		for _, m := range part {
			e := &core.Joined{Slug: m.slug, Kind: m.kind, Category: m.category, Fee: 100, Bid: m.bid}
			if !m.unscored {
				e.Score = core.Score{Given: true, Value: 64, Provider: "founding"}
			}
			events = append(events, e)
			texts = append(texts, &core.Texts{Name: core.Text{Value: strings.ToUpper(m.slug[:1]) + m.slug[1:]}, URL: core.Text{Value: m.url},
				Description: core.Text{Value: m.description}, Report: core.Text{Value: m.report}})
		}
		f.append(texts, events...)
	}
}

// reference is the ring that most read tests ask: six members of all kinds, and
// one that was removed. Its full totals, and its standings under the default
// windows of 30 and 90 days:
//
//	1 alpha    1.00          1.00  never bid, joined 300 days ago
//	2 beta     6.00          6.00  bid 10 days ago: within the grace period
//	3 gamma    6.00          2.99  bid 75 days and half a step ago: 45 of 90 days decayed
//	4 delta    1.00          1.00
//	5 epsilon  3.00          0.00  bid 150 days ago: past the decay span
//	  eta                          removed
//	6 zeta     6.00          6.00  the same bid as beta, which joined before
func reference(f *founding) {
	f.ago(300 * day)
	f.join(
		founder{slug: "alpha", url: "https://alpha.dev/", category: "tools", kind: core.Agent, description: "The first.", report: "https://reports.dev/alpha"},
		founder{slug: "beta", url: "https://www.beta.dev/app/", category: "general", kind: core.MCP},
		founder{slug: "gamma", url: "https://shared.dev/foo", category: "tools", kind: core.Website, unscored: true},
		founder{slug: "delta", url: "https://shared.dev/foo/bar", category: "general", kind: core.Agent},
		founder{slug: "epsilon", url: "https://data.dev/", category: "art", kind: core.Website},
		founder{slug: "eta", url: "https://eta.dev/", category: "gone", kind: core.Agent},
		founder{slug: "zeta", url: "http://zeta.dev/?page=1", category: "tools", kind: core.Agent},
	)
	f.ago(150 * day)
	f.append(nil, &core.Bid{Member: "epsilon", Amount: 200})
	f.ago(75*day + 108*time.Minute)
	f.append(nil, &core.Bid{Member: "gamma", Amount: 500}, &core.Removed{Member: "eta", Reason: "asked to"})
	f.ago(10 * day)
	f.append(nil, &core.Bid{Member: "beta", Amount: 500}, &core.Bid{Member: "zeta", Amount: 500})
}

// referenceOrder is the ring order of reference.
var referenceOrder = []string{"alpha", "beta", "gamma", "delta", "epsilon", "zeta"}

// in lends the origin to a subtest.
func (o *origin) in(t *testing.T) *origin {
	lent := *o
	lent.t = t
	return &lent
}

// freely lifts the rate limit, and leaves its header fields on.
var freely = []string{"--rate-limit", "1000000"}

// exchange sends bytes to an address, from one of this machine's that may be chosen,
// and reads one answer.
func exchange(t *testing.T, from net.IP, address, request string) reply {
	t.Helper()
	d := net.Dialer{Timeout: longEnough}
	if from != nil {
		d.LocalAddr = &net.TCPAddr{IP: from}
	}
	c, err := d.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(longEnough)); err != nil {
		t.Fatal(err)
	}
	// The server may refuse before it has read all; what it says still counts.
	go func() { _, _ = io.WriteString(c, request) }()
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.60q: %v", request, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%.60q: %v", request, err)
	}
	return reply{res.StatusCode, res.Header, body}
}

// read gets a document and checks what every answer with one has.
func (o *origin) read(path string) map[string]any {
	o.t.Helper()
	r := o.get(path)
	if r.Status != http.StatusOK {
		o.t.Fatalf("GET %s: status %d: %s", path, r.Status, r.Body)
	}
	o.fields(r, "Content-Type", "application/json")
	o.everyAnswer(r)
	return r.document(o.t)
}

// refused holds a reply to everything that every problem has.
func (o *origin) refused(r reply, status int, code string) map[string]any {
	o.t.Helper()
	if r.Status != status {
		o.t.Errorf("status %d, want %d %s: %s", r.Status, status, code, r.Body)
	}
	if got := r.code(o.t); got != code {
		o.t.Errorf("code %s, want %s: %s", got, code, r.Body)
	}
	doc := r.document(o.t)
	typ, _ := doc["type"].(string)
	switch {
	case status == http.StatusPaymentRequired && !strings.HasPrefix(typ, "https://paymentauth.org/problems/"),
		status != http.StatusPaymentRequired && typ != o.base+"/problems/"+code:
		o.t.Errorf("%s has the type %q", code, typ)
	}
	if status != http.StatusPaymentRequired && r.Header.Get("WWW-Authenticate") != "" {
		o.t.Errorf("%d %s carries a challenge", status, code)
	}
	o.fields(r, "Cache-Control", "no-store", "Payment-Receipt", "")
	o.everyAnswer(r)
	return doc
}

// everyAnswer holds a reply to the header fields that all of them have.
func (o *origin) everyAnswer(r reply) {
	o.t.Helper()
	o.fields(r, "Api-Version", "1", "Access-Control-Allow-Origin", "*", "X-Content-Type-Options", "nosniff")
	exposed := r.Header.Get("Access-Control-Expose-Headers")
	for _, name := range []string{"ETag", "Link", "Location", "Retry-After", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset",
		"RateLimit-Policy", "WWW-Authenticate", "Payment-Receipt", "PAYMENT-REQUIRED", "PAYMENT-RESPONSE", "Api-Version"} {
		if !strings.Contains(exposed, name) {
			o.t.Errorf("status %d: %s is not exposed to scripts", r.Status, name)
		}
	}
}

// fields compares header fields, given as name, value, …; "" means none.
func (o *origin) fields(r reply, want ...string) {
	o.t.Helper()
	for i := 0; i < len(want); i += 2 {
		if got := strings.Join(r.Header.Values(want[i]), " | "); got != want[i+1] {
			o.t.Errorf("status %d: %s: %q, want %q", r.Status, want[i], got, want[i+1])
		}
	}
}
