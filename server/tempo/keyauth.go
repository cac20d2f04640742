package tempo

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// checkAuthorization checks the permission for an access key that a
// transaction brings along:
//
//	[[chainId, keyType, keyId, expiry?, limits?, …], signature]
//
// signed by the account's own key over Keccak-256 of the inner list. If an
// access key signed the transaction, it must be this one. A wrong permission
// would make a transaction that no simulation refuses and no block takes, and
// so hold a URL without paying. What the permission limits, the chain enforces.
func (tx *transaction) checkAuthorization(field []byte) error {
	bad := refuse("the key authorization does not fit the transaction")
	parts, err := readList(field)
	if err != nil || len(parts) != 2 {
		return bad
	}
	terms, err := readList(parts[0])
	if err != nil || len(terms) < 3 {
		return bad
	}
	// Chain 0 stands for any.
	chain, _, err := rlp.SplitUint64(terms[0])
	if err != nil || chain != 0 && chain != tx.chainID {
		return bad
	}
	id, err := readString(terms[2])
	if err != nil || len(id) != common.AddressLength || tx.accessKey != nil && common.Address(id) != *tx.accessKey {
		return bad
	}
	if len(terms) > 3 {
		// 0 stands for never.
		expiry, _, err := rlp.SplitUint64(terms[3])
		if err != nil || expiry != 0 && expiry < tx.validBefore {
			return bad
		}
	}
	for _, term := range terms[3:] {
		if !canonical(term, 8) {
			return bad
		}
	}
	sig, err := readString(parts[1])
	if err != nil {
		return bad
	}
	by, err := readPrimitive(sig, crypto.Keccak256Hash(parts[0]))
	if err != nil || by.sender != tx.sender {
		return bad
	}
	tx.authorized = true
	return nil
}

// canonical says that an RLP value is canonical all the way down.
func canonical(value []byte, depth int) bool {
	if !isList(value) {
		_, err := readString(value)
		return err == nil
	}
	if depth == 0 {
		return false
	}
	members, err := readList(value)
	if err != nil {
		return false
	}
	for _, m := range members {
		if !canonical(m, depth-1) {
			return false
		}
	}
	return true
}
