package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/devchain"
)

// TestRegisterIsPaidOnceAndSeenEverywhere holds the first promise: request,
// 402, payment, 201, and the ring has changed.
func TestRegisterIsPaidOnceAndSeenEverywhere(t *testing.T) {
	t.Parallel()
	o := ring(t)
	body := `{"name":"First Light","url":"https://www.first-light.dev/app/","kind":"agent","category":"tools","description":"Wakes early."}`

	unpaid := o.post("/api/register", body)
	if unpaid.Status != 402 || unpaid.code(t) != "payment_required" {
		t.Fatalf("unpaid: %d %s", unpaid.Status, unpaid.Body)
	}
	if got := unpaid.Header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("a 402 has Cache-Control %q", got)
	}
	if got := unpaid.Header.Values("WWW-Authenticate"); len(got) != 1 || !strings.HasPrefix(got[0], "Payment ") {
		t.Errorf("offers: %q", got)
	}
	if typ := at(t, unpaid.document(t), "type"); !strings.HasPrefix(typ.(string), "https://paymentauth.org/problems/") {
		t.Errorf("a 402 has the type %v", typ)
	}
	if n := o.received(); n != 0 {
		t.Fatalf("%d cents were paid for a request without payment", n)
	}

	p := o.pay(wallet(t), "/api/register", body)
	if p.Status != http.StatusCreated {
		t.Fatalf("paid: %d %s", p.Status, p.Body)
	}
	if n := o.received(); n != 100 {
		t.Errorf("the recipient has %d cents, want 100", n)
	}
	checkReceipt(t, p)
	doc := paidDocument(t, p)
	if at(t, doc, "joined") != true || at(t, doc, "welcome") == "" {
		t.Errorf("answer: %s", p.Body)
	}
	if _, has := doc["leaderboard_rank"]; has {
		t.Error("leaderboard_rank stands in an answer without an opening bid")
	}
	if doc["to_take_first_usd"] != nil {
		t.Errorf("the only member can take first for %v", doc["to_take_first_usd"])
	}
	member := at(t, doc, "member").(map[string]any)
	for name, want := range map[string]any{"slug": "first-light", "name": "First Light", "url": "https://www.first-light.dev/app/",
		"kind": "agent", "category": "tools", "description": "Wakes early.", "agentic_score": 72.0, "ring_position": 1.0,
		"bid_total_usd": "0.00", "last_bid_at": nil} {
		if member[name] != want {
			t.Errorf("member.%s = %v, want %v", name, member[name], want)
		}
	}

	for path, steps := range map[string][]any{
		"/api/ring":                           {"members", 0, "slug"},
		"/api/ring/first-light":               {"member", "slug"},
		"/api/ring/next":                      {"member", "slug"},
		"/api/ring/prev?from=first-light":     {"member", "slug"},
		"/api/ring/random?kind=agent":         {"member", "slug"},
		"/api/widget?from=first-light.dev":    {"member", "slug"},
		"/api/leaderboard":                    {"leaderboard", 0, "slug"},
		"/api/ring?kind=agent&category=tools": {"members", 0, "slug"},
	} {
		if r := o.get(path); r.Status != 200 || at(t, r.document(t), steps...) != "first-light" {
			t.Errorf("GET %s: %d %s", path, r.Status, r.Body)
		}
	}
	if c := at(t, o.get("/api/categories").document(t), "categories", 0).(map[string]any); c["category"] != "tools" || c["members"] != 1.0 {
		t.Errorf("categories: %v", c)
	}
	board := at(t, o.get("/api/leaderboard").document(t), "leaderboard", 0).(map[string]any)
	for name, want := range map[string]any{"rank": 1.0, "paid_total_usd": "1.00", "effective_bid_usd": "1.00", "to_take_first_usd": nil} {
		if board[name] != want {
			t.Errorf("leaderboard[0].%s = %v, want %v", name, board[name], want)
		}
	}

	again := o.post("/api/register", `{"name":"Again","url":"http://first-light.dev/app/index.html","kind":"mcp"}`)
	if again.Status != 409 || again.code(t) != "already_registered" {
		t.Errorf("the same site again: %d %s", again.Status, again.Body)
	}
}

// checkReceipt holds the Payment-Receipt field to its form.
func checkReceipt(t *testing.T, p devchain.Payment) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(p.Header.Get("Payment-Receipt"))
	if err != nil {
		t.Fatalf("receipt: %v", err)
	}
	var receipt struct{ Method, Reference, Status, Timestamp string }
	if err := json.Unmarshal(raw, &receipt); err != nil {
		t.Fatalf("receipt: %v: %s", err, raw)
	}
	if receipt.Method != "tempo" || receipt.Status != "success" || len(receipt.Reference) != 66 || receipt.Reference != strings.ToLower(receipt.Reference) {
		t.Errorf("receipt: %s", raw)
	}
	if seq, err := strconv.Atoi(p.Header.Get("Webring-Seq")); err != nil || !strings.Contains(p.Header.Get("Link"), fmt.Sprintf(`/log/proof/%d>; rel="https://c2sp.org/tlog-proof"`, seq-1)) {
		t.Errorf("Webring-Seq %d, Link %s", seq, p.Header.Get("Link"))
	}
	if got := p.Header.Get("Cache-Control"); got != "private" {
		t.Errorf("a paid answer has Cache-Control %q", got)
	}
}

// TestBidsSetTheLeaderboard holds that answers agree with the leaderboard, and
// that quotes are exact to the cent.
func TestBidsSetTheLeaderboard(t *testing.T) {
	t.Parallel()
	o := ring(t)
	early := o.join("Early Bird", "website", "")
	late := o.join("Late Owl", "agent", "3.00")

	if rank := o.rank(late); rank != 1 {
		t.Fatalf("rank %d after an opening bid", rank)
	}
	quote := at(t, o.boardRow(early), "to_take_first_usd")
	if quote != "3.00" { // 1.00 + 3.00 reaches 4.00, and the earlier join wins ties
		t.Fatalf("to_take_first_usd = %v, want 3.00", quote)
	}
	o.bid(early, "2.99")
	if rank := o.rank(early); rank != 2 {
		t.Errorf("one cent less than the quote took rank %d", rank)
	}
	// The quote now is the minimum, because a single cent would do.
	if quote := at(t, o.boardRow(early), "to_take_first_usd"); quote != "1.00" {
		t.Errorf("to_take_first_usd = %v, want the minimum", quote)
	}
	answer := o.bid("https://early-bird.dev/", "1.00") // by URL
	if at(t, answer, "leaderboard_rank") != 1.0 || at(t, answer, "to_take_first_usd") != nil ||
		at(t, answer, "bid_total_usd") != "3.99" || at(t, answer, "bid", "member") != early || at(t, answer, "bid", "amount_usd") != "1.00" {
		t.Errorf("bid answer: %v", answer)
	}
	row := o.boardRow(early)
	if at(t, row, "rank") != 1.0 || at(t, row, "bid_total_usd") != "3.99" || at(t, row, "paid_total_usd") != "4.99" {
		t.Errorf("leaderboard: %v", row)
	}

	// The later join has to be above the leader, not level with it.
	quote = at(t, o.boardRow(late), "to_take_first_usd")
	if quote != "1.00" {
		t.Fatalf("to_take_first_usd = %v, want 1.00", quote)
	}
	o.bid(late, "1.00") // 5.00 against 4.99
	if rank := o.rank(late); rank != 1 {
		t.Errorf("the quote took rank %d", rank)
	}

	opening := at(t, o.get("/api/leaderboard").document(t), "rules", "join_at_first_bid_usd").(string)
	if opening != "4.01" { // fee 1.00 + 4.01 is above 5.00
		t.Fatalf("join_at_first_bid_usd = %s, want 4.01", opening)
	}
	if newcomer := o.join("Newcomer", "mcp", opening); o.rank(newcomer) != 1 {
		t.Errorf("joining with the quoted bid took rank %d", o.rank(newcomer))
	}
	if n := o.received(); n != 100+400+299+100+100+501 {
		t.Errorf("the recipient has %d cents", n)
	}
	o.proves(answer)
}

// proves holds that the proof of a paid answer is what webring verify accepts as a receipt, and that
// anyone can verify the ring.
func (o *origin) proves(answer map[string]any) {
	o.t.Helper()
	node, _ := chain(o.t)
	path := strings.TrimPrefix(at(o.t, answer, "links", "proof").(string), o.base)
	file, memory := filepath.Join(o.t.TempDir(), "bid.tlog-proof"), o.t.TempDir()
	eventually(o.t, "the proof", time.Minute, func() bool {
		proof := o.get(path)
		return proof.Status == http.StatusOK && os.WriteFile(file, proof.Body, 0o600) == nil
	})
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{o.base, "--rpc", fmt.Sprintf("tempo:%d=%s", devchain.ChainID, node.RPC)}, []string{"the same to the byte", "the ring itself named it", "ok     payments", "events on tempo:"}},
		{[]string{o.base}, []string{"it continues the "}},
		{[]string{"--receipt", file}, []string{"bid on member ", fmt.Sprint(at(o.t, answer, "bid", "amount_usd"), " USD, paid by ")}},
	} {
		var out strings.Builder
		err := run(append([]string{"verify", "--memory", memory}, c.args...), &out)
		for _, words := range c.says {
			if err != nil || !strings.Contains(out.String(), words) {
				o.t.Errorf("verify %s: %v, without %q: %s", c.args, err, words, out.String())
			}
		}
	}
}

func (o *origin) bid(member, amount string) map[string]any {
	o.t.Helper()
	p := o.pay(wallet(o.t), "/api/bid", fmt.Sprintf(`{"member":%q,"amount":%q}`, member, amount))
	if p.Status != http.StatusOK {
		o.t.Fatalf("bid: %d %s", p.Status, p.Body)
	}
	checkReceipt(o.t, p)
	return paidDocument(o.t, p)
}

func (o *origin) boardRow(slug string) map[string]any {
	o.t.Helper()
	for _, row := range at(o.t, o.get("/api/leaderboard").document(o.t), "leaderboard").([]any) {
		if row := row.(map[string]any); row["slug"] == slug {
			return row
		}
	}
	o.t.Fatalf("%s is not on the leaderboard", slug)
	return nil
}

func (o *origin) rank(slug string) int {
	o.t.Helper()
	return int(at(o.t, o.boardRow(slug), "rank").(float64))
}

// TestTwentyCopiesAtOnceHaveOneEffect holds that a race of one credential with
// itself ends in one 201, one transfer, and 409 for the rest.
func TestTwentyCopiesAtOnceHaveOneEffect(t *testing.T) {
	t.Parallel()
	o := ring(t)
	body := `{"name":"Racer","url":"https://racer.dev/","kind":"agent"}`
	credential := o.sign(wallet(t), "/api/register", body)
	statuses := map[int]int{}
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			r, err := o.try(http.MethodPost, "/api/register", []byte(body), "Authorization", credential, "Content-Type", "application/json")
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			statuses[r.Status]++
			if r.Status == 409 && r.code(t) != "credential_reused" {
				t.Errorf("409 %s", r.Body)
			}
		})
	}
	group.Wait()
	if statuses[201] != 1 || statuses[409] != 19 {
		t.Errorf("statuses: %v", statuses)
	}
	if n := o.received(); n != 100 {
		t.Errorf("%d cents were paid", n)
	}
}

// TestEmptyWalletLeavesNothingBehind holds that a well-signed transaction that
// nothing backs costs its sender a signature and us nothing.
func TestEmptyWalletLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	o := ring(t)
	body := `{"name":"Broke","url":"https://broke.dev/","kind":"agent"}`
	empty := freshAccount(t)
	credential := o.sign(empty, "/api/register", body)
	r := o.post("/api/register", body, "Authorization", credential)
	if r.Status != 402 || r.code(t) != "verification_failed" || r.Header.Get("WWW-Authenticate") == "" {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	// It blocks neither another wallet nor the same credential, which was not consumed.
	if p := o.pay(wallet(t), "/api/register", body); p.Status != 201 {
		t.Errorf("another wallet: %d %s", p.Status, p.Body)
	}
	if out, err := o.operate("version"); err != nil || !strings.Contains(out, "1 members") || !strings.Contains(out, "0 open reservations") {
		t.Errorf("the ledger: %v\n%s", err, out)
	}
}

// TestStandingDecaysByTheClock lets real seconds pass.
func TestStandingDecaysByTheClock(t *testing.T) {
	t.Parallel()
	o := ring(t, "--grace", "2s", "--decay", "4s")
	steady := o.join("Steady", "website", "")
	loud := o.join("Loud", "agent", "4.00")
	rules := at(t, o.get("/api/leaderboard").document(t), "rules").(map[string]any)
	if rules["grace_period"] != "PT2S" || rules["decay_span"] != "PT4S" {
		t.Errorf("rules: %v", rules)
	}
	eventually(t, "the end of the decay", time.Minute, func() bool {
		return at(t, o.boardRow(loud), "effective_bid_usd") == "0.00"
	})
	if o.rank(loud) != 2 || o.rank(steady) != 1 {
		t.Error("a decayed member is not below one that only paid the fee")
	}
	if at(t, o.boardRow(loud), "paid_total_usd") != "5.00" || at(t, o.boardRow(steady), "effective_bid_usd") != "1.00" {
		t.Error("totals shrank")
	}
	answer := o.bid(loud, "1.00")
	if at(t, answer, "leaderboard_rank") != 1.0 || at(t, answer, "bid_total_usd") != "5.00" {
		t.Errorf("a new bid does not restore the total: %v", answer)
	}
}

// TestMembersAreRemovedByTheOperator holds what server/HANDBOOK.md says of removal.
func TestMembersAreRemovedByTheOperator(t *testing.T) {
	t.Parallel()
	o := ring(t)
	gone := o.join("Soon Gone", "agent", "1.00")
	stays := o.join("Stays", "agent", "")
	o.stop()
	o.launch() // which publishes a snapshot with the words
	if out, err := o.operate("members", "remove", gone); err == nil {
		t.Errorf("removed without a reason: %s", out)
	}
	if out, err := o.operate("members", "remove", gone, "--reason", "asked to", "--redact"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, r := range []reply{o.get("/api/ring/" + gone), o.post("/api/bid", fmt.Sprintf(`{"member":%q,"amount":"1.00"}`, gone))} {
		if r.Status != 410 || r.code(t) != "member_removed" {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	}
	if r := o.get("/api/ring/next?from=" + gone); r.Status != 404 || r.code(t) != "unknown_member" {
		t.Errorf("as from: %d %s", r.Status, r.Body)
	}
	if r := o.get("/api/ring/" + stays); at(t, r.document(t), "member", "ring_position") != 1.0 {
		t.Errorf("the gap was not closed: %s", r.Body)
	}
	if again := o.join("Soon Gone", "mcp", ""); again != "soon-gone-2" {
		t.Errorf("the slug was given again: %s", again)
	}
	out, err := o.operate("members", "list")
	if err != nil || !strings.Contains(out, "removed") || strings.Contains(out, "Soon Gone") {
		t.Errorf("%v: %s", err, out)
	}
	o.stop()
	o.launch()
	if r := o.get("/api/ring/" + gone); r.Status != 410 {
		t.Errorf("after a restart: %d %s", r.Status, r.Body)
	}
	memory, saved := t.TempDir(), t.TempDir()
	for range 2 {
		if out, err := o.operate("verify", o.base, "--memory", memory, "--save", saved); err != nil || !strings.Contains(out, "cannot be compared: words that were in them are redacted") {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// freshAccount is a wallet that owns nothing.
func freshAccount(t *testing.T) devchain.Account {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return devchain.Account{Address: crypto.PubkeyToAddress(key.PublicKey), Key: key}
}
