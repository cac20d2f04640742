package voucher

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
)

const minSecret = 32

// Secrets are what origin and edges share: vouchers are made with the first, and those
// made with any of them count, so that one can take the place of another while requests
// are under way. They may be used concurrently, and replaced meanwhile. The zero value
// has none.
type Secrets struct{ all atomic.Pointer[[][]byte] }

// NewSecrets refuses secrets of fewer than 32 bytes, and to do without any.
func NewSecrets(all ...[]byte) (*Secrets, error) {
	s := new(Secrets)
	return s, s.Replace(all...)
}

// Replace has others take the place of the secrets, under the conditions of
// [NewSecrets]. It keeps what it is given.
func (s *Secrets) Replace(all ...[]byte) error {
	if len(all) == 0 {
		return errNoSecret
	}
	for _, secret := range all {
		if len(secret) < minSecret {
			return errNoSecret
		}
	}
	s.all.Store(&all)
	return nil
}

var errNoSecret = fmt.Errorf("voucher: the secret that edges share must have at least %d bytes", minSecret)

// Are reports whether these are the secrets, in this order.
func (s *Secrets) Are(all ...[]byte) bool { return slices.EqualFunc(s.each(), all, bytes.Equal) }

// Current gives the secret that vouchers are made with.
func (s *Secrets) Current() []byte {
	if all := s.each(); len(all) > 0 {
		return all[0]
	}
	return nil
}

func (s *Secrets) each() [][]byte {
	if all := s.all.Load(); all != nil {
		return *all
	}
	return nil
}

// Check refuses secrets that are the zero value.
func (s *Secrets) Check() error {
	if s.Current() == nil {
		return errNoSecret
	}
	return nil
}

// Format keeps secrets out of whatever prints them.
func (*Secrets) Format(f fmt.State, _ rune) { fmt.Fprint(f, "voucher.Secrets(redacted)") }
