package host

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"webring/core"
)

// repeated are targets that are asked again and again: documents of all kinds
// of validity, several spellings of one, and what chance has a part in.
var repeated = []string{"/api", "/api/ring", "/api/categories", "/random", "/api/ring/%72andom", "/api/ring/random?format=redirect", "/next", "/nosuch", "",
	"/next?from=alpha-1", "/api/widget?from=a.com", "/api/ring/alpha-0", "/api/ring/beta-1", "/api/ring/beta-2?", "/api/ring/next?from=beta-2",
	"/api/ring/" + strings.Repeat("y", 200), "/api/leaderboard", "/api/leaderboard?limit=3", "/api/leaderboard?limit=03", "/api/leaderboard?limit=3&offset=2",
	"/api/leaderboard?page=2&limit=2", "/api/leaderboard?limit=0", "/api/leaderboards"}

// shown is all that an answer says.
func shown(r *Response) string {
	return fmt.Sprintf("%d %d %d %d %d..%d %t %t %d %d %q %q %q %s", r.Status, r.Media, r.Validity, r.Seq, r.Since, r.Until, r.Unknown, r.Drawn, r.From, r.To,
		r.Location, r.Next, r.Prev, r.Body)
}

// A pool answers as the native core does, one target or several, whichever instance
// does, through records, a clock that goes forwards and back, traps, and instances that
// begin anew from another image.
func TestAPoolIsNeverStale(t *testing.T) {
	const seed = 11
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	const instances = 3
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: instances})
	native := NewNative(1000)
	both := func(do func(n tested) error) {
		t.Helper()
		for _, n := range []tested{native, p} {
			if err := do(n); err != nil {
				t.Fatal(err)
			}
		}
	}
	now, members := int64(epoch+100), 0
	tick := func(by int64) {
		now = max(now+by, epoch+50)
		both(func(n tested) error { n.Tick(time.Unix(now, 0)); return nil })
	}
	both(func(n tested) error { return n.Apply([]Record{rules(), join("alpha-0", 5_000_000, epoch*1000)}) })
	traps := uint64(0)
	for range 200 {
		switch random.IntN(12) {
		case 0, 1, 2:
			members++
			record := join(fmt.Sprint("beta-", members), random.Int64N(3)*100, epoch*1000)
			both(func(n tested) error { return n.Apply([]Record{record}) })
		case 3:
			tick(-6 - random.Int64N(30))
		case 4:
			traps++
			losesOne(t, p, func() { tick(1) })
		case 5:
			p.writing.Lock()
			p.renew()
			p.writing.Unlock()
		case 6: // the whole order is made anew
			decay := 100_000 + random.Int64N(100_000)
			both(func(n tested) error {
				return n.Apply([]Record{record(&core.Rules{Stamp: epoch * 1000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100,
					Decay: decay, Scorer: "fixed", RequiredScore: 40}, nil)})
			})
			tick(3600)
		default:
			tick(random.Int64N(3))
		}
		targets, wants, gots := [][]byte{}, make([]Response, len(repeated)), make([]Response, len(repeated))
		for _, target := range repeated {
			targets = append(targets, []byte(target))
		}
		native.ServeAll(targets, wants)
		p.ServeAll(targets, gots)
		for i := range wants {
			if wants[i].Drawn && gots[i].Drawn {
				continue
			}
			if shown(&gots[i]) != shown(&wants[i]) {
				t.Fatalf("%s, with others, at %d, epoch%+d:\n got %d %s\nwant %d %s", targets[i], wants[i].Seq, now-epoch, gots[i].Seq, gots[i].Body, wants[i].Seq, wants[i].Body)
			}
		}
		for range random.IntN(10) {
			target := []byte(repeated[random.IntN(len(repeated))])
			var want, got Response
			native.Serve(target, &want)
			p.Serve(target, &got)
			if want.Drawn {
				if !got.Drawn || got.Status != want.Status {
					t.Fatalf("%s: %d, drawn %t", target, got.Status, got.Drawn)
				}
				continue
			}
			if shown(&got) != shown(&want) {
				t.Fatalf("%s at %d, epoch%+d:\n got %d %s\nwant %d %s", target, want.Seq, now-epoch, got.Seq, got.Body, want.Seq, want.Body)
			}
		}
	}
	if p.Traps() != traps || traps == 0 {
		t.Errorf("%d traps of %d", p.Traps(), traps)
	}
}

// losesOne has one instance trap, which the next tick finds out and not a request.
func losesOne(t *testing.T, p *Pool, tick func()) {
	t.Helper()
	taken := all(t, p)
	broken(t, taken[0])
	put(taken)
	tick()
	put(all(t, p))
}
