package monitor

import (
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"webring/core"
	log "webring/edge/tlog"
)

// Receipt is a proof that an event is in the log of a ring.
type Receipt struct {
	At    log.Checkpoint
	Index int64
	Event core.Event
	Cosigned
}

// CheckReceipt checks a proof of a ring: a tlog-proof whose extra data is the event. Errors wrap
// [ErrWrong].
func CheckReceipt(p *log.Proof, keys note.Verifiers, policy *log.Policy) (*Receipt, error) {
	r := &Receipt{Index: p.Index}
	var err error
	if r.At, err = p.Check(keys); err != nil {
		return nil, wrong("%w", err)
	}
	if r.Cosigned, err = cosigned(p.Checkpoint, r.At, policy); err != nil {
		return nil, err
	}
	if r.Event, err = core.DecodeEvent(p.Entry); err != nil {
		return nil, fmt.Errorf("event %d is in the log, and this program does not know its kind; a newer one may: %w", p.Index, err)
	}
	return r, nil
}

// Cosigned says which witnesses of a policy have cosigned a checkpoint, and of how many events.
type Cosigned struct {
	Witnesses []log.Witness
	Events    int64
}

// cosigned checks that the witnesses that a policy asks for have cosigned a checkpoint. Without a
// policy no witness is known.
func cosigned(signed []byte, at log.Checkpoint, policy *log.Policy) (by Cosigned, err error) {
	if policy == nil {
		return by, nil
	}
	if by.Witnesses, err = policy.Check(signed); err != nil {
		err = wrong("%w", err)
	}
	by.Events = at.N
	return by, err
}
