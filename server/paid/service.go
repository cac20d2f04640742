package paid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/mpp"
	"webring/server/score"
)

// Method is one way to be paid. Its implementations know a network; this
// package knows when to ask them what. All functions are safe for concurrent
// use, and those with a context return soon after it ends.
type Method interface {
	// Name is the method's name in challenges, such as "tempo".
	Name() string
	// Network names where it pays, such as "tempo:42431". With it, the
	// reference of a payment is unique for ever.
	Network() string
	// Request encodes what is asked for: the request parameter of a challenge.
	Request(cents int64) (string, error)
	// Decode reads the credential's payload and checks, without a network,
	// that it pays cents for the challenge it answers. It refuses with a
	// *[mpp.Rejection].
	Decode(c mpp.Credential, cents int64, now time.Time) (mpp.Payment, error)
	// Simulate asks the network whether the payment would go through. It
	// refuses with a *[mpp.Rejection] or, when the network gives no answer,
	// [mpp.ErrUnavailable].
	Simulate(ctx context.Context, p mpp.Payment) error
	// Broadcast sends the payment; sending it again is harmless.
	Broadcast(ctx context.Context, p mpp.Payment) (mpp.Outcome, error)
	// Outcome asks what became of a payment that may have been sent.
	Outcome(ctx context.Context, p mpp.Payment) (mpp.Outcome, error)
	// Clock is the instant of the network's newest block. It refuses with
	// [mpp.ErrUnavailable] when nothing could be settled now.
	Clock(ctx context.Context) (time.Time, error)
	// Transfers finds what the recipient was paid since an instant, for
	// whatever, in blocks that stay, oldest first, and gives up to when it has looked.
	// An error of found ends it, and is its own. After another error there may be
	// more than was found, earlier ones too.
	Transfers(ctx context.Context, since time.Time, found func(mpp.Transfer) error) (until time.Time, err error)
	// Payee names what is paid in and who is paid, for [Method.Received] of this
	// network in any later process. It holds no zero byte.
	Payee() string
	// Received says what a transaction brought a payee, which may be one of
	// earlier. It refuses with [mpp.ErrNoTransfer], or with [mpp.ErrUnavailable]
	// while that may change.
	Received(ctx context.Context, payee, reference string) (mpp.Transfer, error)
}

// Config is what a [Service] is made of. Methods, in the order of the offers,
// may be empty: then every call is answered with payments_unconfigured.
type Config struct {
	Ledger  *ledger.Ledger
	Methods []Method
	Scorer  Scorer
	// DraftScorer scores what is only checked, with limits of its own; nil: Scorer
	// does.
	DraftScorer Scorer
	Sites       SitePolicy
	Realm       string
	Keys        mpp.Keys
	Now         func() time.Time
	Log         *slog.Logger
	// Ready says why no payment may be taken at the moment, such as a disk that
	// is nearly full. It is asked before each challenge and before each payment is
	// simulated, so it must be quick. nil: always ready.
	Ready func() error
	// Failpoint is called at named steps of the workflow; tests end the
	// process there. It may be nil.
	Failpoint func(step string)
}

// Scorer gives the agent-readiness score of a site. The client is whoever
// asks, so that one of them cannot use up the service for all.
type Scorer interface {
	Score(ctx context.Context, client, url string) (score.Result, error)
}

// Timing of the workflow.
const (
	// ChallengeLife is how long a challenge may be answered. Methods take no payment
	// that can be sent for longer.
	ChallengeLife = 5 * time.Minute
	// holdAfter is how long after the end of a transaction's validity its
	// request is still held for the outcome.
	holdAfter = 10 * time.Second
	// pendingRetry is what clients are told to wait for an open payment.
	pendingRetry = 5
	// maxSkew is how far our clock and a chain's newest block may be apart
	// while payments are taken.
	maxSkew = 60 * time.Second
)

// maxOpenPerPayer is how many payments of one account may be open. Each is
// simulated for itself, so an account may have signed for more than it has: what is
// then not mined is held for minutes, here and at the edges that it came by.
const maxOpenPerPayer = 8

// Service takes paid operations from the first request to the stored effect.
// It is safe for concurrent use.
type Service struct {
	Config
	operations map[string]operation
	networks   []*network

	ctx     context.Context // ends when the service closes
	cancel  context.CancelFunc
	group   sync.WaitGroup // work, recovery and second looks
	holding sync.WaitGroup // requests that wait for work

	mu     sync.Mutex
	closed bool
	work   map[string]*work // by every replay key that is claimed or open
	given  map[string]bool  // challenge ids whose 2xx was handed out, until the ledger knows
}

// New starts a service on its ledger and takes up every reservation that the
// last process left open.
func New(cfg Config) (*Service, error) {
	if len(cfg.Methods) > 0 {
		if err := mpp.CheckRealm(cfg.Realm); err != nil {
			return nil, err
		}
		if len(cfg.Keys.Current) < mpp.MinKey {
			return nil, fmt.Errorf("paid: the challenge key must have at least %d bytes", mpp.MinKey)
		}
	}
	if cfg.Ready == nil {
		cfg.Ready = func() error { return nil }
	}
	if cfg.Failpoint == nil {
		cfg.Failpoint = func(string) {}
	}
	s := &Service{Config: cfg, work: map[string]*work{}, given: map[string]bool{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	for _, m := range cfg.Methods {
		n := &network{Method: m, requests: requests{by: map[int64]string{}, method: m.Request}}
		if err := s.rememberPayee(n); err != nil {
			s.cancel()
			return nil, err
		}
		s.networks = append(s.networks, n)
	}
	s.operations = map[string]operation{
		OpRegister: &registering{s},
		OpBid:      bidding{},
	}
	s.resume()
	if len(s.networks) > 0 {
		s.group.Add(2)
		go s.confirmAll()
		go s.scanAll()
	}
	return s, nil
}

// Close lets no new work begin and waits until every request that is held has
// its answer, or ctx is done. Reservations still open then are taken up by the
// next process.
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

// The paid operations.
const (
	OpRegister = ledger.OperationRegister
	OpBid      = ledger.OperationBid
)

// Call is one request of a paid operation, whatever carried it here.
type Call struct {
	Operation      string   // OpRegister or OpBid
	Body           []byte   // JSON, as sent
	Authorization  []string // values of all Authorization fields
	AcceptPayment  string   // Accept-Payment field, or ""
	IdempotencyKey string   // Idempotency-Key field, or ""; kept for 24 hours
	Client         string   // who asks, as the rate limiter knows them
	Secure         bool     // came over TLS, or a connection as good
}

// Answer is what is to be sent back. Header values are complete; a name may
// occur more than once.
type Answer struct {
	Status int
	Header [][2]string
	Body   []byte
}

// Handle answers one call. It returns early only with what is certain: a
// payment that was sent is waited for, and ctx does not cut that short, because
// work on a credential is not tied to the connection that brought it.
func (s *Service) Handle(ctx context.Context, c Call) Answer {
	op := s.operations[c.Operation]
	switch {
	case len(s.Methods) == 0:
		return s.problem(unconfigured)
	case !c.Secure:
		return s.problem(&Problem{Code: api.TLSRequired, Detail: "Challenges are issued and credentials taken only over TLS. Use https."})
	case len(c.IdempotencyKey) > 255:
		return s.problem(invalidRequest("the Idempotency-Key is longer than 255 characters"))
	}
	cred, found, err := mpp.ParseAuthorization(c.Authorization)
	switch {
	case errors.Is(err, mpp.ErrMultiple):
		return s.problem(&Problem{Code: api.MultipleCredentials, Detail: "Send exactly one Payment credential."})
	case errors.Is(err, mpp.ErrTooLarge):
		return s.problem(&Problem{Code: api.CredentialTooLarge, Detail: "A Payment credential may have at most 16384 characters."})
	case err != nil:
		return s.offer(ctx, op, c, &Problem{Code: api.MalformedCredential, Detail: "The Payment credential is not base64url without padding of one JSON object with challenge and payload."})
	case !found:
		return s.offer(ctx, op, c, &Problem{Code: api.PaymentRequired, Detail: "Pay one of the offers in WWW-Authenticate and send the identical request again with the credential."})
	}
	return s.pay(ctx, op, c, cred)
}

// network is a payment method with what was last known of its clock.
type network struct {
	Method
	payees []string // all that the ring ever had there, today's first

	mu    sync.Mutex
	asked time.Time
	err   error

	requests requests
}

// requests remembers what a method asks for an amount: most ask for the same
// few, and nothing else goes into it.
type requests struct {
	mu     sync.Mutex
	by     map[int64]string // by cents
	method func(cents int64) (string, error)
}

// maxRequests bounds how many are remembered.
const maxRequests = 1024

func (r *requests) get(cents int64) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text, known := r.by[cents]; known {
		return text, nil
	}
	text, err := r.method(cents)
	if err != nil {
		return "", err
	}
	if len(r.by) >= maxRequests {
		clear(r.by)
	}
	r.by[cents] = text
	return text, nil
}

// Request is what the method asks for an amount in cents.
func (n *network) Request(cents int64) (string, error) { return n.requests.get(cents) }

// clockFresh is how long an answer about a network's clock is believed.
const clockFresh = 5 * time.Second

// ready says whether payments can be taken by this method now: its network
// answers, and its newest block and our clock agree. Anything else would let
// somebody pay into a challenge whose times mean nothing.
func (n *network) ready(ctx context.Context, now time.Time) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if age := now.Sub(n.asked); age >= 0 && age < clockFresh {
		return n.err
	}
	ctx, cancel := context.WithTimeout(ctx, clockFresh)
	defer cancel()
	block, err := n.Clock(ctx)
	if skew := now.Sub(block).Abs(); err == nil && skew > maxSkew {
		err = errSkew
	}
	n.asked, n.err = now, err
	return err
}

var errSkew = errors.New("paid: our clock and the newest block are more than 60 s apart")

// inTime says whether a payment on network n could be taken now: this machine
// is ready, our clock has not gone back behind the ledger, and the network is
// ready.
func (s *Service) inTime(ctx context.Context, n *network) error {
	if err := s.Ready(); err != nil {
		s.Log.Error("payments refused: this machine is not ready", "err", err)
		return errUnavailable
	}
	now := s.Now()
	var last int64
	s.Ledger.View(func(v *ledger.View) { last = v.State().LastStamp() })
	if now.UnixMilli() < last {
		s.Log.Error("payments refused: the clock is before the last event's stamp")
		return errUnavailable
	}
	if err := n.ready(ctx, now); err != nil {
		s.Log.Warn("payment network not ready", "method", n.Name(), "err", err)
		return errUnavailable
	}
	return nil
}

// ready gives the networks that can be paid on now.
func (s *Service) ready(ctx context.Context) (up []*network, err error) {
	for _, n := range s.networks {
		if s.inTime(ctx, n) == nil {
			up = append(up, n)
		}
	}
	if len(up) == 0 {
		return nil, errUnavailable
	}
	return up, nil
}

func (s *Service) network(method string) *network {
	for _, n := range s.networks {
		if n.Name() == method {
			return n
		}
	}
	return nil
}
