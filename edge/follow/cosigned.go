package follow

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"webring/core/snap"
	"webring/edge/tlog"
)

// ErrWitnesses: the checkpoint lacks the cosignatures of witnesses that the policy requires.
var ErrWitnesses = errors.New("follow: not cosigned as the policy requires")

// JoinCosigned joins a signed statement about the ledger and the cosigned checkpoint of the log of
// the same size, as /sync/cosigned gives them.
func JoinCosigned(statement, cosigned []byte) []byte {
	return append(append(bytes.Clone(statement), '\n'), cosigned...)
}

// CutCosigned is the reverse of [JoinCosigned]. Without a cosigned checkpoint, ok is false and all
// is the statement.
func CutCosigned(joined []byte) (statement, cosigned []byte, ok bool) {
	text := bytes.Index(joined, []byte("\n\n"))
	if text < 0 {
		return joined, nil, false
	}
	sigs := bytes.Index(joined[text+2:], []byte("\n\n"))
	if sigs < 0 {
		return joined, nil, false
	}
	end := text + 2 + sigs + 1
	return joined[:end], joined[end+1:], true
}

// VerifyCosigned opens what [JoinCosigned] joins. One of the keys must have signed both, about the
// same events. It asks for no witnesses.
func VerifyCosigned(joined []byte, keys note.Verifiers) (snap.Checkpoint, error) {
	return verifyCosigned(joined, func(statement []byte) (snap.Checkpoint, error) { return Verify(statement, keys) }, keys, nil)
}

// verifyCosigned is VerifyCosigned, with another function in place of [Verify]. The witnesses of a
// policy must have cosigned the events, unless policy is nil.
func verifyCosigned(joined []byte, verify func([]byte) (snap.Checkpoint, error), keys note.Verifiers, policy *tlog.Policy) (snap.Checkpoint, error) {
	statement, cosigned, ok := CutCosigned(joined)
	at, err := verify(statement)
	if err != nil {
		return at, err
	}
	if !ok {
		return at, fmt.Errorf("%w: no cosigned checkpoint", ErrWitnesses)
	}
	log, err := tlog.OpenCheckpoint(cosigned, keys)
	if err != nil {
		return at, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	if log.Origin != at.Origin || uint64(log.N) != at.Size || log.Hash != at.Root {
		return at, fmt.Errorf("%w: the cosigned checkpoint is of other events than the signed statement", ErrWitnesses)
	}
	if policy != nil {
		if _, err := policy.Check(cosigned); err != nil {
			return at, fmt.Errorf("%w: %w", ErrWitnesses, err)
		}
	}
	return at, nil
}
