package paid_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/paid"
	"webring/server/pay/mpp"
	"webring/server/pay/x402"
)

// network is a payment network in memory. It moves money when a transaction is
// mined and at no other time, so a test can say who was charged, whatever the
// service believes.
type network struct {
	mu        sync.Mutex
	now       func() time.Time
	skew      time.Duration                            // of its blocks from now
	payee     string                                   // whom what is sent from now on pays
	down      bool                                     // nobody answers, but what is sent still arrives
	hanging   bool                                     // asked for its clock, it neither answers nor refuses
	block     time.Duration                            // between two blocks; 0: there is always a newer one
	frozen    time.Time                                // of its newest block, once it makes no more
	slow      time.Duration                            // how long it takes to answer for its clock
	silent    string                                   // the question that nobody answers
	stuck     string                                   // the question to which there is neither an answer nor a refusal
	patience  int                                      // how many transfers it tells of before it is silent about blocks; 0: any number
	backwards bool                                     // tells of the newest transfer first
	gas       bool                                     // the service pays for what it sends
	exact     bool                                     // x402 clients can pay, too
	nameless  bool                                     // the token names no payments
	submitted map[string]bool                          // by reference, where it does
	step      func()                                   // called when the service has stored a submission
	oldest    time.Time                                // of the blocks that it still has
	simulate  func(context.Context, mpp.Payment) error // nil: everybody can pay
	decoding  func()                                   // called when a transaction is looked at
	sending   func(mpp.Payment)                        // called when a transaction is to be sent
	senders   int                                      // of every transaction
	seen      func(context.Context)                    // called when it is asked for a refused payment
	fates     map[string]fate                          // by payer
	balances  map[string]int64                         // in cents, by payer, before what is sent
	sent      map[string]sent                          // by reference
	used      map[string]bool                          // nonces that transactions of their accounts used which are not sent here
	burnt     map[string]uint64                        // gas that was wasted, by reference
	asked     map[string]int                           // by question
}

// fate is what becomes of a payer's transactions. The zero fate is mined at
// once, and pays.
type fate struct {
	after time.Duration // from being sent to being mined
	lost  bool          // what is sent never arrives
	mute  bool          // what is sent arrives, but no answer comes back
	state mpp.State     // as what it is mined; the zero State stands for Settled
	// shallow: the block that it is in may still be dropped.
	shallow bool
	dropped bool // that has happened
	// depth is how long it takes until the block is deep that says that a
	// transaction can be mined no more.
	depth time.Duration
	// forgotten: the network cannot say any more what became of them.
	forgotten bool
	// foreign: the method cannot ask for them any more.
	foreign bool
	// burns is the gas that each Broadcast costs, and brings nothing.
	burns uint64
	// limit is how much gas its submission can use at the most; 0: as much as it burns.
	limit uint64
	// untimely: a trial says that it would fail now, so it is not submitted.
	untimely bool
	// by names the transaction that settled the payment, with others: brought
	// is what it brought the same payee in all, in cents.
	by      string
	brought int64
	// lags: asked for all that its transaction brought, the node has not got it.
	lags bool
}

type sent struct {
	payment mpp.Payment
	at      time.Time
	payee   string // of the network then
}

// arrives has money reach the payee of now by itself: nobody asked for it. The caller is
// within [network.change].
func (n *network) arrives(reference, payer string, cents int64, at time.Time) {
	n.sent[reference] = sent{mpp.Payment{Payer: payer, Cents: cents, Reference: reference, ValidBefore: at.Add(time.Hour)}, at, n.payee}
}

func newNetwork() *network {
	return &network{now: time.Now, fates: map[string]fate{}, balances: map[string]int64{}, sent: map[string]sent{}, burnt: map[string]uint64{}, used: map[string]bool{}, submitted: map[string]bool{}, asked: map[string]int{}}
}

// change alters the network while a service may be asking it.
func (n *network) change(fn func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fn()
}

// mined says as what a transaction stands on the chain at this instant;
// Pending when it does not.
func (n *network) mined(reference string) mpp.State {
	s, ok := n.sent[reference]
	if !ok {
		return mpp.Pending
	}
	f := n.fates[s.payment.Payer]
	at := s.at.Add(f.after)
	if !s.payment.Endless && !at.Before(s.payment.ValidBefore) || n.now().Before(at) || n.used[s.payment.Nonce] {
		return mpp.Pending
	}
	if f.state == mpp.Pending {
		return mpp.Settled
	}
	return f.state
}

// gasPrice is what a unit of gas costs, in wei.
const gasPrice = 1000

// wasted is what the transactions of a payment have cost for nothing.
func (n *network) wasted(p mpp.Payment) *mpp.Waste {
	gas := n.burnt[p.Reference]
	if gas == 0 {
		return nil
	}
	return &mpp.Waste{Transaction: p.Reference, Gas: gas, Wei: fmt.Sprint(gas * gasPrice)}
}

// charged is what a payer has paid so far, in cents, to whomever: what was
// diverted is gone too.
func (n *network) charged(payer string) (cents int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for reference, s := range n.sent {
		if s.payment.Payer != payer {
			continue
		}
		switch n.mined(reference) {
		case mpp.Settled, mpp.Mismatched:
			cents += s.payment.Cents
		}
	}
	return cents
}

// settled is what reached the ring, in cents by payer.
func (n *network) settled() map[string]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	cents := map[string]int64{}
	for reference, s := range n.sent {
		if n.mined(reference) == mpp.Settled {
			cents[s.payment.Payer] += s.payment.Cents
		}
	}
	delete(cents, "alice")
	return cents
}

// questions is how often each question was asked.
func (n *network) questions(which ...string) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, q := range which {
		count += n.asked[q]
	}
	return count
}

// node is how one process reaches the network. Once the process is dead,
// nothing it does arrives.
type node struct {
	*network
	dead *atomic.Bool
}

var errNode = errors.New("the node at https://node.example/?key=node-key is silent")

func (n node) ask(question string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked[question]++
	if n.down || n.silent == question || n.dead.Load() {
		return errors.Join(mpp.ErrUnavailable, errNode)
	}
	return nil
}

// hang does not return before ctx is done when the network is stuck at a question.
func (n node) hang(ctx context.Context, question string) error {
	n.mu.Lock()
	stuck := n.stuck == question
	n.mu.Unlock()
	if !stuck {
		return nil
	}
	<-ctx.Done()
	return errors.Join(mpp.ErrUnavailable, ctx.Err())
}

func (n node) Simulate(ctx context.Context, p mpp.Payment) error {
	if err := errors.Join(n.ask("simulate"), n.hang(ctx, "simulate")); err != nil {
		return err
	}
	n.mu.Lock()
	simulate := n.simulate
	n.mu.Unlock()
	if simulate == nil {
		return nil
	}
	return simulate(ctx, p)
}

// Unused refuses a payment whose nonce another has used.
func (n node) Unused(_ context.Context, p mpp.Payment) error {
	if err := n.ask("unused"); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for reference, s := range n.sent {
		if s.payment.Nonce == p.Nonce && n.mined(reference) != mpp.Pending {
			return &mpp.Rejection{Code: mpp.CodeVerify, Reason: mpp.ReasonUsed, Detail: "the nonce was used"}
		}
	}
	return nil
}

// Holds knows the balances of those who have one; all others hold enough for anything.
func (n node) Holds(ctx context.Context, p mpp.Payment, cents int64) error {
	if err := errors.Join(n.ask("holds"), n.hang(ctx, "holds")); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	balance, known := n.balances[p.Payer]
	for reference, s := range n.sent {
		if s.payment.Payer == p.Payer && n.mined(reference) == mpp.Settled {
			balance -= s.payment.Cents
		}
	}
	if known && balance < cents && n.mined(p.Reference) != mpp.Pending {
		return &mpp.Rejection{Code: mpp.CodeVerify, Reason: mpp.ReasonUsed, Detail: "the payment was made"}
	}
	if known && balance < cents {
		return &mpp.Rejection{Code: mpp.CodeVerify, Reason: mpp.ReasonFunds, Detail: "the account holds less"}
	}
	return nil
}

// submits asks for what a submission of p costs, if the service pays for that, and says
// why there is none.
func (n node) submits(p mpp.Payment, x mpp.Expenses) error {
	n.mu.Lock()
	f, again := n.fates[p.Payer], n.submitted[p.Reference]
	n.mu.Unlock()
	if !n.gas || again {
		return nil
	}
	if f.untimely {
		return errors.New("it would fail now")
	}
	limit := max(f.limit, f.burns)
	if err := x.Allow(new(big.Int).SetUint64(limit * gasPrice)); err != nil {
		return err
	}
	if err := x.Store(mpp.Submission{Transaction: p.Reference, Gas: limit, Price: fmt.Sprint(gasPrice)}); err != nil {
		return err
	}
	n.mu.Lock()
	n.submitted[p.Reference] = true
	n.asked["submit"]++
	step := n.step
	n.mu.Unlock()
	if step != nil {
		step()
	}
	return nil
}

func (n node) Broadcast(_ context.Context, p mpp.Payment, x mpp.Expenses) (mpp.Outcome, error) {
	n.mu.Lock()
	sending := n.sending
	n.mu.Unlock()
	if sending != nil {
		sending(p)
	}
	silent := n.ask("broadcast")
	n.change(func() { n.asked["broadcast "+p.Reference]++ })
	if silent == nil {
		if err := n.submits(p, x); err != nil {
			return mpp.Outcome{Detail: "not submitted: " + err.Error()}, nil
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.fates[p.Payer]
	if f.burns > 0 && silent == nil {
		n.burnt[p.Reference] += f.burns
		return mpp.Outcome{Wasted: n.wasted(p), Detail: "mined and reverted"}, nil
	}
	_, before := n.sent[p.Reference]
	_, moved := n.sent[f.by] // it has settled already, under another hash
	if !f.lost && !before && !moved && !n.dead.Load() && p.CanBeMined(n.now()) {
		n.sent[p.Reference] = sent{p, n.now(), n.payee}
	}
	if silent != nil || f.mute || f.lost {
		return mpp.Outcome{Detail: "no answer"}, silent
	}
	if n.mined(p.Reference) == mpp.Settled {
		return mpp.Outcome{State: mpp.Settled, Deep: !f.shallow, Reference: f.by, Received: f.brought}, nil
	}
	return mpp.Outcome{Detail: "sent"}, nil
}

// Outcome speaks of anything but success only when no later block can say
// otherwise, as the contract wants.
func (n node) Outcome(ctx context.Context, p mpp.Payment, since time.Time) (mpp.Outcome, error) {
	if !since.IsZero() {
		return n.refused(ctx, p)
	}
	if err := errors.Join(n.ask("outcome"), n.hang(ctx, "outcome")); err != nil {
		return mpp.Outcome{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f, reference := n.fates[p.Payer], p.Reference
	if f.forgotten {
		return mpp.Outcome{}, fmt.Errorf("%w: forgotten", mpp.ErrUnavailable)
	}
	if f.foreign {
		return mpp.Outcome{}, errors.New("the stored payment is not of this chain")
	}
	if _, moved := n.sent[f.by]; moved {
		reference = f.by
	}
	state := n.mined(reference)
	switch {
	case state == mpp.Settled:
		return mpp.Outcome{State: state, Deep: !f.shallow, Reference: f.by, Received: f.brought}, nil
	case state != mpp.Pending && !f.shallow:
	case p.Endless && !n.used[p.Nonce]:
		return mpp.Outcome{Detail: "not known yet"}, nil
	case !p.Endless && p.CanBeMined(n.now().Add(n.skew-f.depth-1)):
		o := mpp.Outcome{Wasted: n.wasted(p), Detail: "not known yet"}
		if n.now().After(p.ValidBefore) {
			o.Due = p.ValidBefore.Add(f.depth - 3*time.Second) // as it is expected
		}
		return o, nil
	case state == mpp.Pending:
		o := mpp.Outcome{State: mpp.Gone, Deep: true, Wasted: n.wasted(p), Detail: "never mined"}
		if !p.Endless {
			o.Over = n.now().Add(n.skew)
		}
		return o, nil
	}
	return mpp.Outcome{State: state, Deep: true, Detail: "mined, of no use"}, nil
}

// refused is the outcome of a payment that is not stored, without the depth.
func (n node) refused(ctx context.Context, p mpp.Payment) (mpp.Outcome, error) {
	if err := n.ask("seen"); err != nil {
		return mpp.Outcome{}, err
	}
	n.mu.Lock()
	seen := n.seen
	n.mu.Unlock()
	if seen != nil {
		seen(ctx)
	}
	if ctx.Err() != nil {
		return mpp.Outcome{}, mpp.ErrUnavailable
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	f, reference := n.fates[p.Payer], p.Reference
	if _, moved := n.sent[f.by]; moved {
		reference = f.by
	}
	o := mpp.Outcome{State: n.mined(reference)}
	switch {
	case o.State == mpp.Settled:
		o.Deep, o.Reference, o.Received = !f.shallow, f.by, f.brought
	case o.State == mpp.Pending && p.Endless:
		if n.used[p.Nonce] {
			o.State = mpp.Gone
		}
	case o.State == mpp.Pending && !p.CanBeMined(n.now().Add(n.skew)):
		o.State, o.Over = mpp.Gone, n.now().Add(n.skew)
	}
	return o, nil
}

func (n node) Clock(ctx context.Context) (time.Time, error) {
	if err := n.ask("clock"); err != nil {
		return time.Time{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if slow := n.slow; slow > 0 {
		n.mu.Unlock()
		time.Sleep(slow)
		n.mu.Lock()
	}
	if n.hanging {
		n.mu.Unlock()
		<-ctx.Done()
		n.mu.Lock()
		return time.Time{}, errors.Join(mpp.ErrUnavailable, ctx.Err())
	}
	if !n.frozen.IsZero() {
		return n.frozen, nil
	}
	return n.now().Add(n.skew).Truncate(max(n.block, 1)), nil
}

// Pace is what its blocks are made at.
func (n node) Pace() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.block
}

// Transfers asks for the block of each transfer, as those of chains do.
func (n node) Transfers(ctx context.Context, since time.Time, found func(mpp.Transfer) error) (time.Time, error) {
	if err := errors.Join(n.ask("transfers"), n.hang(ctx, "transfers")); err != nil {
		return time.Time{}, err
	}
	n.mu.Lock()
	if since.Before(n.oldest) {
		n.mu.Unlock()
		return time.Time{}, mpp.ErrUnavailable
	}
	until := n.now().Add(n.skew)
	var all []mpp.Transfer
	for reference, s := range n.sent {
		if n.mined(reference) == mpp.Settled && !s.at.Before(since) && !s.at.After(until) && s.payee == n.payee {
			all = append(all, mpp.Transfer{Reference: reference, Payer: s.payment.Payer, Cents: s.payment.Cents, At: s.at,
				Bound: n.bound(s.payment)})
		}
	}
	n.mu.Unlock()
	slices.SortFunc(all, func(a, b mpp.Transfer) int { return a.At.Compare(b.At) })
	if n.backwards {
		slices.Reverse(all)
	}
	for _, t := range all {
		n.change(func() {
			if n.patience--; n.patience == 0 {
				n.silent = "block"
			}
		})
		if err := n.ask("block"); err != nil {
			return time.Time{}, err
		}
		if err := found(t); err != nil {
			return time.Time{}, err
		}
	}
	return until, nil
}

// bound is what the token names in the transaction of p.
func (n node) bound(p mpp.Payment) []mpp.Bound {
	if n.nameless {
		return nil
	}
	return []mpp.Bound{{Payer: p.Payer, Binding: p.Binding}}
}

func (n node) Payee() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return "purse " + n.payee
}

func (n node) Received(_ context.Context, payee, reference string) (mpp.Transfer, error) {
	if err := n.ask("received"); err != nil {
		return mpp.Transfer{}, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s := n.sent[reference]; payee == "purse "+s.payee && n.mined(reference) == mpp.Settled {
		return mpp.Transfer{Reference: reference, Payer: s.payment.Payer, Cents: s.payment.Cents, At: s.at, Senders: n.senders, Bound: n.bound(s.payment)}, nil
	}
	for own, s := range n.sent {
		if f := n.fates[s.payment.Payer]; f.by == reference && !f.lags && payee == "purse "+s.payee && n.mined(own) == mpp.Settled {
			return mpp.Transfer{Reference: reference, Payer: s.payment.Payer, Cents: f.brought, At: s.at}, nil
		}
	}
	return mpp.Transfer{}, mpp.ErrNoTransfer
}

// method is a payment method over a [network]. Its transactions are JSON, and
// whoever writes one has signed it.
type method struct {
	node
	name string
}

// transaction is the payload of its credentials.
type transaction struct {
	Challenge   string `json:"challenge"` // "" answers any
	Payer       string `json:"payer"`
	Cents       int64  `json:"cents"`
	ValidBefore int64  `json:"validBefore"` // Unix time; 0: it has no end
	Nonce       string `json:"nonce"`       // of its account, "" for one of its own
	Salt        string `json:"salt"`        // tells transactions of one payer apart; a secret of the payer
}

func (m *method) Name() string    { return m.name }
func (m *method) Network() string { return m.name + ":test" }

// Life is that of challenges at the most, but for the second of two methods.
func (m *method) Life() time.Duration {
	if m.name == "token" {
		return time.Minute
	}
	return paid.ChallengeLife
}

func (m *method) Request(cents int64) (string, error) {
	return mpp.EncodeJSON(terms{cents, m.Payee()})
}

// terms are what its challenges ask for.
type terms struct {
	Cents int64  `json:"cents"`
	To    string `json:"to"`
}

// Exact makes offers of the method's own transactions.
func (m *method) Exact(request string) (offer x402.Offer, ok bool) {
	var asked terms
	if !m.exact || mpp.DecodeJSON(request, &asked) != nil {
		return offer, false
	}
	return x402.Offer{Scheme: x402.Scheme, Network: "eip155:1", Amount: fmt.Sprint(asked.Cents), Asset: m.name, PayTo: asked.To,
		MaxTimeoutSeconds: 90, Extra: x402.Extra{Name: m.name, Version: "1"}}, true
}

func (m *method) Decode(c mpp.Credential) (mpp.Payment, error) {
	_ = m.ask("decode")
	m.mu.Lock()
	decoding := m.decoding
	m.mu.Unlock()
	if decoding != nil {
		decoding()
	}
	var t transaction
	var asked terms
	if err := c.DecodePayload(&t); err != nil {
		return mpp.Payment{}, &mpp.Rejection{Code: mpp.CodeMalformed, Detail: "the payload is malformed"}
	}
	before := time.Unix(t.ValidBefore, 0).UTC()
	if t.ValidBefore == 0 {
		before, _ = c.Challenge.ExpiresAt()
	}
	switch {
	case mpp.DecodeJSON(c.Challenge.Request, &asked) != nil:
		return mpp.Payment{}, &mpp.Rejection{Code: string(api.InvalidChallenge), Detail: "the challenge asks for something else"}
	case t.Cents != asked.Cents:
		return mpp.Payment{}, &mpp.Rejection{Code: mpp.CodeVerify, Detail: "the transaction pays another amount"}
	case t.Challenge != "" && t.Challenge != c.Challenge.ID:
		return mpp.Payment{}, &mpp.Rejection{Code: mpp.CodeVerify, Detail: "the transaction is for another challenge"}
	}
	hash := sha256.Sum256(c.Payload)
	reference := "0x" + hex.EncodeToString(hash[:])
	return mpp.Payment{Method: m.name, Cents: asked.Cents, Raw: c.Payload, Binding: "of " + c.Challenge.ID,
		Reference: reference, ReplayKey: m.name + ":" + reference, Payer: t.Payer, Payee: asked.To, ValidBefore: before, Endless: t.ValidBefore == 0, Nonce: t.Nonce,
		Bearer: c.Challenge.Intent == x402.Intent}, nil
}

func (m *method) TokenDomain() *mpp.TypedDomain { return nil }

func (m *method) ToSign(mpp.Challenge, [20]byte) (*mpp.ToSign, error) { return nil, nil }

// Payer is an address as it is.
func (m *method) Payer(account [20]byte) string { return core.Account(account).String() }

func (m *method) PaysGas() bool { return m.gas }

func (m *method) InTime(p mpp.Payment, now, expires time.Time) *mpp.Rejection {
	return p.InTime(now, expires, time.Hour)
}
