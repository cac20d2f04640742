package monitor

import log "webring/edge/tlog"

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
