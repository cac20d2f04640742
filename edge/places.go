package edge

import (
	"cmp"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// waitForPlace bounds how long a request waits for a place. It may have cost its
	// client a signature, but whoever waits for longer may have gone and paid elsewhere.
	waitForPlace = 2 * time.Second
	// shortAfter is after how much of that another is let go for it: crowds that are
	// answered soon end nobody's request early.
	shortAfter = waitForPlace / 4
	// letGoTime is how long a request that is let go keeps its place if the origin does
	// not answer it. With shortAfter that is less than waitForPlace.
	letGoTime = waitForPlace / 2
)

// places are what requests of one kind go to the origin by, so many at a time.
// They may be used concurrently.
type places struct {
	*http.Transport
	taken chan struct{} // holds one for each place that is
	each  int           // how many of one client, those that wait among them

	mu   sync.Mutex
	by   map[string]int // requests, by client
	held []*place       // those that are taken, the longest held first
}

// place is what one request takes.
type place struct {
	client  string
	account string // that pays, as the request names it; "" for none
	letGo   func() // has the request end soon; nil for one that is not let go
	going   bool   // that was called; guarded by places.mu
}

func newPlaces(all, each int) *places {
	return &places{taken: make(chan struct{}, all), each: each, by: map[string]int{}, Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second,
		// Well below what the origin keeps idle connections for.
		IdleConnTimeout:     5 * time.Second,
		MaxIdleConnsPerHost: 32,
		MaxConnsPerHost:     all,
		DisableCompression:  true,
	}}
}

// take says whether a request has its place, which leave gives back. It waits while
// others have all, but not for the client's own, and has one of the others let go.
func (p *places) take(own *place) bool {
	p.mu.Lock()
	enough := p.by[own.client] >= p.each
	if !enough {
		p.by[own.client]++
	}
	p.mu.Unlock()
	if enough {
		return false
	}
	short := time.AfterFunc(shortAfter, p.letOneGo)
	defer short.Stop()
	patience := time.NewTimer(waitForPlace)
	defer patience.Stop()
	select {
	case p.taken <- struct{}{}:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.held = append(p.held, own)
		return true
	case <-patience.C:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.forget(own)
		return false
	}
}

func (p *places) leave(own *place) {
	<-p.taken
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = slices.DeleteFunc(p.held, func(h *place) bool { return h == own })
	p.forget(own)
}

// forget no longer counts a request of a client. The caller holds mu.
func (p *places) forget(own *place) {
	if p.by[own.client]--; p.by[own.client] == 0 {
		delete(p.by, own.client)
	}
}

// letOneGo has a request end for another: of the client that has most places, and of
// the account that has most of these, the one that has been held longest. So a few who
// hold all places make room for each other, and those who hold one keep it.
//
// An account counts only within its client. What a request names is not verified, and
// whoever names another's account must not bring its requests to an end.
func (p *places) letOneGo() {
	p.mu.Lock()
	defer p.mu.Unlock()
	type payer struct{ client, account string }
	clients, payers := map[string]int{}, map[payer]int{}
	for _, h := range p.held {
		if !h.going {
			clients[h.client]++
			payers[payer{h.client, h.account}]++
		}
	}
	most := func(a, b *place) int {
		return cmp.Or(clients[a.client]-clients[b.client],
			payers[payer{a.client, a.account}]-payers[payer{b.client, b.account}])
	}
	var first *place
	for _, h := range p.held {
		if h.letGo != nil && !h.going && (first == nil || most(h, first) > 0) {
			first = h
		}
	}
	if first != nil {
		first.going = true
		first.letGo()
	}
}
