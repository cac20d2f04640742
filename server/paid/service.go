package paid

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"sync"
	"sync/atomic"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
	"webring/server/pay/x402"
	"webring/server/sites/score"
)

// Method is one way to be paid. Its implementations know a network; this
// package knows when to ask them what. All functions are safe for concurrent
// use, and those with a context return soon after it ends.
type Method interface {
	// Name is the method's name in challenges, such as "tempo".
	Name() string
	// Network names the chain, such as "tempo:42431". Together with it, the reference of
	// a payment is unique for ever.
	Network() string
	// Life is how long its challenges may be answered, [ChallengeLife] at the most.
	Life() time.Duration
	// Request encodes what is asked for: the request parameter of a challenge.
	Request(cents int64) (string, error)
	// Exact gives what an x402 offer says of the request parameter of a challenge; ok is
	// false if no x402 client can pay that.
	Exact(request string) (offer x402.Offer, ok bool)
	// TokenDomain is the EIP-712 domain of the token, under which payments are signed. Signing
	// needs its name and version, which only the token's contract has. nil: payments are
	// signed in another way.
	TokenDomain() *mpp.TypedDomain
	// ToSign gives what the browser's wallet of an account signs to answer a challenge, nil if
	// no such wallet can. It asks nothing of the network.
	ToSign(c mpp.Challenge, account [20]byte) (*mpp.ToSign, error)
	// Payer names an account as payments of it do.
	Payer(account [20]byte) string
	// Decode reads the payment out of a credential. The id of its challenge has been
	// verified. Without a network, it checks that the payment is for that challenge
	// and pays what the challenge asks for. InTime checks its validity. Decode refuses
	// with a *[mpp.Rejection]. A challenge of [x402.Intent] was for an x402 client; it is
	// presented only where Exact has made offers.
	Decode(c mpp.Credential) (mpp.Payment, error)
	// InTime says why a payment for a challenge that ends at expires cannot be sent
	// now; nil if it can.
	InTime(p mpp.Payment, now, expires time.Time) *mpp.Rejection
	// Simulate asks the network whether the payment would go through. It
	// refuses with a *[mpp.Rejection] or, when the network gives no answer,
	// [mpp.ErrUnavailable].
	Simulate(ctx context.Context, p mpp.Payment) error
	// Unused refuses a payment whose nonce has been used since it was simulated, as Simulate
	// does. It is only asked about a payment with a nonce.
	Unused(ctx context.Context, p mpp.Payment) error
	// Holds asks whether the payer's account holds so many cents of the token that it
	// pays in. It refuses as Simulate does.
	Holds(ctx context.Context, p mpp.Payment, cents int64) error
	// PaysGas says whether this service pays the network for what Broadcast sends.
	PaysGas() bool
	// Broadcast sends the payment; sending it again is harmless. If this service pays for
	// that, Broadcast asks x first. It does not use x after it has returned.
	Broadcast(ctx context.Context, p mpp.Payment, x mpp.Expenses) (mpp.Outcome, error)
	// Outcome asks what became of a payment. since is the zero time for one that is stored, and
	// may have been sent. One that is not was made after since, if at all: its challenge is not
	// older. Then the number of questions is bounded, however long ago that is, and Failed and
	// Mismatched may be what the newest block says. It refuses with [mpp.ErrUnavailable].
	Outcome(ctx context.Context, p mpp.Payment, since time.Time) (mpp.Outcome, error)
	// Clock is the instant of the network's newest block. It fails with
	// [mpp.ErrUnavailable] if no payment could be settled now, and then still gives the
	// instant if it is known.
	Clock(ctx context.Context) (time.Time, error)
	// Pace is the usual time between two blocks, as far as earlier answers of Clock have
	// shown it; 0 when it is not known.
	Pace() time.Duration
	// Transfers calls found with each transfer to the recipient since an instant, in
	// final blocks, oldest first. until is the instant up to which these are all. An
	// error of found ends it and is returned. After another error, any transfers may be
	// missing.
	Transfers(ctx context.Context, since time.Time, found func(mpp.Transfer) error) (until time.Time, err error)
	// Payee names the currency and the recipient, for [Method.Received] of this network
	// in any later process. It holds no zero byte.
	Payee() string
	// Received says what a transaction brought a payee, the present or an earlier one. It
	// fails with [mpp.ErrNoTransfer] if that was nothing, and with [mpp.ErrUnavailable]
	// while that may change.
	Received(ctx context.Context, payee, reference string) (mpp.Transfer, error)
}

// Config is what a [Service] is made of. Methods are in the order of the offers. Without
// methods, a valid request is answered with payments_unconfigured, and no score is asked
// for.
type Config struct {
	Ledger  *ledger.Ledger
	Methods []Method
	Scorer  Scorer
	// Prover verifies the proofs of owners, and MemberSites looks at the sites of members.
	// nil: no request of an owner is taken.
	Prover      Prover
	MemberSites Sites
	// Visit has the site of a member visited soon, for its owner. It must be quick. nil:
	// there are no visits.
	Visit func(slug string)
	// DraftScorer scores sites for [Service.Check], with limits of its own; nil stands
	// for Scorer.
	DraftScorer Scorer
	Sites       form.SitePolicy
	Names       form.NamePolicy
	Realm       string
	Keys        mpp.Keys // at first: see SetKeys
	Now         func() time.Time
	Log         *slog.Logger // [slog.Default] when nil
	// GasBudget is how much wei a method may waste in an hour on payments that are mined and
	// fail: on those of accounts that have never paid here, and again on all others. What is in
	// flight counts. One submission may cost a quarter of it at most. nil or 0: no bound.
	GasBudget *big.Int
	// Ready says why no payment may be taken at the moment, such as a disk that is
	// nearly full. It is called before each challenge and each simulation, so it must
	// be quick. nil: always ready.
	Ready func() error
	// Fence says why this process may send no payment any more: another node leads, and goes on
	// with all payments by the same keys. It is called before a payment is sent, so it must be
	// quick. nil: it may always send.
	Fence func() error
	// Told, when given, is told the time of each block that a network calls its newest. teller
	// names that.
	Told func(teller string, block time.Time)
	// Ended is told what came of each credential. It must be quick. It may be nil.
	Ended func(Ended)
	// Bazaar describes an operation for the directories of x402: the extension of that name in
	// offers. It gives nil for nothing, and may be nil.
	Bazaar func(operation string) json.RawMessage
	// Failpoint is called at named steps of the workflow; tests end the
	// process there. It may be nil.
	Failpoint func(step string)
}

// Scorer gives the agent-readiness score of a site, with the errors of [score.Scorer]. It
// limits each client, so that one client cannot use up the scoring service.
type Scorer interface {
	Score(ctx context.Context, client, url string) (score.Result, error)
}

// Timing of the workflow.
const (
	// ChallengeLife is how long a challenge may be answered, unless its method says
	// less. No method takes a payment that can be sent later than that.
	ChallengeLife = 5 * time.Minute
	// holdAfter is how long a request is still held after its transaction's validity.
	holdAfter = 10 * time.Second
	// pendingRetry is what clients are told to wait for an open payment.
	pendingRetry = 5
	// lapsedRetry is that for one that has lapsed.
	lapsedRetry = 60
	// MaxSkew is how far our clock and a chain's newest block may be apart
	// while payments are taken.
	MaxSkew = ledger.MaxSkew
)

// Service takes paid operations from the first request to the stored effect.
// It is safe for concurrent use.
type Service struct {
	Config
	issuer     string // what the nonces of this process begin with: 8 random characters
	keys       atomic.Pointer[mpp.Keys]
	announced  atomic.Bool // the payees
	operations map[string]operation
	networks   []*network
	gas        *risk.Gas
	limits     risk.Limits

	ctx     context.Context // ends when the service closes
	cancel  context.CancelFunc
	group   sync.WaitGroup // requests, watchers and what runs by itself
	holding sync.WaitGroup // requests that wait for work

	mu     sync.Mutex
	closed bool
	work   map[string]*work // by every replay key that is claimed
	given  map[string]bool  // ids of challenges answered by a 2xx, until the ledger knows
}

// New starts a service on its ledger and goes on with every reservation that the last
// process left open. It waits up to two seconds for the networks' first answers.
func New(cfg Config) (*Service, error) {
	if len(cfg.Methods) > 0 || cfg.Prover != nil {
		if err := mpp.CheckRealm(cfg.Realm); err != nil {
			return nil, err
		}
		if err := checkKeys(cfg.Keys); err != nil {
			return nil, err
		}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.GasBudget == nil {
		cfg.GasBudget = new(big.Int)
	}
	if cfg.Ready == nil {
		cfg.Ready = func() error { return nil }
	}
	if cfg.Fence == nil {
		cfg.Fence = func() error { return nil }
	}
	if cfg.Told == nil {
		cfg.Told = func(string, time.Time) {}
	}
	if cfg.Ended == nil {
		cfg.Ended = func(Ended) {}
	}
	if cfg.Bazaar == nil {
		cfg.Bazaar = func(string) json.RawMessage { return nil }
	}
	if cfg.Failpoint == nil {
		cfg.Failpoint = func(string) {}
	}
	s := &Service{Config: cfg, issuer: random(6), work: map[string]*work{}, given: map[string]bool{}}
	s.keys.Store(&cfg.Keys)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, m := range cfg.Methods {
		n := newNetwork(m, s.Now)
		n.fence = s.Fence
		if err := s.knowPayees(n); err != nil {
			s.cancel()
			return nil, err
		}
		s.networks = append(s.networks, n)
	}
	if err := s.announcePayees(); err != nil && !errors.Is(err, ledger.ErrNotNow) { // or else before the first payment
		s.cancel()
		return nil, err
	}
	if err := s.takeUpGas(); err != nil {
		s.cancel()
		return nil, err
	}
	s.limits.Now = s.Now
	s.operations = map[string]operation{OpRegister: {parse: s.parseRegistration}, OpBid: {parse: parseBid}}
	if cfg.Prover != nil {
		s.operations[OpChange], s.operations[OpClaim] = owned(s.parseChange), owned(s.parseClaim)
		s.operations[OpLeave], s.operations[OpReturn] = emptyBody(leave{s}), owned(s.parseReturn)
		if cfg.Visit != nil {
			s.operations[OpVisit] = emptyBody(visit{leave{s}})
		}
	}
	s.resume()
	for _, n := range s.networks {
		s.group.Go(func() { s.watch(n) })
	}
	if len(s.networks) > 0 {
		s.group.Go(func() { s.limits.Learn(s.ctx, s.Ledger) })
		s.group.Go(s.scanAll)
	}
	if cfg.Prover != nil {
		s.group.Go(s.sweep)
	}
	// The first request gets all offers.
	late := time.NewTimer(firstAnswer)
	defer late.Stop()
	for _, n := range s.networks {
		select {
		case <-n.first:
			continue
		case <-late.C:
		}
		break
	}
	return s, nil
}

// Watch gives a service that takes no payments, and only asks its networks for their newest blocks:
// call nothing but Down and Close. Of cfg, it needs Methods, Now, Log and Told.
func Watch(cfg Config) *Service {
	s := &Service{Config: cfg}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, m := range cfg.Methods {
		n := newNetwork(m, s.Now)
		s.networks = append(s.networks, n)
		s.group.Go(func() { s.watch(n) })
	}
	return s
}

// SetKeys has other keys take the place of the present ones. What is in flight goes on
// with those that it comes upon.
func (s *Service) SetKeys(keys mpp.Keys) error {
	err := checkKeys(keys)
	if err == nil {
		s.keys.Store(&keys)
	}
	return err
}

func checkKeys(keys mpp.Keys) error {
	if len(keys.Current) < mpp.MinKey {
		return fmt.Errorf("paid: the challenge key must have at least %d bytes", mpp.MinKey)
	}
	return nil
}

// Close lets no new work begin and waits until every held request has its answer, or ctx
// is done. The next process goes on with reservations that are still open then.
func (s *Service) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	answered := make(chan struct{})
	go func() {
		s.holding.Wait()
		close(answered)
	}()
	var err error
	select {
	case <-answered:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.group.Wait()
	return err
}

// The operations: those that are paid for, and those that an owner proves itself for.
const (
	OpRegister = ledger.OperationRegister
	OpBid      = ledger.OperationBid

	OpChange = "change"
	OpLeave  = "leave"
	OpReturn = "return"
	OpClaim  = "claim"
	OpVisit  = "visit"
)

// Call is one request of an operation, over any transport.
type Call struct {
	Operation     string   // OpRegister or another one
	Slug          string   // the member that an owner's request is about
	Body          []byte   // JSON, without a content coding
	Received      []byte   // Body as it was received; nil where it is the same
	Authorization []string // values of all Authorization fields
	// PaymentSignature is the values of all PAYMENT-SIGNATURE fields.
	PaymentSignature []string
	OldPayment       bool   // it has a field X-PAYMENT: a payment by version 1 of x402
	AcceptPayment    string // Accept-Payment field, or ""
	IdempotencyKey   string // Idempotency-Key field, or ""; kept for 24 hours
	// WalletAccount is the Wallet-Account field, or "": the account of a browser's wallet, for
	// which the offers are to say what it signs.
	WalletAccount string
	Client        string // the client, as the rate limiter names it
	Secure        bool   // came over TLS, or a connection that is as safe
	Request       string // what it is called in logs, "" for nothing

	op       operation
	digest   string      // of the body as it was received; a challenge binds it
	payer    string      // the account of its credential, once that was read
	accepted *x402.Offer // that an x402 client says it has paid; nil for another credential
	about    *about      // what the log says of it
}

// account is that of its credential, or that which it names for its wallet; the zero account
// if neither is known.
func (c *Call) account() core.Account {
	if c.payer != "" {
		return core.AccountOf(c.payer)
	}
	return core.AccountOf(c.WalletAccount)
}

func (c *Call) bodyDigest() string {
	if c.Received != nil {
		return mpp.Digest(c.Received)
	}
	return mpp.Digest(c.Body)
}

// Answer is what is to be sent back. Header values are complete; a name may
// occur more than once.
type Answer struct {
	Status int
	Header [][2]string
	Body   []byte

	problem *Problem // that it shows; nil for another answer
}

// checkReady says why no payment can be taken on network n now: this machine or the network
// is not ready.
func (s *Service) checkReady(n *network) error {
	if err := s.checkMachine(); err != nil {
		return err
	}
	if n.ready() != nil { // it is logged when it begins
		return errUnavailable
	}
	return nil
}

// checkMachine says why nothing can be taken now, neither a payment nor a proof: this machine
// is not ready, or its clock is not believed.
func (s *Service) checkMachine() error {
	if err := cmp.Or(s.Ledger.Stuck(), s.Ready(), s.Ledger.CheckClock(), s.announcePayees()); err != nil {
		s.Log.Error("payments and proofs refused: this machine is not ready", "err", err)
		return errUnavailable
	}
	return nil
}

// reservation gives the reservation that find finds, nil where there is none.
func (s *Service) reservation(find func(*ledger.View) (*ledger.Reservation, error)) (r *ledger.Reservation, err error) {
	s.Ledger.View(func(v *ledger.View) { r, err = find(v) })
	if errors.Is(err, ledger.ErrNoReservation) {
		return nil, nil
	}
	return r, err
}

func (s *Service) network(method string) *network {
	for _, n := range s.networks {
		if n.Name() == method {
			return n
		}
	}
	return nil
}
