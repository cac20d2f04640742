// Package match compares the events of a ring with the transfers on a payment network, as anyone
// can who has the log and a node: each event must have its transfer, and each transfer to a payee
// of the ring its events.
package match

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

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

// Event is an event about a payment.
type Event struct {
	Index uint64
	At    time.Time
	Cents int64 // that it gave, negative if it took back
	core.Payment
}

// Node is what one node says. It calls found for each transaction that paid a payee, in the
// spelling of [core.Payment], since an instant, and gives the time up to which it has searched.
type Node func(ctx context.Context, payee string, since time.Time, found func(mpp.Transfer) error) (until time.Time, err error)

// Dial gives the node at a URL, which must be on a network such as "tempo:42431".
func Dial(network, url string) (Node, error) {
	method, id, _ := strings.Cut(network, ":")
	chain, err := strconv.ParseUint(id, 10, 64)
	if err != nil || method == "" {
		return nil, fmt.Errorf("match: %q is no network: give a method and a chain, such as tempo:42431", network)
	}
	if _, err := node.Dial(url, chain, 0); err != nil {
		return nil, err
	}
	return func(ctx context.Context, payee string, since time.Time, found func(mpp.Transfer) error) (until time.Time, err error) {
		token, account, _ := strings.Cut(payee, "/")
		if !common.IsHexAddress(token) || !common.IsHexAddress(account) {
			return until, fmt.Errorf("match: %q is no payee", payee)
		}
		payments, err := node.Connect(method, url, chain, common.HexToAddress(token), common.HexToAddress(account), depth, 0)
		if err != nil {
			return until, err
		}
		return payments.Transfers(ctx, since, found)
	}, nil
}

// Result is what a comparison on one network came to.
type Result struct {
	Network string
	// Matched is how many events have their transfers, Young how many are of a time that a node
	// does not have yet, and Unnamed how many name no payee and have no transfer to one that
	// another event names: the ring was of an earlier version.
	Matched, Young, Unnamed int
	Transfers               int
	// Wrong says what contradicts the log, and Unknown what is not known.
	Wrong, Unknown []string
}

// transaction is what is known of one.
type transaction struct {
	cents  []int64 // by node
	at     time.Time
	events []Event
}

// Compare compares the events on one network, in the order of the log, with what nodes say. now
// is when the log was signed. What any node does not say as all others do is unknown.
func Compare(ctx context.Context, network string, nodes []Node, events []Event, now time.Time) *Result {
	r := &Result{Network: network}
	unknown := func(format string, args ...any) { r.Unknown = append(r.Unknown, fmt.Sprintf(format, args...)) }
	wrong := func(format string, args ...any) { r.Wrong = append(r.Wrong, fmt.Sprintf(format, args...)) }
	if len(events) == 0 || len(nodes) == 0 {
		return r
	}
	all, payees := map[string]*transaction{}, map[string]bool{}
	at := func(reference string) *transaction {
		reference = strings.ToLower(reference)
		if all[reference] == nil {
			all[reference] = &transaction{cents: make([]int64, len(nodes))}
		}
		return all[reference]
	}
	since := events[0].At
	for _, e := range events {
		t := at(e.Transaction)
		t.events = append(t.events, e)
		if e.Payee != "" {
			payees[e.Payee] = true
		}
		if e.At.Before(since) {
			since = e.At
		}
	}
	since = since.Add(-before)
	horizon := now
	for i, says := range nodes {
		for _, payee := range slices.Sorted(maps.Keys(payees)) {
			until, err := says(ctx, payee, since, func(found mpp.Transfer) error {
				t := at(found.Reference)
				t.cents[i] += found.Cents
				t.at = found.At
				return ctx.Err()
			})
			if err != nil {
				unknown("node %d of %s: %v", i+1, network, err)
				return r
			}
			if until.Before(horizon) {
				horizon = until
			}
		}
	}
	if now.Sub(horizon) > patience {
		unknown("a node of %s is behind: it knows the time up to %s", network, horizon.UTC().Format(time.RFC3339))
	}
	for _, reference := range slices.Sorted(maps.Keys(all)) {
		t := all[reference]
		if slices.Max(t.cents) > 0 {
			r.Transfers++
		}
		var given int64
		var last time.Time
		var names []string
		named := false
		for _, e := range t.events {
			given, last, named = given+e.Cents, e.At, named || e.Payee != ""
			names = append(names, strconv.FormatUint(e.Index, 10))
		}
		whose := "event " + strings.Join(names, ", ")
		brought := t.cents[0]
		switch {
		case slices.Min(t.cents) != slices.Max(t.cents) && !last.After(horizon) && !t.at.After(horizon):
			unknown("nodes of %s disagree about transaction %s: %v cents", network, reference, t.cents)
		case last.After(horizon) || t.at.After(horizon):
			r.Young += len(t.events)
		case brought == 0 && !named && given != 0:
			r.Unnamed += len(t.events)
		case brought < given:
			wrong("%s gave %d cents for transaction %s, which brought %d", whose, given, reference, brought)
		case len(t.events) == 0 && now.Sub(t.at) > patience:
			wrong("transaction %s paid %d cents at %s and has no event", reference, brought, t.at.UTC().Format(time.RFC3339))
		case len(t.events) == 0:
			r.Young++
		case brought > given:
			wrong("transaction %s brought %d cents, and %s gave %d", reference, brought, whose, given)
		default:
			r.Matched += len(t.events)
		}
	}
	return r
}
