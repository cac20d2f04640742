package tempo

import (
	"errors"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"webring/server/mpp"
	"webring/server/tempo/tempotest"
)

// underKeychain has access sign for account, in the form bound to the account.
func underKeychain(account common.Address, access tempotest.Wallet) func(digest []byte) []byte {
	return func(digest []byte) []byte {
		inner := access.Sign(crypto.Keccak256([]byte{4}, digest, account[:]))
		return append(append([]byte{4}, account[:]...), inner...)
	}
}

// permission lets key sign for the account of root.
func permission(root tempotest.Wallet, chain uint64, key common.Address, more ...any) []any {
	terms := append([]any{chain, []byte{}, key}, more...)
	encoded, err := rlp.EncodeToBytes(terms)
	if err != nil {
		panic(err)
	}
	return []any{terms, root.Sign(crypto.Keccak256(encoded))}
}

// A permission that the chain would not take makes a transaction that can
// never be mined; it must not get as far as a reservation.
func TestKeyAuthorizationMustFitTheTransaction(t *testing.T) {
	m := newMethod(t, Config{Currency: token, Recipient: recipient})
	c := challenge(t, m)
	root, access := wallet(7), wallet(8)
	nested := any([]any{})
	for range 12 {
		nested = []any{nested}
	}
	for _, tc := range []struct {
		name  string
		auth  any
		taken bool
	}{
		{"fits", permission(root, 42431, access.Address()), true},
		{"any chain", permission(root, 0, access.Address()), true},
		{"expires later", permission(root, 42431, access.Address(), after(3600)), true},
		{"never expires", permission(root, 42431, access.Address(), uint64(0)), true},
		{"limits", permission(root, 42431, access.Address(), uint64(0), []any{[]any{token, uint64(5)}}), true},
		{"another chain", permission(root, 4217, access.Address()), false},
		{"another key", permission(root, 42431, stranger), false},
		{"expires before the transaction", permission(root, 42431, access.Address(), after(24)), false},
		{"given by a stranger", permission(wallet(9), 42431, access.Address()), false},
		{"given by the access key", permission(access, 42431, access.Address()), false},
		{"not signed", []any{[]any{uint64(42431), []byte{}, access.Address()}}, false},
		{"no terms", []any{[]any{}, []byte{}}, false},
		{"terms no list", []any{uint64(1), []byte{}}, false},
		{"nested without end", permission(root, 42431, access.Address(), uint64(0), nested), false},
	} {
		_, err := m.Decode(root.Pay(c, func(d *tempotest.Draft) {
			d.KeyAuthorization, d.Sign = tc.auth, underKeychain(root.Address(), access)
		}), 100, now)
		var no *mpp.Rejection
		if tc.taken && err != nil || !tc.taken && (!errors.As(err, &no) || !strings.Contains(no.Detail, "key authorization")) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	// The account may also sign itself while it gives a permission.
	if _, err := m.Decode(root.Pay(c, func(d *tempotest.Draft) {
		d.KeyAuthorization = permission(root, 42431, access.Address())
	}), 100, now); err != nil {
		t.Errorf("root signs and authorizes: %v", err)
	}
}
