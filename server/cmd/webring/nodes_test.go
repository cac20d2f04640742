package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"webring/server/devchain/faults"
)

// TestEightOpenPaymentsAskTheirNodeLessThanOnceASecondEach counts what a node is asked
// while eight payments wait to be mined. Those that are mined at once have their answer
// with the next block.
func TestEightOpenPaymentsAskTheirNodeLessThanOnceASecondEach(t *testing.T) {
	t.Parallel()
	proxy, err := faults.New(baseChain(t).RPC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	s := evmShop(t, "--evm-rpc", proxy.URL)
	var took []time.Duration
	for i := range 5 {
		join := fmt.Sprintf(`{"name":"Quick %d","url":"https://quick-%[1]d.dev/","kind":"agent"}`, i)
		credential := s.payer().Header(s.offer("/api/register", join))
		began := time.Now()
		if r := s.present("/api/register", join, credential); r.Status != http.StatusCreated {
			t.Fatalf("%d %s", r.Status, r.Body)
		}
		took = append(took, time.Since(began).Round(time.Millisecond))
	}
	slices.Sort(took)
	t.Logf("a payment on a chain with a block a second takes %v (median), %v at most", took[len(took)/2], took[len(took)-1])

	const payments, seconds = 8, 20
	var asked atomic.Int64
	submitted := make(chan struct{}, 10*payments)
	proxy.Follow(func(methods []string) faults.Fault {
		asked.Add(int64(len(methods)))
		if slices.Contains(methods, faults.Sends) {
			submitted <- struct{}{}
		}
		return faults.Swallow
	})
	const bid = `{"member":"quick-0","amount":"1.00"}`
	for range payments {
		credential := s.payer().Header(s.offer("/api/bid", bid))
		go s.try(http.MethodPost, "/api/bid", []byte(bid), "Authorization", credential, "Content-Type", "application/json")
	}
	for range payments {
		await(t, "a submission", submitted)
	}
	// The first seconds have more questions, on a slow machine for longer.
	passed := func(d time.Duration) (calls int64, in time.Duration) {
		before, began := asked.Load(), time.Now()
		eventually(t, "seconds of questions", time.Minute, func() bool { return time.Since(began) > d })
		return asked.Load() - before, time.Since(began)
	}
	first, in := passed(6 * time.Second)
	t.Logf("eight payments asked %d calls in their first %v", first, in.Round(time.Millisecond))
	n, in := passed(seconds * time.Second)
	each := float64(n) / payments / in.Seconds()
	t.Logf("and %d in the next %v, %.2f each a second", n, in.Round(time.Millisecond), each)
	if each > 1 {
		t.Errorf("asked %d calls in %v\n%s", n, in, s.log)
	}
}

// TestHangingNodeDoesNotSlowBuyersOfTheOther has the node of one network take
// connections and say nothing: whoever asks for a challenge is given the other's, as
// soon as ever, and both again when it answers.
func TestHangingNodeDoesNotSlowBuyersOfTheOther(t *testing.T) {
	t.Parallel()
	tempo, _ := chain(t)
	node, err := url.Parse(baseChain(t).RPC)
	if err != nil {
		t.Fatal(err)
	}
	var hanging atomic.Bool
	pass := httputil.NewSingleHostReverseProxy(node)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hanging.Load() {
			io.Copy(io.Discard, r.Body) // or its end is not noticed
			<-r.Context().Done()
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	s := evmShop(t, "--tempo-rpc", tempo.RPC, "--evm-rpc", proxy.URL)
	const join = `{"name":"Buyer","url":"https://buyer.dev/","kind":"agent"}`
	offers := func() int {
		r := s.post("/api/register", join)
		if r.Status != http.StatusPaymentRequired || s.challenge(r).Method != "tempo" {
			t.Errorf("%d %s", r.Status, r.Body)
		}
		return len(r.Header.Values("WWW-Authenticate"))
	}
	eventually(t, "both offers", time.Minute, func() bool { return offers() == 2 })
	hanging.Store(true)
	took := make([]time.Duration, 64) // four a second, the last when the silence must have been noticed
	var asking sync.WaitGroup
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for i := range took {
		<-tick.C
		asking.Go(func() {
			began := time.Now()
			n := offers()
			took[i] = time.Since(began)
			if i == len(took)-1 && n != 1 {
				t.Errorf("%d offers", n)
			}
		})
	}
	asking.Wait()
	slices.Sort(took)
	at := func(percent int) time.Duration { return took[(len(took)-1)*percent/100].Round(100 * time.Microsecond) }
	t.Logf("a 402 with one node hanging: median %v, 90 %% within %v, all within %v", at(50), at(90), at(100))
	if at(90) > 300*time.Millisecond {
		t.Errorf("one in ten took longer than %v", at(90))
	}
	hanging.Store(false)
	eventually(t, "both offers again", time.Minute, func() bool { return offers() == 2 })
}
