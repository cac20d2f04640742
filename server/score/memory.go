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
