package risk

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/form"
)

// Proof is a proof that was used, as the ledger's table keeps it. Its words
// are none of the member's, so that a redaction has nothing to delete here.
type Proof struct {
	Operation string
	Account   string
	Digest    string // of the request's body
	Key       string `json:",omitempty"` // see idempotency
	Seq       uint64 // how many events there were then, with its own
	At        int64  // milliseconds
	// Category is the one that a change has put the member in, which it may have opened.
	Category string `json:",omitempty"`
}

// ProofLife is how long a spent proof is kept: the life of an Idempotency-Key, and the time
// over which requests are counted. Its challenge expires long before.
const ProofLife = 24 * time.Hour

// maxRequests is how many changes, visits and departures an owner has in a day, and how many
// claims a member: most are events that stay for ever. What an earlier owner did does not
// count for the present one, or a stranger who paid for a member could keep the owner of its
// site from changing it.
const maxRequests = 10

// maxSpent is how many proofs of a member are kept at most: those of its owners, one more
// than there are claims, with a return for each departure, the claims, a return from a departure before,
// and what earlier owners take back.
const maxSpent = (1+maxRequests)*5*maxRequests + 2*maxRequests + 1

// ProofKey is where the table has a proof of a member. No slug holds a slash.
func ProofKey(slug, id string) string { return slug + "/" + id }

// Old says whether a spent proof is not kept any longer at an instant in milliseconds.
func (p *Proof) Old(at int64) bool { return p.At <= at-ProofLife.Milliseconds() }

// ProofOf gives a spent proof, nil if there is none.
func ProofOf(v *ledger.View, slug, id string) (*Proof, error) {
	row, err := v.Value(ledger.Proofs, ProofKey(slug, id))
	if err != nil || row == nil {
		return nil, err
	}
	p := &Proof{}
	return p, json.Unmarshal(row, p)
}

// Proofs gives the spent proofs of a member that are kept, by their ids.
func Proofs(v *ledger.View, slug string) (map[string]*Proof, error) {
	rows, err := v.Scan(ledger.Proofs, ProofKey(slug, ""), ProofKey(slug, ""), maxSpent)
	all := map[string]*Proof{}
	for _, row := range rows {
		p := &Proof{}
		if err := json.Unmarshal(row.Value, p); err != nil {
			return nil, fmt.Errorf("paid: a spent proof: %w", err)
		}
		all[strings.TrimPrefix(row.Key, ProofKey(slug, ""))] = p
	}
	return all, err
}

// openedSince says whether a change by the account has put the member in a category since an
// instant in milliseconds, which is no longer ago than proofs are kept.
func openedSince(v *ledger.View, slug, category string, account core.Account, since int64) bool {
	all, err := Proofs(v, slug)
	for _, p := range all {
		if p.Category == category && p.At > since && account.Is(core.AccountOf(p.Account)) {
			return true
		}
	}
	return err != nil
}

// RequestsLeft refuses one request of an operation too many within a day. Only those by account
// count; those of all accounts for the zero one.
func RequestsLeft(v *ledger.View, slug, operation string, account core.Account, now time.Time) error {
	all, err := Proofs(v, slug)
	count, oldest := 0, now.UnixMilli()
	for _, p := range all {
		counts := account == (core.Account{}) || account.Is(core.AccountOf(p.Account))
		if counts && p.Operation == operation && !p.Old(now.UnixMilli()) {
			count, oldest = count+1, min(oldest, p.At)
		}
	}
	if err != nil || count < maxRequests {
		return err
	}
	return &form.Problem{Code: api.RateLimited, RetryAfter: Seconds(time.UnixMilli(oldest).Add(ProofLife).Sub(now)),
		Detail: fmt.Sprintf("A member takes at most %d requests of this kind a day. Send it again later. Nothing was done.", maxRequests)}
}
