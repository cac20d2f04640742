package evm

import (
	"encoding/json"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
	"webring/server/pay/paytest"
)

// FuzzSignedAuthorization alters an honest authorisation before it is signed, and
// what is sent of it after. One is taken only if every word that was sent is as the challenge
// asks, and as one by its key only if every word was signed so.
func FuzzSignedAuthorization(f *testing.F) {
	m := newMethod(f)
	c := challenge(f, m)
	expires, err := c.ExpiresAt()
	if err != nil {
		f.Fatal(err)
	}
	at := time.Now() // for as long as it takes: the challenge must not expire
	moment := func(seconds int64) string { return big.NewInt(expires.Unix() + seconds).String() }
	for part, values := range map[uint8][]string{
		0: {"USD Coin", "USDC"}, 1: {"2", "1"}, 2: {"8453", "1"}, 3: {usdc.Hex(), recipient.Hex()}, 4: {wallet(1).Address().Hex(), recipient.Hex()},
		5: {recipient.Hex(), "0x"}, 6: {"1000000", "1000001", "01000000"}, 7: {"0", moment(-301), moment(0)}, 8: {moment(0), moment(1), moment(-299)},
		9: {crypto.Keccak256Hash([]byte(c.ID + c.Realm)).Hex()}, 10: {"0x", "0x00"}, 11: {"authorization", "permit2", "hash", "x"}, 12: {"", "did:pkh:eip155:1:0x"},
	} {
		for _, value := range values {
			f.Add(part, value, uint8(99), "")
			f.Add(uint8(99), "", part+32, value)
		}
	}
	f.Fuzz(func(t *testing.T, part1 uint8, value1 string, part2 uint8, value2 string) {
		var signed paytest.EVMDraft
		sent := map[string]any{}
		note := func(d *paytest.EVMDraft) {
			signed = *d
			before := d.Payload
			d.Payload = func(p map[string]any) {
				if before != nil {
					before(p)
				}
				sent = p
			}
		}
		p, err := take(m, wallet(1).Pay(c, alter(part1, value1), alter(part2, value2), note), at)
		if err != nil {
			var no *mpp.Rejection
			if !errors.As(err, &no) {
				t.Fatalf("%v is no rejection", err)
			}
			return
		}
		same := func(name string, want string) bool {
			text, ok := sent[name].(string)
			return ok && strings.EqualFold(text, want)
		}
		if p.Contract {
			if !same("type", "authorization") || !same("to", recipient.Hex()) || !same("value", "1000000") || !same("nonce", crypto.Keccak256Hash([]byte(c.ID+c.Realm)).Hex()) ||
				!same("from", p.Payer[strings.LastIndexByte(p.Payer, ':')+1:]) || p.Cents != 100 {
				t.Fatalf("taken is what the challenge does not ask for: %v", sent)
			}
			return
		}
		ends := signed.ValidBefore.Int64()
		if signed.Name != "USD Coin" || signed.Version != "2" || signed.ChainID.Cmp(big.NewInt(8453)) != 0 || signed.Token != usdc ||
			signed.From != wallet(1).Address() || signed.To != recipient || signed.Value.Cmp(big.NewInt(1_000_000)) != 0 ||
			signed.Nonce != crypto.Keccak256Hash([]byte(c.ID+c.Realm)) ||
			!signed.ValidAfter.IsInt64() || signed.ValidAfter.Int64() >= at.Unix() ||
			!signed.ValidBefore.IsInt64() || ends > expires.Unix() || ends < at.Unix()+5 {
			t.Fatalf("taken is an authorisation of something else: %+v", signed)
		}
		if !same("type", "authorization") || !same("from", signed.From.Hex()) || !same("to", signed.To.Hex()) || !same("value", "1000000") ||
			!same("validAfter", signed.ValidAfter.String()) || !same("validBefore", signed.ValidBefore.String()) || !same("nonce", signed.Nonce.Hex()) {
			t.Fatalf("taken is not what was signed: %v", sent)
		}
		if want := "did:pkh:eip155:8453:" + node.LowerHex(signed.From); p.Payer != want || p.Cents != 100 || signed.Source != "" && !strings.EqualFold(signed.Source, want) {
			t.Fatalf("a payment of somebody else: %+v", p)
		}
	})
}

// alter replaces a part of what is signed or, from 32 on, of what is sent.
func alter(part uint8, value string) paytest.EVMAlter {
	number := func(old *big.Int) *big.Int {
		// What has more than 32 bytes cannot be signed.
		if n, ok := new(big.Int).SetString(value, 10); ok && n.Sign() >= 0 && n.BitLen() <= 256 {
			return n
		}
		return old
	}
	return func(d *paytest.EVMDraft) {
		switch part {
		case 0:
			d.Name = value
		case 1:
			d.Version = value
		case 2:
			d.ChainID = number(d.ChainID)
		case 3:
			d.Token = common.HexToAddress(value)
		case 4:
			d.From = common.HexToAddress(value)
		case 5:
			d.To = common.HexToAddress(value)
		case 6:
			d.Value = number(d.Value)
		case 7:
			d.ValidAfter = number(d.ValidAfter)
		case 8:
			d.ValidBefore = number(d.ValidBefore)
		case 9:
			d.Nonce = common.HexToHash(value)
		case 10:
			d.Sign = func([]byte) []byte { return common.FromHex(value) }
		case 12:
			d.Source = value
		}
		names := []string{"", "", "", "", "from", "to", "value", "validAfter", "validBefore", "nonce", "signature", "type"}
		if part < 32 || int(part-32) >= len(names) || names[part-32] == "" {
			return
		}
		before := d.Payload
		d.Payload = func(p map[string]any) {
			if before != nil {
				before(p)
			}
			p[names[part-32]] = value
		}
	}
}

// FuzzReceipt has a node say whatever it likes: a payment is seen only where the
// token's logs show it.
func FuzzReceipt(f *testing.F) {
	m := newMethod(f)
	p, err := take(m, wallet(1).Pay(challenge(f, m)), time.Now())
	if err != nil {
		f.Fatal(err)
	}
	a, err := m.reopen(p)
	if err != nil {
		f.Fatal(err)
	}
	add := func(r fields) {
		b, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	add(receiptOf(logOf(a, usedTopic), transferTo(a, recipient, 1_000_000)))
	add(receiptOf(transferTo(a, recipient, 1_000_000), logOf(a, usedTopic)))
	add(receiptOf(logOf(a, cancelledTopic), transferTo(a, recipient, 1_000_000)))
	add(receiptOf(logOf(a, usedTopic), transferTo(a, recipient, 1)))
	add(with(receiptOf(logOf(a, usedTopic), transferTo(a, recipient, 1_000_000)), "status", "0x0"))
	f.Add([]byte(`{"logs":[null,{}],"status":null}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		var r *node.Receipt
		if json.Unmarshal(answer, &r) != nil || r == nil || r.Check(tx) != nil || !a.paidIn(r, usdc) {
			return
		}
		// The same text, by its words alone.
		var said struct {
			TransactionHash, Status string
			Logs                    []struct {
				Address, Data string
				Topics        []string
				Removed       bool
			}
		}
		if err := json.Unmarshal(answer, &said); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		word := func(b []byte) string { return hexutil.Encode(common.LeftPadBytes(b, 32)) }
		used := []string{crypto.Keccak256Hash([]byte("AuthorizationUsed(address,bytes32)")).Hex(), word(a.from[:]), a.nonce.Hex()}
		moved := []string{"0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", word(a.from[:]), word(recipient[:])}
		seen := false
		for i := 1; i < len(said.Logs); i++ {
			one, two := said.Logs[i-1], said.Logs[i]
			seen = seen || strings.EqualFold(strings.Join(one.Topics, " "), strings.Join(used, " ")) && strings.EqualFold(strings.Join(two.Topics, " "), strings.Join(moved, " ")) &&
				strings.EqualFold(one.Address+two.Address, usdc.Hex()+usdc.Hex()) && strings.EqualFold(two.Data, word(big.NewInt(1_000_000).Bytes())) && !one.Removed && !two.Removed
		}
		if !seen || !strings.EqualFold(said.Status, "0x1") || !strings.EqualFold(said.TransactionHash, tx.Hex()) {
			t.Fatalf("taken for a payment: %s", answer)
		}
	})
}
