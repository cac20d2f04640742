package main

import (
	"context"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"webring/server/devchain"
)

// crowdOfBuyers pay at all nodes until they are told to stop.
type crowdOfBuyers struct {
	buyers   []*buyer
	stop     context.CancelFunc
	paying   sync.WaitGroup
	finished context.Context

	mu    sync.Mutex
	open  map[*buyer][]*purchase
	wrong []string
}

// buy has buyers pay: with transactions of their own, by authorisations, and with the
// reference client.
func (c *faultyCluster) buy(seed uint64, tempo, evm, reference int) *crowdOfBuyers {
	t := c.t
	_, client := chain(t)
	x := &crowdOfBuyers{open: map[*buyer][]*purchase{}}
	x.finished, x.stop = context.WithCancel(context.Background())
	add := func(kind string, i int, accept string, sign func(*rand.Rand) func(reply) (string, error)) {
		b := &buyer{name: fmt.Sprintf("%s-%d", kind, i), at: append(append([]*process{}, c.nodes...), c.edges...), accept: accept, seen: c.seen,
			random: rand.New(rand.NewPCG(seed, uint64(len(x.buyers)))), client: &http.Client{}, slugs: []string{"founder-0", "founder-1", "founder-2"}}
		b.sign = sign(b.random)
		x.buyers = append(x.buyers, b)
	}
	for i := range tempo {
		add("tempo", i, "tempo", func(r *rand.Rand) func(reply) (string, error) { return tempoBuyer(wallet(t), r) })
	}
	for i := range reference {
		add("reference", i, "tempo", func(*rand.Rand) func(reply) (string, error) { return referenceBuyer(client, wallet(t)) })
	}
	for i := range evm {
		w := freshWallet(t)
		if err := c.evm.Endow(t.Context(), devchain.USDC, w.Address(), big.NewInt(1_000_000_000_000)); err != nil {
			t.Fatal(err)
		}
		add("evm", i, "evm", func(*rand.Rand) func(reply) (string, error) { return evmBuyer(w) })
	}
	for _, b := range x.buyers {
		x.paying.Go(func() {
			for n := 0; x.finished.Err() == nil; n++ {
				p, err := b.buy(x.finished, n)
				x.mu.Lock()
				if p != nil {
					x.open[b] = append(x.open[b], p)
				}
				if err != nil {
					x.wrong = append(x.wrong, b.name+": "+err.Error())
				}
				x.mu.Unlock()
			}
		})
	}
	return x
}

// dismiss ends new payments, and has each buyer ask until it knows what became of its last one.
func (x *crowdOfBuyers) dismiss(t *testing.T) {
	t.Helper()
	x.stop()
	x.paying.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	for b, some := range x.open {
		for _, p := range some {
			x.paying.Go(func() {
				if _, err := b.present(ctx, p); err != nil {
					x.mu.Lock()
					defer x.mu.Unlock()
					x.wrong = append(x.wrong, fmt.Sprintf("%s: %v: payment %s", b.name, err, p.id))
				}
			})
		}
	}
	x.paying.Wait()
	for _, w := range x.wrong {
		t.Error(w)
	}
}

// applied is how many payments buyers were told are done.
func (s *seen) applied() (n int) {
	s.with(func() { n = len(s.granted) })
	return n
}
