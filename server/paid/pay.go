package paid

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
	"webring/server/pay/x402"
)

// Handle answers one call. It waits for the outcome of a payment that was sent, until a
// short time after the end of the payment's validity. ctx does not end that wait: work on
// a credential does not depend on the connection that brought it.
func (s *Service) Handle(ctx context.Context, c Call) Answer {
	c.about = &about{began: s.Now(), credential: c.OldPayment || len(c.Authorization)+len(c.PaymentSignature) > 0}
	c.op, c.digest = s.operations[c.Operation], c.bodyDigest()
	a, err := s.handle(&c)
	if why, ok := errors.AsType[*Problem](err); ok && why.Code.Status() == http.StatusPaymentRequired {
		a, err = s.offer(ctx, &c, why)
	}
	if err != nil {
		a = s.problem(err)
	}
	s.x402Response(&c, &a)
	s.recordAnswer(&c, a.problem)
	return a
}

func (s *Service) handle(c *Call) (a Answer, err error) {
	switch {
	case c.op.parse == nil:
		return a, unconfigured
	case !c.Secure && (len(s.Methods) > 0 || c.op.owner):
		return a, &Problem{Code: api.TLSRequired, Detail: "Payments need TLS. Use https. Nothing was charged."}
	case c.IdempotencyKey != "" && !idempotencyKey.MatchString(c.IdempotencyKey):
		return a, &Problem{Code: api.InvalidIdempotencyKey,
			Detail: "An Idempotency-Key has 16 to 255 visible ASCII characters, so that no two clients choose the same by chance. Send a random one, such as a UUID."}
	case c.WalletAccount != "" && (core.AccountOf(c.WalletAccount) == core.Account{} || !strings.HasPrefix(c.WalletAccount, "0x")):
		return a, errWallet
	case !c.op.owner && len(s.Methods) == 0:
		return a, errPay // a wrong request is told what is wrong, others that nothing can be paid
	case s.Ledger.Stuck() != nil && c.about.credential && !c.op.owner: // what the ledger knows of it cannot be read
		return a, errUndecided
	case s.Ledger.Stuck() != nil:
		return a, errUnavailable
	}
	if c.Operation == OpClaim {
		if account, token, err := form.ParseClaim(c.Body, isToken); err == nil && token == "" {
			return s.offerToken(c, account)
		}
	}
	if c.op.owner {
		c.PaymentSignature, c.OldPayment = nil, false // it proves nothing
	}
	cred, found, err := c.credential()
	c.about.credential, c.about.accepted = found || err != nil, c.accepted
	switch {
	case errors.Is(err, mpp.ErrMultiple):
		return a, &Problem{Code: api.MultipleCredentials, Detail: "The request has several payment credentials. Send exactly one. Nothing was charged."}
	case errors.Is(err, mpp.ErrTooLarge):
		return a, &Problem{Code: api.CredentialTooLarge, Detail: "A payment credential may have at most 16384 characters."}
	case errors.Is(err, x402.ErrVersion):
		return a, errOldPayment
	case errors.As(err, new(*Problem)):
		return a, err
	case err != nil:
		return a, &Problem{Code: api.MalformedCredential, Detail: "The payment credential cannot be read. " +
			"In Authorization it is base64url without padding of one JSON object with challenge and payload."}
	case !found && c.op.owner:
		return a, errProve
	case !found:
		return a, errPay
	case c.op.owner:
		return s.prove(c, cred)
	}
	return s.pay(c, cred)
}

var (
	errPay   = &Problem{Code: api.PaymentRequired, Detail: "Pay one of the offers in WWW-Authenticate and send the identical request again with the credential."}
	errProve = &Problem{Code: api.PaymentRequired, Detail: "Prove that you are the owner: sign the challenge in WWW-Authenticate with your account, and send the identical request again with the credential. Nothing is charged."}
)

// pay answers a request that carries a credential. Cheap checks come first. Before
// the challenge has proved to be our own, nothing happens that costs more than a hash and a
// look-up of its id:
//
//  1. the credential can be read (done by Handle)
//  2. its challenge was not consumed before; this comes before everything that may
//     have changed since, because a client that is told "expired" or "not issued
//     here" pays again
//  3. its challenge is one of ours, signed by any key that was ever in use; this is computed
//     first, because the second check tells others less
//  4. the transaction in it pays exactly what the challenge asks for
//  5. the challenge asks what this route would ask for this body, in time
//
// A credential that fails the first, third or fourth is no payment to this ring. The payment of
// one that fails the fifth, or is refused before its reservation, may have been made already,
// so its network is asked before the refusal. From its claim on it is in held.go.
func (s *Service) pay(c *Call, cred mpp.Credential) (Answer, error) {
	ours := cred.Challenge.Intent == c.intent() && s.keys.Load().Signed(cred.Challenge)
	if ours {
		c.about.id = cred.Challenge.ID
	}
	if r, err := s.consumed(c, cred.Challenge.ID, ours); err != nil {
		return Answer{}, err
	} else if r != nil {
		return s.durable(s.stored(r))
	}
	w, err := s.admit(c, cred, ours)
	if err != nil {
		method := OtherMethod
		if n := s.network(cred.Challenge.Method); n != nil {
			method = n.Name()
		}
		s.Ended(Ended{Operation: c.Operation, Method: method, Outcome: OutcomeRefused})
		return Answer{}, err
	}
	return s.begin(c, w)
}

// admit reads the payment of a credential. One that may not be sent any more is still work,
// see [work.refusal].
func (s *Service) admit(c *Call, cred mpp.Credential, ours bool) (*work, error) {
	ch, n := cred.Challenge, s.network(cred.Challenge.Method)
	switch {
	case ours && s.Prover != nil && ch.Request == s.Prover.Request(): // it asks for no payment
		return nil, errOtherRequest
	case n == nil && ours:
		return nil, foreign(ch)
	case n == nil:
		return nil, &Problem{Code: api.UnsupportedMethod, Detail: "This ring does not take this payment method. Send the request without a credential to see its offers. Nothing was charged."}
	case !ours:
		return nil, refusal(api.InvalidChallenge, "This ring did not issue the challenge in the credential. Pay the new one. Nothing was charged.")
	case !c.asOffered(n):
		return nil, refusal(api.InvalidChallenge, "The member accepted of the payment is not an offer of this ring. Pay one of the new offers. Nothing was charged.")
	}
	payment, err := n.Decode(cred)
	if no, ok := errors.AsType[*mpp.Rejection](err); ok && no.Code == mpp.CodeUnapplied {
		return nil, foreign(ch)
	} else if ok && no.Code == mpp.CodeMalformed && c.accepted != nil {
		return nil, errNoPayment
	} else if ok {
		return nil, rejection(no)
	}
	if err != nil {
		return nil, err
	}
	c.payer = payment.Payer
	c.about.network, c.about.payment, c.about.cents = n.Network(), &payment, payment.Cents
	w := &work{network: n, client: c.Client, began: c.about.began, held: true, stopWaiting: make(chan struct{}), done: make(chan struct{}),
		keys: []string{challengeKey(ch.ID), payment.ReplayKey}, row: row{payment: payment, Reservation: ledger.Reservation{
			ID: ch.ID, Operation: c.Operation, Cents: payment.Cents, Payer: payment.Payer, Body: c.Body, BodyDigest: c.digest,
			Idempotency: c.idempotency(c.digest), Created: s.Now(), Request: c.Request,
		}}}
	w.ReplayKeys = w.keys
	w.claim.realm, w.claim.payee = ch.Realm == s.Realm, slices.Contains(n.payees, payment.Payee)
	if w.expires, err = ch.ExpiresAt(); err != nil { // no challenge of ours is without
		return nil, refusal(api.InvalidChallenge, "The challenge in the credential has no valid expiry. Pay the new one. Nothing was charged.")
	}
	w.order, w.refusal = s.answered(c, ch, w)
	if w.claim.request = w.order != nil; w.claim.request {
		if w.Pinned, err = json.Marshal(w.order); err != nil {
			return nil, err
		}
		w.order.subject(&w.Reservation)
	}
	if w.refusal == nil {
		w.payment = lapses(w.payment, s.Now())
	}
	w.ValidBefore, w.Endless = w.payment.ValidBefore, w.payment.Outlives()
	if n.PaysGas() || w.payment.Outlives() {
		w.Reservation.Client = c.Client
	}
	w.brought = w.Reservation
	return w, nil
}

func refusal(code api.Code, detail string) *Problem { return &Problem{Code: code, Detail: detail} }

func rejection(r *mpp.Rejection) *Problem {
	return &Problem{Code: api.Code(r.Code), Reason: r.Reason, Detail: sentence(r.Detail)}
}

// sentence makes one of the detail of a rejection.
func sentence(detail string) string {
	return strings.ToUpper(detail[:1]) + detail[1:] + "."
}

// foreign is the answer to a credential for a challenge of ours on a network, or in a
// token, that is not configured any more. Nothing can be asked about its payment.
func foreign(ch mpp.Challenge) *Problem {
	return &Problem{Code: api.PaymentUnapplied, More: map[string]any{"reference": ch.ID},
		Detail: "The challenge of this credential names a network or token that this ring no longer takes. If you paid it, do not pay again: give the operator the transaction and the reference. If you did not, send the request without a credential."}
}

// answered gives the order that ch, a challenge of ours, was issued for, and the reason why
// its payment may not be sent any more. The order is nil if ch was issued for another
// request, or if its body is not accepted any more.
func (s *Service) answered(c *Call, ch mpp.Challenge, w *work) (purchase, *Problem) {
	mismatch := refusal(api.InvalidChallenge, "The challenge in the credential was issued for another request. Send that request, or pay the new challenge. Nothing was charged.")
	pinned := map[string]string{}
	if err := mpp.DecodeJSON(ch.Opaque, &pinned); err != nil || pinned[pinOperation] != c.Operation || ch.Digest != w.BodyDigest {
		return nil, mismatch
	}
	w.Member = pinned[pinMember]
	w.claim.issued = strings.HasPrefix(pinned[pinNonce], s.issuer)
	read, err := c.op.parse(c, nil, pinned)
	if err != nil || read.cents() != w.payment.Cents {
		// The rules for bodies have changed since.
		return nil, errUnreadable
	}
	o := read.(purchase)
	switch {
	case ch.Realm != s.Realm:
		return o, refusal(api.InvalidChallenge, errConfiguration.Detail)
	case !s.keys.Load().Verify(ch), w.payment.Payee != w.network.Payee():
		return o, errConfiguration
	}
	now := s.Now()
	no := w.network.InTime(w.payment, now, w.expires)
	if no == nil {
		return o, nil
	}
	// The time here shows a client that its clock is wrong.
	detail := no.Detail + "; the time here is " + now.UTC().Format(time.RFC3339)
	if no.Code == mpp.CodeExpired {
		detail += ", and the challenge was good until " + w.expires.UTC().Format(time.RFC3339)
	}
	return o, &Problem{Code: api.Code(no.Code), Reason: no.Reason, Detail: sentence(detail) + " Nothing was charged; pay the new one."}
}

// consumed returns the reservation with the stored answer for a credential if its challenge was
// claimed or reserved before, or refuses it. It returns nil for any other credential.
//
// The refusal is 409 while the first request is held, and once a 2xx was given out. In
// between, after a 503 or the end of the process, the credential gets the answer of its
// payment. With an Idempotency-Key it gets that any number of times.
//
// If the challenge is not ours, or its key is not known any more, the answer only says
// what became of the payment: a client that merely knows the id does not get the stored
// answer, and does not take it away from the client that paid.
func (s *Service) consumed(c *Call, id string, ours bool) (*ledger.Reservation, error) {
	// Under one lock: work could end between a look at s.work and one at the ledger.
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.work[challengeKey(id)]
	held := w != nil && w.held
	r, err := s.reservation(func(v *ledger.View) (*ledger.Reservation, error) { return v.ByReplayKey(challengeKey(id)) })
	switch {
	case err != nil || r == nil && w == nil:
		return nil, err
	case r == nil && held:
		return nil, s.reused(&w.brought)
	case r == nil: // not reserved yet, and its request waits no longer
		return nil, errPending
	}
	return r, s.mayRepeat(c, r, held, ours)
}

// mayRepeat returns nil if c gets the stored answer of r, with whose credential it came again,
// and otherwise why not. held says that the first request is still waiting. The caller holds mu.
func (s *Service) mayRepeat(c *Call, r *ledger.Reservation, held, ours bool) error {
	at, err := rowOf(r)
	if err != nil {
		return err
	}
	to := other
	if key := c.idempotency(r.BodyDigest); ours && key != "" && key == r.Idempotency {
		switch {
		case c.digest != r.BodyDigest:
			return errOtherBody
		case r.State == ledger.Applied:
			to = again
		}
	}
	if same := r.Operation == c.Operation && c.digest == r.BodyDigest; !held && same && (r.State != ledger.Applied || to == other && ours && s.give(r)) {
		to = again
	}
	if no := at.answer(to, s.base()); no != nil {
		return no
	}
	return nil
}

// durable returns an answer that was read from the ledger once it is on disk: a view sees
// the writer's work before that, and an empty turn ends after it.
func (s *Service) durable(a Answer, err error) (Answer, error) {
	if s.Ledger.Do(context.Background(), func(*ledger.Tx) error { return nil }) != nil {
		return Answer{}, errPending
	}
	return a, err
}

func challengeKey(id string) string { return "challenge:" + id }

// stored is the answer in an applied reservation.
func (s *Service) stored(r *ledger.Reservation) (Answer, error) {
	if r.Response == nil || r.Response.Body == nil { // it was lost, or held the member's words
		return Answer{}, s.reused(r)
	}
	return Answer{Status: r.Response.Status, Header: r.Response.Header, Body: r.Response.Body}, nil
}

// give notes that the 2xx of r goes to a client, and returns whether this is the first
// time. The credential then counts as consumed. The ledger stores that a moment later: if
// the process ends in between, the answer is given again, which is harmless. The caller
// holds mu.
func (s *Service) give(r *ledger.Reservation) bool {
	if r.Delivered || s.given[r.ID] {
		return false
	}
	s.given[r.ID] = true
	if s.ctx.Err() != nil {
		return true
	}
	s.group.Go(func() {
		err := s.update(context.Background(), r.ID, func(_ *ledger.Tx, r *ledger.Reservation) error {
			r.Delivered = true
			return nil
		})
		if err != nil {
			s.Log.Error("an answer that was delivered is not noted as such", "payment", r.ID, "err", err)
			return
		}
		s.mu.Lock()
		delete(s.given, r.ID)
		s.mu.Unlock()
	})
	return true
}

// A client that has lost its credential repeats its request with the same Idempotency-Key,
// and must not pay twice. A request with the credential always gets its answer.

// idempotencyKey is the form of a key. An unpaid request names no payer, so keys must be
// long enough that no two clients choose the same by chance.
var idempotencyKey = regexp.MustCompile(`^[!-~]{16,255}$`)

// idempotency binds an Idempotency-Key to the operation, the member and the body it came with, so
// that the key itself is never stored.
func (c *Call) idempotency(digest string) string {
	if c.IdempotencyKey == "" {
		return ""
	}
	what := c.Operation
	if c.Slug != "" {
		what += "/" + c.Slug
	}
	h := sha256.Sum256([]byte(what + "\x00" + digest + "\x00" + c.IdempotencyKey))
	return hex.EncodeToString(h[:])
}

// earlier gives the request that was made under an Idempotency-Key and blocks it, nil for
// none: one of the account payer, or of any if that is "".
func (s *Service) earlier(v *ledger.View, key, payer string) (*ledger.Reservation, error) {
	if key == "" {
		return nil, nil
	}
	some, err := v.ByIdempotency(key)
	for _, r := range some {
		// An open payment blocks its key however long it takes, a failed one only if its money came,
		// or can still come.
		came := r.State == ledger.Applied || r.Outcome == mpp.Settled.String() || r.Outcome == outcomeGivenUp
		if blocks := r.State == ledger.Reserved || came && risk.WithinADay(r, s.Now()); blocks && (payer == "" || payer == r.Payer) {
			return r, err
		}
	}
	return nil, err
}

// undecided says whether p leaves open what became of a payment.
func undecided(p *Problem) bool { return p == errPending || p == errUndecided }

var errOtherBody = form.Invalid(api.InvalidRequest, "", "this Idempotency-Key was used with another body; send the body it was used with, or another key")

// Problem is what a refused request is answered with.
type Problem = form.Problem

var (
	errUnavailable = &Problem{Code: api.PaymentsUnavailable, RetryAfter: 10,
		Detail: "Payments are unavailable right now. Try again later. Nothing was charged."}
	// errNotTaken is that for a payment of which its network says nothing.
	errNotTaken = &Problem{Code: api.PaymentsUnavailable, RetryAfter: 10,
		Detail: "Payments are unavailable right now, so this ring has not sent this payment. Do not pay again. Send the same request with the same credential later."}
	errPending = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: "A payment for this request is being settled, and its outcome is not known yet. Do not pay again. Repeat this request later."}
	// errUndecided is for a payment that was refused and may have been made all the same.
	errUndecided = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: "This payment is not taken now, and it is not known yet whether it was made before. Do not pay again. Send the same request with the same credential later."}
	errAllEndless = &Problem{Code: api.PaymentPending, RetryAfter: lapsedRetry,
		Detail: "Too many transactions without a validBefore, or with one more than 90 seconds ahead, are open. Repeat this request later, or sign with a nearer validBefore, or pay from an account that has paid here and has no such transaction that was not mined. Nothing was sent or charged by it."}
	errManyOpen = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: fmt.Sprintf("This account has %d payments in progress, which is the most it may have. Repeat this request later. Nothing was sent or charged by it.", maxOpenPerPayer)}
	errManyEndless = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: fmt.Sprintf("This account has %d transactions without a validBefore, or with one more than 90 seconds ahead, in progress, which is the most it may have. Repeat this request later, or sign with a nearer validBefore. Nothing was sent or charged by it.", maxEndlessPerPayer)}
	errFirstOpen = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: "A payment of this account is being settled. An account that has never paid here may have one at a time by this method. Repeat this request later. Nothing was sent or charged by it."}
	errAllOpen = &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
		Detail: "Too many payments are being settled. Repeat this request later. Nothing was sent or charged by it."}
	errConfiguration = &Problem{Code: api.InvalidChallenge,
		Detail: "This ring has changed its configuration since it issued the challenge in the credential. Pay the new one. Nothing was charged."}
	errUnreadable = &Problem{Code: api.InvalidRequest,
		Detail: "This ring no longer takes the request that the challenge was issued for. Send it without a credential to learn what is wrong. Nothing was charged."}
	errMismatched = &Problem{Code: api.PaymentMismatch,
		Detail: "The transaction was mined and did not pay this ring, so it has no effect. Find out why before you pay again."}
	errInternal = &Problem{Code: api.Internal, Detail: "Something failed here that should not have. If you sent a credential, send the same request with it again before you pay anew."}
)

// refusal gives err as what a caller sees, nil for none. One that is not a [Problem] is a
// plain 500.
func (s *Service) refusal(err error) (p *Problem) {
	if err != nil && !errors.As(err, &p) {
		s.Log.Error("paid operation failed", "err", err)
		p = errInternal
	}
	return p
}

// problem renders the document of err.
func (s *Service) problem(err error) Answer {
	p := s.refusal(err)
	more, err := p.Members()
	if err != nil {
		s.Log.Error("problem members", "err", err)
	}
	return s.document(p, more)
}

// document is the answer that shows p, with further members from more, as
// [api.AppendProblem] takes them, instead of those of p.
func (s *Service) document(p *Problem, more []byte) Answer {
	base := s.base()
	a := Answer{Status: p.Code.Status(), problem: p, Header: append(make([][2]string, 0, 4),
		[2]string{"Content-Type", "application/problem+json"},
		[2]string{"Cache-Control", "no-store"},
	)}
	if a.Status == http.StatusPaymentRequired {
		a.Header = append(a.Header, [2]string{"Link", "<" + base + `/llms.txt>; rel="help"; type="text/plain"`})
	}
	if p.RetryAfter > 0 {
		a.Header = append(a.Header, [2]string{"Retry-After", strconv.Itoa(p.RetryAfter)})
	}
	if p.Reason != "" {
		more = append(append(append(more, `,"reason":"`...), p.Reason...), '"')
	}
	// The buffer has room for escapes, which are rare.
	a.Body = bytes.Clone(api.AppendProblem(make([]byte, 0, 1024), base, p.Code, p.Detail, more))
	return a
}

// base is the ring's base URL.
func (s *Service) base() (base string) {
	s.Ledger.View(func(v *ledger.View) {
		if r := v.State().Rules(); r != nil {
			base = r.BaseURL
		}
	})
	return base
}
