package evm

import (
	"maps"
	"testing"
	"time"

	"webring/server/pay/mpp"
)

// since gives what a node was asked in a call of fn.
func (n *fakeNode) since(fn func()) map[string]int {
	count := func() map[string]int {
		n.mu.Lock()
		defer n.mu.Unlock()
		return maps.Clone(n.asked)
	}
	before, after := count(), map[string]int{}
	fn()
	for method, times := range count() {
		if times > before[method] {
			after[method] = times - before[method]
		}
	}
	return after
}

// Whoever asks soon after the clock was asked shares its block and what the gas
// account had in it: of that, nothing is asked again before the next block. A trial asks
// for what is pending, which changes at any time.
func TestHeadAndAccountAreAskedOnceABlockForAll(t *testing.T) {
	n, m, p, _ := fake(t, -60)
	n.bend["eth_call"], n.bend["eth_estimateGas"], n.bend["eth_getCode"] = no, "0x13880", "0x"
	m.tokenSeen.Store(time.Now().Unix())
	clock := func() {
		if at, err := m.Clock(t.Context()); err != nil || at.Unix() != n.times[len(n.times)-1] {
			t.Fatalf("clock: %v, %v", at, err)
		}
	}
	asked := n.since(clock)
	if want := map[string]int{"eth_chainId": 1, "eth_getBlockByNumber": 1, "eth_getTransactionCount": 1, "eth_getBalance": 1, "eth_maxPriorityFeePerGas": 1}; !maps.Equal(asked, want) {
		t.Errorf("a new block: asked %v, want %v", asked, want)
	}
	asked = n.since(func() {
		clock()
		for range 8 {
			if err := m.Simulate(t.Context(), p); err != nil {
				t.Error(err)
			}
		}
	})
	if want := map[string]int{"eth_chainId": 1, "eth_getBlockByNumber": 9, "eth_call": 16, "eth_estimateGas": 8, "eth_getCode": 8}; !maps.Equal(asked, want) {
		t.Errorf("the same block: asked %v, want %v", asked, want)
	}
	n.mu.Lock()
	n.times = append(n.times, n.times[len(n.times)-1]+2)
	n.mu.Unlock()
	if asked := n.since(clock); asked["eth_getBalance"] != 1 {
		t.Errorf("the next block: asked %v", asked)
	}
}

// An authorisation whose transaction waits to be mined costs one question a block.
// When it is mined, what was heard of the gas account before is not believed any more.
func TestSubmissionThatWaitsCostsOneQuestion(t *testing.T) {
	n, m, p, a := fake(t, -60)
	m.tokenSeen.Store(time.Now().Unix())
	n.bend["eth_call"], n.bend["eth_estimateGas"], n.bend["eth_getCode"] = no, "0x13880", "0x"
	look := func(state mpp.State) {
		t.Helper()
		if _, err := m.Clock(t.Context()); err != nil {
			t.Fatal(err)
		}
		o, err := m.Outcome(t.Context(), p)
		if err != nil || o.State != state {
			t.Fatalf("%v: %s, %v", o.State, o.Detail, err)
		}
		if o.State == mpp.Pending {
			if o, err = m.Broadcast(t.Context(), p, &account{}); err != nil || o.Detail != "submitted" {
				t.Fatalf("%s, %v", o.Detail, err)
			}
		}
	}
	look(mpp.Pending)
	asked := n.since(func() { look(mpp.Pending) })
	delete(asked, "eth_chainId")
	delete(asked, "eth_getBlockByNumber") // of the clock
	if want := map[string]int{"eth_call": 1}; !maps.Equal(asked, want) {
		t.Errorf("asked %v, want %v", asked, want)
	}
	n.used(a)
	look(mpp.Settled)
	asked = n.since(func() {
		if _, err := m.standing(t.Context()); err != nil {
			t.Error(err)
		}
	})
	if asked["eth_getTransactionCount"] != 1 {
		t.Errorf("after it was mined: asked %v", asked)
	}
}
