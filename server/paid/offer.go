package paid

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/pay/mpp"
	"webring/server/pay/x402"
)

// The names in a challenge's opaque parameter that belong to every operation.
const (
	pinNonce     = "nonce"
	pinOperation = "op"
)

// way is one way to answer a challenge: a payment network, or the prover of owners.
type way struct {
	network *network // nil for the prover
	toSign  func(c mpp.Challenge, account [20]byte) (*mpp.ToSign, error)
	method  string
	life    time.Duration
	asks    terms
}

// offer answers a request without a usable credential: with a 402, the problem why, and a
// challenge for each way to answer it. It fails with the reason why a payment, or a proof,
// would be refused. The document of the 402 has the offers decoded, and says when the first
// of them expires.
func (s *Service) offer(ctx context.Context, c *Call, why *Problem) (a Answer, err error) {
	x := &candidate{key: c.idempotency(c.digest)}
	var failed []ledger.Failure
	s.Ledger.View(func(v *ledger.View) {
		if x.order, err = c.op.parse(c, v.State().Rules(), nil); err == nil {
			failed = failures(v, x.order)
		}
	})
	// Work that is not claimed any more is in the ledger, so the claims come first.
	if err == nil {
		err = s.pass(offering, x, nil)
	}
	o := x.order
	if no, ok := errors.AsType[*Problem](err); ok && no.Code == api.PaymentPending {
		told := *no // the site can say now who comes next
		told.Detail += s.howToBeNamed(o, c.account())
		err = &told
	}
	if err != nil {
		return a, err
	}

	// What it can be answered with, and what the challenge is to promise.
	told := *why
	told.RetryAfter = 0
	var ways []way
	if c.op.owner {
		ways = []way{{toSign: s.Prover.ToSign, method: s.Prover.Method(), life: ChallengeLife, asks: readTerms(s.Prover.Request(), nil)}}
		err = s.checkMachine()
	} else {
		ways, err = s.waysToPay(c, o.cents(), &told)
	}
	if err == nil {
		err = o.decide(ctx, c.Client)
	}
	if err != nil {
		return a, err
	}
	pinned, description, words := o.pin(), o.describe(), ""
	pinned[pinOperation] = c.Operation
	if c.op.owner {
		pinned[pinMember], words = c.Slug, description
		description += ": nothing is to be paid"
	}

	// The challenges, in the order that the client likes.
	now, shortest := s.Now(), ChallengeLife
	offers := make([]mpp.Offer, 0, len(ways))
	for _, w := range ways {
		offers = append(offers, mpp.Offer{Method: w.method, Intent: mpp.Charge})
	}
	var lines [][2]string
	var exact []x402.Offer
	var decoded []byte
	for _, x := range mpp.Accept(c.AcceptPayment, offers) {
		w := ways[slices.IndexFunc(ways, func(w way) bool { return w.method == x.Method })]
		shortest = min(shortest, w.life)
		pinned[pinNonce] = s.nonce()
		opaque, err := mpp.EncodeJSON(pinned)
		if err != nil {
			return a, err
		}
		ch := mpp.Challenge{Realm: s.Realm, Method: w.method, Intent: mpp.Charge, Request: w.asks.request,
			Expires: expiry(now, w.life), Digest: c.digest, Opaque: opaque, Description: description}
		s.keys.Load().SignWords(&ch, words)
		lines = append(lines, [2]string{"WWW-Authenticate", ch.Header()})
		if decoded, err = c.appendOffer(decoded, w, &ch); err != nil {
			return a, err
		}
		if w.network == nil {
			continue
		}
		if also, ok := s.x402Offer(w.network, ch, now); ok {
			exact = append(exact, also)
			shortest = min(shortest, time.Duration(also.MaxTimeoutSeconds)*time.Second)
		}
	}
	if len(exact) > 0 {
		required := x402.Required{Version: x402.Version, Error: told.Detail, Accepts: exact,
			Resource: x402.Resource{URL: s.base() + "/api/" + c.Operation, Description: description, MIMEType: "application/json"}}
		if says := s.Bazaar(c.Operation); says != nil {
			required.Extensions = map[string]json.RawMessage{x402.Bazaar: says}
		}
		field, err := required.Header()
		if err != nil {
			return a, err
		}
		lines = append(lines, [2]string{x402.RequiredField, field})
	}
	c.about.cents = o.cents()
	more := api.AppendUSD(append(make([]byte, 0, 640), `,"amount_usd":"`...), o.cents())
	more = append(append(append(more, `","expires":"`...), expiry(now, shortest)...), `","offers":[`...)
	if n := len(failed); n > 0 && !s.vouchedFor(ctx, c, o) {
		told.Detail += " " + s.afterFailure(o, c.account(), failed[n-1].At.Add(ledger.FailurePeriod))
	}
	a = s.document(&told, append(append(more, decoded...), ']'))
	a.Header = append(a.Header, lines...)
	return a, nil
}

// waysToPay gives the networks on which c can pay now: those that are ready, and that do not
// refuse the account of c because of waste. The account is that of its credential, or that which
// it names for its wallet. If it names none, told says why some networks are left out.
func (s *Service) waysToPay(c *Call, cents int64, told *Problem) (ways []way, err error) {
	if len(s.networks) == 0 {
		return nil, unconfigured
	}
	var soonest *Problem // of those that refuse c
	for _, n := range s.networks {
		if !n.offered() {
			continue
		}
		x := &candidate{payer: c.payer, n: n}
		if x.payer == "" && c.WalletAccount != "" {
			x.payer = n.Payer(core.AccountOf(c.WalletAccount))
		}
		if x.payer != "" && n.PaysGas() {
			pool, err := s.pool(n, x.payer)
			if err != nil {
				return nil, err
			}
			x.paid = pool.Paid
		}
		switch no, ok := errors.AsType[*Problem](s.pass(naming, x, nil)); {
		case ok && no == errUnavailable:
			continue
		case ok:
			if soonest == nil || no.RetryAfter < soonest.RetryAfter {
				soonest = no
			}
			continue
		}
		asks, err := n.requests.get(cents)
		if err != nil {
			return nil, err
		}
		ways = append(ways, way{n, n.ToSign, n.Name(), n.Life(), asks})
	}
	switch {
	case len(ways) == 0 && soonest == nil:
		return nil, errUnavailable
	case len(ways) == 0:
		// Its account may be able to pay in another way, so this is no 402.
		return nil, &Problem{Code: api.PaymentsUnavailable, Reason: soonest.Reason, RetryAfter: soonest.RetryAfter, Detail: soonest.Detail}
	case soonest != nil && c.payer == "" && c.WalletAccount == "":
		told.Detail += " Accounts that have never paid here get fewer offers right now. If yours has paid, name it in the field Wallet-Account."
	}
	return ways, nil
}

// expiry is the last instant of a life that begins now, as challenges have it.
func expiry(now time.Time, life time.Duration) string {
	return now.Add(life).UTC().Truncate(time.Second).Format(time.RFC3339)
}

// nonce makes each challenge unique, also those for equal requests in one second, and shows this
// process that it has issued the challenge itself.
func (s *Service) nonce() string { return s.issuer + random(12) }

// random gives so many random bytes, a multiple of 3, as text.
func random(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// terms are what a challenge asks for: its request parameter, and the same as members of a
// JSON object, for the document of the 402.
type terms struct{ request, members string }

// readTerms decodes the request parameter of a method, or of a proof, for which m is nil.
func readTerms(request string, m Method) terms {
	var asked struct {
		Amount        string `json:"amount"`
		Currency      string `json:"currency"`
		Recipient     string `json:"recipient"`
		MethodDetails struct {
			ChainID uint64 `json:"chainId"`
		} `json:"methodDetails"`
	}
	if err := mpp.DecodeJSON(request, &asked); err != nil {
		return terms{request: request} // only methods of tests ask for something else
	}
	document := map[string]any{"amount": asked.Amount, "currency": asked.Currency, "recipient": asked.Recipient,
		"network": fmt.Sprintf("eip155:%d", asked.MethodDetails.ChainID)}
	if m != nil {
		document["network"] = api.ChainID(m.Network())
		if d := m.TokenDomain(); d != nil {
			document["domain"] = d
		}
	}
	members, err := json.Marshal(document)
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return terms{request, "," + string(members[1:len(members)-1])}
}

// requests caches the terms of a method by amount. They depend on nothing else, and most
// challenges are for a few amounts: a 402 takes 10 µs so, and 19 µs without.
type requests struct {
	mu     sync.Mutex
	by     map[int64]terms // by cents
	method Method
}

// maxRequests bounds the cache.
const maxRequests = 1024

func (r *requests) get(cents int64) (terms, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t, known := r.by[cents]; known {
		return t, nil
	}
	text, err := r.method.Request(cents)
	if err != nil {
		return terms{}, err
	}
	t := readTerms(text, r.method)
	if len(r.by) >= maxRequests {
		clear(r.by)
	}
	r.by[cents] = t
	return t, nil
}

// errWallet refuses a request that names no account for what a wallet is to sign.
var errWallet = form.Invalid(api.InvalidRequest, "", "the field Wallet-Account must be one address: 0x and 40 hexadecimal digits")

// appendOffer appends a challenge as an element of the member offers of a 402: decoded, for
// clients that look at the document and not at the header. If the request names the account
// of a wallet that can answer it, the element says what the wallet is to sign.
func (c *Call) appendOffer(dst []byte, w way, ch *mpp.Challenge) ([]byte, error) {
	if len(dst) > 0 {
		dst = append(dst, ',')
	}
	dst = append(append(dst, `{"method":`...), api.AppendString(nil, ch.Method)...)
	dst = append(append(dst, `,"intent":"`...), ch.Intent...)
	dst = append(append(dst, '"'), w.asks.members...)
	dst = append(append(append(dst, `,"expires":"`...), ch.Expires...), '"')
	if c.WalletAccount == "" {
		return append(dst, '}'), nil
	}
	sign, err := w.toSign(*ch, core.AccountOf(c.WalletAccount))
	if err != nil {
		return nil, err
	}
	if sign == nil {
		return append(dst, '}'), nil
	}
	wallet, err := json.Marshal(sign)
	return append(append(append(dst, `,"wallet":`...), wallet...), '}'), err
}
