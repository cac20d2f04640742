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

// ReadReceipt checks a proof of a ring: a tlog-proof whose extra data is the event. Every bit of
// it counts, but for signatures by keys that are not known here. Errors wrap [ErrWrong].
func ReadReceipt(text []byte, keys note.Verifiers, policy *log.Policy) (*Receipt, error) {
	p, err := log.ParseProof(text)
	if err != nil {
		return nil, wrong("%w", err)
	}
	r := &Receipt{Index: p.Index}
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
