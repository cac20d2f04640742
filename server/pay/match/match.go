// Package match compares the events of a ring with the transfers on a payment network, as anyone
// can who has the log and a node: each event must have its transfer, and each transfer to a payee
// of the ring its events. Anyone can send money to a payee, also with a memo that looks like one of
// the ring. So a transfer without an event is never said to be wrong.
package match

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"webring/core"
	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

const (
	// depth is how many blocks must follow one before it is taken to stay.
	depth = 12
	// patience is how long a payment may take from its block to its event, and how far a node may
	// be behind.
	patience = time.Hour
	// before is how long before the first event the search begins.
	before = 24 * time.Hour
)

// Logs is what the log of a ring says of each payment network.
type Logs map[string]*Log

// Log is what the log of a ring says of one payment network.
type Log struct {
	events []event
	payees map[string]time.Time // since when each is one
	since  time.Time            // when it first speaks of the network
	named  time.Time            // when it first names a payee
	memos  map[string]bool      // how memos of the ring begin, nil where nonces bind payments
}

// event is an event about a payment.
type event struct {
	index uint64
	at    time.Time
	cents int64 // that it gave, negative if it took back
	core.Payment
}

// Events is how many events are about payments on the network.
func (l *Log) Events() int { return len(l.events) }

// Add takes an event of the log, in the order of the log.
func (all Logs) Add(index uint64, e core.Event) {
	at := time.UnixMilli(e.When())
	if list, ok := e.(*core.Payees); ok {
		for _, p := range list.List {
			all.on(p.Network, at).name(p.Account, at)
		}
	}
	if p, cents := core.PaymentOf(e); p.Network != "" {
		l := all.on(p.Network, at)
		l.events = append(l.events, event{index, at, cents, p})
		if l.memos != nil && p.Binding != "" {
			l.memos[memoHead(p.Binding)] = true
		}
		l.name(p.Payee, at)
	}
}

func (all Logs) on(network string, at time.Time) *Log {
	if all[network] == nil {
		all[network] = &Log{payees: map[string]time.Time{}, since: at}
		if strings.HasPrefix(network, "tempo:") {
			all[network].memos = map[string]bool{}
		}
	}
	return all[network]
}

// memoHead is what all memos for one realm begin with: the scheme and a hash of the realm, 15 bytes.
func memoHead(memo string) string { return memo[:min(len(memo), len("0x")+2*15)] }

// claims says whether a transaction names a payment as those of the ring are named: by a memo that
// begins like those in the log, or, without any there, by any memo; or by an authorisation's nonce.
func (l *Log) claims(t *transaction) bool {
	for b := range t.bound[0] {
		if len(l.memos) == 0 || l.memos[memoHead(b.Binding)] {
			return true
		}
	}
	return false
}

// name takes the name of a payee. Those that a ring names first may have been paid before, by
// events of an earlier version, which name none.
func (l *Log) name(payee string, at time.Time) {
	if _, known := l.payees[payee]; known || payee == "" {
		return
	}
	if l.named.IsZero() {
		l.named = at
	}
	if l.payees[payee] = at; at.Equal(l.named) {
		l.payees[payee] = l.since
	}
}

// Node is what one node says. It calls found for each transaction that paid a payee, in the
// spelling of [core.Payment], since an instant, with the payments that the token names in it. It
// gives the time up to which it has searched.
type Node func(ctx context.Context, payee string, since time.Time, found func(mpp.Transfer) error) (until time.Time, err error)

// Dial gives the node at a URL, which must be on a network such as "tempo:42431".
func Dial(network, url string) (Node, error) {
	method, id, _ := strings.Cut(network, ":")
	chain, err := strconv.ParseUint(id, 10, 64)
	if err != nil || method == "" {
		return nil, fmt.Errorf("match: %q is no network: give a method and a chain, such as tempo:42431", network)
	}
	says, err := node.Dial(url, chain, 0)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, payee string, since time.Time, found func(mpp.Transfer) error) (until time.Time, err error) {
		payments, err := node.Payments{Node: says, Depth: depth, Method: method}.At(payee)
		if err != nil {
			return until, err
		}
		return payments.Transfers(ctx, since, found)
	}, nil
}

// Result is what a comparison on one network came to.
type Result struct {
	// Matched is how many events have their transfers, Moved how many name another transaction than
	// the one with their memo or nonce, Young how many events and transfers are of a time that a
	// node does not have yet, and Unnamed how many events name no payee and have no transfer to one
	// that the log names: the ring was of an earlier version.
	Matched, Moved, Young, Unnamed int
	// Stray says which transactions paid a payee without an event or a memo or nonce as the ring
	// uses them, and StrayCents is what they paid. Anyone can send money.
	Stray      []string
	StrayCents int64
	// Wrong says what contradicts the log, and Unknown what is not known.
	Wrong, Unknown []string
}

// transaction is what nodes and the log say of one.
type transaction struct {
	cents  []int64              // by node
	bound  []map[mpp.Bound]bool // the payments that the token names in it, by node
	at     time.Time
	due    bool // it paid one that was a payee then
	events []event
}

// said is what nodes say.
type said struct {
	nodes        []Node
	transactions map[string]*transaction
	bound        map[mpp.Bound]*transaction // the last one that names the payment
	until        time.Time                  // they all have searched up to then
}

func (s *said) at(reference string) *transaction {
	reference = strings.ToLower(reference)
	if s.transactions[reference] == nil {
		t := &transaction{cents: make([]int64, len(s.nodes)), bound: make([]map[mpp.Bound]bool, len(s.nodes))}
		for i := range t.bound {
			t.bound[i] = map[mpp.Bound]bool{}
		}
		s.transactions[reference] = t
	}
	return s.transactions[reference]
}

// ask asks all nodes for the transfers to all payees.
func (s *said) ask(ctx context.Context, l *Log) error {
	for i, says := range s.nodes {
		for _, payee := range slices.Sorted(maps.Keys(l.payees)) {
			until, err := says(ctx, payee, l.since.Add(-before), func(found mpp.Transfer) error {
				t := s.at(found.Reference)
				t.cents[i] += found.Cents
				t.at = found.At
				t.due = t.due || !found.At.Before(l.payees[payee])
				for _, b := range found.Bound {
					t.bound[i][b], s.bound[b] = true, t
				}
				return ctx.Err()
			})
			if err != nil {
				return fmt.Errorf("node %d: %w", i+1, err)
			}
			if until.Before(s.until) {
				s.until = until
			}
		}
	}
	return nil
}

// of gives the transaction of an event: the one that it names, or another that the network shows
// with its memo or nonce, because a stranger has settled the authorisation, or a block was undone.
func (s *said) of(e event) (t *transaction, moved bool) {
	t = s.at(e.Transaction)
	if other := s.bound[e.bound()]; other != nil && !t.names(e) {
		return other, true
	}
	return t, false
}

func (e event) bound() mpp.Bound {
	return mpp.Bound{Payer: strings.ToLower(e.Payer), Binding: e.Binding}
}

// names says whether the token names the payment of an event in t, according to any node.
func (t *transaction) names(e event) bool {
	return slices.ContainsFunc(t.bound, func(of map[mpp.Bound]bool) bool { return of[e.bound()] })
}

// agreed says whether all nodes say the same of t.
func (t *transaction) agreed() bool {
	for i := range t.cents {
		if t.cents[i] != t.cents[0] || !maps.Equal(t.bound[i], t.bound[0]) {
			return false
		}
	}
	return true
}

// Compare compares the events with what nodes of the network say. now is when the log was signed.
// What any node does not say as all others do is unknown.
func (l *Log) Compare(ctx context.Context, nodes []Node, now time.Time) *Result {
	r := &Result{}
	unknown := func(format string, args ...any) { r.Unknown = append(r.Unknown, fmt.Sprintf(format, args...)) }
	wrong := func(format string, args ...any) { r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...)) }
	s := &said{nodes: nodes, transactions: map[string]*transaction{}, bound: map[mpp.Bound]*transaction{}, until: now}
	if err := s.ask(ctx, l); err != nil {
		unknown("%v", err)
		return r
	}
	if now.Sub(s.until) > patience {
		unknown("a node is behind: it knows the time up to %s", s.until.UTC().Format(time.RFC3339))
	}
	for _, e := range l.events {
		t, moved := s.of(e)
		if t.events = append(t.events, e); moved {
			r.Moved++
		}
	}
	for _, reference := range slices.Sorted(maps.Keys(s.transactions)) {
		t := s.transactions[reference]
		var given int64
		var last time.Time
		var names []string
		named, bound := false, true
		for _, e := range t.events {
			given, last, named = given+e.cents, e.at, named || e.Payee != ""
			bound = bound && (e.Binding == "" || t.names(e))
			names = append(names, strconv.FormatUint(e.index, 10))
		}
		whose := "event " + strings.Join(names, ", ")
		brought := t.cents[0]
		switch {
		case last.After(s.until) || t.at.After(s.until):
			r.Young += max(1, len(t.events))
		case !t.agreed():
			unknown("nodes disagree about transaction %s: it paid %v cents", reference, t.cents)
		case brought == 0 && !named && given != 0:
			r.Unnamed += len(t.events)
		case brought < given:
			wrong("%s gave %d cents for transaction %s, which brought %d", whose, given, reference, brought)
		case len(t.events) == 0 && !t.due:
		case len(t.events) == 0 && now.Sub(t.at) > patience:
			paid := fmt.Sprintf("transaction %s paid %d cents at %s", reference, brought, t.at.UTC().Format(time.RFC3339))
			if l.claims(t) {
				unknown("%s with a memo or nonce as for this ring, and has no event: the ring has left it out, or another has sent it", paid)
			} else {
				r.Stray, r.StrayCents = append(r.Stray, paid), r.StrayCents+brought
			}
		case len(t.events) == 0:
			r.Young++
		case brought > given:
			unknown("transaction %s brought %d cents, and %s gave %d: the ring has left a payment out, or another has sent more", reference, brought, whose, given)
		case brought > 0 && !bound:
			wrong("%s names a memo or nonce that transaction %s does not have", whose, reference)
		default:
			r.Matched += len(t.events)
		}
	}
	return r
}
