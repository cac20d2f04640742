package tempo

import (
	"bytes"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"webring/server/pay/mpp"
)

// transaction is the one kind of Tempo transaction that pays here: a
// transferWithMemo, alone or after the two calls of a [swap], paid for by its sender.
// On the wire it is
//
//	0x76 ‖ RLP[chainId, maxPriorityFeePerGas, maxFeePerGas, gas,
//	           calls[[to, value, data], …], accessList, nonceKey, nonce,
//	           validBefore, validAfter, feeToken, feePayerSignature,
//	           authorizationList, keyAuthorization?, signature]
//
// and the signature covers Keccak-256 of the type byte and the list without
// the signature.
type transaction struct {
	chainID                 uint64
	maxPriorityFee, maxFee  *big.Int // per gas
	gas                     uint64
	calls                   []call // the last is the transfer
	accessList              []accessed
	swap                    *swap // nil: there is none before the transfer
	token                   common.Address
	nonceKey                []byte // of its lane, without leading zeros
	nonce                   uint64
	validBefore, validAfter uint64 // Unix seconds; 0: none
	feeToken                []byte // 20 bytes, or empty: the chain chooses
	recipient               common.Address
	amount                  uint64 // base units
	memo                    memo
	sender                  common.Address
	keyKind                 string          // kind of the key that signed, one of kinds
	assertion               int             // bytes of WebAuthn data, when that is the kind
	accessKey               *common.Address // the key that signed for sender, if not its own
	permission              *permission     // that key's, if it came along
	raw                     []byte          // canonical
	hash                    common.Hash     // of raw
}

// call is a call without value.
type call struct {
	to   common.Address
	data []byte
}

// accessed is a contract whose storage slots the transaction pays for in advance (EIP-2930).
type accessed struct {
	Address common.Address `json:"address"`
	Slots   []common.Hash  `json:"storageKeys"`
}

// typeByte starts every Tempo transaction (EIP-2718).
const typeByte = 0x76

// maxRaw bounds a transaction, in bytes. WebAuthn signatures are the longest
// and are held to two kilobytes by the chain.
const maxRaw = 6 << 10

// Positions in the list.
const (
	fieldCalls      = 4
	fieldAccessList = 5
	fieldNonceKey   = 6
	fieldFeeToken   = 10
	fieldFeePayer   = 11
	fieldAuthList   = 12
	fieldKeyAuth    = 13 // or the signature, when there is no key authorization
)

// readTransaction decodes raw, refuses everything that this service does not
// take, recovers the sender, and makes the canonical form: a transaction has
// several accepted spellings of its signature but one hash on the chain. It
// knows nothing of any challenge. The error is always a *mpp.Rejection.
func readTransaction(raw []byte) (*transaction, error) {
	if len(raw) == 0 || len(raw) > maxRaw {
		return nil, mpp.Refuse(mpp.ReasonForm, "the transaction is empty or too large")
	}
	switch raw[0] {
	case typeByte:
	case 0x78:
		return nil, mpp.Refuse(mpp.ReasonForm, "this service pays no fees for others")
	default:
		return nil, mpp.Refuse(mpp.ReasonForm, "the transaction must be of type 0x76")
	}
	fields, err := readList(raw[1:])
	if err != nil {
		return nil, err
	}
	n := len(fields)
	if n < 13 || n > 15 {
		return nil, mpp.Refuse(mpp.ReasonForm, "the transaction has a wrong number of fields")
	}
	// Fourteen fields are signed if the last is a string; a list there is a
	// unsigned key authorization.
	if n == 13 || isList(fields[n-1]) {
		return nil, mpp.Refuse(mpp.ReasonForm, "the transaction is not signed")
	}
	if n == 15 && !isList(fields[fieldKeyAuth]) {
		return nil, mpp.Refuse(mpp.ReasonForm, "the key authorization must be a list")
	}
	tx := new(transaction)
	if err := tx.readFields(fields); err != nil {
		return nil, err
	}
	if err := tx.readPayment(); err != nil {
		return nil, err
	}
	if err := tx.readSignature(fields); err != nil {
		return nil, err
	}
	if n == 15 {
		if err := tx.readPermission(fields[fieldKeyAuth]); err != nil {
			return nil, err
		}
	}
	tx.hash = crypto.Keccak256Hash(tx.raw)
	return tx, nil
}

func (tx *transaction) readFields(fields [][]byte) error {
	for _, f := range []struct {
		at   int
		into *uint64
	}{{0, &tx.chainID}, {3, &tx.gas}, {7, &tx.nonce}, {8, &tx.validBefore}, {9, &tx.validAfter}} {
		value, rest, err := rlp.SplitUint64(fields[f.at])
		if err != nil || len(rest) != 0 {
			return mpp.Refuse(mpp.ReasonForm, "the transaction's integers are not canonical")
		}
		*f.into = value
	}
	var err error
	if tx.maxPriorityFee, err = readFee(fields[1]); err != nil {
		return err
	}
	if tx.maxFee, err = readFee(fields[2]); err != nil {
		return err
	}
	if tx.maxPriorityFee.Cmp(tx.maxFee) > 0 {
		return mpp.Refuse(mpp.ReasonForm, "the priority fee exceeds the fee cap")
	}
	if tx.calls, err = readCalls(fields[fieldCalls]); err != nil {
		return err
	}
	if rlp.DecodeBytes(fields[fieldAccessList], &tx.accessList) != nil {
		return mpp.Refuse(mpp.ReasonForm, "the access list is malformed")
	}
	if !bytes.Equal(fields[fieldAuthList], []byte{0xc0}) {
		return mpp.Refuse(mpp.ReasonForm, "the authorization list must be empty")
	}
	if tx.nonceKey, err = readString(fields[fieldNonceKey]); err != nil {
		return err
	}
	if err := tx.checkLane(); err != nil {
		return err
	}
	if tx.feeToken, err = readString(fields[fieldFeeToken]); err != nil || len(tx.feeToken) != 0 && len(tx.feeToken) != common.AddressLength {
		return mpp.Refuse(mpp.ReasonForm, "the fee token is no address")
	}
	if !bytes.Equal(fields[fieldFeePayer], []byte{0x80}) {
		return mpp.Refuse(mpp.ReasonForm, "this service pays no fees for others")
	}
	return nil
}

// readCalls takes the list of calls apart: the transfer, or three of which it is the last.
func readCalls(field []byte) ([]call, error) {
	list, err := readList(field)
	if err != nil {
		return nil, err
	}
	if len(list) != 1 && len(list) != 3 {
		return nil, mpp.Refuse(mpp.ReasonForm, "the transaction must make exactly one call, the transfer, or three: approve, swapExactAmountOut and the transfer")
	}
	calls := make([]call, len(list))
	for i, encoded := range list {
		if calls[i], err = readCall(encoded); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

// readCall takes one call apart.
func readCall(encoded []byte) (c call, err error) {
	parts, err := readList(encoded)
	if err != nil || len(parts) != 3 {
		return c, mpp.Refuse(mpp.ReasonForm, "a call of the transaction is malformed")
	}
	to, err := readString(parts[0])
	if err != nil || len(to) != common.AddressLength {
		return c, mpp.Refuse(mpp.ReasonForm, "a call of the transaction is malformed")
	}
	if !bytes.Equal(parts[1], []byte{0x80}) {
		return c, mpp.Refuse(mpp.ReasonForm, "the transaction's calls must carry no value")
	}
	c.to = common.Address(to)
	c.data, err = readString(parts[2])
	return c, err
}

// readPayment reads what the calls do.
func (tx *transaction) readPayment() (err error) {
	last := tx.calls[len(tx.calls)-1]
	tx.token = last.to
	if tx.recipient, tx.amount, tx.memo, err = readTransfer(last.data); err != nil || len(tx.calls) == 1 {
		return err
	}
	tx.swap, err = tx.readSwap()
	return err
}

// readSignature recovers who signed, and puts the canonical transaction
// together: the fields as they are, which have been found canonical, and the
// canonical signature.
func (tx *transaction) readSignature(fields [][]byte) error {
	last := len(fields) - 1
	sig, err := readString(fields[last])
	if err != nil {
		return err
	}
	unsigned := writeList(fields[:last])
	signed, err := readSignature(sig, crypto.Keccak256Hash([]byte{typeByte}, unsigned))
	if err != nil {
		return err
	}
	tx.sender, tx.keyKind, tx.assertion = signed.sender, signed.kind, len(signed.assertion)
	if signed.access {
		tx.accessKey = &signed.key
	}
	encoded, err := rlp.EncodeToBytes(signed.canonical)
	if err != nil {
		return mpp.Refuse(mpp.ReasonForm, "the signature does not encode")
	}
	tx.raw = append([]byte{typeByte}, writeList(append(fields[:last:last], encoded))...)
	return nil
}

// readList splits the RLP list that fills all of b into its members, each
// still encoded. Every string and list below it must be canonical too.
func readList(b []byte) ([][]byte, error) {
	content, rest, err := rlp.SplitList(b)
	if err != nil || len(rest) != 0 {
		return nil, errNotCanonical
	}
	var members [][]byte
	for len(content) > 0 {
		_, _, rest, err := rlp.Split(content)
		if err != nil || len(members) == 64 {
			return nil, errNotCanonical
		}
		members = append(members, content[:len(content)-len(rest)])
		content = rest
	}
	return members, nil
}

var errNotCanonical = mpp.Refuse(mpp.ReasonForm, "the transaction is not canonical RLP, or has trailing bytes")

// readString returns the content of the RLP string that fills all of b.
func readString(b []byte) ([]byte, error) {
	content, rest, err := rlp.SplitString(b)
	if err != nil || len(rest) != 0 {
		return nil, errNotCanonical
	}
	return content, nil
}

// readFee decodes a price per gas, at most 128 bits, as the chain has it.
func readFee(field []byte) (*big.Int, error) {
	b, err := readString(field)
	if err != nil || len(b) > 16 || len(b) > 0 && b[0] == 0 {
		return nil, mpp.Refuse(mpp.ReasonForm, "the transaction's integers are not canonical")
	}
	return new(big.Int).SetBytes(b), nil
}

func isList(encoded []byte) bool { return len(encoded) > 0 && encoded[0] >= 0xc0 }

// writeList is the RLP list of members that are encoded already.
func writeList(members [][]byte) []byte {
	raw := make([]rlp.RawValue, len(members))
	for i, m := range members {
		raw[i] = m
	}
	list, err := rlp.EncodeToBytes(raw)
	if err != nil {
		panic("tempo: encoding encoded values: " + err.Error())
	}
	return list
}

// memo is the 32 bytes that bind a transfer to one challenge of one server:
//
//	0–3    Keccak-256("mpp")[:4]
//	4      version, 1
//	5–14   Keccak-256(realm)[:10]
//	15–24  the client's own
//	25–31  Keccak-256(challenge id)[:7]
type memo [32]byte

var memoHead = []byte{0xef, 0x1e, 0xd7, 0x12, 0x01}

// ours says that m is of this scheme and names this realm.
func (m memo) ours(realm string) bool {
	return bytes.Equal(m[:5], memoHead) && bytes.Equal(m[5:15], crypto.Keccak256([]byte(realm))[:10])
}

// answers says that m belongs to the challenge with this id.
func (m memo) answers(challengeID string) bool {
	return bytes.Equal(m[25:], crypto.Keccak256([]byte(challengeID))[:7])
}

// selector is the function transferWithMemo(address,uint256,bytes32).
var selector = []byte{0x95, 0x77, 0x7d, 0x59}

// readTransfer decodes the calldata of transferWithMemo: exactly 100 bytes, an
// address without dirt in its upper bytes, an amount that fits 64 bits.
func readTransfer(data []byte) (to common.Address, amount uint64, m memo, err error) {
	if !bytes.HasPrefix(data, selector) {
		return to, 0, m, mpp.Refuse(mpp.ReasonForm, "the last call must be transferWithMemo, of the token asked for")
	}
	words, ok := readWords(data, selector, 3)
	if !ok {
		return to, 0, m, mpp.Refuse(mpp.ReasonForm, "the transfer's calldata must have exactly 100 bytes")
	}
	to, ok1 := words[0].address()
	amount, ok2 := words[1].units()
	if !ok1 || !ok2 {
		return to, 0, m, mpp.Refuse(mpp.ReasonForm, "the transfer's recipient or amount is out of range")
	}
	return to, amount, memo(words[2]), nil
}
