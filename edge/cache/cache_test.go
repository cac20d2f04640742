package cache

import (
	"fmt"
	"sync/atomic"
	"testing"
)

func BenchmarkHit(b *testing.B) {
	c := New(32 << 20)
	var targets [100][]byte
	for i := range targets {
		targets[i] = fmt.Appendf(nil, "/next?from=member-%d", i*7919)
		c.Put(c.Key(targets[i]), &Entry{Seq: 1, Until: Forever}, 600)
	}
	var wrong atomic.Int64
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if e := c.Get(c.Key(targets[i%len(targets)])); e == nil || !e.Holds("", 1, 5) {
				wrong.Add(1)
			}
		}
	})
	if wrong.Load() > 0 {
		b.Error(wrong.Load())
	}
}
