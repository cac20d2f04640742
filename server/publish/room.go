package publish

import (
	"sync"
	"sync/atomic"

	"webring/edge/share"
)

// room bounds how many long answers are under way at a time: in all, and to each stranger.
// Some of it is reserved for edges of this ring. Package share shares the rest between
// strangers, so a crowd leaves room to others.
type room struct {
	all       int64
	taken     atomic.Int64 // by edges of this ring and by strangers
	strangers *share.Semaphore
}

func newRoom(all, reserved, each int) *room {
	return &room{all: int64(all), strangers: share.NewSemaphore(share.Rule{Most: all - reserved, Half: halfOfOne}, each)}
}

// halfOfOne is how many a stranger has that is refused while half are held.
const halfOfOne = 8

// take takes a place for a client, and gives the function that gives it back and may be
// called more than once. ok is false if there is none for this client.
func (r *room) take(client string, known bool) (release func(), ok bool) {
	asker := share.AskerOf(client)
	if r.taken.Add(1) > r.all || !known && !r.strangers.TryAcquire(asker) {
		r.taken.Add(-1)
		return nil, false
	}
	return sync.OnceFunc(func() {
		if !known {
			r.strangers.Release(asker)
		}
		r.taken.Add(-1)
	}), true
}
