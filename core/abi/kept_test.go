package abi_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"webring/core"
	"webring/core/abi"
	"webring/core/coretest"
)

// Whatever happens between two questions in the same words, the second is answered as
// by a core that keeps nothing.
func TestKeptRepliesAreNeverStale(t *testing.T) {
	targets := []string{"/api", "/api/ring", "/api/categories", "/random", "/api/ring/%72andom", "/api/ring/random?format=redirect", "/next", "/nosuch", "", "/next?from=alpha-1", "/api/widget?from=a.com",
		"/api/ring/alpha-0", "/api/ring/beta-1", "/api/ring/beta-2?", "/api/ring/next?from=beta-2", "/api/ring/" + strings.Repeat("y", 200), "/api/leaderboard", "/api/leaderboard?limit=3", "/api/leaderboard?limit=03", "/api/leaderboard?limit=3&offset=2",
		"/api/leaderboard?page=2&limit=2", "/api/leaderboard?limit=0", "/api/leaderboards"}
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 3))
		calls, direct := abi.New(0, 1), abi.New(24, 1)
		do(t, calls, abi.OpOpen, 24, nil)
		ask := func() {
			t.Helper()
			target := []byte(targets[random.IntN(len(targets))])
			for range 3 {
				var want, got abi.Response
				bits := random.Uint64()
				direct.Serve(target, bits, &want)
				reply := do(t, calls, abi.OpServe, bits, target)
				if !abi.DecodeResponse(reply.Rest, &got) {
					t.Fatalf("seed %d: no response", seed)
				}
				if reply.Seq != direct.Seq() || reply.Second != direct.Second() || !bytes.Equal(abi.AppendResponse(nil, &got), abi.AppendResponse(nil, &want)) {
					t.Fatalf("seed %d: %s at %d, second %d:\n got %s\nwant %s", seed, target, reply.Seq, reply.Second, got.Body, want.Body)
				}
			}
		}
		for _, s := range coretest.Generate(seed, 60) {
			switch {
			case s.Event != nil:
				calls.Call(abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: s.EventBytes, Texts: s.TextBytes}))
				if direct.Apply(s.EventBytes, s.TextBytes) != nil && direct.Seq() == 0 {
					continue
				}
				direct.Advance(0)
			case random.IntN(6) == 0:
				now := direct.Second() - random.Int64N(60)
				do(t, calls, abi.OpRewind, uint64(now), nil)
				direct.Rewind(now)
			default:
				do(t, calls, abi.OpAdvance, uint64(s.Now), nil)
				direct.Advance(s.Now)
			}
			for range random.IntN(8) {
				ask()
			}
		}
		// Another ledger at the same position and second.
		now := direct.Second()
		other := coretest.Generate(seed+1000, 60)
		do(t, calls, abi.OpOpen, 24, nil)
		direct = abi.New(24, 1)
		for _, s := range other {
			if s.Event != nil {
				calls.Call(abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: s.EventBytes, Texts: s.TextBytes}))
				_ = direct.Apply(s.EventBytes, s.TextBytes) // refused by both
			}
		}
		do(t, calls, abi.OpAdvance, uint64(now), nil)
		direct.Advance(now)
		for range 20 {
			ask()
		}
	}
}

// The memory is fixed: when the log begins anew, what stood there is written
// again, and nothing of what came over it is taken for it.
func TestTheLogOfRepliesBeginsAnew(t *testing.T) {
	c, direct := abi.New(0, 1), abi.New(300, 1)
	r := coretest.NewRing(t)
	for i := range 300 {
		r.Join(fmt.Sprint("m", i), fmt.Sprintf("https://m%d.example/", i), func(_ *core.Joined, texts *core.Texts) {
			texts.Description.Value = strings.Repeat("x", core.MaxDescription)
		})
	}
	do(t, c, abi.OpOpen, 300, nil)
	for _, s := range r.Steps {
		do(t, c, abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: s.EventBytes, Texts: s.TextBytes}))
		if err := direct.Apply(s.EventBytes, s.TextBytes); err != nil {
			t.Fatal(err)
		}
	}
	direct.Advance(0)
	const seed = 5
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	var want, got abi.Response
	for range 3000 {
		// Of all lengths, some too long to be kept; together many times the log.
		target := fmt.Appendf(nil, "/api/ring?limit=%d&offset=%d", 1+random.IntN(1<<random.IntN(9)), random.IntN(40))
		if random.IntN(3) == 0 {
			target = fmt.Append(nil, "/api/ring/m", random.IntN(310))
		}
		direct.Serve(target, 7, &want)
		if reply := do(t, c, abi.OpServe, 7, target); !abi.DecodeResponse(reply.Rest, &got) || !bytes.Equal(got.Body, want.Body) {
			t.Fatalf("%s:\n got %s\nwant %s", target, got.Body, want.Body)
		}
	}
}
