package paid

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"webring/core"
	"webring/server/ledger"
	"webring/server/paid/risk"
	"webring/server/pay/mpp"
)

// network is a payment method with the last answer about its newest block. One
// goroutine asks for that, see [Service.watch], so that no request for a challenge
// waits for a node.
type network struct {
	Method
	clock  func() time.Time
	fence  func() error // see [Config.Fence]
	payees []string     // all that the ring ever had there, today's first

	requests requests

	lookups   chan struct{} // semaphore of the look-ups of refused payments
	strangers *risk.Strangers
	first     chan struct{} // closed with the first answer
	wanted    chan struct{} // holds a token when a payment is due before the next question

	mu     sync.Mutex
	live   map[string]*work // the payments that are not final, by id
	looks  time.Time        // when the next are looked for
	last   answer
	head   time.Time // of the newest block of the last answer that had one; zero before the first
	newest time.Time // of the newest block of all answers, unless that is ahead of our clock
	lower  time.Time // of the newest block of those since that are below it; zero for none
	moved  time.Time // when one of the two last changed, by the monotonic clock
	goesOn time.Time // of the first block after none was heard of for a while
	late   bool      // the answer to the last question is overdue

	confirming int // questions under way about payments that have their effect
}

// answer is what a network said when it was asked for its newest block.
type answer struct {
	asked time.Time // by our clock, which may be set
	since time.Time // the same by the monotonic clock
	took  time.Duration
	block time.Time // of the newest block; zero when that is not known
	err   error     // why no payment may be taken; nil when one may
}

// Timing of the questions for the newest block.
const (
	// clockEvery is how often a network is asked while no work waits for a block.
	clockEvery = 4 * time.Second
	// clockTimeout is how long it has to answer.
	clockTimeout = 5 * time.Second
	// clockLate is how late the answer may be before the network is no longer offered. A
	// slow network has twice the time that its last answer took.
	clockLate = time.Second
	// questionTimeout is how long a network has for a simulation or a balance, which take
	// several questions while a client waits.
	questionTimeout = 8 * time.Second
	// clockAgain is how soon a network that takes no payments is asked again.
	clockAgain = 2 * time.Second
	// clockFresh is how long an answer counts. Two answers come in less time than that.
	clockFresh = clockEvery + 2*clockTimeout
	// firstAnswer is how long a start waits for the first answers.
	firstAnswer = 2 * time.Second
	// stillAgain is how soon a network is asked again that has made no block for half the
	// time after which it stands still.
	stillAgain = time.Second
	// leastStill is the least time without a block after which a chain is said to stand
	// still, and stillBlocks the number of blocks that have to be missing. Until the pace
	// of a chain is known, unknownPace stands for it. With clockEvery, a chain of up to
	// two seconds a block is seen to stand still within 13 seconds.
	leastStill  = 8 * time.Second
	stillBlocks = 4
	unknownPace = 15 * time.Second
	// blockEvery is how soon a network is asked again while work waits for a block. The
	// interval grows to blockRarely while there is none.
	blockEvery  = 250 * time.Millisecond
	blockRarely = 2 * time.Second
	// blockPatience bounds the wait for a block.
	blockPatience = 15 * time.Second
	// catchUp is how long a network that goes on again has for what waits to be mined. It went
	// on if it had no block for as long, as far as this process has heard.
	catchUp = time.Minute
)

func newNetwork(m Method, clock func() time.Time) *network {
	return &network{Method: m, clock: clock, requests: requests{by: map[int64]terms{}, method: m},
		lookups: make(chan struct{}, lookupsAtOnce), strangers: risk.NewStrangers(), wanted: make(chan struct{}, 1), live: map[string]*work{}, first: make(chan struct{})}
}

// watch asks a network for its newest block: every [clockEvery], and more often while
// payments wait for a block, or none comes.
func (s *Service) watch(n *network) {
	stood := time.Duration(0)
	for moved := s.Now(); ; { // when the newest block last changed
		before := n.now()
		a := s.ask(n, before)
		if s.ctx.Err() != nil {
			return // the service has ended, and with it the question
		}
		select {
		case <-n.wanted: // this is the answer
		default:
		}
		n.publish(a)
		switch {
		case a.err != nil && (before.asked.IsZero() || before.err == nil):
			s.Log.Warn("payment network takes no payments", "method", n.Name(), "err", a.err)
		case a.err == nil && before.err != nil:
			s.Log.Info("payment network takes payments again", "method", n.Name())
		}
		still, stands := n.still()
		switch {
		case stands && stood == 0:
			stood = still
			s.Log.Warn("payment network stands still: its newest block stays the same", "method", n.Name(), "network", n.Network(), "for", still, "block", a.block)
		case !stands && stood > 0 && !a.block.IsZero():
			stood = 0
			s.Log.Info("payment network makes blocks again", "method", n.Name(), "network", n.Network())
		}
		if !a.block.Equal(before.block) {
			moved = a.asked
		}
		gap := min(max(a.asked.Sub(moved)/4, blockEvery), blockRarely)
		due, rest := n.next(time.Now(), a.block)
		for _, w := range due {
			s.group.Go(func() { s.askAbout(w) })
		}
		switch {
		case a.err != nil:
			rest = clockAgain
		case still >= n.patience()/2:
			rest = min(rest, stillAgain)
		}
		if !s.sleep(gap) || !s.wait(rest-gap, n.wanted) {
			return
		}
	}
}

// ask asks a network for its newest block; before is its last answer. Payments can be taken
// if it answers and the time of the block agrees with our clock: otherwise the times in a
// challenge would mean nothing.
func (s *Service) ask(n *network, before answer) answer {
	ctx, cancel := context.WithTimeout(s.ctx, clockTimeout)
	defer cancel()
	overdue := time.AfterFunc(max(clockLate, 2*before.took), func() { n.overdue(before) })
	defer overdue.Stop()
	a := answer{asked: s.Now(), since: time.Now()}
	a.block, a.err = n.Clock(ctx)
	if a.err == nil {
		a.took = time.Since(a.since)
		// Our clock may be held back by a chain that is behind until this one is heard.
		s.Told("the newest block of "+n.Network(), a.block)
		a.asked = s.Now().Add(-a.took)
		if a.asked.Sub(a.block).Abs() > MaxSkew {
			a.err = ErrSkew
		}
	}
	return a
}

var (
	// ErrSkew is why no payment is taken while a chain and this machine disagree about the
	// time.
	ErrSkew = errors.New("paid: our clock and the newest block are more than 60 s apart")
	errLate = errors.New("paid: the network's last answer is too old")
)

func (n *network) publish(a answer) {
	pause := max(catchUp, n.patience())
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last.asked.IsZero() {
		close(n.first)
	}
	n.last, n.late = a, false
	ahead := func(block time.Time) bool { return block.Sub(a.asked) > MaxSkew }
	switch {
	case a.block.IsZero():
	case a.block.After(n.newest) || ahead(n.newest):
		if a.block.Sub(n.newest) > pause && !ahead(a.block) {
			n.goesOn = a.block
		}
		n.newest, n.lower, n.moved = a.block, time.Time{}, a.since
	case a.block.After(n.lower):
		// One may be of a node that lags. The next one shows that the chain goes on below: it was
		// reorganised, or the newest block's time was wrong.
		if !n.lower.IsZero() {
			n.moved = a.since
		}
		n.lower = a.block
	}
	if !a.block.IsZero() {
		n.head = a.block
	}
}

// hadTime says whether a payment that was not mined since an instant, and still is not at a block,
// had the time: [givenUpAfter], and [catchUp] since its network goes on, because one that stood
// still mines first what waited for it.
func (n *network) hadTime(since, block time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return block.After(since.Add(givenUpAfter)) && !block.Before(n.goesOn.Add(catchUp))
}

// overdue notes that there is no answer yet after the last one.
func (n *network) overdue(last answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.late = n.late || n.last == last
}

// offered says whether new challenges may name this network. It is false while the network
// is late; a payment that has a challenge already is tried even then.
func (n *network) offered() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.late
}

// believed is what a network says of a payment. One is gone because its time is over only if our clock
// says so, too, and the network's is not ahead of it: otherwise it may still be mined.
func (n *network) believed(p mpp.Payment, o mpp.Outcome) mpp.Outcome {
	if now := n.clock(); o.State == mpp.Gone && !o.Over.IsZero() && (p.CanBeMined(now) || o.Over.Sub(now) > MaxSkew) {
		return mpp.Outcome{Wasted: o.Wasted, Detail: "over by the time of its network, which is ahead of ours"}
	}
	return o
}

// Bounds on the look-ups of refused payments: how many run at a time on a network, and the
// time for each.
const (
	lookupsAtOnce = 4
	lookupTimeout = 8 * time.Second
)

// Outcome is [Method.Outcome], as far as it is [network.believed]. It bounds the look-ups of payments
// that are not stored: refused credentials cost their senders nothing.
func (n *network) Outcome(ctx context.Context, p mpp.Payment, since time.Time) (mpp.Outcome, error) {
	if !since.IsZero() {
		within, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		select {
		case n.lookups <- struct{}{}:
			defer func() { <-n.lookups }()
		case <-within.Done():
			return mpp.Outcome{}, fmt.Errorf("%w: too many look-ups are under way", mpp.ErrUnavailable)
		}
		ctx = within
	}
	o, err := n.Method.Outcome(ctx, p, since)
	return n.believed(p, o), err
}

// Broadcast is [Method.Broadcast] in the same way, behind the fence: no payment is sent otherwise.
func (n *network) Broadcast(ctx context.Context, p mpp.Payment, x mpp.Expenses) (mpp.Outcome, error) {
	if err := n.fence(); err != nil {
		return mpp.Outcome{State: mpp.Pending}, fmt.Errorf("%w: %w", mpp.ErrUnavailable, err)
	}
	o, err := n.Method.Broadcast(ctx, p, x)
	return n.believed(p, o), err
}

// noAnswer logs that a network gave no answer, or a bad one. When the service ends, it waits for none
// any more, and that is no fault of the network.
func (s *Service) noAnswer(message string, attributes ...any) {
	if s.ctx.Err() == nil {
		s.Log.Warn(message, attributes...)
	}
}

// holds is [Method.Holds] within [questionTimeout].
func (n *network) holds(ctx context.Context, p mpp.Payment, cents int64) error {
	ctx, cancel := context.WithTimeout(ctx, questionTimeout)
	defer cancel()
	return n.Holds(ctx, p, cents)
}

func (n *network) now() answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// ready says why, by the network's last answer, no payments can be taken; nil if they can.
func (n *network) ready() error {
	a := n.now()
	if a.err == nil && time.Since(a.since) > clockFresh {
		return errLate
	}
	return a.err
}

// NetworkState is what is known of a payment network from the questions for its newest
// block.
type NetworkState struct {
	Method  string // as in challenges
	Network string
	// Asked is when the last answer was asked for, zero before the first. Err is why no
	// payment can be taken by it; nil when one can.
	Asked time.Time
	Err   error
	// Block is the instant of the newest block, as of the last answer that told it; zero before
	// the first.
	Block time.Time
	// Still is for how long the newest block has stayed the same, as of the last answer,
	// if that is longer than the chain's pace explains; otherwise 0.
	Still time.Duration
}

// Down says why no payment can be taken and settled there now; nil when one can.
func (x *NetworkState) Down() error {
	switch {
	case x.Asked.IsZero():
		return errors.New("the node has not answered yet")
	case x.Err != nil:
		return x.Err
	case x.Still > 0:
		return fmt.Errorf("the chain stands still: its newest block has stayed the same for %s", x.Still.Round(time.Second))
	}
	return nil
}

// Networks says how the payment networks are, in the order of the offers. Each is asked
// every few seconds, whether or not anybody pays.
func (s *Service) Networks() (all []NetworkState) {
	for _, n := range s.networks {
		a := n.now()
		x := NetworkState{Method: n.Name(), Network: n.Network(), Asked: a.asked, Err: n.ready()}
		if still, stands := n.still(); stands {
			x.Still = still
		}
		n.mu.Lock()
		x.Block = n.head
		n.mu.Unlock()
		all = append(all, x)
	}
	return all
}

// Down says why no payment can be taken and settled on any network now; nil if one can, and without
// networks.
func (s *Service) Down() error {
	var all []error
	for _, n := range s.Networks() {
		err := n.Down()
		if err == nil {
			return nil
		}
		all = append(all, fmt.Errorf("%s: %w", n.Network, err))
	}
	return errors.Join(all...)
}

// patience is how long the newest block may stay the same before the chain stands still.
func (n *network) patience() time.Duration {
	pace := n.Pace()
	if pace == 0 {
		pace = unknownPace
	}
	return max(leastStill, stillBlocks*pace)
}

// still is for how long the newest block had stayed the same when its network was last
// asked, and whether the chain stands still. Of one that gives no answer that is not known.
func (n *network) still() (d time.Duration, stands bool) {
	most := n.patience()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last.block.IsZero() {
		return 0, false
	}
	d = n.last.since.Sub(n.moved)
	return d, d >= most
}

// The operator can change the payee, and earlier payments still count. A stored payment
// names the payee that it was signed for. But events of earlier versions that came back from an
// edge, and events about money without a request, have no stored payment. So events name all payees.

// knowPayees gives n all payees that it ever had.
func (s *Service) knowPayees(n *network) error {
	today := n.Payee()
	var known []string
	var err error
	s.Ledger.View(func(v *ledger.View) { known, err = v.Payees(n.Network()) })
	n.payees = append([]string{today}, slices.DeleteFunc(known, func(payee string) bool { return payee == today })...)
	return err
}

// announcePayees has the ledger name the payees of all networks. Until it does, no payment is taken.
func (s *Service) announcePayees() error {
	if s.announced.Load() {
		return nil
	}
	var all []core.Payee
	for _, n := range s.networks {
		all = append(all, core.Payee{Network: n.Network(), Account: n.Payee()})
	}
	err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error { return tx.AnnouncePayees(all...) })
	s.announced.Store(err == nil)
	return err
}

// everything is more than any transaction brings, in cents.
const everything = math.MaxInt64

// received says what a transaction brought today's payee and, while that is not enough
// cents, earlier payees. It refuses as [Method.Received] does.
func (n *network) received(ctx context.Context, reference string, enough int64) (all mpp.Transfer, err error) {
	for _, payee := range n.payees {
		t, err := n.Received(ctx, payee, reference)
		switch {
		case errors.Is(err, mpp.ErrNoTransfer):
			continue
		case err != nil:
			return mpp.Transfer{}, err
		case all.Cents == 0:
			all, all.Payee = t, payee
		default:
			all.Payee = ""
			all.Cents += t.Cents
			all.Senders += t.Senders // one that paid two payees counts twice
		}
		if all.Cents >= enough {
			break
		}
	}
	if all.Cents == 0 {
		return all, mpp.ErrNoTransfer
	}
	return all, nil
}
