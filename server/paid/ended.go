package paid

import (
	"errors"
	"time"

	"webring/core/api"
)

// Ended is a credential with what came of it, for [Config.Ended].
type Ended struct {
	Operation string // OpRegister or OpBid
	Method    string // the name of a method, or [OtherMethod]
	Outcome   Outcome
	Took      time.Duration // since the credential came
}

// OtherMethod stands for methods that are not configured.
const OtherMethod = "other"

// Outcome is what came of a credential.
type Outcome string

// The outcomes. A payment whose request is answered before its outcome is known counts as
// pending then, and once more with its outcome.
const (
	OutcomeApplied    Outcome = "applied"    // it has its effect
	OutcomeFailed     Outcome = "failed"     // it was mined and reverted, or never mined
	OutcomeMismatched Outcome = "mismatched" // its transaction paid somebody else
	OutcomeUnapplied  Outcome = "unapplied"  // it settled and has no effect
	OutcomeRefused    Outcome = "refused"    // it was not sent
	OutcomePending    Outcome = "pending"    // its request was answered before the outcome was known
)

// Outcomes are all of them.
func Outcomes() []Outcome {
	return []Outcome{OutcomeApplied, OutcomeFailed, OutcomeMismatched, OutcomeUnapplied, OutcomeRefused, OutcomePending}
}

// outcome is what came of work that has ended. The log has a line about the outcome of a
// payment in the same cases: applied, failed, mismatched and unapplied.
func (w *work) outcome() Outcome {
	var p *Problem
	switch {
	case w.err == nil:
		return OutcomeApplied
	case !errors.As(w.err, &p):
		return OutcomeRefused
	case p.Code == api.PaymentPending:
		return OutcomePending
	case !w.decided:
		return OutcomeRefused
	case p.Code == api.PaymentMismatch:
		return OutcomeMismatched
	case p.Code == api.PaymentUnapplied:
		return OutcomeUnapplied
	}
	return OutcomeFailed
}

// tell tells what came of a payment.
func (s *Service) tell(w *work, o Outcome) {
	if s.Ended != nil {
		s.Ended(Ended{Operation: w.reservation.Operation, Method: w.network.Name(), Outcome: o, Took: s.Now().Sub(w.reservation.Created)})
	}
}

// tellRefused tells of a credential that is refused before there is work on it.
func (s *Service) tellRefused(c Call, n *network) {
	if s.Ended == nil {
		return
	}
	method := OtherMethod
	if n != nil {
		method = n.Name()
	}
	s.Ended(Ended{Operation: c.Operation, Method: method, Outcome: OutcomeRefused})
}
