package paid

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
)

// spent is a proof that was used, as the ledger's table keeps it beside the event. Its words
// are none of the member's, so that a redaction has nothing to delete here.
type spent struct {
	Operation string
	Account   string
	Digest    string // of the request's body
	Key       string `json:",omitempty"` // see idempotency
	Seq       uint64 // how many events there were then, with its own
	At        int64  // milliseconds
	// Category is the one that a change has put the member in, which it may have opened.
	Category string `json:",omitempty"`
}

// spentLife is how long a spent proof is kept: the life of an Idempotency-Key, and the time
// over which deeds are counted. Its challenge expires long before.
const spentLife = keyLife

// maxDeeds is how many changes, visits and departures an owner has in a day, and how many
// claims a member: most are events that stay for ever. What an earlier owner did does not
// count for the present one, or a stranger who paid for a member could keep the owner of its
// site from changing it.
const maxDeeds = 10

// maxSpent is how many proofs of a member are kept at most: those of its owners, one more
// than there are claims, with a return for each departure, the claims, and a return from a departure before.
const maxSpent = (1+maxDeeds)*4*maxDeeds + maxDeeds + 1

// spentKey is where the table has a proof of a member. No slug holds a slash.
func spentKey(slug, id string) string { return slug + "/" + id }

// spentError says that a proof is spent.
type spentError struct{}

func (spentError) Error() string { return "paid: the proof is spent" }

// spend stores that a proof is spent, and deletes those of the member that are old. It
// fails with a spentError if it is spent already.
func (s *Service) spend(tx *ledger.Tx, slug string, p *proof) error {
	v := tx.View()
	if earlier, err := spentProof(v, slug, p.id); err != nil {
		return err
	} else if earlier != nil {
		return spentError{}
	}
	p.At = tx.Stamp()
	all, err := spentProofs(v, slug)
	if err != nil {
		return err
	}
	for id, old := range all {
		if old.before(p.At) {
			if err := tx.Put(ledger.Proofs, spentKey(slug, id), nil); err != nil {
				return err
			}
		}
	}
	row, err := json.Marshal(p.spent)
	if err != nil {
		return err
	}
	return tx.Put(ledger.Proofs, spentKey(slug, p.id), row)
}

// before says whether a spent proof is not kept any longer at an instant in milliseconds.
func (p *spent) before(at int64) bool { return p.At <= at-spentLife.Milliseconds() }

// spentProof gives a spent proof, nil if there is none.
func spentProof(v *ledger.View, slug, id string) (*spent, error) {
	row, err := v.Value(ledger.Proofs, spentKey(slug, id))
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	p := &spent{}
	return p, json.Unmarshal(row, p)
}

// spentProofs gives the spent proofs of a member that are kept, by their ids.
func spentProofs(v *ledger.View, slug string) (map[string]*spent, error) {
	rows, err := v.Scan(ledger.Proofs, spentKey(slug, ""), spentKey(slug, ""), maxSpent)
	all := map[string]*spent{}
	for _, row := range rows {
		p := &spent{}
		if err := json.Unmarshal(row.Value, p); err != nil {
			return nil, fmt.Errorf("paid: a spent proof: %w", err)
		}
		all[strings.TrimPrefix(row.Key, spentKey(slug, ""))] = p
	}
	return all, err
}

// spentBefore is spentProof by the present state.
func (s *Service) spentBefore(slug, id string) (p *spent, err error) {
	s.Ledger.View(func(v *ledger.View) { p, err = spentProof(v, slug, id) })
	return p, err
}

// sweepSpent deletes spent proofs that are old, once an hour: those of members about which no
// request comes any more, too. It also ends departures.
func (s *Service) sweepSpent() {
	defer s.group.Done()
	each := time.NewTicker(time.Hour)
	defer each.Stop()
	for {
		s.endDepartures()
		for from, more := "", true; more; {
			var old []string
			old, from, more = s.oldSpent(from)
			err := s.Ledger.Do(s.ctx, func(tx *ledger.Tx) error {
				for _, key := range old {
					if err := tx.Put(ledger.Proofs, key, nil); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				if s.ctx.Err() == nil {
					s.Log.Warn("old proofs are not cleared up yet", "err", err)
				}
				break
			}
		}
		select {
		case <-each.C:
		case <-s.ctx.Done():
			return
		}
	}
}

// sweptAtOnce is how many spent proofs are looked at in one view.
const sweptAtOnce = 256

// oldSpent gives the keys of old proofs among the next ones from a key on, and the key after
// them, if there are more.
func (s *Service) oldSpent(from string) (old []string, next string, more bool) {
	var rows []ledger.TableRow
	var err error
	s.Ledger.View(func(v *ledger.View) { rows, err = v.Scan(ledger.Proofs, "", from, sweptAtOnce) })
	if err != nil {
		s.Log.Error("spent proofs cannot be read", "err", err)
	}
	now := s.Now().UnixMilli()
	for _, row := range rows {
		next = row.Key + "\x00"
		p := &spent{}
		if err := json.Unmarshal(row.Value, p); err == nil && p.before(now) {
			old = append(old, row.Key)
		}
	}
	return old, next, len(rows) == sweptAtOnce
}

// openedSince says whether a change by the account has put the member in a category since an
// instant in milliseconds, which is no longer ago than proofs are kept.
func openedSince(v *ledger.View, slug, category string, account core.Account, since int64) bool {
	all, err := spentProofs(v, slug)
	for _, p := range all {
		if p.Category == category && p.At > since && account.Is(core.AccountOf(p.Account)) {
			return true
		}
	}
	return err != nil
}

// deedsLeft refuses one deed of an operation too many within a day. Only those by account
// count; those of all accounts for the zero one.
func (s *Service) deedsLeft(v *ledger.View, slug, operation string, account core.Account) error {
	all, err := spentProofs(v, slug)
	now := s.Now()
	count, oldest := 0, now.UnixMilli()
	for _, p := range all {
		counts := account == (core.Account{}) || account.Is(core.AccountOf(p.Account))
		if counts && p.Operation == operation && !p.before(now.UnixMilli()) {
			count, oldest = count+1, min(oldest, p.At)
		}
	}
	if err != nil || count < maxDeeds {
		return err
	}
	return &Problem{Code: api.RateLimited, RetryAfter: seconds(time.UnixMilli(oldest).Add(spentLife).Sub(now)),
		Detail: fmt.Sprintf("At most %d requests of this kind are taken for a member in a day. Nothing was done.", maxDeeds)}
}

// unspentKey refuses a challenge for a request that repeats the Idempotency-Key and the body
// of one that was done.
func (s *Service) unspentKey(v *ledger.View, c *Call) error {
	key := idempotency(*c, c.digest)
	if key == "" {
		return nil
	}
	all, err := spentProofs(v, c.Slug)
	for _, p := range all {
		if p.Key == key && !p.before(s.Now().UnixMilli()) {
			return &Problem{Code: api.IdempotencyKeyUsed, More: selfLink(v.State().Rules().BaseURL, c.Slug), Detail: "This request was carried out under this Idempotency-Key, so it is not done again. " +
				"Send its credential to get the answer again, or another key to do it once more."}
		}
	}
	return err
}

// repeated is the answer to a proof that is spent: what was answered, if the request comes
// with the Idempotency-Key of the one that spent it.
func (s *Service) repeated(c *Call, op provenOperation, pinned map[string]string, p *proof, earlier *spent, err error) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	key := idempotency(*c, earlier.Digest)
	switch {
	case key == "" || key != earlier.Key:
		return Answer{}, s.proofReused(c.Slug)
	case c.digest != earlier.Digest:
		return Answer{}, invalidRequest("this Idempotency-Key was used with another body; send the body it was used with, or another key")
	}
	d, err := op.restore(c, pinned)
	if err != nil {
		return Answer{}, s.proofReused(c.Slug)
	}
	p.spent = *earlier
	var a Answer
	s.Ledger.View(func(v *ledger.View) { a = s.deedAnswer(v.State(), c, d, p) })
	return s.durable(a), nil
}

// proofReused is the answer to a proof that is spent.
func (s *Service) proofReused(slug string) *Problem {
	more := selfLink(s.base(), slug)
	more["outcome"] = "applied"
	return &Problem{Code: api.CredentialReused, More: more, Detail: "This credential was used before, and what it was for has been done; links.self shows the member."}
}

func selfLink(base, slug string) map[string]any {
	return map[string]any{"links": map[string]string{"self": base + "/api/ring/" + slug}}
}
