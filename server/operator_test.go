package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/server"
	"webring/server/ledger"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/sites/score/local"
)

// listen serves the operator on its socket and gives a client of it.
func (o *origin) listen() func(method, path, body string) (int, []byte) {
	o.t.Helper()
	// A socket's path is short, and that of a temporary folder need not be.
	dir, err := os.MkdirTemp("", "op")
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	listener, err := o.operator.Listen(path)
	if err != nil {
		o.t.Fatal(err)
	}
	control := &http.Server{Handler: o.operator.Handler()}
	go control.Serve(listener)
	o.t.Cleanup(func() { control.Close() })
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	o.t.Cleanup(client.CloseIdleConnections)
	return func(method, path, body string) (int, []byte) {
		req, err := http.NewRequest(method, "http://operator"+path, strings.NewReader(body))
		if err != nil {
			o.t.Error(err)
			return 0, nil
		}
		res, err := client.Do(req)
		if err != nil {
			o.t.Error(err)
			return 0, nil
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			o.t.Error(err)
		}
		return res.StatusCode, text
	}
}

func read[T any](t *testing.T, text []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// Only the operator's own account gets at the socket, and one that a dead
// process left is no obstacle.
func TestSocketIsTheOperatorsAlone(t *testing.T) {
	o := newOrigin(t)
	path := filepath.Join(t.TempDir(), "s")
	for range 2 {
		listener, err := o.operator.Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != fs.ModeSocket {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		listener.(*net.UnixListener).SetUnlinkOnClose(false)
		listener.Close()
	}
	if _, err := o.operator.Listen(filepath.Join(path, "below")); err == nil {
		t.Error("a socket below a socket")
	}
}

func TestOperatorReadsTheRing(t *testing.T) {
	o := newOrigin(t)
	ask := o.listen()
	o.pay(paid.OpRegister, ada, "")
	o.pay(paid.OpBid, fund, "")
	size, root := o.books.Root()

	_, text := ask("GET", "/status", "")
	want := server.Status{Name: "Test Ring", BaseURL: base, Members: 1, Events: size, Root: root.String(), PaidCents: 250}
	if got := read[server.Status](t, text); got != want {
		t.Errorf("status %+v, want %+v", got, want)
	}
	_, text = ask("GET", "/members/ada", "")
	row := read[server.Row](t, text)
	if row.Joined.IsZero() || row.Joined.Location() != time.UTC {
		t.Errorf("joined %v", row.Joined)
	}
	row.Joined = time.Time{}
	if want := (server.Row{Slug: "ada", Name: "Ada", URL: "https://ada.dev", Kind: "agent", Category: "general", Rank: 1, TotalCents: 250}); row != want {
		t.Errorf("row %+v, want %+v", row, want)
	}
}

// A scan moves the daily one when it is posted, and not when it is only read.
func TestOperatorHasTheDailyScanGoOn(t *testing.T) {
	o := newOrigin(t)
	ask := o.listen()
	since := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	o.coin.mu.Lock()
	o.coin.oldest = since
	o.coin.mu.Unlock()
	o.do(func(tx *ledger.Tx) error { return tx.SetScanned("coin:test", since.Add(-time.Hour)) })
	for method, want := range map[string]time.Time{"GET": since.Add(-time.Hour), "POST": since} {
		if status, text := ask(method, "/scan?since="+since.Format(time.RFC3339), ""); status != http.StatusOK || strings.Contains(string(text), `"error"`) {
			t.Errorf("%s: %d %s", method, status, text)
		}
		o.books.View(func(v *ledger.View) {
			if at, err := v.Scanned("coin:test"); err != nil || !at.Equal(want) {
				t.Errorf("after %s the daily scan stands at %s, want %s: %v", method, at, want, err)
			}
		})
		o.do(func(tx *ledger.Tx) error { return tx.SetScanned("coin:test", since.Add(-time.Hour)) })
	}
}

// The list comes in pages of a thousand, removed members included.
func TestOperatorListsInPages(t *testing.T) {
	o := newOrigin(t)
	ask := o.listen()
	if status, text := ask("GET", "/members", ""); status != 200 || strings.TrimSpace(string(text)) != "[]" {
		t.Errorf("an empty ring: %d %s", status, text)
	}
	o.do(func(tx *ledger.Tx) error {
		for i := range 1001 {
			name := fmt.Sprintf("m%d", i)
			if _, err := tx.Append(&core.Joined{Stamp: tx.Stamp(), Slug: name, Kind: core.MCP, Category: "general", Fee: 100},
				&core.Texts{Name: core.Text{Value: name}, URL: core.Text{Value: "https://" + name + ".dev"}}); err != nil {
				return err
			}
		}
		_, err := tx.Append(&core.Removed{Stamp: tx.Stamp(), Member: "m1000", Reason: "test"}, nil)
		return err
	})
	for query, want := range map[string][2]string{"": {"m0", "m999"}, "?after=1000": {"m1000", "m1000"}, "?after=1": {"m1", "m1000"}} {
		_, text := ask("GET", "/members"+query, "")
		rows := read[[]server.Row](t, text)
		if len(rows) == 0 || rows[0].Slug != want[0] || rows[len(rows)-1].Slug != want[1] || len(rows) > 1000 {
			t.Errorf("%q: %d rows, want %v", query, len(rows), want)
		}
		if last := rows[len(rows)-1]; last.Removed != (last.Slug == "m1000") || (last.Rank == 0) != last.Removed {
			t.Errorf("%q: %+v", query, last)
		}
	}
	if _, text := ask("GET", "/members?after=1001", ""); strings.TrimSpace(string(text)) != "[]" {
		t.Errorf("after the last: %s", text)
	}
}

// A payment that settled and has no effect is one to look at, unless the operator
// has decided so.
func TestOperatorSeesPaymentsWithoutEffect(t *testing.T) {
	o := newOrigin(t)
	ask := o.listen()
	want := map[string]bool{paid.ReasonAdjusted: false, "events gave more": true}
	for reason := range want {
		r := &ledger.Reservation{ID: "of " + reason, State: ledger.Reserved, Operation: ledger.OperationRegister, URLKey: reason, Cents: 100,
			Payer: "payer", ReplayKeys: []string{reason}, Payment: []byte(`{}`)}
		o.do(func(tx *ledger.Tx) error { return tx.Reserve(r) })
		r.State, r.Outcome, r.Reason = ledger.Failed, mpp.Settled.String(), reason
		o.do(func(tx *ledger.Tx) error { return tx.Update(r) })
	}
	_, text := ask("GET", "/payments", "")
	rows := read[[]server.PaymentRow](t, text)
	if len(rows) != len(want) {
		t.Fatalf("%s", text)
	}
	for _, row := range rows {
		if row.NoEffect != want[row.Reason] || row.NeedsAttention() != row.NoEffect {
			t.Errorf("%+v", row)
		}
	}
}

// What needs attention is counted over all pages of payments.
func TestPaymentsThatNeedAttentionAreCounted(t *testing.T) {
	o := newOrigin(t)
	o.do(func(tx *ledger.Tx) error {
		for i := range 2500 {
			id := fmt.Sprintf("%04d", i)
			r := &ledger.Reservation{ID: id, State: ledger.Reserved, Operation: ledger.OperationRegister, URLKey: id, Cents: 100,
				Payer: "payer " + id, ReplayKeys: []string{id}, Payment: []byte(`{}`), ValidBefore: time.Now().Add(time.Hour)}
			if i == 7 {
				r.ValidBefore = time.Now().Add(-time.Hour) // overdue
			}
			if err := tx.Reserve(r); err != nil {
				return err
			}
			switch i % 1000 {
			case 0:
				r.State, r.Outcome = ledger.Failed, mpp.Mismatched.String() // diverted
			case 1:
				r.State, r.Outcome, r.Reason = ledger.Failed, mpp.Settled.String(), "events gave more"
			case 2:
				r.State, r.Outcome, r.Reason = ledger.Failed, mpp.Settled.String(), paid.ReasonAdjusted
			case 3:
				r.State, r.Outcome = ledger.Failed, mpp.Gone.String()
			default:
				continue
			}
			if err := tx.Update(r); err != nil {
				return err
			}
		}
		return nil
	})
	if n, err := o.operator.Attention(); n != 7 || err != nil {
		t.Errorf("%d need attention, want 7: %v", n, err)
	}
}

func TestOperatorHearsWhatIsWrong(t *testing.T) {
	o := newOrigin(t)
	ask := o.listen()
	o.pay(paid.OpRegister, ada, "")
	size := o.books.Size()
	tooLong, kept := strings.Repeat("x", core.MaxNote+1), fmt.Sprintf("the reason has %d bytes, and %d are kept", core.MaxNote+1, core.MaxNote)
	for _, c := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/", "", 404, ""},
		{"POST", "/status", "", 405, ""},
		{"GET", "/members/ada/removal", "", 405, ""},
		{"GET", "/members/nobody", "", 404, "no member has the slug nobody"},
		{"GET", "/members?after=-1", "", 400, "after must be a row number"},
		{"GET", "/members?after=1x", "", 400, "after must be a row number"},
		{"POST", "/members/ada/removal", "", 400, "the body must be {code, reason, redact, block, by}"},
		{"POST", "/members/ada/removal", `{"reason":"x","redact":"yes"}`, 400, "the body must be {code, reason, redact, block, by}"},
		{"POST", "/members/ada/removal", `{"reason":"x","force":true}`, 400, "the body must be {code, reason, redact, block, by}"},
		{"POST", "/members/ada/removal", `{"reason":"` + strings.Repeat("x", 20000) + `"}`, 400, "the body must be {code, reason, redact, block, by}"},
		{"POST", "/members/ada/removal", `{"redact":true}`, 400, "a reason is required"},
		{"POST", "/members/ada/removal", `{"reason":"` + tooLong + `"}`, 400, kept},
		{"POST", "/adjustments", `{"kind":3,"transaction":"0x00","reason":"` + tooLong + `"}`, 400, kept},
		{"POST", "/members/Ada%20!/removal", `{"reason":"x"}`, 404, "no member has the slug Ada !"},
		{"POST", "/members/nobody/removal", `{"reason":"x"}`, 404, "no member has the slug nobody"},
	} {
		if status, text := ask(c.method, c.path, c.body); status != c.status || !strings.Contains(string(text), c.says) {
			t.Errorf("%s %s %.60s: %d %s", c.method, c.path, c.body, status, text)
		}
	}
	if o.books.Size() != size {
		t.Error("what was refused left an event")
	}
	longest := `{"reason":"` + strings.Repeat("x", core.MaxNote) + `"}`
	if status, text := ask("POST", "/members/ada/removal", longest); status != 200 || !read[server.Row](t, text).Removed {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask("POST", "/members/ada/removal", `{"reason":"spam"}`); status != 409 || !strings.Contains(string(text), "removed before") {
		t.Errorf("a second time: %d %s", status, text)
	}
	o.books.Close()
	if status, _ := ask("POST", "/members/ada/removal", `{"reason":"spam"}`); status != 500 {
		t.Errorf("on a ledger that has ended: %d", status)
	}
}

// A member is removed or hidden at once. A payment for it that is open has its effect all the same.
func TestRemovalAndHidingLeavePaymentsTheirEffect(t *testing.T) {
	for how, status := range map[string]int{"removal": 410, "hiding": 403} {
		o := newOrigin(t)
		ask := o.listen()
		o.pay(paid.OpRegister, ada, "")
		o.coin.becomes(mpp.Pending)
		call := paid.Call{Operation: paid.OpBid, Body: []byte(fund), Secure: true, Authorization: []string{o.credential(paid.OpBid, fund)}}
		late := paid.Call{Operation: paid.OpBid, Body: []byte(fund), Secure: true, Authorization: []string{o.credential(paid.OpBid, fund)}}
		bid := make(chan paid.Answer, 1)
		go func() { bid <- o.service.Handle(context.Background(), call) }()
		o.waitOpen("ada")

		code, text := ask("POST", "/members/ada/"+how, `{"reason":"asked for"}`)
		if row := read[server.Row](t, text); code != 200 || row.Removed != (how == "removal") || row.Hidden != (how == "hiding") || row.TotalCents != 100 || row.Open != 1 {
			t.Errorf("%d %s", code, text)
		}
		for _, c := range []paid.Call{{Operation: paid.OpBid, Body: []byte(fund), Secure: true}, late} {
			if a := o.service.Handle(context.Background(), c); a.Status != status {
				t.Errorf("a new bid after the %s: %d %s", how, a.Status, a.Body)
			}
		}
		o.coin.becomes(mpp.Settled)
		if a := <-bid; a.Status != 200 || !bytes.Contains(a.Body, []byte(`"leaderboard_rank":null`)) {
			t.Errorf("the bid: %d %s", a.Status, a.Body)
		}
		if _, text := ask("GET", "/members/ada", ""); read[server.Row](t, text).TotalCents != 250 || read[server.Row](t, text).Open != 0 || read[server.Row](t, text).Rank != 0 {
			t.Errorf("%s", text)
		}
	}
}

// Redaction leaves the member's words nowhere: not in the reservation that paid
// for it, nor in its answer, nor in one that came to nothing before. The report
// on its site goes, too.
func TestRedactionLeavesNoWords(t *testing.T) {
	o := newOrigin(t)
	ask := o.listen()
	scanned := &local.Report{URL: "https://ada.dev/", Score: 72}
	reports := local.Open(o.books, nil)
	if err := reports.Put(scanned); err != nil {
		t.Fatal(err)
	}
	o.scorer.report = base + server.ReportsPath + scanned.ID
	o.coin.becomes(mpp.Failed)
	first := paid.Call{Operation: paid.OpRegister, Body: []byte(ada), Secure: true, Authorization: []string{o.credential(paid.OpRegister, ada)}}
	if a := o.service.Handle(context.Background(), first); a.Status != 402 {
		t.Fatalf("a payment that failed: %d %s", a.Status, a.Body)
	}
	o.coin.becomes(mpp.Settled)
	call := o.pay(paid.OpRegister, ada, "a-key-of-the-tests")
	if keys := o.holding("Words of a member"); len(keys) != 4 {
		t.Fatalf("the words are in %v, not in texts, body, order and answer: the test looks in the wrong places", keys)
	}
	if a := o.service.Handle(context.Background(), call); a.Status != 201 || !bytes.Contains(a.Body, []byte("Words of a member")) {
		t.Fatalf("the stored answer: %d %s", a.Status, a.Body)
	}
	moved := &local.Report{URL: "https://ada.example/", Score: 90}
	if err := reports.Put(moved); err != nil {
		t.Fatal(err)
	}
	err := o.books.Do(context.Background(), func(tx *ledger.Tx) error {
		_, err := tx.Append(&core.Moved{Stamp: tx.Stamp(), Member: "ada", Score: core.Score{Given: true, Value: 90}},
			&core.Texts{URL: core.Text{Value: "https://ada.example"}, Report: core.Text{Value: base + server.ReportsPath + moved.ID}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if status, text := ask("POST", "/members/ada/removal", `{"reason":"asked for","redact":true}`); status != 200 || bytes.Contains(text, []byte("Words")) {
		t.Errorf("%d %s", status, text)
	}
	if keys := o.holding("Words of a member"); len(keys) > 0 {
		t.Errorf("words are left in %v", keys)
	}
	for _, site := range []string{"ada.dev", "ada.example"} {
		if keys := o.holding(site); len(keys) > 0 {
			t.Errorf("the site %s is named in %v", site, keys)
		}
	}
	for _, r := range []*local.Report{scanned, moved} {
		if _, err := reports.Get(r.ID); !errors.Is(err, local.ErrNotFound) {
			t.Errorf("the report of %s: %v", r.URL, err)
		}
	}
	a := o.service.Handle(context.Background(), call)
	if a.Status != 409 || !bytes.Contains(a.Body, []byte(`"outcome":"applied"`)) {
		t.Errorf("the credential with its key: %d %s", a.Status, a.Body)
	}
}

// holding names the places in the store that hold these words.
func (o *origin) holding(words string) (places []string) {
	o.t.Helper()
	err := o.store.Scan(nil, nil, func(key, value []byte) error {
		parts := map[string][]byte{"row": value}
		// Byte strings are base64 inside the JSON of a reservation.
		var r ledger.Reservation
		if json.Unmarshal(value, &r) == nil {
			parts = map[string][]byte{"body": r.Body, "order": r.Pinned, "payment": r.Payment}
			if r.Response != nil {
				parts["answer"] = r.Response.Body
			}
		}
		for name, part := range parts {
			if bytes.Contains(part, []byte(words)) {
				places = append(places, fmt.Sprintf("%s of %q", name, key))
			}
		}
		return nil
	})
	if err != nil {
		o.t.Fatal(err)
	}
	return places
}
