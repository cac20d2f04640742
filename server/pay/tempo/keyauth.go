package tempo

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"webring/server/pay/mpp"
)

// permission is what the account's own key lets an access key do. It comes
// along with the first transaction that the access key signs, or with one that the
// account's own key signs:
//
//	[[chainId, keyType, keyId, expiry?, limits?, calls?, witness?], signature]
//
// signed over Keccak-256 of the inner list. An absent member is left out at the
// end of the list and is the empty string before another. The chain knows more
// members (administrators, the account); a payment has no use for them.
//
// Its JSON is what nodes take in a simulation.
type permission struct {
	ChainID   hexutil.Uint64    `json:"chainId"`
	KeyType   keyType           `json:"keyType"`
	KeyID     common.Address    `json:"keyId"`
	Expiry    hexutil.Uint64    `json:"expiry,omitzero" rlp:"optional"`                  // Unix seconds; 0: never
	Limits    *[]spendingLimit  `json:"limits,omitempty" rlp:"optional,nilString"`       // nil: none; an empty list is not read
	Calls     *[]permittedCalls `json:"allowedCalls,omitempty" rlp:"optional,nilString"` // nil: all; an empty list is not read
	Witness   *common.Hash      `json:"witness,omitempty" rlp:"optional,nilString"`      // what else the account has signed with it (TIP-1053): a sign-in, say; nil: nothing
	Signature map[string]any    `json:"signature" rlp:"-"`                               // by the account
}

// keyType is the number of a kind of key, an index of kinds.
type keyType uint8

// MarshalText names the kind.
func (t keyType) MarshalText() ([]byte, error) { return []byte(kinds[t]), nil }

// spendingLimit bounds what a key may spend of a token, in all or in a period.
type spendingLimit struct {
	Token  common.Address
	Limit  *big.Int
	Period uint64 `rlp:"optional"` // seconds; 0: once for all
}

// MarshalJSON writes numbers as nodes take them.
func (l spendingLimit) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Token  common.Address `json:"token"`
		Limit  *hexutil.Big   `json:"limit"`
		Period hexutil.Uint64 `json:"period,omitzero"`
	}{l.Token, (*hexutil.Big)(l.Limit), hexutil.Uint64(l.Period)})
}

// permittedCalls lets a key call a contract: all of it if there are no rules.
type permittedCalls struct {
	Target common.Address      `json:"target"`
	Rules  []permittedFunction `json:"selectorRules,omitempty"`
}

// permittedFunction lets a key call one function, for any recipient if none is
// named.
type permittedFunction struct {
	Selector   function         `json:"selector"`
	Recipients []common.Address `json:"recipients,omitempty"`
}

// function names a function.
type function [4]byte

// MarshalText writes it in hexadecimal.
func (f function) MarshalText() ([]byte, error) { return hexutil.Bytes(f[:]).MarshalText() }

// kinds are the kinds of keys in the order of their numbers on the chain.
var kinds = []string{"secp256k1", "p256", "webAuthn"}

// readPermission checks the permission that a transaction brings along for the
// access key that signed it. A permission that the chain does not take makes a
// transaction that can never be mined but would hold a URL, so it is read as
// the chain reads it: one spelling, nothing unknown. What it lets another key spend does not
// bound a transaction that the account signs itself.
func (tx *transaction) readPermission(field []byte) error {
	bad := mpp.Refuse(mpp.ReasonKey, "the key authorization does not fit the transaction")
	var parts struct {
		Terms     rlp.RawValue
		Signature []byte
	}
	var p permission
	if rlp.DecodeBytes(field, &parts) != nil || rlp.DecodeBytes(parts.Terms, &p) != nil {
		return bad
	}
	// The decoder takes absent members that are spelt out; the chain does not.
	if again, err := rlp.EncodeToBytes(&p); err != nil || !bytes.Equal(again, parts.Terms) {
		return bad
	}
	own := tx.accessKey == nil
	switch {
	case uint64(p.ChainID) != tx.ChainID, int(p.KeyType) >= len(kinds),
		own && p.KeyID == (common.Address{}),
		!own && (p.KeyID != *tx.accessKey || kinds[p.KeyType] != tx.keyKind),
		p.Expiry != 0 && uint64(p.Expiry) < tx.ValidBefore,
		p.Limits != nil && !tx.within(*p.Limits, own),
		p.Calls != nil && !distinct(*p.Calls):
		return bad
	}
	// Another spelling of this signature would change the bytes that the
	// access key has signed, once the chain has spelt it its own way.
	by, err := readPrimitive(parts.Signature, crypto.Keccak256Hash(parts.Terms))
	if err != nil || by.sender != tx.sender || !bytes.Equal(by.canonical, parts.Signature) {
		return bad
	}
	p.Signature = by.rpc()
	tx.permission = &p
	return nil
}

// within says that the limits are the chain's, one to a token and below 2¹²⁸,
// and leave room for the payment and its fee, unless the account signs with its own key. The
// chain refuses a key that cannot pay the fee; the rest would be mined and revert.
func (tx *transaction) within(limits []spendingLimit, own bool) bool {
	left := make(map[common.Address]*big.Int)
	for _, l := range limits {
		if left[l.Token] != nil || l.Limit.BitLen() > 128 {
			return false
		}
		left[l.Token] = l.Limit
	}
	for token, spent := range tx.spends() {
		if !own && (left[token] == nil || left[token].Cmp(spent) < 0) {
			return false
		}
	}
	return true
}

// spends is the most that the transaction takes of each token; an approval counts as what
// it allows. Which token an unnamed one for the fee will be is the account's own setting; it
// is taken to be the one that the chain takes without a setting: the currency, or, with a
// swap, the first of all tokens.
func (tx *transaction) spends() map[common.Address]*big.Int {
	fee := new(big.Int).Mul(new(big.Int).SetUint64(tx.Gas), tx.MaxFee)
	fee.Add(fee, big.NewInt(feeScale-1)).Div(fee, big.NewInt(feeScale))
	spent := map[common.Address]*big.Int{tx.token: new(big.Int).SetUint64(tx.amount)}
	feeToken := tx.token
	if tx.swap != nil {
		spent[tx.swap.sold] = new(big.Int).Set(tx.swap.approved)
		feeToken = firstToken
	}
	if len(tx.FeeToken) != 0 {
		feeToken = common.Address(tx.FeeToken)
	}
	if spent[feeToken] == nil {
		spent[feeToken] = new(big.Int)
	}
	spent[feeToken].Add(spent[feeToken], fee)
	return spent
}

// moved are the tokens that the transaction takes from the account, but for the fee.
func (tx *transaction) moved() []common.Address {
	if tx.swap != nil {
		return []common.Address{tx.swap.sold, tx.token}
	}
	return []common.Address{tx.token}
}

// firstToken is pathUSD. The chain infers a token for the fee from one call, or from calls
// of one token; without that, and without a setting, it takes this one.
var firstToken = common.HexToAddress("0x20c0000000000000000000000000000000000000")

// feeScale is how many of the units in which gas is priced, 10⁻¹⁸ of a dollar,
// make a base unit of a six-decimal token.
const feeScale = 1_000_000_000_000

// distinct says that no contract, function or recipient is named twice, and no address is
// zero. Which functions can have recipients is the chain's to know.
func distinct(calls []permittedCalls) bool {
	none := map[any]bool{common.Address{}: true}
	targets := maps.Clone(none)
	for _, c := range calls {
		selectors := map[any]bool{}
		for _, f := range c.Rules {
			recipients := maps.Clone(none)
			for _, r := range f.Recipients {
				recipients[r] = true
			}
			if selectors[f.Selector] = true; len(recipients) != 1+len(f.Recipients) {
				return false
			}
		}
		if targets[c.Target] = true; len(selectors) != len(c.Rules) {
			return false
		}
	}
	return len(targets) == 1+len(calls)
}
