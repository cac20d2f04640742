package host

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/core/abi"
)

// However records, seconds, clocks that are set back, traps and new images fall
// between readers, each gets an answer that counted while it asked, and the same
// bytes as all others who got one that counts then. So no answer goes back in position or
// second behind an earlier one, also when all instances are lost and the native core answers.
func TestReadersGetAnswersThatCount(t *testing.T) {
	const seed, instances, readers = 8, 3, 3
	t.Logf("seed %d", seed)
	p := newPool(t, PoolConfig{Capacity: 1000, Instances: instances})
	records := []Record{rules(), join("alpha-0", 5_000_000, epoch*1000)}
	for i := range int64(30) {
		records = append(records, join(fmt.Sprint("beta-", i), i%4*100, epoch*1000))
	}
	if err := p.Apply(records); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var asked, again, failed atomic.Int64
	var answers sync.Map // of what an answer is to, and when it counts: its bytes
	var reading sync.WaitGroup
	for i := range readers {
		reading.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			var r Response
			for !stop.Load() {
				target := repeated[random.IntN(len(repeated))]
				rewinds := p.head.Load().rewinds
				seq, second := p.Head()
				p.Serve([]byte(target), &r)
				lastSeq, lastSecond := p.Head()
				steady := rewinds == p.head.Load().rewinds
				asked.Add(1)
				if r.Status == 500 {
					failed.Add(1)
					continue
				}
				if r.Seq < seq || r.Seq > lastSeq {
					t.Errorf("%s: of position %d, asked from %d to %d", target, r.Seq, seq, lastSeq)
				}
				counts := fmt.Sprint(target, " at ", r.Seq)
				if r.Validity == abi.Timed {
					counts += fmt.Sprint(" from ", r.Since, " to ", r.Until)
					if steady && (r.Until <= second || r.Since > lastSecond) {
						t.Errorf("%s: asked from %d to %d", counts, second, lastSecond)
					}
				}
				if r.Drawn {
					continue
				}
				given := shown(&r)
				if first, known := answers.LoadOrStore(counts, given); known {
					again.Add(1)
					if first != given {
						t.Errorf("%s:\n%.300q and\n%.300q", counts, first, given)
					}
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(seed, seed))
	now, traps, images := int64(epoch+100), int64(0), 0
	const last = 55 // step with instances
	for i := range 60 {
		if i == last {
			put(all(t, p))
			buildNone(t, p)
			breakAll(t, p)
			traps += instances
		}
		switch random.IntN(10) {
		case 0, 1:
			if err := p.Apply([]Record{join(fmt.Sprint("gamma-", i), random.Int64N(3)*100, epoch*1000)}); err != nil {
				t.Fatal(err)
			}
		case 2:
			if i >= last {
				break // the native core does not say how often it was set back
			}
			now = max(epoch+50, now-6-random.Int64N(100))
		case 3:
			now += random.Int64N(5000)
		case 4:
			if traps < 2 && i < last {
				traps++
				taken := all(t, p)
				broken(t, taken[random.IntN(instances)])
				put(taken)
			}
		case 5:
			if images++; images > 4 || i >= last {
				break
			}
			p.writing.Lock()
			p.renew()
			p.writing.Unlock()
		default:
			now += random.Int64N(3)
		}
		p.Tick(time.Unix(now, 0))
		for enough := asked.Load() + 50; asked.Load() < enough && !t.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
	stop.Store(true)
	reading.Wait()
	if failed.Load() > traps || again.Load() < 500 || p.native.Load() == nil {
		t.Errorf("%d of %d failed after %d traps, %d were given before", failed.Load(), asked.Load(), traps, again.Load())
	}
}
