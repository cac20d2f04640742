package tempo

import (
	"bytes"
	"encoding/binary"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
)

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
	if len(data) < 4 || !bytes.Equal(data[:4], selector) {
		return to, 0, m, refuse(mpp.ReasonForm, "the last call must be transferWithMemo, of the token asked for")
	}
	if len(data) != 100 {
		return to, 0, m, refuse(mpp.ReasonForm, "the transfer's calldata must have exactly 100 bytes")
	}
	var zero [24]byte
	if !bytes.Equal(data[4:16], zero[:12]) || !bytes.Equal(data[36:60], zero[:24]) {
		return to, 0, m, refuse(mpp.ReasonForm, "the transfer's recipient or amount is out of range")
	}
	return common.Address(data[16:36]), binary.BigEndian.Uint64(data[60:68]), memo(data[68:]), nil
}
