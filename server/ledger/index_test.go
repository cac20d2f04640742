package ledger

import (
	"testing"
	"time"
)

// Failures that have run out are forgotten, so that memory holds an hour of
// them and not all there ever were.
func TestFailuresAreForgotten(t *testing.T) {
	x, now := newIndex(), time.Unix(1000, 0)
	for i := range 100 {
		failed := &Reservation{State: Failed, Operation: OperationRegister, URLKey: string(rune('a' + i))}
		failed.fail(now.Add(time.Duration(i) * time.Second))
		x.change(nil, failed)
	}
	for i, want := range []int{100, 99, 98, 97} {
		x.expire(now.Add(FailurePeriod + time.Duration(i)*time.Second - time.Second))
		if len(x.failed) != want {
			t.Errorf("at %d: failures of %d URLs, want %d", i, len(x.failed), want)
		}
	}
}
