package score

import (
	"sync"
	"time"

	"webring/server/fair"
)

const (
	tripAfter = 5 // failures since the last success
	// mostOfOne is how many of them may be those of one network.
	mostOfOne = 3
	openFor   = 30 * time.Second
	// maxProbes is how many questions of others are put at a time meanwhile.
	maxProbes = 4
	// maxFailures bounds the clients whose failures are remembered.
	maxFailures = 256
)

// breaker keeps questions from a service that fails. One that fails at one site
// cannot be told from one that fails at all, and a client chooses its sites. So a
// client that alone has failed [tripAfter] times rests. When as many failures are of
// several networks, those networks rest for half a minute; each of the others may ask
// one question at a time meanwhile, and the first answer ends the rest of all. So
// clients that know sites at which a service fails keep nobody else from it.
type breaker struct {
	mu      sync.Mutex
	clients map[fair.Asker]*failures // since the last success
	open    bool
	until   time.Time // when it is open: who failed rests
	probes  *fair.Shares
}

type failures struct {
	n     int
	until time.Time // the client rests
}

func newBreaker() *breaker {
	return &breaker{clients: map[fair.Asker]*failures{}, probes: fair.NewShares(fair.Rule{Most: maxProbes})}
}

// rest is how long a client has to stay away by itself, or 0.
func (b *breaker) rest(client fair.Asker, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.clients[client]
	if f == nil {
		return 0
	}
	return max(0, f.until.Sub(now))
}

// admit says whether a question of a client may be put, or when it may.
func (b *breaker) admit(client fair.Asker, now time.Time) (probe bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		return false, 0
	}
	rests := b.until.Sub(now)
	if rests > 0 && b.byNetwork()[client.Network()] > 0 || b.probes.Had(client) > 0 || !b.probes.Take(client) {
		return false, max(rests, time.Second)
	}
	return true, 0
}

// done takes the outcome of a question that was admitted. One that was not put says
// nothing.
func (b *breaker) done(client fair.Asker, probe, put, failed bool, now time.Time) {
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
func (b *breaker) fail(client fair.Asker, now time.Time) {
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

// tripped reports whether there are [tripAfter] failures of more than one network. The
// caller holds mu.
func (b *breaker) tripped() bool {
	n := 0
	for _, failed := range b.byNetwork() {
		n += min(failed, mostOfOne)
	}
	return n >= tripAfter
}

// byNetwork is how often questions of each network failed. The caller holds mu.
func (b *breaker) byNetwork() map[string]int {
	failed := map[string]int{}
	for client, f := range b.clients {
		failed[client.Network()] += f.n
	}
	return failed
}
