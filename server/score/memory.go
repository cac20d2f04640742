package score

import (
	"container/list"
	"sync"
	"time"
)

// memory keeps a bounded number of values by URL for a time; the oldest goes
// first.
type memory[V any] struct {
	mu    sync.Mutex
	most  int
	byURL map[string]*list.Element
	order *list.List // of kept, oldest first
}

type kept[V any] struct {
	url   string
	value V
	until time.Time
}

func newMemory[V any](most int) *memory[V] {
	return &memory[V]{most: most, byURL: map[string]*list.Element{}, order: list.New()}
}

func (m *memory[V]) get(url string, now time.Time) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byURL[url]
	if !ok {
		return value, false
	}
	k := e.Value.(kept[V])
	if !now.Before(k.until) {
		m.drop(e)
		return value, false
	}
	return k.value, true
}

func (m *memory[V]) put(url string, value V, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.byURL[url]; ok {
		m.drop(e)
	}
	if len(m.byURL) >= m.most {
		m.drop(m.order.Front())
	}
	m.byURL[url] = m.order.PushBack(kept[V]{url, value, until})
}

func (m *memory[V]) forget(url string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.byURL[url]; ok {
		m.drop(e)
	}
}

// drop forgets e. The caller holds mu.
func (m *memory[V]) drop(e *list.Element) {
	delete(m.byURL, e.Value.(kept[V]).url)
	m.order.Remove(e)
}

// window counts the questions of a minute, of each client and in all.
// A limit below zero is none.
type window struct {
	mu        sync.Mutex
	perClient int
	inAll     int
	ends      time.Time
	clients   map[string]int // questions that each has asked
	put       map[string]int // of these, and of those that it asked beside, how many were put
	total     int            // that were put
}

func newWindow(perClient, inAll int) *window {
	return &window{perClient: perClient, inAll: inAll, clients: map[string]int{}, put: map[string]int{}}
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

// fewQuestions are as many as somebody needs who comes to join a site, and looks again.
const fewQuestions = 2

// all counts a question of a client that is about to be put, in the same way. The last
// third is for clients of which few were put: a handful that ask as much as they may
// leave room for the others.
func (w *window) all(client string, now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(now)
	if w.inAll < 0 {
		return 0
	}
	most := w.inAll
	if w.put[client] >= fewQuestions {
		most -= most / 3
	}
	if w.total >= most {
		return w.ends.Sub(now)
	}
	w.total++
	w.put[client]++
	return 0
}

// turn opens a new window when the last has ended. The caller holds mu.
func (w *window) turn(now time.Time) {
	if now.Before(w.ends) {
		return
	}
	w.ends = now.Add(time.Minute)
	w.total = 0
	clear(w.clients)
	clear(w.put)
}
