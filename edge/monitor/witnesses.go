package monitor

import log "webring/edge/tlog"

// Cosigned says which witnesses of a policy have cosigned a checkpoint.
type Cosigned struct{ Witnesses []log.Witness }

// cosigned checks that the witnesses that a policy asks for have cosigned a checkpoint. Without a
// policy no witness is known.
func cosigned(signed []byte, policy *log.Policy) (by Cosigned, err error) {
	if policy == nil {
		return by, nil
	}
	if by.Witnesses, err = policy.Check(signed); err != nil {
		err = wrong("%w", err)
	}
	return by, err
}
