package tempo

import (
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"webring/server/pay/mpp"
	"webring/server/pay/tempo/tempotest"
)

// underKeychain has access sign for account, in the form bound to the account.
func underKeychain(account common.Address, access tempotest.Wallet) func(digest []byte) []byte {
	return func(digest []byte) []byte {
		inner := access.Sign(crypto.Keccak256([]byte{4}, digest, account[:]))
		return append(append([]byte{4}, account[:]...), inner...)
	}
}

// permit lets key sign for the account of root.
func permit(root tempotest.Wallet, chain uint64, key common.Address, more ...any) []any {
	return permitTerms(root, append([]any{chain, []byte{}, key}, more...)...)
}

// permitKind says what kind of key it is.
func permitKind(root tempotest.Wallet, kind any, key common.Address) []any {
	return permitTerms(root, uint64(42431), kind, key)
}

func permitTerms(root tempotest.Wallet, terms ...any) []any {
	encoded, err := rlp.EncodeToBytes(terms)
	if err != nil {
		panic(err)
	}
	return []any{terms, root.Sign(crypto.Keccak256(encoded))}
}

func limits(token common.Address, units uint64) []any { return []any{[]any{token, units}} }

// calls permits one function of the token, for these recipients.
func calls(selector []byte, recipients ...common.Address) []any {
	return []any{[]any{token, []any{[]any{selector, recipients}}}}
}

// A permission that the chain would not take makes a transaction that can
// never be mined; it must not get as far as a reservation.
func TestKeyAuthorizationMustFitTheTransaction(t *testing.T) {
	m := newMethod(t, Config{Currency: token, Recipient: recipient})
	c := challenge(t, m)
	root, access := wallet(7), wallet(8)
	for _, tc := range []struct {
		name  string
		auth  any
		taken bool
	}{
		{"fits", permit(root, 42431, access.Address()), true},
		{"any chain", permit(root, 0, access.Address()), false},
		{"expires later", permit(root, 42431, access.Address(), after(3600)), true},
		{"expires with the transaction", permit(root, 42431, access.Address(), after(25)), true},
		{"absent expiry spelt out", permit(root, 42431, access.Address(), uint64(0)), false},
		{"limit for payment and fee", permit(root, 42431, access.Address(), uint64(0), limits(token, 1_200_000)), true},
		{"limit one unit short", permit(root, 42431, access.Address(), uint64(0), limits(token, 1_199_999)), false},
		{"limit of another token", permit(root, 42431, access.Address(), uint64(0), limits(stranger, 1_200_000)), false},
		{"limit of 2¹²⁸", permit(root, 42431, access.Address(), uint64(0), []any{[]any{token, new(big.Int).Lsh(common.Big1, 128)}}), false},
		{"limit by period", permit(root, 42431, access.Address(), uint64(0), []any{[]any{token, uint64(1_200_000), uint64(60)}}), true},
		{"absent period spelt out", permit(root, 42431, access.Address(), uint64(0), []any{[]any{token, uint64(1_200_000), uint64(0)}}), false},
		{"limit with a fourth member", permit(root, 42431, access.Address(), uint64(0), []any{[]any{token, uint64(1_200_000), uint64(60), uint64(1)}}), false},
		{"two limits to a token", permit(root, 42431, access.Address(), uint64(0), append(limits(token, 1_200_000), limits(token, 1_200_000)...)), false},
		{"limits no list", permit(root, 42431, access.Address(), uint64(0), uint64(7)), false},
		{"absent limits spelt out", permit(root, 42431, access.Address(), uint64(0), uint64(0)), false},
		{"calls, without limits", permit(root, 42431, access.Address(), uint64(0), uint64(0), calls(selector, recipient)), true},
		{"calls, for any recipient", permit(root, 42431, access.Address(), uint64(0), uint64(0), calls(selector)), true},
		{"selector of three bytes", permit(root, 42431, access.Address(), uint64(0), uint64(0), calls(selector[:3])), false},
		{"recipient twice", permit(root, 42431, access.Address(), uint64(0), uint64(0), calls(selector, recipient, recipient)), false},
		{"recipient zero", permit(root, 42431, access.Address(), uint64(0), uint64(0), calls(selector, common.Address{})), false},
		{"witness", permit(root, 42431, access.Address(), uint64(0), uint64(0), uint64(0), make([]byte, 32)), false},
		{"kind of another key", permitKind(root, uint64(1), access.Address()), false},
		{"kind spelt as a zero byte", permitKind(root, rlp.RawValue{0}, access.Address()), false},
		{"unknown kind", permitKind(root, uint64(3), access.Address()), false},
		{"kind of two bytes", permitKind(root, uint64(256), access.Address()), false},
		{"another chain", permit(root, 4217, access.Address()), false},
		{"another key", permit(root, 42431, stranger), false},
		{"expires before the transaction", permit(root, 42431, access.Address(), after(24)), false},
		{"given by a stranger", permit(wallet(9), 42431, access.Address()), false},
		{"given by the access key", permit(access, 42431, access.Address()), false},
		{"not signed", []any{[]any{uint64(42431), []byte{}, access.Address()}}, false},
		{"no terms", []any{[]any{}, []byte{}}, false},
		{"terms no list", []any{uint64(1), []byte{}}, false},
	} {
		_, err := take(m, root.Pay(c, func(d *tempotest.Draft) {
			d.KeyAuthorization, d.Sign = tc.auth, underKeychain(root.Address(), access)
		}), now)
		var no *mpp.Rejection
		if tc.taken && err != nil || !tc.taken && (!errors.As(err, &no) || !strings.Contains(no.Detail, "key authorization")) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	// Where the account signs itself, a permission has no business.
	var no *mpp.Rejection
	if _, err := take(m, root.Pay(c, func(d *tempotest.Draft) {
		d.KeyAuthorization = permit(root, 42431, access.Address())
	}), now); !errors.As(err, &no) || !strings.Contains(no.Detail, "key authorization") {
		t.Errorf("root signs and authorizes: %v", err)
	}
}
