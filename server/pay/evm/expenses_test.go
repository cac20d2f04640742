package evm

import (
	"errors"
	"slices"

	"webring/server/pay/mpp"
)

// account pays for everything, unless it is closed, and remembers what it has paid for.
type account struct {
	closed, full bool
	allowed      []uint64
	stored       []mpp.Submission
}

func (x *account) Allow(gas uint64) error {
	if x.closed {
		return errors.New("the account is closed")
	}
	x.allowed = append(x.allowed, gas)
	return nil
}

func (x *account) Store(s mpp.Submission) error {
	if x.full {
		return errors.New("the disk is full")
	}
	if !slices.Contains(x.stored, s) {
		x.stored = append(x.stored, s)
	}
	return nil
}
