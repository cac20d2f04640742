package paid

import (
	"errors"
	"slices"
	"strings"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
	"webring/server/pay/x402"
)

// An x402 payment is one of a payment method of this ring in another envelope: its offer
// holds a challenge that binds the request, and what it signs is decoded, settled and
// recovered by the method. Two things differ. The answers have a field of their own.
// And what is signed names no challenge, so anyone that has read the signature, from the chain
// for example, can present it for a request of their own ([mpp.Payment.Bearer]). So an x402 payment that was made
// before this ring has reserved it has no effect, however it came to be made: it is kept
// for the operator.

// x402Offer gives what an x402 client can pay instead of ch, which was made now; ok is false if
// that is nothing. The offer holds for as long as it says.
func (s *Service) x402Offer(n *network, ch mpp.Challenge, now time.Time) (offer x402.Offer, ok bool) {
	if offer, ok = n.Exact(ch.Request); !ok {
		return offer, false
	}
	ch.Intent, ch.Description = x402.Intent, ""
	ch.Expires = expiry(now, time.Duration(offer.MaxTimeoutSeconds)*time.Second)
	s.keys.Load().Sign(&ch)
	offer.Extra.Challenge = ch
	return offer, true
}

// credential reads the credential of a paid request, in either envelope. It fails as
// [mpp.ParseAuthorization] does.
func (c *Call) credential() (cred mpp.Credential, found bool, err error) {
	cred, found, err = mpp.ParseAuthorization(c.Authorization)
	p, also, x402Err := x402.Parse(c.PaymentSignature)
	if !found && !also && c.OldPayment {
		also, x402Err = true, x402.ErrVersion
	}
	switch {
	case found && also:
		return mpp.Credential{}, true, mpp.ErrMultiple
	case !also:
		return cred, found, err
	case x402Err == mpp.ErrMalformed:
		return mpp.Credential{}, true, errNoPayment
	case x402Err != nil:
		return mpp.Credential{}, true, x402Err
	}
	c.accepted = &p.Accepted
	return p.Credential(), true, nil
}

// intent is that of the challenges which the credential of c may answer.
func (c *Call) intent() string {
	if c.accepted != nil {
		return x402.Intent
	}
	return mpp.Charge
}

// asOffered says whether the offer that an x402 client has paid is the one that was made. A
// challenge of ours decides what is paid; but a client that believes to have paid something
// else is told so before it is charged.
func (c *Call) asOffered(n *network) bool {
	if c.accepted == nil {
		return true
	}
	offer, ok := n.Exact(c.accepted.Extra.Challenge.Request)
	offer.Extra.Challenge = c.accepted.Extra.Challenge
	offer.MaxTimeoutSeconds = c.accepted.MaxTimeoutSeconds // what is signed has an end of its own
	return !ok || *c.accepted == offer
}

// Refusals of x402 payments that are not even read, by the status that the protocol has for them.
var (
	errNoPayment = &Problem{Code: api.Malformed, Detail: "The payment in " + x402.SignatureField + " cannot be read. It is base64 of one JSON object, not that object itself, with x402Version 2, " +
		"accepted, which is an offer in " + x402.RequiredField + ", unchanged, and payload, which is what was signed. Nothing was charged."}
	errOldPayment = &Problem{Code: api.UnsupportedMethod, Detail: "The payment is by version 1 of x402, and this ring takes version 2. Send the request without " + x402.OldField +
		". The 402 has its offers in " + x402.RequiredField + ", or, where that is missing, in WWW-Authenticate alone. Pay one and send the identical request with " + x402.SignatureField + ". Nothing was charged."}
)

// x402Response adds to the refusal of an x402 payment what its clients read of it.
func (s *Service) x402Response(c *Call, a *Answer) {
	p, of := a.problem, c.about
	if !c.presentsX402() || p == nil {
		return
	}
	r := x402.Response{ErrorReason: p.Reason, ErrorMessage: p.Detail, Network: s.x402Network(of.accepted)}
	if of.payment != nil {
		_, r.Payer = account(of.payment.Payer)
	}
	switch {
	case undecided(p):
		r.ErrorReason = x402.Pending
	case p == errNoPayment:
		r.ErrorReason = x402.InvalidPayload
	case p == errOldPayment:
		r.ErrorReason = x402.InvalidVersion
	case r.ErrorReason == "":
		r.ErrorReason = string(p.Code)
	}
	if reference, _ := p.More["reference"].(string); strings.HasPrefix(reference, "0x") { // others name no transaction
		r.Transaction = reference
	}
	a.Header = append(a.Header, [2]string{x402.ResponseField, r.Header()})
}

// presentsX402 says whether c presents a payment by x402, readable or not. A request of an owner
// is not paid for.
func (c *Call) presentsX402() bool {
	some := func(value string) bool { return strings.Trim(value, " \t,") != "" }
	return !c.op.owner && (c.OldPayment || slices.ContainsFunc(c.PaymentSignature, some))
}

// x402Network names the network of an x402 payment: that of its challenge or, if the payment is for none
// of ours, the first on which this ring makes such offers.
func (s *Service) x402Network(accepted *x402.Offer) string {
	some := s.networks
	if accepted != nil {
		if n := s.network(accepted.Extra.Challenge.Method); n != nil {
			some = []*network{n}
		}
	}
	for _, n := range some {
		if asks, err := n.requests.get(100); err == nil {
			if offer, ok := n.Exact(asks.request); ok {
				return offer.Network
			}
		}
	}
	if len(some) == 1 {
		return api.ChainID(some[0].Network())
	}
	return ""
}

// x402Receipt is the PAYMENT-RESPONSE field of an applied payment.
func x402Receipt(p mpp.Payment) [2]string {
	network, payer := account(p.Payer)
	return [2]string{x402.ResponseField, x402.Response{Success: true, Payer: payer, Transaction: p.Reference, Network: network}.Header()}
}

// account gives the chain and the address in the name of an account, "" for none.
func account(name string) (chain, address string) {
	name = strings.TrimPrefix(name, "did:pkh:")
	at := strings.LastIndexByte(name, ':')
	return name[:max(at, 0)], name[at+1:]
}

// keptKey is the replay key of a payment that is kept for the operator because it was made
// before this ring has reserved it. It is not the payment's own: a stranger who presents an
// authorisation must not take its effect from the credential that it was signed for.
func keptKey(p mpp.Payment) string { return "kept:" + p.ReplayKey }

// keep has w claim no more than what is kept of its payment, so that the credential that it was signed for is taken
// meanwhile. It returns false if that is claimed already.
func (s *Service) keep(w *work) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := keptKey(w.payment)
	if s.work[kept] != nil {
		return false
	}
	delete(s.work, w.payment.ReplayKey)
	w.keys = []string{challengeKey(w.ID), kept}
	w.ReplayKeys = w.keys
	s.work[kept] = w
	return true
}

// explainKept notes that a payment which was kept has taken effect.
func explainKept(tx *ledger.Tx, p mpp.Payment) error {
	r, err := tx.View().ByReplayKey(keptKey(p))
	if errors.Is(err, ledger.ErrNoReservation) {
		return nil
	}
	if err != nil {
		return err
	}
	kept, _ := step(row{Reservation: *r}, facts{accounts: ReasonElsewhere})
	return tx.Update(&kept.Reservation)
}
