package paid

import (
	"errors"
	"fmt"
	"time"
)

// NetworkState is what is known of a payment network from the questions for its newest
// block.
type NetworkState struct {
	Method  string // as in challenges
	Network string
	// Asked is when the last answer was asked for, zero before the first. Err is why no
	// payment can be taken by it; nil when one can.
	Asked time.Time
	Err   error
	// Block is the instant of the newest block that was ever heard of, zero before the
	// first.
	Block time.Time
	// Still is for how long the newest block has stayed the same, as of the last answer,
	// if that is longer than the chain's pace explains; otherwise 0.
	Still time.Duration
}

// Down says why no payment can be taken and settled there now; nil when one can.
func (x *NetworkState) Down() error {
	switch {
	case x.Asked.IsZero():
		return errors.New("the node has not answered yet")
	case x.Err != nil:
		return x.Err
	case x.Still > 0:
		return fmt.Errorf("the chain stands still: its newest block has stayed the same for %s", x.Still.Round(time.Second))
	}
	return nil
}

// Networks says how the payment networks are, in the order of the offers. Each is asked
// every few seconds, whether or not anybody pays.
func (s *Service) Networks() (all []NetworkState) {
	now := s.Now()
	for _, n := range s.networks {
		a := n.now()
		x := NetworkState{Method: n.Name(), Network: n.Network(), Asked: a.asked, Err: n.ready(now)}
		if still, stands := n.still(); stands {
			x.Still = still
		}
		n.mu.Lock()
		x.Block = n.newest
		n.mu.Unlock()
		all = append(all, x)
	}
	return all
}

// patience is how long the newest block may stay the same before the chain stands still.
func (n *network) patience() time.Duration {
	pace := n.Pace()
	if pace == 0 {
		pace = unknownPace
	}
	return max(leastStill, stillBlocks*pace)
}

// still is for how long the newest block had stayed the same when its network was last
// asked, and whether the chain stands still. Of one that gives no answer that is not known.
func (n *network) still() (d time.Duration, stands bool) {
	most := n.patience()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last.block.IsZero() {
		return 0, false
	}
	d = n.last.asked.Sub(n.moved)
	return d, d >= most
}
