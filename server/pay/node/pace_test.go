package node

import (
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
)

func TestPaceIsThatOfMostBlocks(t *testing.T) {
	var n Node
	saw := func(height, second uint64) {
		at, when := hexutil.Uint64(height), hexutil.Uint64(second)
		n.pace.saw(&Block{Number: &at, Timestamp: &when})
	}
	is := func(want time.Duration) {
		t.Helper()
		if got := n.Pace(); got != want {
			t.Errorf("the pace is %s, want %s", got, want)
		}
	}
	is(0)
	saw(100, 1000)
	is(0)
	saw(101, 1000) // within the same second
	saw(101, 1000)
	is(0)
	saw(108, 1004)
	is(500 * time.Millisecond)
	saw(109, 2000) // it has stood still for a while
	saw(117, 2004)
	is(500 * time.Millisecond)
	saw(50, 900) // another node, or the chain begins again
	is(500 * time.Millisecond)
	for i := range uint64(paceSamples) {
		saw(51+i, 912+12*i)
	}
	is(12 * time.Second)
}
