package node

import (
	"slices"
	"sync"
	"time"
)

// pacer learns how far apart blocks are from those that were the newest one after the
// other. A while without blocks is one sample among several, so it hardly counts.
type pacer struct {
	mu      sync.Mutex
	height  uint64 // of the block that the next sample begins with
	second  uint64
	samples []time.Duration // the last ones, in order of arrival
}

// paceSamples is how many samples are kept.
const paceSamples = 15

// saw takes the newest block. Blocks have whole seconds, so a sample spans one at least.
func (p *pacer) saw(b *Block) {
	p.mu.Lock()
	defer p.mu.Unlock()
	height, second := b.Height(), uint64(*b.Timestamp)
	switch {
	case p.height == 0 || height < p.height || second < p.second:
	case height == p.height || second == p.second:
		return
	default:
		p.samples = append(p.samples, time.Duration(second-p.second)*time.Second/time.Duration(height-p.height))
		if len(p.samples) > paceSamples {
			p.samples = p.samples[1:]
		}
	}
	p.height, p.second = height, second
}

// Pace is the usual time between two blocks, by the last ones that were the newest; 0
// while too few were seen.
func (n *Node) Pace() time.Duration {
	p := &n.pace
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.samples) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(p.samples))[len(p.samples)/2]
}
