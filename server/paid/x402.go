package paid

import (
	"errors"
	"strings"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/pay/mpp"
	"webring/server/pay/x402"
)

// An x402 payment is one of a payment method of this ring in another envelope: its offer
// holds a challenge that binds the request, and what it signs is decoded, settled and
// recovered by the method. Only two things differ. The answers have a field of their own.
// And what is signed names no challenge, so anyone that has read the signature, from the chain
// for example, can present it for a request of their own. So an x402 payment that was made
// before this ring has reserved it has no effect, however it came to be made: it is kept
// for the operator.

// x402Offer gives what an x402 client can pay instead of ch; ok is false if that is nothing.
func (s *Service) x402Offer(n *network, ch mpp.Challenge) (offer x402.Offer, ok bool) {
	if offer, ok = n.Exact(ch.Request); !ok {
		return offer, false
	}
	ch.Intent, ch.Description = x402.Intent, ""
	s.keys.Load().Sign(&ch)
	offer.Extra.Challenge = ch
	return offer, true
}

// credential reads the credential of a paid request, in either envelope. It fails as
// [mpp.ParseAuthorization] does.
func (c *Call) credential() (cred mpp.Credential, found bool, err error) {
	cred, found, err = mpp.ParseAuthorization(c.Authorization)
	p, also, x402Err := x402.Parse(c.PaymentSignature)
	switch {
	case found && also:
		return mpp.Credential{}, true, mpp.ErrMultiple
	case !also:
		return cred, found, err
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
	return !ok || *c.accepted == offer
}

// x402Response adds to the refusal of an x402 payment what its clients read of it.
func (a *Answer) x402Response(of *about) {
	p := a.problem
	if of.accepted == nil || of.id == "" || p == nil {
		return // what came was no offer of ours, or the answer is no problem
	}
	r := x402.Response{Network: of.accepted.Network, ErrorReason: p.Reason, ErrorMessage: p.Detail}
	if of.payment != nil {
		_, r.Payer = account(of.payment.Payer)
	}
	if p.Code == api.PaymentPending {
		r.ErrorReason = x402.Pending
	} else if r.ErrorReason == "" {
		r.ErrorReason = string(p.Code)
	}
	r.Transaction, _ = p.More["reference"].(string)
	a.Header = append(a.Header, [2]string{x402.ResponseField, r.Header()})
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

// ReasonForeign is the reason of an x402 payment that was made before this ring has
// reserved it.
const ReasonForeign = "it was on the chain before it was presented here, where anybody can read it"

// ReasonElsewhere is the reason of a payment that was kept like that, and that its payer has
// then presented in another way.
const ReasonElsewhere = "it took effect by another credential"

// keptKey is the replay key of a payment that is kept for the operator because it was made
// before this ring has reserved it. It is not the payment's own: a stranger who presents an
// authorisation must not take its effect from the credential that it was signed for.
func keptKey(p mpp.Payment) string { return "kept:" + p.ReplayKey }

// explainKept notes that a payment which was kept has taken effect.
func explainKept(tx *ledger.Tx, p mpp.Payment) error {
	r, err := tx.View().ByReplayKey(keptKey(p))
	if errors.Is(err, ledger.ErrNoReservation) {
		return nil
	}
	if err != nil {
		return err
	}
	r.Reason = ReasonElsewhere
	return tx.Update(r)
}
