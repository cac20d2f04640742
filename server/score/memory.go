package score

import (
	"container/list"
	"sync"
	"time"
)

// answers remembers a bounded number of scores; the oldest goes first.
type answers struct {
	mu    sync.Mutex
	most  int
	byURL map[string]*list.Element
	order *list.List // of answer, oldest first
}

type answer struct {
	url    string
	result Result
	until  time.Time
}

func newAnswers(most int) *answers {
	return &answers{most: most, byURL: map[string]*list.Element{}, order: list.New()}
}

func (a *answers) get(url string, now time.Time) (Result, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, ok := a.byURL[url]
	if !ok {
		return Result{}, false
	}
	kept := e.Value.(answer)
	if !now.Before(kept.until) {
		a.drop(e)
		return Result{}, false
	}
	return kept.result, true
}

func (a *answers) put(url string, result Result, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e, ok := a.byURL[url]; ok {
		a.drop(e)
	}
	if len(a.byURL) >= a.most {
		a.drop(a.order.Front())
	}
	a.byURL[url] = a.order.PushBack(answer{url, result, until})
}

// drop forgets e. The caller holds mu.
func (a *answers) drop(e *list.Element) {
	delete(a.byURL, e.Value.(answer).url)
	a.order.Remove(e)
}

// window counts questions in fixed windows of time, of each client and in all.
// A limit below zero is none.
type window struct {
	mu        sync.Mutex
	length    time.Duration
	perClient int
	inAll     int
	ends      time.Time
	clients   map[string]int
	total     int
}

func newWindow(length time.Duration, perClient, inAll int) *window {
	return &window{length: length, perClient: perClient, inAll: inAll, clients: map[string]int{}}
}

// client counts a question of one client. It gives the time until there is room
// again, or 0 when there is room now. A client that comes when as many others
// are known as fit has to wait too: memory stays bounded.
func (w *window) client(name string, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	if w.perClient < 0 {
		return 0
	}
	n, known := w.clients[name]
	if n >= w.perClient || !known && len(w.clients) >= maxClients {
		return w.ends.Sub(now)
	}
	w.clients[name] = n + 1
	return 0
}

// all counts a question that is about to be put, in the same way.
func (w *window) all(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	if w.inAll >= 0 && w.total >= w.inAll {
		return w.ends.Sub(now)
	}
	w.total++
	return 0
}

// turn opens a new window when the last has ended. The caller holds mu.
func (w *window) turn(now time.Time) {
	if now.Before(w.ends) {
		return
	}
	w.ends = now.Add(w.length)
	w.total = 0
	clear(w.clients)
}
