package edge

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"webring/core/api"
)

// turningCore stands at another position at every turn. Its lists are words that
// all name the position.
type turningCore struct{ seq atomic.Uint64 }

const positionWord = len("00000007 ")

func (c *turningCore) Serve(target []byte, r *api.Response) {
	words := 1 + len(target)
	if isList(target) {
		words = []int{600, 8_000, 40_000}[len(target)%3] // 5, 72 and 360 kB
	}
	seq := c.seq.Load()
	*r = api.Response{Status: 200, Validity: api.Position, Seq: seq, Body: r.Body[:0]}
	word := fmt.Sprintf("%08d ", seq)
	for range words {
		r.Body = append(r.Body, word...)
	}
}

func (c *turningCore) ServeAll(targets [][]byte, all []api.Response) {
	for i, target := range targets {
		c.Serve(target, &all[i])
	}
}

func (c *turningCore) Head() (uint64, int64) { return c.seq.Load(), epoch }
func (c *turningCore) BaseURL() string       { return base }

// Lists are sent from where they lie, to readers who take little at a time, while
// other lists take their places: each arrives whole and of one position, and no
// reader goes back. Requests come in pieces, many at a time, and some connections
// are handed over with answers on their way.
func TestSlowReadersGetListsOfOnePosition(t *testing.T) {
	const seed = 3
	t.Logf("seed %d", seed)
	core := new(turningCore)
	s := serve(t, Config{Core: core, RateLimit: 1 << 30})
	targets := []string{"/api/ring", "/api/ring?limit=1", "/api/ring?limit=11", "/api/leaderboard", "/next", "/api/ring/next?from=a"}
	const requests = 100
	var readers sync.WaitGroup
	for i := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		c := s.Dial()
		if i > 0 {
			c.(*net.TCPConn).SetReadBuffer(32 << 10)
		}
		var all strings.Builder
		for n := range requests {
			fields := ""
			if i%2 == 0 && n == requests-5 {
				fields = unusual
			}
			fmt.Fprintf(&all, "GET %s HTTP/1.1\r\nHost: x\r\n%s\r\n", targets[random.IntN(len(targets))], fields)
		}
		asked := make(chan bool)
		go func() {
			defer close(asked)
			// Its errors are the reader's, too.
			for rest := all.String(); len(rest) > 0; {
				n := min(1+random.IntN(400), len(rest))
				if _, err := io.WriteString(c, rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		readers.Go(func() {
			<-asked // by then, answers fill what lies between, and wait
			r := bufio.NewReaderSize(c, 1<<10)
			last := 0
			for n := range requests {
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Errorf("reader %d, answer %d: %v", i, n, err)
					return
				}
				b, err := io.ReadAll(resp.Body)
				if err != nil || len(b) == 0 || strings.Count(string(b), string(b[:positionWord])) != len(b)/positionWord {
					t.Errorf("reader %d, answer %d: %d bytes, not all of one position: %v", i, n, len(b), err)
					return
				}
				if at, _ := strconv.Atoi(string(b[:positionWord-1])); at < last {
					t.Errorf("reader %d, answer %d: position %d after %d", i, n, at, last)
				} else {
					last = at
				}
				core.seq.Add(1)
			}
		})
	}
	readers.Wait()
}
