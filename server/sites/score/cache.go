package score

import (
	"container/list"
	"sync"
	"time"
)

// cache holds a bounded number of values by URL, each until an instant. When it is
// full, the oldest goes. It is safe for concurrent use.
type cache[V any] struct {
	mu    sync.Mutex
	most  int
	byURL map[string]*list.Element
	order *list.List // of entries, the oldest first
}

type entry[V any] struct {
	url   string
	value V
	until time.Time
}

func newCache[V any](most int) *cache[V] {
	return &cache[V]{most: most, byURL: map[string]*list.Element{}, order: list.New()}
}

func (m *cache[V]) get(url string, now time.Time) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byURL[url]
	if !ok {
		return value, false
	}
	k := e.Value.(entry[V])
	if !now.Before(k.until) {
		m.drop(e)
		return value, false
	}
	return k.value, true
}

func (m *cache[V]) put(url string, value V, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.byURL[url]; ok {
		m.drop(e)
	}
	if len(m.byURL) >= m.most {
		m.drop(m.order.Front())
	}
	m.byURL[url] = m.order.PushBack(entry[V]{url, value, until})
}

// drop forgets e. The caller holds mu.
func (m *cache[V]) drop(e *list.Element) {
	delete(m.byURL, e.Value.(entry[V]).url)
	m.order.Remove(e)
}
