package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"webring/server/devchain"
)

var (
	loadSlow  = flag.Int("load.slow", 200, "clients that send their bodies byte by byte")
	loadIdle  = flag.Int("load.idle", 500, "connections that say nothing")
	loadRates = flag.Duration("load.rates", 0, "how long each server is asked for its rate; 0 leaves that out. It needs the program taskset")
)

// TestCrowdsDoNotStopAPayment holds that clients who send their bodies slowly,
// and connections that send nothing, cost no payer anything and no memory that
// grows with their patience.
func TestCrowdsDoNotStopAPayment(t *testing.T) {
	t.Parallel()
	o := ring(t)
	slug := o.join("Calm", "agent", "")
	address := strings.TrimPrefix(o.base, "http://")
	var crowd []net.Conn
	defer func() {
		for _, c := range crowd {
			c.Close()
		}
	}()
	stop := make(chan struct{})
	var slow sync.WaitGroup
	defer slow.Wait()
	defer close(stop)
	open := func() net.Conn {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		crowd = append(crowd, c)
		return c
	}
	before := o.memory()
	for range *loadIdle {
		open()
	}
	for range *loadSlow {
		c := open()
		fmt.Fprintf(c, "POST /api/bid HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 10000\r\n\r\n{", address)
		slow.Go(func() {
			tick := time.NewTicker(500 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					if _, err := c.Write([]byte(" ")); err != nil {
						return // the server has had enough of it, which is its right
					}
				}
			}
		})
	}
	received := o.received()
	for range 3 {
		began := time.Now()
		o.bid(slug, "1.00")
		t.Logf("a bid took %s among %d slow and %d idle connections; the origin holds %d MiB, before them %d", time.Since(began).Round(time.Millisecond), *loadSlow, *loadIdle, o.memory()>>20, before>>20)
	}
	if got := o.received() - received; got != 300 {
		t.Errorf("%d cents were received", got)
	}
	// Buffers of a connection are a few tens of kilobytes.
	if grown, most := o.memory()-before, 64<<20+(*loadSlow+*loadIdle)*(64<<10); grown > most {
		t.Errorf("the origin has grown by %d MiB", grown>>20)
	}
}

// memory is what the process holds in memory, in bytes.
func (o *origin) memory() int {
	o.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", o.cmd.Process.Pid))
	if err != nil {
		o.t.Skipf("needs /proc: %v", err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		o.t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// constantAddress makes the test binary a server of one constant answer.
const constantAddress = "WEBRING_TEST_CONSTANT"

// constant answers every POST with the same 402.
func constant(address string) error {
	body := bytes.Repeat([]byte("x"), 500)
	return fasthttp.ListenAndServe(address, func(ctx *fasthttp.RequestCtx) {
		_ = ctx.PostBody()
		ctx.SetStatusCode(402)
		ctx.SetContentType("application/problem+json")
		ctx.Response.Header.Set("WWW-Authenticate", string(body))
		ctx.SetBody(body)
	})
}

// TestChallengesAreCheap measures what a challenge for a bid costs on one
// processor, against a constant answer of the same size: at most twice as much.
func TestChallengesAreCheap(t *testing.T) {
	if *loadRates == 0 {
		t.Skip("measures only with -load.rates, on a machine that does nothing else")
	}
	if _, err := exec.LookPath("taskset"); err != nil {
		t.Skip("needs taskset: install util-linux")
	}
	o := ring(t)
	slug := o.join("Cheap", "agent", "")
	o.stop()
	o.env = []string{"GOMAXPROCS=1"}
	o.launch()
	address := devchain.FreeAddress()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", constantAddress+"="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for _, pid := range []int{o.cmd.Process.Pid, cmd.Process.Pid} {
		if out, err := exec.Command("taskset", "-a", "-c", "-p", "0", fmt.Sprint(pid)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	eventually(t, "the constant server", time.Minute, func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	body := fmt.Sprintf(`{"member":%q,"amount":"1.00"}`, slug)
	ring := processorTime(t, o.base, o.cmd.Process.Pid, body)
	bare := processorTime(t, "http://"+address, cmd.Process.Pid, body)
	t.Logf("a challenge takes %.1f µs of the processor, a constant answer %.1f: %.2f of its rate", ring, bare, bare/ring)
	if bare/ring < 0.5 {
		t.Errorf("challenges come at %.2f of the rate of a constant answer; the goal is 0.5", bare/ring)
	}
}

// processorTime gives the microseconds of its processor that a process spends on
// one request, on connections that are kept.
func processorTime(t *testing.T, base string, pid int, body string) float64 {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	flood := func(d time.Duration) (answers int) {
		var mu sync.Mutex
		var all sync.WaitGroup
		until := time.Now().Add(d)
		for range 16 {
			all.Go(func() {
				n := 0
				for ; time.Now().Before(until); n++ {
					res, err := client.Post(base+"/api/bid", "application/json", strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					if res.StatusCode != http.StatusPaymentRequired {
						t.Errorf("status %d", res.StatusCode)
						return
					}
				}
				mu.Lock()
				defer mu.Unlock()
				answers += n
			})
		}
		all.Wait()
		return answers
	}
	flood(500 * time.Millisecond)
	before := ticks(t, pid)
	answers := flood(*loadRates)
	return float64(ticks(t, pid)-before) * 10_000 / float64(answers)
}

// ticks is the time a process has run, in hundredths of a second (proc(5)).
func ticks(t *testing.T, pid int) (sum int64) {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skipf("needs /proc: %v", err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}
