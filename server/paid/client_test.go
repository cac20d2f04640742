package paid_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"webring/core/api"
	"webring/server/paid"
	"webring/server/pay/mpp"
)

// same fails the test unless got is as wanted.
func same[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// answer is what a client got.
type answer struct {
	t *testing.T
	paid.Answer
}

// clientAddress is that of clients that have no other.
const clientAddress = "192.0.2.1"

// post sends one request as a client behind TLS.
func (r *ring) post(op, body string, authorization ...string) answer {
	r.t.Helper()
	return r.handle(paid.Call{Operation: op, Body: []byte(body), Authorization: authorization})
}

func (r *ring) handle(c paid.Call) answer {
	r.t.Helper()
	return r.handleBy(r.service, c)
}

// handleBy is handle by the service of one process, whatever comes after it.
func (r *ring) handleBy(s *paid.Service, c paid.Call) answer {
	r.t.Helper()
	c.Secure, c.Client = true, cmp.Or(c.Client, clientAddress)
	a := answer{r.t, s.Handle(context.Background(), c)}
	a.form()
	text := fmt.Sprint(a.Status, a.Header, string(a.Body))
	r.keepsSecrets("an answer", text)
	// Words that no base64 of an id or nonce can hold by chance.
	if strings.Contains(text, "node.example") || strings.Contains(text, "is silent") {
		r.t.Errorf("an answer repeats the words of a node: %s", text)
	}
	return a
}

// form holds what every answer must be, whatever it says.
func (a answer) form() {
	a.t.Helper()
	challenges, receipt, retry := len(a.fields("WWW-Authenticate")), a.field("Payment-Receipt"), a.field("Retry-After")
	if !json.Valid(a.Body) {
		a.t.Errorf("%d with a body that is no JSON: %s", a.Status, a.Body)
		return
	}
	if a.Status == 200 && a.member("token") != nil {
		return // a token for a site: nothing was done
	}
	if (challenges > 0) != (a.Status == 402) || (receipt != "") != (a.Status < 300) || (retry != "") != (a.Status == 503 || a.Status == 429) {
		a.t.Errorf("%d has %d challenges, receipt %q, Retry-After %q", a.Status, challenges, receipt, retry)
	}
	if a.Status < 300 {
		if a.field("Cache-Control") != "private" || a.field("Content-Type") != "application/json" {
			a.t.Errorf("%d with %v", a.Status, a.Header)
		}
	} else if a.field("Cache-Control") != "no-store" || a.field("Content-Type") != "application/problem+json" ||
		a.member("status") != float64(a.Status) || a.member("detail") == "" || a.member("title") == "" {
		a.t.Errorf("%d with %v: %s", a.Status, a.Header, a.Body)
	}
}

func (a answer) fields(name string) (values []string) {
	for _, f := range a.Header {
		if f[0] == name {
			values = append(values, f[1])
		}
	}
	return values
}

func (a answer) field(name string) string { return strings.Join(a.fields(name), " and ") }

// member gives a value of the document by the names that lead to it.
func (a answer) member(path ...string) any {
	var v any
	if err := json.Unmarshal(a.Body, &v); err != nil {
		a.t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	for _, name := range path {
		object, _ := v.(map[string]any)
		v = object[name]
	}
	return v
}

// shows fails the test unless the value at a path of names, such as links.self, is as wanted.
func (a answer) shows(path string, want any) answer {
	a.t.Helper()
	if a.member(strings.Split(path, ".")...) != want {
		a.t.Errorf("%s is not %v: %d %s", path, want, a.Status, a.Body)
	}
	return a
}

// waits fails the test unless Retry-After has a number of seconds in these bounds.
func (a answer) waits(least, most int) answer {
	a.t.Helper()
	if wait, err := strconv.Atoi(a.field("Retry-After")); err != nil || wait < least || wait > most {
		a.t.Errorf("Retry-After %q, want %d to %d: %s", a.field("Retry-After"), least, most, a.Body)
	}
	return a
}

func (a answer) code() string { s, _ := a.member("code").(string); return s }

// is fails unless the answer has this status and, for a problem, this code.
func (a answer) is(status int, code api.Code) answer {
	a.t.Helper()
	if a.Status != status || status >= 300 && a.code() != string(code) {
		a.t.Fatalf("%d %s\nwant %d %s", a.Status, a.Body, status, code)
	}
	return a
}

// names fails unless a 422 has the detail given, and a list of what is wrong
// with the one entry that it comes from, about no field.
func (a answer) names(detail string) {
	a.t.Helper()
	found, _ := a.member("errors").([]any)
	if len(found) != 1 || a.member("detail") != detail {
		a.t.Fatalf("%s\nwant %q, from one finding", a.Body, detail)
	}
	if first, _ := found[0].(map[string]any); first["pointer"] != "" || !strings.EqualFold(fmt.Sprint(first["detail"], "."), detail) {
		a.t.Errorf("errors: %v", found)
	}
}

// is2 fails unless the answer has one of two statuses.
func (a answer) is2(one, other int) {
	a.t.Helper()
	if a.Status != one && a.Status != other {
		a.t.Fatalf("%d %s\nwant %d or %d", a.Status, a.Body, one, other)
	}
}

var parameter = regexp.MustCompile(`([a-z]+)="((?:[^"\\]|\\.)*)"`)

// challenges reads the offers of a 402, as a client does.
func (a answer) challenges() (all []mpp.Challenge) {
	a.t.Helper()
	for _, field := range a.fields("WWW-Authenticate") {
		values := map[string]string{}
		for _, p := range parameter.FindAllStringSubmatch(field, -1) {
			values[p[1]] = regexp.MustCompile(`\\(.)`).ReplaceAllString(p[2], "$1")
		}
		b, _ := json.Marshal(values)
		var c mpp.Challenge
		if err := json.Unmarshal(b, &c); err != nil {
			a.t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// challenge asks for one and fails unless the request is worth paying for.
func (r *ring) challenge(op, body string) mpp.Challenge {
	r.t.Helper()
	return r.post(op, body).is(402, api.PaymentRequired).challenges()[0]
}

// unissued is a challenge like c that was issued here and never paid.
func (r *ring) unissued(c mpp.Challenge) mpp.Challenge {
	c.Expires = r.now().Add(time.Minute).UTC().Format(time.RFC3339)
	mpp.Keys{Current: challengeKey}.Sign(&c)
	return c
}

// sign answers a challenge for so many cents with a transaction that is valid
// for 25 seconds from now.
func (r *ring) sign(c mpp.Challenge, payer string, cents int64, changes ...func(*transaction)) string {
	r.t.Helper()
	r.mu.Lock()
	r.salt++
	tx := transaction{Challenge: c.ID, Payer: payer, Cents: cents, ValidBefore: r.now().Add(25 * time.Second).Unix(), Salt: fmt.Sprintf("signature-%d", r.salt)}
	r.mu.Unlock()
	for _, change := range changes {
		change(&tx)
	}
	payload, err := json.Marshal(tx)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.present(mpp.Credential{Challenge: c, Payload: payload}, tx.Salt)
}

// present spells a credential as a header field, and remembers what of it must
// not be seen anywhere.
func (r *ring) present(c mpp.Credential, secrets ...string) string {
	r.t.Helper()
	header, err := c.Header()
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets = append(append(r.secrets, strings.TrimPrefix(header, "Payment "), string(c.Payload)), secrets...)
	return header
}

// join brings a member into the ring by a payment.
func (r *ring) join(body, payer string) answer {
	r.t.Helper()
	return r.post(paid.OpRegister, body, r.sign(r.challenge(paid.OpRegister, body), payer, 100)).is(201, "")
}

// held is a request that has not been answered yet.
type held struct {
	r    *ring
	done chan answer
}

// begin sends a request and does not wait for the answer.
func (r *ring) begin(c paid.Call) *held {
	h, s := &held{r, make(chan answer, 1)}, r.service
	r.clients.Go(func() { h.done <- r.handleBy(s, c) })
	return h
}

// answered says whether there is an answer. Call [synctest.Wait] before.
func (h *held) answered() bool { return len(h.done) > 0 }

func (h *held) wait() answer {
	h.r.t.Helper()
	return <-h.done
}

// ToSign lets the wallets of browsers prove themselves, too.
func (signer) ToSign(c mpp.Challenge, account [20]byte) (*mpp.ToSign, error) {
	cred, err := mpp.Unsigned(c, map[string]string{"signature": ""}, "")
	return &mpp.ToSign{Account: string(account[19:]), Chain: mpp.ChainOf(7), Credential: cred}, err
}

// A 402 says what a wallet signs if the request names the wallet's account, and only then;
// what cannot be signed by one is offered as ever.
func TestAChallengeForAWallet(t *testing.T) {
	inOwnedRing(t, func(t *testing.T, o *owned) {
		ask := func(op, slug, body, account string) answer {
			return o.handle(paid.Call{Operation: op, Slug: slug, Body: []byte(body), WalletAccount: account})
		}
		const change, by = `{"description":"Counts"}`, "0x000000000000000000000000000000000000002A"
		a := ask(paid.OpChange, "ada", change, by).is(402, api.PaymentRequired)
		wallet, _ := json.Marshal(a.member("offers").([]any)[0].(map[string]any)["wallet"])
		var sign struct {
			Account    string
			Chain      mpp.Chain
			Credential mpp.Credential
		}
		if err := json.Unmarshal(wallet, &sign); err != nil {
			t.Fatal(err)
		}
		asked := a.challenges()[0]
		asked.Description = ""
		if sign.Account != "*" || sign.Chain.ID != "0x7" || sign.Chain.RPC != nil || sign.Credential.Challenge != asked {
			t.Errorf("%s", wallet)
		}
		for _, other := range []answer{ask(paid.OpChange, "ada", change, ""), ask(paid.OpBid, "", fund, by)} {
			if other.is(402, api.PaymentRequired); strings.Contains(string(other.Body), `"wallet"`) {
				t.Errorf("%s", other.Body)
			}
		}
		for _, wrong := range []string{"0x", "0X" + by[2:], by[2:], by + "," + by, "did:pkh:eip155:1:" + by, "<script>", "0x0000000000000000000000000000000000000000"} {
			for _, op := range []string{paid.OpChange, paid.OpBid} {
				o.unchanged(wrong, func() { ask(op, "ada", change, wrong).is(422, api.InvalidRequest) })
			}
		}
	})
}
