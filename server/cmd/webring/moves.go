package main

import "sync"

// moves wakes all who wait for readers to see a further position. A nil one wakes nobody.
type moves struct {
	mu    sync.Mutex
	moved chan struct{}
}

func newMoves() *moves { return &moves{moved: make(chan struct{})} }

// next gives a channel that is closed by the next tell.
func (m *moves) next() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.moved
}

func (m *moves) tell() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.moved)
	m.moved = make(chan struct{})
}
