package tempo

import (
	"bytes"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"webring/server/pay/mpp"
)

// transaction is the one kind of Tempo transaction that pays here: a
// transferWithMemo, alone or after the two calls of a [swap], paid for by its sender.
type transaction struct {
	wire
	swap       *swap // nil: there is none before the transfer
	token      common.Address
	recipient  common.Address
	amount     uint64 // base units
	memo       memo
	sender     common.Address
	keyKind    string          // kind of the key that signed, one of kinds
	assertion  int             // bytes of WebAuthn data, when that is the kind
	accessKey  *common.Address // the key that signed for sender, if not its own
	permission *permission     // that key's, or another one's, if it came along
	raw        []byte          // canonical
	hash       common.Hash     // of raw
}

// wire is a transaction as it is on the wire, after its type byte. The signature covers Keccak-256
// of the type byte and the list without the signature.
type wire struct {
	ChainID                     uint64
	MaxPriorityFee, MaxFee      *big.Int // per gas
	Gas                         uint64
	Calls                       []call // the last is the transfer
	AccessList                  []accessed
	NonceKey                    []byte // of its lane, without leading zeros
	Nonce                       uint64
	ValidBefore, ValidAfter     uint64 // Unix seconds; 0: none
	FeeToken                    []byte // 20 bytes, or empty: the chain chooses
	FeePayer, AuthorizationList rlp.RawValue
	Tail                        []rlp.RawValue `rlp:"tail"` // the key authorization, if there is one, and the signature
}

// encode gives the bytes of w with a tail.
func (w wire) encode(tail ...rlp.RawValue) []byte {
	w.Tail = tail
	list, err := rlp.EncodeToBytes(&w)
	if err != nil {
		panic("tempo: encoding what was decoded: " + err.Error())
	}
	return append([]byte{typeByte}, list...)
}

// call is a call without value.
type call struct {
	To    common.Address
	Value uint64
	Data  []byte
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
	tx := new(transaction)
	if rlp.DecodeBytes(raw[1:], &tx.wire) != nil {
		return nil, mpp.Refuse(mpp.ReasonForm, "the transaction is not the canonical RLP of its fields")
	}
	// A list at the end is a key authorization that is not signed.
	tail := tx.Tail
	last := len(tail) - 1
	if last < 0 || tail[last][0] >= 0xc0 {
		return nil, mpp.Refuse(mpp.ReasonForm, "the transaction is not signed")
	}
	if last > 1 {
		return nil, mpp.Refuse(mpp.ReasonForm, "the transaction has a wrong number of fields")
	}
	if err := tx.checkFields(); err != nil {
		return nil, err
	}
	if err := tx.readPayment(); err != nil {
		return nil, err
	}
	if err := tx.readSignature(); err != nil {
		return nil, err
	}
	if last == 1 {
		if err := tx.readPermission(tail[0]); err != nil {
			return nil, err
		}
	}
	tx.hash = crypto.Keccak256Hash(tx.raw)
	return tx, nil
}

// checkFields refuses fields that no payment has, or that the chain does not take.
func (tx *transaction) checkFields() error {
	switch {
	case tx.MaxPriorityFee.Cmp(tx.MaxFee) > 0:
		return mpp.Refuse(mpp.ReasonForm, "the priority fee exceeds the fee cap")
	case tx.MaxFee.BitLen() > 128:
		return mpp.Refuse(mpp.ReasonForm, "the transaction's fee is out of range")
	case len(tx.Calls) != 1 && len(tx.Calls) != 3:
		return mpp.Refuse(mpp.ReasonForm, "the transaction must make exactly one call, the transfer, or three: approve, swapExactAmountOut and the transfer")
	case slices.ContainsFunc(tx.Calls, func(c call) bool { return c.Value != 0 }):
		return mpp.Refuse(mpp.ReasonForm, "the transaction's calls must carry no value")
	case !bytes.Equal(tx.AuthorizationList, rlp.EmptyList):
		return mpp.Refuse(mpp.ReasonForm, "the authorization list must be empty")
	case len(tx.FeeToken) != 0 && len(tx.FeeToken) != common.AddressLength:
		return mpp.Refuse(mpp.ReasonForm, "the fee token is no address")
	case !bytes.Equal(tx.FeePayer, rlp.EmptyString):
		return mpp.Refuse(mpp.ReasonForm, "this service pays no fees for others")
	}
	return tx.checkLane()
}

// readPayment reads what the calls do.
func (tx *transaction) readPayment() (err error) {
	last := tx.Calls[len(tx.Calls)-1]
	tx.token = last.To
	if tx.recipient, tx.amount, tx.memo, err = readTransfer(last.Data); err != nil || len(tx.Calls) == 1 {
		return err
	}
	tx.swap, err = tx.readSwap()
	return err
}

// readSignature recovers who signed, and puts the canonical transaction together: the fields
// as they are, which have been found canonical, and the canonical signature.
func (tx *transaction) readSignature() error {
	last := len(tx.Tail) - 1
	var sig []byte
	if rlp.DecodeBytes(tx.Tail[last], &sig) != nil {
		return mpp.Refuse(mpp.ReasonForm, "the transaction is not the canonical RLP of its fields")
	}
	signed, err := readSignature(sig, crypto.Keccak256Hash(tx.encode(tx.Tail[:last]...)))
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
	tx.raw = tx.encode(append(tx.Tail[:last:last], encoded)...)
	return nil
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
