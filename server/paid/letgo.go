package paid

import (
	"net/http"

	"webring/core/api"
	"webring/server/ledger"
	"webring/server/mpp"
)

// Bounds of the payments that are open at a time.
const (
	// maxOpenPerPayer is how many payments of one account may be open. Who has opened
	// them may have moved the money since: what is then not mined is held for minutes,
	// here and at the edges that it came by.
	maxOpenPerPayer = 8
	// maxOpen is how many may be open in all. The last keptOpen of them are for
	// accounts that have none: a few that open as many as they may leave room for the
	// others.
	maxOpen, keptOpen = 1024, 256
)

// roomFor refuses another open payment of a payer where there are too many.
func roomFor(v *ledger.View, payer string) error {
	own, _ := v.OpenOfPayer(payer)
	switch all := v.OpenPayments(); {
	case own >= maxOpenPerPayer:
		return errManyOpen
	case all >= maxOpen || own > 0 && all >= maxOpen-keptOpen:
		return errAllOpen
	}
	return nil
}

// LetGo answers the request that began work on this credential, if it is held: its
// payment is pending. What becomes of that is then for whoever shows the credential
// next. Edges ask for it when they need the place of the request. c is the same request
// again, so nobody has another's let go.
func (s *Service) LetGo(c Call) Answer {
	cred, found, err := mpp.ParseAuthorization(c.Authorization)
	if err == nil && found && s.Keys.Signed(cred.Challenge) && cred.Challenge.Digest == c.digest() {
		s.mu.Lock()
		w := s.work[challengeKey(cred.Challenge.ID)]
		s.mu.Unlock()
		if w != nil && s.letGo(w) {
			return Answer{Status: http.StatusNoContent}
		}
	}
	return s.problem(&Problem{Code: api.NotFound, Detail: "No request with this credential is held here."})
}

// letGo stops holding the request of w, unless there is none or w has just ended.
func (s *Service) letGo(w *work) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-w.done:
		return false
	default:
	}
	if !w.held {
		return false
	}
	w.held = false
	close(w.letGo)
	return true
}

// holds says whether the request of w is held.
func (s *Service) holds(w *work) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return w.held
}
