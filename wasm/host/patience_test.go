package host

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"
)

// A call for which there is no time is ended, with the instance in which it was;
// the pool goes on with another, and closes. The module's own code is as good as
// any for that, and interpreted it is there at once.
func TestCallsThatTakeTooLongAreEnded(t *testing.T) {
	t.Parallel()
	c := PoolConfig{Capacity: 100, Instances: 1, Patience: time.Nanosecond, Interpreter: true, Module: guest(t), Log: slog.New(slog.DiscardHandler)}
	if _, err := NewPool(context.Background(), c); !errors.Is(err, errLate) {
		t.Fatalf("a module without a moment to start in: %v", err)
	}
	p := newPool(t, PoolConfig{Capacity: 100, Instances: 1, Interpreter: true, Patience: time.Minute})
	if err := p.Apply(ring(10)); err != nil {
		t.Fatal(err)
	}
	_, want := p.Digest()
	in := anyOf(p)
	in.patience = time.Nanosecond
	p.rack.put(in)
	if err := p.Apply([]Record{join("late", 100, epoch*1000+10)}); !errors.Is(err, errLate) {
		t.Errorf("a record for which there was no time: %v", err)
	}
	if seq, state := p.Digest(); seq != 11 || state != want || p.Traps() != 1 {
		t.Errorf("at %d after %d traps", seq, p.Traps())
	}
	if err := p.Apply([]Record{join("again", 100, epoch*1000+10)}); err != nil {
		t.Error(err)
	}
}
