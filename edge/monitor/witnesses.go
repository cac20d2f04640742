package monitor

import (
	"context"
	"errors"

	"webring/edge/follow"
	log "webring/edge/tlog"
)

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

// witnessed checks that the witnesses have cosigned the checkpoint, or the newest one that the ring
// has asked them to cosign.
func (r *run) witnessed(ctx context.Context) (err error) {
	if r.Cosigned, err = cosigned(r.signed, r.At, r.Policy); !errors.Is(err, log.ErrQuorum) {
		return err
	}
	joined, err := r.from.get(ctx, "/sync/cosigned", 2*maxNote)
	if err != nil {
		return err
	}
	_, signed, _ := follow.CutCosigned(joined.body)
	at, err := log.OpenCheckpoint(signed, r.keys)
	if err != nil {
		return wrong("what witnesses have cosigned: %w", err)
	}
	if at.N > r.At.N {
		r.signed, r.At = signed, at
	}
	r.earlier = append(r.earlier, signed)
	r.Cosigned, err = cosigned(signed, at, r.Policy)
	return err
}
