// Package snap holds the formats by which a follower checks an origin without
// trusting the sender of the bytes.
//
//   - commitment.go: salted hashes of members' words. The words travel with a
//     registration, and the event holds only the hashes, so a text can be redacted
//     everywhere while the hash of the event, and every tree above it, stays
//   - record.go: events and their texts as they travel
//   - tree.go: the RFC 6962 tree over the events, reduced to what adding further
//     events needs
//   - rows.go: the snapshot, which is a state as bytes, and the file in which it
//     travels
//   - load.go: a state from a snapshot, whole or in pieces
//   - checkpoint.go: what an origin signs
//   - keys.go: what it signs about the keys that sign
//
// The package performs no I/O, compresses nothing and holds no keys.
package snap

import "errors"

// ErrNotHeld says that a source of events and snapshots does not have the one that
// was asked for, not yet or no longer.
var ErrNotHeld = errors.New("snap: not held here")

// flaw adds a detail or a cause to the sentinel that it wraps.
type flaw struct {
	sentinel, cause error
	detail          string
}

func (f *flaw) Error() string {
	s := f.sentinel.Error()
	if f.detail != "" {
		s += ": " + f.detail
	}
	if f.cause != nil {
		s += ": " + f.cause.Error()
	}
	return s
}

func (f *flaw) Unwrap() []error {
	if f.cause == nil {
		return []error{f.sentinel}
	}
	return []error{f.sentinel, f.cause}
}
