package paytest

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/hex"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"webring/server/pay/mpp"
)

// Tempo is a wallet that pays Tempo charges with a secp256k1 key.
type Tempo struct {
	Key *ecdsa.PrivateKey
	Now func() time.Time // nil: the wall clock
}

// Address is the wallet's account.
func (w Tempo) Address() common.Address { return addressOf(w.Key) }

// TempoDraft is a transaction on its way to being signed. Values of type any are
// whatever RLP can encode; an rlp.RawValue stands in the list as it is, which
// is how encodings get spoilt.
type TempoDraft struct {
	// The transfer. Data, when not nil, replaces the calldata made of the
	// others. Before are the calls before it, and Calls, when not nil, replaces
	// the whole list of calls.
	Token, Recipient common.Address
	Amount           *big.Int
	Memo             [32]byte
	Value            any
	Data             []byte
	Before           []any
	Calls            any

	Type                                  byte
	ChainID, MaxPriorityFee, MaxFee, Gas  any
	AccessList, NonceKey, Nonce           any
	ValidBefore, ValidAfter               any
	FeeToken, FeePayer, AuthorizationList any
	KeyAuthorization                      any                        // nil: the field is absent
	Sign                                  func(digest []byte) []byte // nil: the wallet's key; v is 27 or 28
	Unsigned                              bool
	Wire                                  func(raw []byte) []byte // alters the encoded transaction
	PayloadType, Source                   string
	Payload                               any // replaces the payload
}

// TempoAlter changes a draft; the last of several wins.
type TempoAlter func(*TempoDraft)

// Transaction is the signed transaction for c as it would be sent, after
// changes. It panics on a challenge that is no Tempo charge: that is a fault
// of the test.
func (w Tempo) Transaction(c mpp.Challenge, changes ...TempoAlter) []byte {
	raw, _ := w.sign(c, changes)
	return raw
}

// Pay answers c with a credential, after changes.
func (w Tempo) Pay(c mpp.Challenge, changes ...TempoAlter) mpp.Credential {
	raw, d := w.sign(c, changes)
	payload := d.Payload
	if payload == nil {
		payload = map[string]string{"type": d.PayloadType, "signature": "0x" + hex.EncodeToString(raw)}
	}
	return credential(c, payload, d.Source)
}

// Header is the value of the Authorization field that presents Pay's credential.
func (w Tempo) Header(c mpp.Challenge, changes ...TempoAlter) string {
	return header(w.Pay(c, changes...))
}

// Memo is the memo of a client without a name (the reference client's layout).
func Memo(realm, challengeID string) (m [32]byte) {
	copy(m[:], crypto.Keccak256([]byte("mpp"))[:4])
	m[4] = 1
	copy(m[5:15], crypto.Keccak256([]byte(realm)))
	copy(m[25:], crypto.Keccak256([]byte(challengeID)))
	return m
}

// TransferWithMemo is the calldata of that function.
func TransferWithMemo(to common.Address, amount *big.Int, memo [32]byte) []byte {
	data := crypto.Keccak256([]byte("transferWithMemo(address,uint256,bytes32)"))[:4]
	data = append(data, common.LeftPadBytes(to[:], 32)...)
	data = append(data, common.LeftPadBytes(amount.Bytes(), 32)...)
	return append(data, memo[:]...)
}

// Exchange is the address of Tempo's exchange.
var Exchange = common.HexToAddress("0xdec0000000000000000000000000000000000000")

// Swap is what stands before a transfer of a payer who holds another token. [Swap.Alter]
// takes it as it stands, so that every part can be altered before.
type Swap struct {
	Approves, Spender       common.Address // the token that gets the approve call
	Approved                *big.Int
	Exchange, Sells, Buys   common.Address
	Amount, Most            *big.Int
	ApproveData, SwapData   []byte // replace the calldata made of the others
	ApproveValue, SwapValue any    // nil: none
}

// Swapping has a draft buy what it pays, with at most so many units of the token sold, as
// the reference client does; changes alter the swap.
func Swapping(sold common.Address, most int64, changes ...func(*Swap)) TempoAlter {
	return func(d *TempoDraft) {
		s := &Swap{Approves: sold, Spender: Exchange, Approved: big.NewInt(most), Exchange: Exchange, Sells: sold, Buys: d.Token,
			Amount: new(big.Int).Set(d.Amount), Most: big.NewInt(most)}
		for _, change := range changes {
			change(s)
		}
		d.Before = s.Calls()
	}
}

// Calls are the two calls, approve and swapExactAmountOut.
func (s *Swap) Calls() []any {
	number := func(n *big.Int) []byte { return common.LeftPadBytes(n.Bytes(), 32) }
	address := func(a common.Address) []byte { return common.LeftPadBytes(a[:], 32) }
	approve, swap := s.ApproveData, s.SwapData
	if approve == nil {
		approve = bytes.Join([][]byte{crypto.Keccak256([]byte("approve(address,uint256)"))[:4], address(s.Spender), number(s.Approved)}, nil)
	}
	if swap == nil {
		swap = bytes.Join([][]byte{crypto.Keccak256([]byte("swapExactAmountOut(address,address,uint128,uint128)"))[:4],
			address(s.Sells), address(s.Buys), number(s.Amount), number(s.Most)}, nil)
	}
	value := func(v any) any {
		if v == nil {
			return uint64(0)
		}
		return v
	}
	return []any{[]any{s.Approves, value(s.ApproveValue), approve}, []any{s.Exchange, value(s.SwapValue), swap}}
}

// Counted has a draft be what the clients in Go and Python make (mpp-go 0.3, pympp): it uses
// up the account's next nonce, in the lane of key 0, and has no validBefore. Its fee is paid in
// the token of the payment, and its priority fee may be all of it.
func Counted(nonce uint64) TempoAlter {
	return func(d *TempoDraft) {
		d.NonceKey, d.Nonce, d.ValidBefore, d.ValidAfter = uint64(0), nonce, uint64(0), uint64(0)
		d.FeeToken, d.Gas, d.MaxPriorityFee = d.Token[:], uint64(1_000_000), d.MaxFee
	}
}

// draft is the transaction that the reference client would make.
func (w Tempo) draft(c mpp.Challenge) *TempoDraft {
	q, amount := asked(c)
	now := time.Now()
	if w.Now != nil {
		now = w.Now()
	}
	return &TempoDraft{
		Token: q.Currency, Recipient: q.Recipient, Amount: amount, Memo: Memo(c.Realm, c.ID), Value: uint64(0),
		Type: 0x76, ChainID: q.MethodDetails.ChainID, MaxPriorityFee: uint64(1e9), MaxFee: uint64(100e9), Gas: uint64(2_000_000),
		AccessList: []uint64{}, NonceKey: bytes.Repeat([]byte{0xff}, 32), Nonce: uint64(0),
		ValidBefore: uint64(now.Unix() + 25), ValidAfter: uint64(now.Unix() - 3600),
		FeeToken: []byte{}, FeePayer: []byte{}, AuthorizationList: []uint64{},
		PayloadType: "transaction", Source: q.account(w.Address()),
	}
}

func (w Tempo) sign(c mpp.Challenge, changes []TempoAlter) ([]byte, *TempoDraft) {
	d := w.draft(c)
	for _, change := range changes {
		change(d)
	}
	if d.Data == nil {
		d.Data = TransferWithMemo(d.Recipient, d.Amount, d.Memo)
	}
	if d.Calls == nil {
		d.Calls = append(d.Before[:len(d.Before):len(d.Before)], []any{d.Token, d.Value, d.Data})
	}
	fields := []any{
		d.ChainID, d.MaxPriorityFee, d.MaxFee, d.Gas, d.Calls, d.AccessList, d.NonceKey, d.Nonce,
		d.ValidBefore, d.ValidAfter, d.FeeToken, d.FeePayer, d.AuthorizationList,
	}
	if d.KeyAuthorization != nil {
		fields = append(fields, d.KeyAuthorization)
	}
	if !d.Unsigned {
		sign := d.Sign
		if sign == nil {
			sign = w.Sign
		}
		fields = append(fields, sign(crypto.Keccak256(encode(d.Type, fields))))
	}
	raw := encode(d.Type, fields)
	if d.Wire != nil {
		raw = d.Wire(raw)
	}
	return raw, d
}

// Sign is the wallet's signature over a digest: r, s, and v as 27 or 28.
func (w Tempo) Sign(digest []byte) []byte { return sign(w.Key, digest) }

func encode(kind byte, fields []any) []byte {
	list, err := rlp.EncodeToBytes(fields)
	if err != nil {
		panic(fmt.Sprint("paytest: ", err))
	}
	return append([]byte{kind}, list...)
}

// Proof is what account signs to prove itself for c on a chain: the digest of the typed
// data of the reference client.
func Proof(chainID uint64, account common.Address, c mpp.Challenge) []byte {
	word := func(text string) []byte { return crypto.Keccak256([]byte(text)) }
	chain := common.LeftPadBytes(new(big.Int).SetUint64(chainID).Bytes(), 32)
	domain := crypto.Keccak256(word("EIP712Domain(string name,string version,uint256 chainId)"), word("MPP"), word("3"), chain)
	message := crypto.Keccak256(word("Proof(address account,string challengeId,string realm)"), common.LeftPadBytes(account[:], 32), word(c.ID), word(c.Realm))
	return crypto.Keccak256([]byte{0x19, 0x01}, domain, message)
}

// Prove answers a challenge for nothing with a proof, as the reference client does.
func (w Tempo) Prove(c mpp.Challenge) mpp.Credential {
	q, _ := asked(c)
	signature := w.Sign(Proof(q.MethodDetails.ChainID, w.Address(), c))
	return credential(c, map[string]string{"type": "proof", "signature": "0x" + hex.EncodeToString(signature)}, q.account(w.Address()))
}
