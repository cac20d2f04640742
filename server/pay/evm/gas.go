package evm

import (
	"crypto/ecdsa"
	"errors"
	"math/big"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

const (
	// maxGas is the most gas that one authorisation may take, and what the account must
	// be able to pay for, for each in flight. USDC takes about 80 000 units, and more for
	// what a smart account's code takes; chains that reckon their data as gas take more.
	maxGas = 200_000
	// usualGas is what the highest fee is meant for. No submission may cost more than so much gas
	// at the highest fee, whatever it takes.
	usualGas = 100_000
	// patience is for how long, by the chain's clock in seconds, a transaction that
	// a node has taken is waited for before it is sent again with higher fees.
	patience = 15
)

// gasAccount signs the transactions that submit authorisations. It gives each
// the lowest nonce that no other in flight has, from what the chain says has been
// mined, so a transaction that is lost leaves no gap that would hold up the rest.
type gasAccount struct {
	key     *ecdsa.PrivateKey
	address common.Address
	chainID uint64
	token   common.Address
	maxFee  *big.Int // wei for a unit of gas

	mu   sync.Mutex
	sent map[uint64]*submission // by nonce, the last one; what may be in flight
}

// submission is one transaction.
type submission struct {
	of          payerNonce
	nonce       uint64 // of the gas account
	validBefore uint64 // of the authorisation; 0 when it has ended
	signed      uint64 // chain's clock when it was signed
	gas         uint64
	highest     *big.Int // wei for a unit of gas that it and all that replace it may cost
	fees        fees
	raw         []byte
	hash        common.Hash
	taken       bool // a node has said that it passes it on
}

// payerNonce names an authorisation.
type payerNonce struct {
	from  common.Address
	nonce common.Hash
}

func (a *authorization) name() payerNonce { return payerNonce{a.from, a.nonce} }

// fees are what is bid for a unit of gas, in wei: the most in all, and for the
// block's producer.
type fees struct{ most, tip *big.Int }

// standing is what the chain says of itself and of the account.
type standing struct {
	block   *node.Block
	nonce   uint64   // transactions mined
	balance *big.Int // wei
	tip     *big.Int // wei that the node suggests for a unit of gas
}

// price is what a unit of gas costs, in wei; the chain must name a base fee.
func (s *standing) price() *big.Int {
	return new(big.Int).Add((*big.Int)(s.block.BaseFee), s.tip)
}

func (s *standing) clock() uint64 { return uint64(*s.block.Timestamp) }

func newGasAccount(key *ecdsa.PrivateKey, chainID uint64, token common.Address, maxFee *big.Int) *gasAccount {
	return &gasAccount{key: key, address: crypto.PubkeyToAddress(key.PublicKey), chainID: chainID, token: token,
		maxFee: maxFee, sent: map[uint64]*submission{}}
}

// ready says why no further authorisation could be submitted now.
func (g *gasAccount) ready(st *standing) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if st.block.BaseFee == nil {
		return node.Unavailable(errors.New("the chain names no base fee"))
	}
	if now := st.price(); now.Cmp(g.maxFee) > 0 {
		return node.Unavailable(errors.New("gas costs " + now.String() + " wei a unit, and the most that is paid is " + g.maxFee.String()))
	}
	n := int64(1)
	for nonce, s := range g.sent {
		if nonce >= st.nonce && st.clock() < s.validBefore {
			n++
		}
	}
	need := new(big.Int).Mul(bid(st, g.maxFee, nil).most, big.NewInt(n*maxGas))
	if st.balance.Cmp(need) < 0 {
		return node.Unavailable(errors.New("the gas account " + g.address.Hex() + " has " + st.balance.String() + " wei and needs " + need.String()))
	}
	return nil
}

// Most is the most wei that one payment may cost where a unit of gas may cost so much.
func Most(maxFee uint64) *big.Int {
	return new(big.Int).Mul(new(big.Int).SetUint64(maxFee), big.NewInt(usualGas))
}

// affordable is the most that is paid for a unit of so much gas.
func (g *gasAccount) affordable(gas uint64) *big.Int {
	all := new(big.Int).Mul(g.maxFee, big.NewInt(usualGas))
	return all.Quo(all, new(big.Int).SetUint64(max(gas, usualGas)))
}

// highest is the most for a unit of so much gas that the next submission, and all that replace
// it, may cost: twice what is bid at first. That is charged, so it is not the most that is
// affordable.
func (g *gasAccount) highest(gas uint64, st *standing) *big.Int {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := bid(st, g.affordable(gas), g.sent[g.free(st)]).most
	return least(new(big.Int).Lsh(first, 1), g.affordable(gas))
}

// bid is what is offered for gas, and no more than highest: enough for a few blocks, each of which may
// raise the base fee by an eighth. The pools of nodes want a tenth more for what replaces last, so it is
// an eighth more at least, below the highest fee.
func bid(st *standing, highest *big.Int, last *submission) fees {
	most, tip := new(big.Int), st.tip
	if st.block.BaseFee != nil {
		most.Lsh((*big.Int)(st.block.BaseFee), 1)
	}
	most.Add(most, tip)
	if last != nil {
		most, tip = raised(last.fees.most, most), raised(last.fees.tip, tip)
	}
	most = least(most, highest)
	return fees{most, least(tip, most)}
}

// raised is an eighth more than last, or now if that is more.
func raised(last, now *big.Int) *big.Int {
	more := new(big.Int).Rsh(last, 3)
	more.Add(more, last).Add(more, common.Big1)
	if more.Cmp(now) < 0 {
		return now
	}
	return more
}

func least(a, b *big.Int) *big.Int { return slices.MinFunc([]*big.Int{a, b}, (*big.Int).Cmp) }

// inFlight returns the transaction for a that may yet be mined, or nil. It is to be sent
// (again) unless it is taken. inFlight replaces a transaction that was not mined in time,
// and one with a nonce after a nonce that no transaction will use.
func (g *gasAccount) inFlight(a *authorization, st *standing) *submission {
	g.mu.Lock()
	defer g.mu.Unlock()
	var mine *submission
	at := st.nonce
	for nonce, s := range g.sent {
		switch {
		case nonce < st.nonce:
			delete(g.sent, nonce) // mined, that or another
		case s.of == a.name() && s.validBefore != 0:
			mine, at = s, nonce
		}
	}
	switch free := g.free(st); {
	case mine == nil || st.clock() >= a.validBefore:
		return nil
	case free < at:
		// What was before it has ended without being mined.
		mine.validBefore = 0
		return g.sign(a, free, mine.gas, mine.highest, st)
	case st.clock() >= mine.signed+patience:
		return g.sign(a, at, mine.gas, mine.highest, st)
	}
	again := *mine
	return &again
}

// limit is the gas limit of a transaction that takes so much gas in a trial.
func limit(gas uint64) uint64 { return min(gas+gas/4, maxGas) }

// submit gives a transaction for a, which has none in flight, with this gas limit and this
// highest fee.
func (g *gasAccount) submit(a *authorization, limit uint64, highest *big.Int, st *standing) *submission {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.sign(a, g.free(st), limit, highest, st)
}

// free is the lowest nonce without a transaction that can still settle an authorisation. The
// caller holds mu.
func (g *gasAccount) free(st *standing) uint64 {
	nonce := st.nonce
	for s := g.sent[nonce]; s != nil && st.clock() < s.validBefore; s = g.sent[nonce] {
		nonce++
	}
	return nonce
}

// sign makes a transaction for a with this nonce, in place of the last one that had
// it. The caller holds mu.
func (g *gasAccount) sign(a *authorization, nonce, gas uint64, highest *big.Int, st *standing) *submission {
	f := bid(st, highest, g.sent[nonce])
	raw := g.encode(nonce, gas, f, a.call())
	s := submission{of: a.name(), nonce: nonce, validBefore: a.validBefore, signed: st.clock(), gas: gas, highest: highest, fees: f,
		raw: raw, hash: crypto.Keccak256Hash(raw)}
	signed := s
	g.sent[nonce] = &signed
	return &s
}

// taken notes that a node has the transaction with this hash.
func (g *gasAccount) taken(hash common.Hash) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.sent {
		if s.hash == hash {
			s.taken = true
		}
	}
}

// encode makes the transaction, of type 2 (EIP-1559).
func (g *gasAccount) encode(nonce, gas uint64, f fees, data []byte) []byte {
	fields := []any{g.chainID, nonce, f.tip, f.most, gas, g.token, uint64(0), data, []any{}}
	typed := func() []byte {
		list, err := rlp.EncodeToBytes(fields)
		if err != nil {
			panic("evm: a transaction of plain fields does not encode: " + err.Error())
		}
		return append([]byte{2}, list...)
	}
	signature, err := crypto.Sign(crypto.Keccak256(typed()), g.key)
	if err != nil {
		panic("evm: the gas account's key does not sign: " + err.Error())
	}
	integer := func(b []byte) *big.Int { return new(big.Int).SetBytes(b) }
	fields = append(fields, uint64(signature[64]), integer(signature[:32]), integer(signature[32:64]))
	return typed()
}

// record is what is stored of s.
func (s *submission) record() mpp.Submission {
	return mpp.Submission{Transaction: s.hash.Hex(), Nonce: s.nonce, Gas: s.gas, Price: s.fees.most.String()}
}

// ended frees the nonces of the transactions for a that are not mined. It says whether any may have been
// in flight.
func (g *gasAccount) ended(a *authorization) (some bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.sent {
		if s.of == a.name() {
			s.validBefore, some = 0, true
		}
	}
	return some
}

// A transaction that is mined after the end of its authorisation reverts, so transactions are sent
// only while there is enough time.
const (
	// ample is for how long an authorisation must be valid when it is presented.
	ample = 20 * time.Second
	// enough is for how long it must be, in seconds by the chain's clock, when it is
	// submitted.
	enough = 10
)

// wasted gives what the first of the transactions of an authorisation that was mined and reverted has
// cost, by the receipts; nil if none has. The node's figures count up to what we have
// signed for.
func wasted(sent []mpp.Submission, receipts map[common.Hash]*node.Receipt) *mpp.Waste {
	for _, s := range sent {
		r := receipts[common.HexToHash(s.Transaction)]
		if r == nil || *r.Status == 1 {
			continue
		}
		w := &mpp.Waste{Transaction: s.Transaction, Gas: s.Gas}
		if r.GasUsed != nil {
			w.Gas = min(w.Gas, uint64(*r.GasUsed))
		}
		price, ok := new(big.Int).SetString(s.Price, 10)
		if !ok {
			price = new(big.Int)
		}
		if r.GasPrice != nil {
			price = least(price, (*big.Int)(r.GasPrice))
		}
		w.Wei = new(big.Int).Mul(price, new(big.Int).SetUint64(w.Gas)).String()
		return w
	}
	return nil
}

// hashes are those of transactions.
func hashes(sent []mpp.Submission) (all []common.Hash) {
	for _, s := range sent {
		all = append(all, common.HexToHash(s.Transaction))
	}
	return all
}
