// Package snap holds what is said about a state and its events so that those
// who follow an origin can check it without trusting whoever sent it.
//
//   - commitment.go: the words of a member do not stand in its registration but
//     travel beside it; the event keeps a salted hash of each, so that a text
//     can be redacted everywhere while the hash of the event, and every tree
//     above it, stands
//   - record.go: events and their texts as they travel
//   - tree.go: the RFC 6962 tree over the events, as far as it takes to go on
//     from its end
//   - rows.go: a state as bytes, the snapshot, and the file that brings it to
//     those who follow
//   - checkpoint.go: what an origin signs
//
// The package performs no I/O, compresses nothing and knows no keys.
package snap

import "errors"

// ErrNotHeld is what whoever hands out events, snapshots and modules answers
// when asked for one that it does not have, not yet or no longer.
var ErrNotHeld = errors.New("snap: not held here")

// ErrBusy is what they answer when they would first have to fetch it, and have
// fetched as much for others as they may for now.
var ErrBusy = errors.New("snap: too much is being fetched")

// flaw is an error that says more than the sentinel it wraps.
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
