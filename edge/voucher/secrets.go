package voucher

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
)

const minSecret = 32

// Secrets are shared by origin and edges. Vouchers are made with the first of them, and a
// voucher made with any of them is valid, so a secret can be rotated while requests are
// under way. Functions may be called concurrently. The zero value has no secret.
type Secrets struct{ all atomic.Pointer[[][]byte] }

// NewSecrets gives the secrets in this order. It fails without any, and if one has fewer
// than 32 bytes.
func NewSecrets(all ...[]byte) (*Secrets, error) {
	s := new(Secrets)
	return s, s.Replace(all...)
}

// Replace replaces all secrets. It fails as [NewSecrets] does, and then changes nothing. The
// caller must not change the slices afterwards.
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
func (s *Secrets) Are(all ...[]byte) bool { return slices.EqualFunc(s.All(), all, bytes.Equal) }

// Current gives the secret that vouchers are made with.
func (s *Secrets) Current() []byte {
	if all := s.All(); len(all) > 0 {
		return all[0]
	}
	return nil
}

// All gives the secrets in their order. The caller must not change them.
func (s *Secrets) All() [][]byte {
	if all := s.all.Load(); all != nil {
		return *all
	}
	return nil
}

// Check fails for the zero value.
func (s *Secrets) Check() error {
	if s.Current() == nil {
		return errNoSecret
	}
	return nil
}

// Format prints no secret.
func (*Secrets) Format(f fmt.State, _ rune) { fmt.Fprint(f, "voucher.Secrets(redacted)") }
