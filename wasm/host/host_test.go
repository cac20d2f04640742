package host

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"webring/core"
	"webring/wasm/module"
)

// tested is what both hosts can do.
type tested interface {
	Apply(records []Record) error
	Tick(now time.Time)
	Serve(target []byte, r *Response)
	Head() (seq uint64, second int64)
	BaseURL() string
	Digest() (seq uint64, digest [16]byte)
	Snapshot() []byte
	Close() error
}

// guest is the module that `make wasm` builds.
func guest(t testing.TB) []byte {
	t.Helper()
	m, err := module.Core()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// compiled keeps compiled code from pool to pool of one run.
var compiled = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "webring-compiled")
	if err != nil {
		panic(err)
	}
	return dir
})

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(compiled())
	os.Exit(code)
}

func newPool(t testing.TB, c PoolConfig) *Pool {
	t.Helper()
	if c.Module == nil {
		c.Module = guest(t)
	}
	c.CacheDir, c.Log = compiled(), slog.New(slog.DiscardHandler)
	p, err := NewPool(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// eachHost runs a test on every host. What holds for one holds for all.
func eachHost(t *testing.T, capacity int, test func(t *testing.T, n tested)) {
	t.Run("native", func(t *testing.T) { test(t, NewNative(capacity)) })
	for _, instances := range []int{1, 3} {
		t.Run(fmt.Sprint("pool of ", instances), func(t *testing.T) {
			test(t, newPool(t, PoolConfig{Capacity: capacity, Instances: instances}))
		})
	}
}

func TestRecordsBeforeAnErrorAreServed(t *testing.T) {
	eachHost(t, 10, func(t *testing.T, n tested) {
		err := n.Apply([]Record{rules(), join("a", 0, epoch*1000), join("a", 0, epoch*1000), join("b", 0, epoch*1000)})
		if err == nil || err.Error() != "host: record 2: "+core.ErrSlugTaken.Error() {
			t.Errorf("error %v", err)
		}
		wantHead(t, n, 2, epoch)
		if body := get(n, "/api/leaderboard"); !strings.Contains(body, `"total":1,`) {
			t.Error(body)
		}
	})
}

// The head follows the wall clock forwards, and stays where it is when that is set right little
// by little. It goes back with a clock that has stepped back by more than five seconds, once or
// in all, but never before the last event. An event that is ahead of the clock raises it.
func TestTheHeadFollowsTheWallClock(t *testing.T) {
	eachHost(t, 10, func(t *testing.T, n tested) {
		if err := n.Apply([]Record{rules(), join("a", 900, epoch*1000)}); err != nil {
			t.Fatal(err)
		}
		follow := func(seq uint64, steps ...[2]int64) {
			t.Helper()
			for _, s := range steps {
				n.Tick(time.Unix(epoch+s[0], 999e6))
				wantHead(t, n, seq, epoch+s[1])
			}
		}
		stands := func(usd string) {
			t.Helper()
			if body := get(n, "/api/ring/a"); !strings.Contains(body, `"effective_bid_usd":"`+usd+`"`) {
				t.Error(body)
			}
		}
		follow(2, [2]int64{0, 0}, [2]int64{1, 1}, [2]int64{7, 7}, [2]int64{6, 7}, [2]int64{2, 7}, [2]int64{8, 8}, [2]int64{300, 300})
		stands("7.10") // 10.00 × (1000 − 290) / 1000
		follow(2, [2]int64{297, 300}, [2]int64{295, 300}, [2]int64{294, 294}, [2]int64{5, 5})
		stands("10.00")
		follow(2, [2]int64{-1000, 0}, [2]int64{-999, 0})
		if err := n.Apply([]Record{join("b", 0, (epoch+60)*1000)}); err != nil {
			t.Fatal(err)
		}
		wantHead(t, n, 3, epoch+60)
		follow(3, [2]int64{1, 60}, [2]int64{61, 61})
	})
}

// For the pool see [TestReadersGetAnswersThatCount].
func TestReadersOfTheNativeCoreNeverSeeTheHeadGoBack(t *testing.T) {
	n := NewNative(1000)
	if err := n.Apply([]Record{rules()}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			var r Response
			var seq uint64
			for {
				select {
				case <-stop:
					return
				default:
				}
				n.Serve([]byte("/api/leaderboard?limit=3"), &r)
				if r.Seq < seq || !bytes.HasPrefix(r.Body, []byte(`{"total":`)) {
					t.Errorf("position %d after %d: %.80s", r.Seq, seq, r.Body)
					return
				}
				seq = r.Seq
			}
		})
	}
	for i := range int64(200) {
		slug := string([]byte{'a' + byte(i/26), 'a' + byte(i%26)})
		if err := n.Apply([]Record{join(slug, 100+i, epoch*1000+i*100)}); err != nil {
			t.Fatal(err)
		}
		n.Tick(time.Unix(epoch+i, 0))
	}
	close(stop)
	readers.Wait()
}

func TestRandomVisitsEveryMember(t *testing.T) {
	eachHost(t, 10, func(t *testing.T, n tested) {
		if err := n.Apply([]Record{rules(), join("a", 0, epoch*1000), join("b", 0, epoch*1000), join("c", 0, epoch*1000)}); err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		var r Response
		for range 3000 {
			n.Serve([]byte("/random"), &r)
			seen[string(r.Location)]++
		}
		// Each is expected 1000 times; 800 is seven standard deviations below.
		for _, m := range []string{"a", "b", "c"} {
			if seen["https://"+m+".example/"] < 800 {
				t.Errorf("visits: %v", seen)
			}
		}
	})
}
