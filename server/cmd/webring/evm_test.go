package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/devchain"
	"webring/server/pay/paytest"
)

// TestBothOffersArePaidByTheReferenceClient holds that a 402 carries two offers and
// that either may be paid, for joining and for bidding.
func TestBothOffersArePaidByTheReferenceClient(t *testing.T) {
	t.Parallel()
	tempo, client := chain(t)
	s := evmShop(t, "--tempo-rpc", tempo.RPC)
	// The harness's flag for Tempo names one account, the shop's another.
	inTempo := func() int64 {
		o := *s.origin
		o.recipient = tempoRecipient(s.origin)
		return o.received()
	}
	payments := s.get("/api").document(t)["payments"]
	if got := at(t, payments, "networks"); !slices.Equal(got.([]any), []any{"eip155:42431", "eip155:8453"}) {
		t.Errorf("networks %v", got)
	}
	if offer := at(t, payments, "offers", 1).(map[string]any); offer["method"] != "evm" || offer["currency"] != strings.ToLower(devchain.USDC.Hex()) {
		t.Errorf("offer %v", offer)
	}

	join := `{"name":"Two Purses","url":"https://two-purses.dev/","kind":"agent","bid":"2.00"}`
	unpaid := s.post("/api/register", join)
	offers := unpaid.Header.Values("WWW-Authenticate")
	if unpaid.Status != 402 || len(offers) != 2 || !strings.Contains(offers[0], `method="tempo"`) || !strings.Contains(offers[1], `method="evm"`) {
		t.Fatalf("%d %q", unpaid.Status, offers)
	}
	// Signing needs the domain of the token.
	domain := at(t, unpaid.document(t), "offers", 1, "domain").(map[string]any)
	if domain["name"] != "USD Coin" || domain["version"] != "2" || domain["chainId"] != 8453.0 || domain["verifyingContract"] != devchain.USDC.Hex() {
		t.Errorf("domain %v", domain)
	}
	if network := at(t, unpaid.document(t), "offers", 1, "network"); network != "eip155:8453" {
		t.Errorf("network %v", network)
	}
	if preferred := s.post("/api/register", join, "Accept-Payment", "tempo/charge;q=0.1, evm/charge").Header.Values("WWW-Authenticate"); len(preferred) != 2 || !strings.Contains(preferred[0], `method="evm"`) {
		t.Errorf("with a preference: %q", preferred)
	}

	pay := func(by []string, path, body string, status int) devchain.Payment {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		account := wallet(t) // both chains have the same accounts
		p, err := client.Pay(ctx, account.HexKey(), devchain.Request{By: by, Method: http.MethodPost, URL: s.base + path,
			Header: map[string]string{"Content-Type": "application/json"}, Body: []byte(body)})
		if err != nil || p.Status != status {
			t.Fatalf("POST %s by %v: %v, %d %s\n%s", path, by, err, p.Status, p.Body, s.log)
		}
		return p
	}
	joined := pay([]string{"evm"}, "/api/register", join, 201)
	raw, err := base64.RawURLEncoding.DecodeString(joined.Header.Get("Payment-Receipt"))
	if err != nil {
		t.Fatal(err)
	}
	var receipt struct{ Method, Reference, Status string }
	if err := json.Unmarshal(raw, &receipt); err != nil || receipt.Method != "evm" || receipt.Status != "success" {
		t.Fatalf("receipt %s: %v", raw, err)
	}
	var mined *struct{ Status, To string }
	if err := s.chain.Call(t.Context(), &mined, "eth_getTransactionReceipt", receipt.Reference); err != nil || mined == nil || mined.Status != "0x1" || !strings.EqualFold(mined.To, devchain.USDC.Hex()) {
		t.Errorf("the receipt's transaction: %v, %v", mined, err)
	}
	if s.authorized() != 300 || inTempo() != 0 {
		t.Errorf("%d cents by evm, %d by Tempo, want 300 and none", s.authorized(), inTempo())
	}
	bid := `{"member":"two-purses","amount":"1.50"}`
	pay([]string{"evm"}, "/api/bid", bid, 200)
	pay([]string{"tempo"}, "/api/bid", bid, 200)
	pay([]string{"tempo", "evm"}, "/api/bid", bid, 200)
	if sum := s.authorized() + inTempo(); sum != 750 || s.authorized() < 450 || inTempo() < 150 {
		t.Errorf("%d cents by evm and %d by Tempo, want 750 in all", s.authorized(), inTempo())
	}
	if total := at(t, s.get("/api/leaderboard").document(t), "leaderboard", 0, "paid_total_usd"); total != "7.50" {
		t.Errorf("total %v", total)
	}
	s.confirmed()
	out, err := s.operate("payments", "show", receipt.Reference)
	if err != nil || !strings.Contains(out, receipt.Reference) {
		t.Errorf("payments show: %v %s", err, out)
	}
	if out, err := s.operate("payments", "scan"); err != nil || strings.Contains(out, "missing") {
		t.Errorf("payments scan: %v %s", err, out)
	}
	s.matches("evm:8453="+s.chain.RPC, "tempo:42431="+tempo.RPC)
}

// matches holds that anyone finds the transfers of all events on these networks, by their nonces and
// memos, when they are deep.
func (o *origin) matches(nodes ...string) {
	o.t.Helper()
	args := []string{"verify", o.base, "--memory", o.t.TempDir()}
	for _, node := range nodes {
		args = append(args, "--rpc", node)
	}
	eventually(o.t, "all transfers", longEnough, func() bool {
		var out strings.Builder
		if err := run(args, &out); err != nil {
			o.t.Fatalf("%v: %s", err, out.String())
		}
		if strings.Contains(out.String(), "name another transaction") {
			o.t.Fatal(out.String())
		}
		return strings.Count(out.String(), "ok     payments ") == len(nodes) && !strings.Contains(out.String(), "too new")
	})
}

// TestAuthorizationsThatAreRefused alters a really signed authorisation in one way
// each. Nothing may be left behind: no money moves, no gas is spent, the ring is
// the same.
func TestAuthorizationsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := evmShop(t)
	join := `{"name":"Careful","url":"https://careful.dev/","kind":"website"}`
	founder := s.payer()
	if r := s.present("/api/register", join, founder.Header(s.offer("/api/register", join))); r.Status != 201 {
		t.Fatalf("%d %s\n%s", r.Status, r.Body, s.log)
	}
	s.confirmed()
	const bid = `{"member":"careful","amount":"1.00"}`
	// The account proves itself on Tempo's chain id, also in a ring without a node there.
	owner := devchain.Account{Address: founder.Address(), Key: founder.Key}
	const change = `{"description":"Paid for on one network, owned on all"}`
	s.prove(owner, http.MethodPatch, "/api/ring/careful", change).does(t, 200, "")
	if r := s.present("/api/bid", bid, s.signAs(owner, http.MethodDelete, "/api/ring/careful", "")); r.Status != 402 || r.code(t) != "invalid_challenge" {
		t.Errorf("a proof for a bid: %d %s", r.Status, r.Body)
	}
	set := func(name string, value any) paytest.EVMAlter {
		return func(d *paytest.EVMDraft) {
			before := d.Payload
			d.Payload = func(p map[string]any) {
				if before != nil {
					before(p)
				}
				p[name] = value
			}
		}
	}
	stranger, poor := s.payer(), freshWallet(t)
	other := s.offer("/api/bid", bid)
	for _, c := range []struct {
		name  string
		code  string
		alter paytest.EVMAlter
	}{
		{"another chain", "verification_failed", func(d *paytest.EVMDraft) { d.ChainID = big.NewInt(1) }},
		{"another token", "verification_failed", func(d *paytest.EVMDraft) { d.Token[19]++ }},
		{"another name in the domain", "verification_failed", func(d *paytest.EVMDraft) { d.Name = "USDC" }},
		{"another version in the domain", "verification_failed", func(d *paytest.EVMDraft) { d.Version = "1" }},
		{"another recipient", "verification_failed", func(d *paytest.EVMDraft) { d.To[0]++ }},
		{"another recipient, signed for ours", "verification_failed", set("to", stranger.Address())},
		{"one unit less", "verification_failed", func(d *paytest.EVMDraft) { d.Value.Sub(d.Value, big.NewInt(1)) }},
		{"one unit more", "verification_failed", func(d *paytest.EVMDraft) { d.Value.Add(d.Value, big.NewInt(1)) }},
		{"another value than signed", "verification_failed", func(d *paytest.EVMDraft) { v := d.Value.String(); d.Value.SetInt64(1); set("value", v)(d) }},
		{"the nonce of another challenge", "verification_failed", func(d *paytest.EVMDraft) { d.Nonce = noncePaying(other.ID, other.Realm) }},
		{"the nonce of another realm", "verification_failed", func(d *paytest.EVMDraft) { d.Nonce = noncePaying(other.ID, "other.dev") }},
		{"another nonce than signed", "verification_failed", func(d *paytest.EVMDraft) { n := d.Nonce.Hex(); d.Nonce[0]++; set("nonce", n)(d) }},
		{"somebody else's signature", "verification_failed", func(d *paytest.EVMDraft) { d.Sign = stranger.Sign }},
		{"somebody else's source", "verification_failed", func(d *paytest.EVMDraft) { d.Source = "did:pkh:eip155:8453:" + stranger.Address().Hex() }},
		{"the source's chain", "verification_failed", func(d *paytest.EVMDraft) { d.Source = strings.Replace(d.Source, "8453", "1", 1) }},
		{"valid too long", "verification_failed", func(d *paytest.EVMDraft) { d.ValidBefore.Add(d.ValidBefore, big.NewInt(1)) }},
		{"not valid any more", "payment_expired", paytest.ValidFor(-time.Minute)},
		{"not valid yet", "verification_failed", func(d *paytest.EVMDraft) { d.ValidAfter = big.NewInt(time.Now().Unix() + 60) }},
		{"no number for an end", "malformed_credential", set("validBefore", "0x7fffffff")},
		{"a leading zero", "malformed_credential", set("value", "01000000")},
		{"a number that is none", "malformed_credential", set("value", 1000000)},
		{"no nonce", "malformed_credential", set("nonce", "")},
		{"a short nonce", "malformed_credential", set("nonce", "0x01")},
		{"no signature", "malformed_credential", set("signature", nil)},
		{"a signature of nothing", "verification_failed", set("signature", "0x")},
		{"a contract's signature", "verification_failed", set("signature", hexutil.Encode(make([]byte, 320)))},
		{"a compact signature", "verification_failed", set("signature", hexutil.Encode(make([]byte, 64)))},
		{"a signature of zeros", "verification_failed", set("signature", hexutil.Encode(make([]byte, 65)))},
		{"permit2", "verification_failed", set("type", "permit2")},
		{"hash", "verification_failed", set("type", "hash")},
		{"a transaction", "verification_failed", set("type", "transaction")},
		{"an unknown type", "malformed_credential", set("type", "check")},
	} {
		credential := s.payer().Header(s.offer("/api/bid", bid), c.alter)
		if r := s.present("/api/bid", bid, credential); r.Status != 402 || r.code(t) != c.code || s.challenge(r).Method != "evm" {
			t.Errorf("%s: %d, want 402 %s: %s", c.name, r.Status, c.code, r.Body)
		}
	}
	payer := s.payer()
	if r := s.present("/api/bid", bid, payer.Header(s.offer("/api/bid", bid), func(d *paytest.EVMDraft) { d.Sign = payer.HighS })); r.Status != 402 || r.code(t) != "verification_failed" {
		t.Errorf("a high s: %d %s", r.Status, r.Body)
	}
	if r := s.present("/api/bid", bid, poor.Header(s.offer("/api/bid", bid))); r.Status != 402 || r.code(t) != "verification_failed" {
		t.Errorf("an empty wallet: %d %s", r.Status, r.Body)
	}
	dear := `{"member":"careful","amount":"2.00"}`
	if r := s.present("/api/bid", dear, payer.Header(s.offer("/api/bid", bid))); r.Status != 402 || r.code(t) != "invalid_challenge" {
		t.Errorf("a cheap challenge on a dear body: %d %s", r.Status, r.Body)
	}
	if r := s.present("/api/register", bid, payer.Header(s.offer("/api/bid", bid))); r.Status == 201 || r.Status == 200 {
		t.Errorf("on another route: %d %s", r.Status, r.Body)
	}
	if s.authorized() != 100 || s.submissions() != 1 {
		t.Errorf("%d cents in %d transactions, want 100 in one", s.authorized(), s.submissions())
	}
	if total := at(t, s.get("/api/leaderboard").document(t), "leaderboard", 0, "paid_total_usd"); total != "1.00" {
		t.Errorf("total %v", total)
	}
	if out, err := s.operate("version"); err != nil || !strings.Contains(out, "0 open reservations") {
		t.Errorf("version: %v %s", err, out)
	}
}

// TestGasThatCannotBePaidBindsNobody holds that an empty gas account, and fees
// above the highest, take the offer away and answer a credential with 503 before
// anything is reserved; the same credential pays when that is over.
func TestGasThatCannotBePaidBindsNobody(t *testing.T) {
	t.Parallel()
	s := evmShop(t)
	join := `{"name":"Patient","url":"https://patient.dev/","kind":"agent"}`
	credential := s.payer().Header(s.offer("/api/register", join))
	s.tank(t, new(big.Int))
	unavailable := func(r reply) {
		t.Helper()
		if r.Status != 503 || r.code(t) != "payments_unavailable" || r.Header.Get("Retry-After") == "" || r.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("%d %s", r.Status, r.Body)
		}
	}
	eventually(t, "an end of the offer", time.Minute, func() bool { return s.post("/api/register", join).Status == 503 })
	unavailable(s.post("/api/register", join))
	unavailable(s.present("/api/register", join, credential))
	if out, err := s.operate("version"); err != nil || !strings.Contains(out, "0 open reservations") || s.authorized() != 0 {
		t.Errorf("somebody is bound: %v %s", err, out)
	}
	s.logs("the gas account " + s.gas.Hex() + " has 0 wei")
	s.tank(t, ether)
	var r reply
	eventually(t, "the payment", time.Minute, func() bool {
		r = s.present("/api/register", join, credential)
		return r.Status != 503
	})
	if r.Status != 201 || s.authorized() != 100 {
		t.Errorf("%d %s, %d cents", r.Status, r.Body, s.authorized())
	}

	tempo, _ := chain(t)
	dear := evmShop(t, "--evm-max-fee", "1", "--tempo-rpc", tempo.RPC)
	if c := dear.challenge(dear.post("/api/register", join)); c.Method != "tempo" {
		t.Errorf("while gas is dear, the offer is of %s", c.Method)
	}
	eventually(t, "a word about it in the log", time.Minute, func() bool {
		dear.post("/api/register", join)
		return strings.Contains(dear.log.String(), "the most that is paid is 1")
	})
}

// A reorganisation deeper than the depth undoes a payment that nobody asks for any more, and a stranger
// has the chain settle its authorisation again. That is the same money, for the operator and for anyone
// who reads log and chain.
func TestAReorganisationDeeperThanTheDepth(t *testing.T) {
	t.Parallel()
	chain(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	own, err := devchain.StartBase(ctx, devchain.Options{Accounts: accounts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop)
	s := evmShopOn(t, own)
	founder, payer := s.payer(), s.payer()
	const join, bid = `{"name":"Undone","url":"https://undone.dev/","kind":"website"}`, `{"member":"undone","amount":"2.50"}`
	s.present("/api/register", join, founder.Header(s.offer("/api/register", join))).does(t, 201, "")
	s.confirmed()
	var before string
	if err := own.Call(ctx, &before, "evm_snapshot"); err != nil {
		t.Fatal(err)
	}
	offer := s.offer("/api/bid", bid)
	s.present("/api/bid", bid, payer.Header(offer)).does(t, 200, "")
	s.confirmed()
	var undone bool
	if err := own.Call(ctx, &undone, "evm_revert", before); err != nil || !undone {
		t.Fatal(undone, err)
	}
	undoneTo := s.authorized()
	if s.submit(payer.Submission(offer)); undoneTo != 100 || s.authorized() != 350 {
		t.Fatalf("%d cents after the reorganisation, and %d after the second settlement", undoneTo, s.authorized())
	}

	if err := own.Call(ctx, nil, "anvil_mine", 12); err != nil { // so deep must a transfer be for anyone who verifies
		t.Fatal(err)
	}
	eventually(t, "the transfer under its other hash", longEnough, func() bool {
		out, err := s.operate("payments", "scan", "--since", "1h")
		if err == nil && strings.Count(out, "\n") > 1 {
			t.Fatalf("payments scan: %s", out)
		}
		return strings.Contains(s.log.String(), "a payment has moved to another transaction")
	})
	moved := regexp.MustCompile(`a payment has moved to another transaction.* to=(0x[0-9a-f]{64})`).FindStringSubmatch(s.log.String())
	if moved == nil {
		t.Fatalf("the log does not say where to:\n%s", s.log)
	}
	if out, err := s.operate("payments", "adjust", moved[1], "--credit", "undone", "--reason", "test"); err == nil || !strings.Contains(out+err.Error(), "account for this transaction already") {
		t.Errorf("credited a second time: %v %s", err, out)
	}
	if out, err := s.operate("verify", "--chain"); err != nil || !strings.Contains(out, "everything agrees") {
		t.Errorf("verify --chain: %v %s", err, out)
	}
	eventually(t, "that anyone finds the transfer", longEnough, func() bool {
		var out strings.Builder
		if err := run([]string{"verify", s.base, "--memory", t.TempDir(), "--rpc", "evm:8453=" + own.RPC}, &out); err != nil {
			t.Fatalf("verify --rpc: %v %s", err, out.String())
		}
		return strings.Contains(out.String(), "name another transaction")
	})
}
