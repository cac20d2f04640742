package paid

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
	"webring/server/pay/x402"
)

// The names in a challenge's opaque parameter that belong to every operation.
const (
	pinNonce     = "nonce"
	pinOperation = "op"
)

// offer answers a request without a usable credential: with a 402, the given problem and
// a challenge for each payment method that works now, or with the reason why a payment
// would be refused.
func (s *Service) offer(ctx context.Context, op operation, c Call, why *Problem) Answer {
	var rules *core.Rules
	s.Ledger.View(func(v *ledger.View) { rules = v.State().Rules() })
	o, err := op.read(c.Body, rules)
	if err != nil {
		return s.problem(err)
	}
	if c.IdempotencyKey != "" {
		if err := s.alreadyPaid(c); err != nil {
			return s.problem(err)
		}
	}
	s.named(ctx, c.Client, o, c.account())
	if err := s.check(o); err != nil {
		return s.problem(err)
	}
	networks, err := s.readyNetworks()
	ready := len(networks)
	if err == nil {
		networks, err = s.allowed(networks, c)
	}
	if err != nil {
		return s.problem(err)
	}
	if len(networks) < ready && c.payer == "" && c.WalletAccount == "" {
		told := *why
		told.Detail += " Fewer methods are offered now to accounts that have never paid here. One that has names itself in the field Wallet-Account."
		why = &told
	}
	if err := o.decide(ctx, c.Client); err != nil {
		return s.problem(err)
	}
	return s.challenge(c, o, networks, why)
}

// challenge writes the 402. Its document has the offers decoded, and says when
// the first of them expires.
func (s *Service) challenge(c Call, o order, networks []*network, why *Problem) Answer {
	var life time.Duration
	var note string
	s.Ledger.View(func(v *ledger.View) { life, note = s.challengeLife(v, o, c.account()) })
	now, shortest := s.Now(), life
	pinned := o.pin()
	pinned[pinOperation] = c.Operation
	description := o.describe()
	offers := make([]mpp.Offer, 0, len(networks))
	for _, n := range networks {
		offers = append(offers, mpp.Offer{Method: n.Name(), Intent: mpp.Charge})
	}
	offers = mpp.Accept(c.AcceptPayment, offers)
	for _, offer := range offers {
		shortest = min(shortest, s.network(offer.Method).Life())
	}
	more := append(make([]byte, 0, 640), `,"amount_usd":"`...)
	more = append(api.AppendUSD(more, o.cents()), `","expires":"`...)
	more = append(append(more, expiry(now, shortest)...), `","offers":[`...)
	told := *why
	told.Detail, told.RetryAfter = told.Detail+note, 0
	c.about.cents = o.cents()
	var lines [][2]string
	var exact []x402.Offer
	for _, offer := range offers {
		pinned[pinNonce] = nonce()
		opaque, err := mpp.EncodeJSON(pinned)
		if err != nil {
			return s.problem(err)
		}
		n := s.network(offer.Method)
		asked, err := n.requests.get(o.cents())
		if err != nil {
			return s.problem(err)
		}
		ch := mpp.Challenge{Realm: s.Realm, Method: offer.Method, Intent: offer.Intent, Request: asked.request,
			Expires: expiry(now, min(life, n.Life())), Digest: c.digest, Opaque: opaque, Description: description}
		s.keys.Load().Sign(&ch)
		lines = append(lines, [2]string{"WWW-Authenticate", ch.Header()})
		if more, err = c.appendOffer(more, n.Method, &ch, asked); err != nil {
			return s.problem(err)
		}
		if also, ok := s.x402Offer(n, ch); ok {
			exact = append(exact, also)
		}
	}
	if len(exact) > 0 {
		field, err := s.x402Required(c, o, why, exact)
		if err != nil {
			return s.problem(err)
		}
		lines = append(lines, field)
	}
	a := told.document(s.base(), append(more, ']'))
	a.Header = append(a.Header, lines...)
	return a
}

// expiry is the last instant of a life that begins now, as challenges have it.
func expiry(now time.Time, life time.Duration) string {
	return now.Add(life).UTC().Truncate(time.Second).Format(time.RFC3339)
}

// nonce makes each challenge unique, also those for equal requests in one second.
func nonce() string {
	b := make([]byte, 16)
	rand.Read(b) // never fails
	return string(base64.RawURLEncoding.AppendEncode(make([]byte, 0, 22), b))
}
