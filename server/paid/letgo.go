package paid

import (
	"net/http"

	"webring/core/api"
	"webring/server/ledger"
)

// Bounds of the payments that are open at a time.
const (
	// maxOpenPerPayer is how many payments of one account may be open. If the account
	// moves its money away they are never mined, and occupy memory here and requests at
	// edges for minutes.
	maxOpenPerPayer = 8
	// maxOpen is how many may be open in all. The last reservedOpen are for accounts
	// without an open payment, so that a few accounts cannot take all.
	maxOpen, reservedOpen = 1024, 256
)

// roomFor refuses another open payment of a payer when too many are open.
func roomFor(v *ledger.View, payer string) error {
	own, _ := v.OpenOfPayer(payer)
	switch all := v.OpenPayments(); {
	case own >= maxOpenPerPayer:
		return errManyOpen
	case all >= maxOpen || own > 0 && all >= maxOpen-reservedOpen:
		return errAllOpen
	}
	return nil
}

// LetGo ends the wait of the request that brought this credential: its answer is that the
// payment is pending. The next request with the credential gets the outcome. Edges call
// this when they hold too many requests. c must be the same request again, so no client
// can end the wait of another.
func (s *Service) LetGo(c Call) Answer {
	cred, found, err := c.credential()
	if err == nil && found && s.keys.Load().Signed(cred.Challenge) && cred.Challenge.Digest == c.bodyDigest() {
		s.mu.Lock()
		w := s.work[challengeKey(cred.Challenge.ID)]
		s.mu.Unlock()
		if w != nil && s.letGo(w) {
			return Answer{Status: http.StatusNoContent}
		}
	}
	return s.problem(&Problem{Code: api.NotFound, Detail: "No request with this credential is held here."})
}

// letGo stops holding the request of w. It returns false if no request is held, or w has
// ended.
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
