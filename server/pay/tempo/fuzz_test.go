package tempo

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
	"webring/server/pay/paytest"
)

// These targets hold what is taken against a second reading that is slow and
// shares nothing with the first: nothing may be taken that it refuses. Mutations
// of signed bytes never get past the signature, so the fuzzer alters transactions
// before they are signed.

// slowly reads a transaction by a general decoder and says what keeps it from
// paying 1.00 for c, and who signed it with a key of its own.
func slowly(raw []byte, c mpp.Challenge, expires time.Time) (common.Address, error) {
	none := common.Address{}
	if len(raw) == 0 || raw[0] != 0x76 {
		return none, errors.New("type")
	}
	var list []any
	if err := rlp.DecodeBytes(raw[1:], &list); err != nil {
		return none, err
	}
	if again, err := rlp.EncodeToBytes(list); err != nil || !bytes.Equal(again, raw[1:]) {
		return none, errors.New("another spelling")
	}
	if len(list) != 14 {
		return none, fmt.Errorf("%d fields", len(list))
	}
	var number [14]*big.Int
	for _, at := range []int{0, 1, 2, 3, 7, 8, 9} {
		b, ok := list[at].([]byte)
		if !ok || len(b) > 16 || len(b) > 0 && b[0] == 0 {
			return none, fmt.Errorf("number %d", at)
		}
		number[at] = new(big.Int).SetBytes(b)
	}
	at := func(n *big.Int, least, most int64) bool {
		return n.Cmp(big.NewInt(least)) >= 0 && n.Cmp(big.NewInt(most)) <= 0
	}
	same := func(i int, want any) bool {
		have, err := rlp.EncodeToBytes(list[i])
		wanted, err2 := rlp.EncodeToBytes(want)
		return err == nil && err2 == nil && bytes.Equal(have, wanted)
	}
	memo := paytest.Memo(c.Realm, c.ID)
	data := paytest.TransferWithMemo(recipient, big.NewInt(1_000_000), memo)
	want := []any{[]any{token, []byte{}, data}}
	if calls, ok := list[4].([]any); ok && len(calls) > 0 {
		if call, ok := calls[len(calls)-1].([]any); ok && len(call) == 3 {
			if sent, ok := call[2].([]byte); ok && len(sent) == 100 {
				copy(data[68+15:68+25], sent[68+15:]) // the client's own part of the memo
			}
		}
		if len(calls) > 1 {
			swap, err := slowSwap(calls)
			if err != nil {
				return none, err
			}
			want = append(swap, want...)
		}
	}
	feeToken, ok := list[10].([]byte)
	signature, ok2 := list[13].([]byte)
	second := now.Unix()
	lane, laned := list[6].([]byte)
	expiring := same(6, bytes.Repeat([]byte{0xff}, 32))
	laned = laned && len(lane) <= 32 && !bytes.HasPrefix(lane, []byte{0}) && (len(lane) < 32 || lane[0] != 0x5b)
	switch {
	case !at(number[0], 42431, 42431), !same(4, want),
		!slowAccess(list[5]), !laned, number[7].Sign() < 0 || !number[7].IsUint64(),
		!same(11, []byte{}), !same(12, []any{}), !ok || len(feeToken) != 0 && len(feeToken) != 20:
		return none, errors.New("another transaction")
	case (expiring || number[8].Sign() != 0) && (!at(number[8], second+5, second+300) || !at(number[8], 0, expires.Unix())), !at(number[9], 0, second):
		return none, errors.New("another time")
	case number[1].Cmp(number[2]) > 0, !at(number[3], 21_000, 10_000_000):
		return none, errors.New("fees")
	case !ok2 || len(signature) != 65:
		return none, errors.New("signature")
	}
	unsigned, err := rlp.EncodeToBytes(list[:13])
	if err != nil {
		return none, err
	}
	return recovered(signature, crypto.Keccak256([]byte{0x76}, unsigned))
}

// slowSwap makes the calls before a transfer of 1.00 anew, out of what may differ: the token
// that is sold, what is approved of it, and the most that is sold.
func slowSwap(calls []any) ([]any, error) {
	var parts [2][]byte
	var sold []byte
	for i := range parts {
		call, ok := calls[i].([]any)
		if !ok || len(call) != 3 {
			return nil, errors.New("no call")
		}
		parts[i], _ = call[2].([]byte)
		if i == 0 {
			sold, _ = call[0].([]byte)
		}
	}
	if len(parts[0]) < 68 || len(parts[1]) < 132 || !strings.HasPrefix(fmt.Sprintf("%x", sold), "20c000000000000000000000") || bytes.Equal(sold, token[:]) {
		return nil, errors.New("no swap")
	}
	approved, most := new(big.Int).SetBytes(parts[0][36:68]), new(big.Int).SetBytes(parts[1][100:132])
	if !most.IsInt64() {
		return nil, errors.New("without measure")
	}
	d := paytest.TempoDraft{Token: token, Amount: big.NewInt(1_000_000)}
	paytest.Swapping(common.BytesToAddress(sold), most.Int64(), func(s *paytest.Swap) { s.Approved = approved })(&d)
	return d.Before, nil
}

// slowAccess says that an access list names contracts, and slots of each.
func slowAccess(field any) bool {
	list, ok := field.([]any)
	for _, entry := range list {
		pair, _ := entry.([]any)
		if len(pair) != 2 {
			return false
		}
		contract, _ := pair[0].([]byte)
		slots, isList := pair[1].([]any)
		if len(contract) != 20 || !isList {
			return false
		}
		for _, slot := range slots {
			if b, _ := slot.([]byte); len(b) != 32 {
				return false
			}
		}
	}
	return ok
}

// recovered is the signer of a signature of 65 bytes, if it is in the chain's form.
func recovered(signature, digest []byte) (common.Address, error) {
	half := new(big.Int).Rsh(crypto.S256().Params().N, 1)
	if v := signature[64]; v != 27 && v != 28 || new(big.Int).SetBytes(signature[32:64]).Cmp(half) > 0 {
		return common.Address{}, errors.New("another spelling of the signature")
	}
	plain := bytes.Clone(signature)
	plain[64] -= 27
	point, err := crypto.Ecrecover(digest, plain)
	if err != nil {
		return common.Address{}, err
	}
	return common.BytesToAddress(crypto.Keccak256(point[1:])[12:]), nil
}

// takes holds what m takes of a credential of w against the second reading.
func takes(t *testing.T, m *Method, credential mpp.Credential, w paytest.Tempo, expires time.Time) {
	p, err := take(m, credential, now)
	if err != nil {
		var no *mpp.Rejection
		if !errors.As(err, &no) {
			t.Fatalf("refused with %T: %v", err, err)
		}
		return
	}
	signer, err := slowly(p.Raw, credential.Challenge, expires)
	if err != nil || signer != w.Address() || p.Payer != "did:pkh:eip155:42431:"+node.LowerHex(signer) || p.Cents != 100 ||
		p.Reference != crypto.Keccak256Hash(p.Raw).Hex() {
		t.Fatalf("taken is %x (%+v), which the second reading refuses: %v, signed by %s", p.Raw, p, err, signer)
	}
}

// FuzzSignedTransaction alters two parts of an honest transaction before it is
// signed.
func FuzzSignedTransaction(f *testing.F) {
	m := newMethod(f, Config{Currency: token, Recipient: recipient})
	c := challenge(f, m)
	expires, err := c.ExpiresAt()
	if err != nil {
		f.Fatal(err)
	}
	w := wallet(7)
	// Parts that are as they should be, or nearly.
	moment := func(seconds int64) []byte { return big.NewInt(now.Unix() + seconds).Bytes() }
	memo := paytest.Memo(c.Realm, c.ID)
	for part, values := range map[uint8][][]byte{
		0: {{0xa5, 0xbf}, {0, 0xa5, 0xbf}, {1}}, 1: {{}, {5}}, 2: {{}, {5}, bytes.Repeat([]byte{0xff}, 16)}, 3: {{0x52, 0x08}, {0x98, 0x96, 0x80}, {0x98, 0x96, 0x81}},
		4: {{0xc0}, {0xc1, 0xc0}}, 5: {{0xc0}, {0xc1, 0xc0}}, 6: {bytes.Repeat([]byte{0xff}, 32), {}, {1}}, 7: {{}, {1}},
		8: {moment(5), moment(4), moment(300), moment(301), {}}, 9: {moment(0), moment(1), {}}, 10: {token[:], {}, {1}},
		11: {{0xc0}, {0x80}, {}}, 12: {{0xc0}, {0xc1, 0x80}}, 13: {{0xc0}, {0x80}},
		14: {paytest.TransferWithMemo(recipient, big.NewInt(1_000_000), memo)}, 15: {token[:], stranger[:]}, 16: {{0x0f, 0x42, 0x40}, {0x0f, 0x42, 0x41}},
		17: {memo[:]}, 18: {make([]byte, 65), {4}}, 19: {{0x76}, {0x78}, {2}},
	} {
		for _, value := range values {
			f.Add(part, value, false, uint8(20), []byte{}, false)
			f.Add(uint8(20), []byte{}, false, part, value, true)
		}
	}
	f.Fuzz(func(t *testing.T, part1 uint8, value1 []byte, raw1 bool, part2 uint8, value2 []byte, raw2 bool) {
		credential := w.Pay(c, alter(part1, value1, raw1), alter(part2, value2, raw2))
		takes(t, m, credential, w, expires)
	})
}

// FuzzSwap alters the calls before an honest transfer.
func FuzzSwap(f *testing.F) {
	m := newMethod(f, Config{Currency: token, Recipient: recipient})
	c := challenge(f, m)
	expires, err := c.ExpiresAt()
	if err != nil {
		f.Fatal(err)
	}
	w := wallet(7)
	other := common.BytesToAddress([]byte("other"))
	word := func(b []byte) []byte { return common.LeftPadBytes(b, 32) }
	for _, sold := range []common.Address{alpha, token, other} {
		for _, spender := range []common.Address{exchange, other} {
			for _, n := range []int64{0, 1, 1_000_000, 1_010_000, 2_000_000, 2_000_001, -1} {
				amount := word(big.NewInt(n).Bytes())
				if n < 0 {
					amount = bytes.Repeat([]byte{0xff}, 32)
				}
				order := bytes.Join([][]byte{word(sold[:]), word(token[:]), word([]byte{0x0f, 0x42, 0x40}), amount}, nil)
				f.Add(sold[:], bytes.Join([][]byte{approveSelector, word(spender[:]), amount}, nil), exchange[:], append(bytes.Clone(swapSelector), order...), false)
				f.Add(sold[:], bytes.Join([][]byte{approveSelector, word(spender[:]), amount, {0}}, nil), spender[:], order, true)
			}
		}
	}
	f.Fuzz(func(t *testing.T, sold, approval, at, order []byte, fourth bool) {
		credential := w.Pay(c, func(d *paytest.TempoDraft) {
			d.Before = []any{[]any{sold, uint64(0), approval}, []any{at, uint64(0), order}}
			if fourth {
				d.Before = append(d.Before, d.Before[0])
			}
		})
		takes(t, m, credential, w, expires)
	})
}

// alter replaces one part of a draft: by the value as a string of RLP, or, raw,
// by the value as it stands.
func alter(part uint8, value []byte, raw bool) paytest.TempoAlter {
	var as any = value
	if raw {
		as = rlp.RawValue(value)
	}
	return func(d *paytest.TempoDraft) {
		parts := []*any{&d.ChainID, &d.MaxPriorityFee, &d.MaxFee, &d.Gas, &d.Calls, &d.AccessList, &d.NonceKey, &d.Nonce,
			&d.ValidBefore, &d.ValidAfter, &d.FeeToken, &d.FeePayer, &d.AuthorizationList, &d.KeyAuthorization}
		switch at := int(part % 21); at {
		case 14:
			d.Data = bytes.Clone(value)
		case 15:
			d.Token = common.BytesToAddress(value)
		case 16:
			d.Amount = new(big.Int).SetBytes(value[:min(len(value), 32)])
		case 17:
			copy(d.Memo[:], value)
		case 18:
			d.Sign = func([]byte) []byte { return value }
		case 19:
			if len(value) > 0 {
				d.Type = value[0]
			}
		case 20: // nothing
		default:
			*parts[at] = as
		}
	}
}

// FuzzSignature holds that whatever signature is taken verifies, by the one who
// is said to have signed, and that its canonical form is one.
func FuzzSignature(f *testing.F) {
	digest := common.HexToHash("0x1234")
	plain := wallet(7).Sign(digest[:])
	f.Add(plain, digest[:])
	high := bytes.Clone(plain)
	new(big.Int).Sub(crypto.S256().Params().N, new(big.Int).SetBytes(high[32:64])).FillBytes(high[32:64])
	f.Add(high, digest[:])
	key, point := p256Key(f)
	r, s := signP256(f, key, digest[:])
	p256 := bytes.Join([][]byte{{prefixP256}, r, s, point, {0}}, nil)
	f.Add(p256, digest[:])
	f.Add(append(append([]byte{prefixKeychain}, recipient[:]...), p256...), digest[:])
	f.Add(append(append([]byte{prefixKeychainOld}, recipient[:]...), plain...), digest[:])
	f.Add(append([]byte{prefixWebAuthn}, make([]byte, 37+2+128)...), digest[:])
	f.Fuzz(func(t *testing.T, sig, of []byte) {
		digest := common.BytesToHash(of)
		by, err := readSignature(sig, digest)
		if err != nil {
			return
		}
		again, err := readSignature(by.canonical, digest)
		if err != nil || !bytes.Equal(again.canonical, by.canonical) || again.sender != by.sender || again.key != by.key {
			t.Fatalf("%x is canonical and reads as %+v, %v", by.canonical, again, err)
		}
		inner := by.canonical
		if by.access {
			if inner[0] != prefixKeychain || common.Address(inner[1:21]) != by.sender {
				t.Fatalf("%x is said to be of an access key of %s", sig, by.sender)
			}
			digest = crypto.Keccak256Hash([]byte{4}, digest[:], by.sender[:])
			inner = inner[21:]
		} else if by.sender != by.key {
			t.Fatalf("%x is %s's, by the key of %s", sig, by.sender, by.key)
		}
		if by.kind == "secp256k1" {
			if signer, err := recovered(inner, digest[:]); err != nil || signer != by.key {
				t.Fatalf("%x is said to be by %s: %s, %v", sig, by.key, signer, err)
			}
			return
		}
		end, hash := len(inner), digest[:]
		switch by.kind {
		case "p256":
			if end--; inner[end] == 1 {
				sum := sha256.Sum256(hash)
				hash = sum[:]
			}
		case "webAuthn":
			client := sha256.Sum256(inner[1+37 : end-128])
			sum := sha256.Sum256(append(bytes.Clone(inner[1:1+37]), client[:]...))
			hash = sum[:]
		}
		x, y := inner[end-64:end-32], inner[end-32:end]
		public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), bytes.Join([][]byte{{4}, x, y}, nil))
		if err != nil || !ecdsa.Verify(public, hash, new(big.Int).SetBytes(inner[end-128:end-96]), new(big.Int).SetBytes(inner[end-96:end-64])) ||
			common.BytesToAddress(crypto.Keccak256(x, y)[12:]) != by.key {
			t.Fatalf("%x is said to be by %s", sig, by.key)
		}
	})
}

// FuzzReceipt has a node say whatever it likes: a payment is seen only where the
// logs show it.
func FuzzReceipt(f *testing.F) {
	m := newMethod(f, Config{Currency: token, Recipient: recipient})
	p, err := take(m, wallet(7).Pay(challenge(f, m)), now)
	if err != nil {
		f.Fatal(err)
	}
	tx, err := m.reopen(p)
	if err != nil {
		f.Fatal(err)
	}
	honest := func(change func(fields, []fields)) []byte {
		b, err := json.Marshal(with(paidReceipt(p, 9), change))
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	f.Add(honest(func(fields, []fields) {}))
	f.Add(honest(func(r fields, _ []fields) { r["status"] = "0x0" }))
	f.Add(honest(func(r fields, logs []fields) { r["logs"] = []fields{logs[2], logs[1]} }))
	f.Add(honest(func(_ fields, logs []fields) { logs[1]["removed"] = true }))
	f.Add(honest(func(_ fields, logs []fields) { logs[2]["data"] = "0x" }))
	f.Add([]byte(`{"logs":[null,{}],"status":null}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		var r *node.Receipt
		if json.Unmarshal(answer, &r) != nil || r == nil || tx.check(r) != nil || !tx.paidIn(r) {
			return
		}
		// The same text, by its words alone.
		var said struct {
			TransactionHash, Status string
			Logs                    []saidLog
		}
		if err := json.Unmarshal(answer, &said); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		if !paysByWords(tx, said.Logs) || !strings.EqualFold(said.Status, "0x1") || !strings.EqualFold(said.TransactionHash, tx.hash.Hex()) {
			t.Fatalf("taken for a payment: %s", answer)
		}
	})
}

// saidLog is an event as its text.
type saidLog struct {
	Address, Data string
	Topics        []string
	Removed       bool
}

// paysByWords says whether the two events of a payment of 1.00 stand in logs.
func paysByWords(tx *transaction, logs []saidLog) (seen bool) {
	word := func(b []byte) string { return hexutil.Encode(common.LeftPadBytes(b, 32)) }
	amount := word(binary.BigEndian.AppendUint64(nil, 1_000_000))
	want := []string{"0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", word(tx.sender[:]), word(recipient[:])}
	memo := []string{"0x57bc7354aa85aed339e000bccffabbc529466af35f0772c8f8ee1145927de7f0", want[1], want[2], hexutil.Encode(tx.memo[:])}
	for i := 1; i < len(logs); i++ {
		a, b := logs[i-1], logs[i]
		seen = seen || strings.EqualFold(strings.Join(a.Topics, " "), strings.Join(want, " ")) && strings.EqualFold(strings.Join(b.Topics, " "), strings.Join(memo, " ")) &&
			strings.EqualFold(a.Address+b.Address, token.Hex()+token.Hex()) && strings.EqualFold(a.Data+b.Data, amount+amount) && !a.Removed && !b.Removed
	}
	return seen
}

// FuzzSimulatedSwap has a node say whatever it likes of a swap's calls.
func FuzzSimulatedSwap(f *testing.F) {
	m := newMethod(f, Config{Currency: token, Recipient: recipient})
	p, err := take(m, wallet(7).Pay(challenge(f, m), paytest.Swapping(alpha, 1_010_000)), now)
	if err != nil {
		f.Fatal(err)
	}
	tx, err := m.reopen(p)
	if err != nil {
		f.Fatal(err)
	}
	for _, change := range []func([]fields){
		func([]fields) {},
		func(calls []fields) { calls[1]["status"] = "0x0" },
		func(calls []fields) { calls[1]["status"], calls[1]["returnData"] = "0x0", "0xde9d3c88" },
		func(calls []fields) { calls[2]["logs"] = []fields{} },
	} {
		answer, err := json.Marshal(simulates(p, change))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(answer)
	}
	f.Add([]byte(`[{"calls":[{},null,{"status":null}]}]`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		var blocks []simulatedBlock
		if json.Unmarshal(answer, &blocks) != nil || tx.swaps(nil, blocks) != nil {
			return
		}
		var said []struct {
			Calls []struct {
				Status string
				Logs   []saidLog
			}
		}
		if err := json.Unmarshal(answer, &said); err != nil {
			t.Fatalf("%s: %v", answer, err)
		}
		if len(said) != 1 || len(said[0].Calls) != 3 || !paysByWords(tx, said[0].Calls[2].Logs) {
			t.Fatalf("taken for a swap that pays: %s", answer)
		}
		for _, c := range said[0].Calls {
			if !strings.EqualFold(c.Status, "0x1") {
				t.Fatalf("taken for a swap that pays: %s", answer)
			}
		}
	})
}
