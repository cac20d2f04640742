package edge

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// waitForPlace bounds how long a request waits for a place. It may have cost its
// client a signature, but whoever waits for longer may have gone and paid elsewhere.
const waitForPlace = 2 * time.Second

// places are what requests of one kind go to the origin by, so many at a time.
// They may be used concurrently.
type places struct {
	*http.Transport
	taken chan struct{} // holds one for each place that is
	each  int           // how many of one client, those that wait among them

	mu sync.Mutex
	by map[string]int // requests, by client
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

// take says whether a request of client has a place, which leave gives back. It
// waits while others have all, but not for the client's own.
func (p *places) take(client string) bool {
	p.mu.Lock()
	enough := p.by[client] >= p.each
	if !enough {
		p.by[client]++
	}
	p.mu.Unlock()
	if enough {
		return false
	}
	patience := time.NewTimer(waitForPlace)
	defer patience.Stop()
	select {
	case p.taken <- struct{}{}:
		return true
	case <-patience.C:
		p.forget(client)
		return false
	}
}

func (p *places) leave(client string) {
	<-p.taken
	p.forget(client)
}

func (p *places) forget(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[client]--; p.by[client] == 0 {
		delete(p.by, client)
	}
}
