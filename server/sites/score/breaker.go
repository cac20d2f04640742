package score

import (
	"sync"
	"time"

	"webring/edge/share"
)

const (
	tripAfter = 5 // failures since the last success
	// mostOfOne is how many of them one wide network can contribute.
	mostOfOne = 3
	openFor   = 30 * time.Second
	// maxProbes bounds the questions at a time while the breaker is open.
	maxProbes = 4
	// maxFailures bounds the clients with a count of failures.
	maxFailures = 256
)

// breaker is a circuit breaker in front of a scoring service. A client chooses the
// sites that it asks about, and may know sites at which a working service fails; so
// the failures of a single client stop that client only. A client with [tripAfter]
// failures since the last success is refused for half a minute. When [tripAfter]
// failures are of several networks, the breaker opens: for half a minute it refuses
// those networks, and lets each other client ask one question at a time. The first
// success closes it for all.
type breaker struct {
	mu      sync.Mutex
	clients map[share.Asker]*failures // since the last success
	open    bool
	until   time.Time // while open: networks that failed are refused until then
	probes  *share.Shares
}

type failures struct {
	n     int
	until time.Time // the client is refused until then
}

func newBreaker() *breaker {
	return &breaker{clients: map[share.Asker]*failures{}, probes: share.NewShares(share.Rule{Most: maxProbes})}
}

// rest is how long a client is still refused for its own failures, or 0.
func (b *breaker) rest(client share.Asker, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.clients[client]
	if f == nil {
		return 0
	}
	return max(0, f.until.Sub(now))
}

// admit decides about a question of a client: wait is 0 if it may be put now. probe
// says that it counts against maxProbes until done.
func (b *breaker) admit(client share.Asker, now time.Time) (probe bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return false, 0
	}
	rests := b.until.Sub(now)
	if rests > 0 && b.by(share.Asker.Network)[client.Network()] > 0 || b.probes.Had(client) > 0 || !b.probes.Take(client) {
		return false, max(rests, time.Second)
	}
	return true, 0
}

// done counts the outcome of a question that was admitted. One that was not put counts
// as none.
func (b *breaker) done(client share.Asker, probe, put, failed bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.probes.Return(client)
	}
	switch {
	case !put:
	case !failed:
		b.open = false
		clear(b.clients)
	default:
		b.fail(client, now)
		if probe || !b.open && b.tripped() {
			b.open, b.until = true, now.Add(openFor)
		}
	}
}

// fail counts a failure. The caller holds mu.
func (b *breaker) fail(client share.Asker, now time.Time) {
	f := b.clients[client]
	if f == nil {
		if len(b.clients) >= maxFailures {
			clear(b.clients)
		}
		f = &failures{}
		b.clients[client] = f
	}
	if f.n++; f.n >= tripAfter {
		f.until = now.Add(openFor)
	}
}

// tripped reports whether there are [tripAfter] failures of more than one wide network. The
// caller holds mu.
func (b *breaker) tripped() bool {
	n := 0
	for _, failed := range b.by(share.Asker.Wide) {
		n += min(failed, mostOfOne)
	}
	return n >= tripAfter
}

// by is how often questions failed of each network that one gives. The caller holds mu.
func (b *breaker) by(network func(share.Asker) share.Asker) map[share.Asker]int {
	failed := map[share.Asker]int{}
	for client, f := range b.clients {
		failed[network(client)] += f.n
	}
	return failed
}
