package node

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"webring/server/pay/mpp"
)

// Payments are the transfers of one token to one account. All fields but Depth must be
// set. Payment methods embed it.
type Payments struct {
	Node             *Node
	Token, Recipient common.Address
	Depth            uint64 // blocks on top after which a block is taken to stay
	Method           string
}

// Connect makes the payments of a method. It asks the node nothing: a node that is away at
// the start may come back. timeout bounds each question to the node.
func Connect(method, address string, chain uint64, token, recipient common.Address, depth uint64, timeout time.Duration) (p Payments, err error) {
	switch {
	case chain == 0:
		return p, errors.New(method + ": the chain id is missing")
	case token == (common.Address{}):
		return p, errors.New(method + ": the currency is missing")
	case recipient == (common.Address{}):
		return p, errors.New(method + ": the recipient is missing")
	}
	p = Payments{Token: token, Recipient: recipient, Depth: depth, Method: method}
	p.Node, err = Dial(address, chain, timeout)
	return p, err
}

// Name is the method's name in challenges and receipts.
func (p Payments) Name() string { return p.Method }

// Network names the chain for the ledger: the method's name and the chain id.
func (p Payments) Network() string { return p.Method + ":" + strconv.FormatUint(p.Node.chain, 10) }

// Pace is the usual time between two blocks; see [Node.Pace].
func (p Payments) Pace() time.Duration { return p.Node.Pace() }

// Signer names the account that has signed a credential. Another source than it, and the
// recipient itself, are refused with a *[mpp.Rejection].
func (p Payments) Signer(source string, account common.Address) (payer string, err error) {
	if account == p.Recipient {
		return "", mpp.Refuse(mpp.ReasonSigner, "the account that is paid cannot pay")
	}
	payer = p.Payer(account)
	// Addresses are hex in any case; the rest of a DID is exact.
	if source != "" && !strings.EqualFold(source, payer) {
		return "", mpp.Refuse(mpp.ReasonSigner, "the source is not the signer")
	}
	return payer, nil
}

// Payee names the token and the account: "0x…/0x…", in lower case.
func (p Payments) Payee() string { return LowerHex(p.Token) + "/" + LowerHex(p.Recipient) }

// Received is [Payments.By] for another payee, in the form of [Payments.Payee].
func (p Payments) Received(ctx context.Context, payee, reference string) (mpp.Transfer, error) {
	p, err := p.At(payee)
	if err != nil {
		return mpp.Transfer{}, err
	}
	return p.By(ctx, reference)
}

// At gives the payments to another payee, in the form of [Payments.Payee].
func (p Payments) At(payee string) (Payments, error) {
	token, account, _ := strings.Cut(payee, "/")
	if !common.IsHexAddress(token) || !common.IsHexAddress(account) {
		return p, fmt.Errorf("node: %q is no payee", payee)
	}
	p.Token, p.Recipient = common.HexToAddress(token), common.HexToAddress(account)
	return p, nil
}

// LowerHex spells an address without the checksum that its case can carry.
func LowerHex(a common.Address) string { return "0x" + hex.EncodeToString(a[:]) }

// Accounts is what stands before an address to name an account on a chain: "did:pkh:eip155:1:".
func Accounts(chain uint64) string { return "did:pkh:eip155:" + strconv.FormatUint(chain, 10) + ":" }

// Payer names an account as payments of it do.
func (p Payments) Payer(account [20]byte) string { return Accounts(p.Node.chain) + LowerHex(account) }

// In is what the transaction of a receipt that passed [Receipt.Check] brought the
// recipient, in whole cents.
func (p Payments) In(r *Receipt) int64 {
	t, _ := p.sum(*r.Hash, r.Logs)
	return t.Cents
}

// sum adds what the logs of one transaction brought. paid says that it is a cent
// or more.
func (p Payments) sum(hash common.Hash, logs []Log) (t mpp.Transfer, paid bool) {
	units, senders := new(big.Int), map[common.Hash]bool{}
	for _, l := range logs {
		if l.Removed || l.Address != p.Token || len(l.Topics) != 3 || l.Topics[0] != TransferTopic ||
			l.Topics[2] != common.BytesToHash(p.Recipient[:]) || len(l.Data) != 32 {
			continue
		}
		if t.Payer == "" {
			t.Payer = p.Payer([20]byte(l.Topics[1][12:]))
		}
		senders[l.Topics[1]] = true
		units.Add(units, new(big.Int).SetBytes(l.Data))
	}
	units.Quo(units, big.NewInt(UnitsPerCent))
	if !units.IsInt64() {
		return t, false // no token has so much of it
	}
	t.Reference, t.Cents, t.Senders = hash.Hex(), units.Int64(), len(senders)
	return t, t.Cents > 0
}

// By says what one transaction, named by its hash, paid to the recipient. It is
// [mpp.ErrNoTransfer] when the chain has no such transaction or it paid nothing,
// and [mpp.ErrUnavailable] when that is not known or its block is not deep yet.
func (p Payments) By(ctx context.Context, reference string) (mpp.Transfer, error) {
	b, err := hexutil.Decode(strings.ToLower(reference))
	if err != nil || len(b) != common.HashLength {
		return mpp.Transfer{}, mpp.ErrNoTransfer
	}
	hash := common.Hash(b)
	newest, got, err := p.Node.ReceiptOf(ctx, hash)
	if err != nil {
		return mpp.Transfer{}, err
	}
	if got == nil {
		return mpp.Transfer{}, mpp.ErrNoTransfer
	}
	t, paid := p.sum(hash, got.Logs)
	if !paid || *got.Status != 1 {
		return mpp.Transfer{}, mpp.ErrNoTransfer
	}
	block, err := p.Node.Deep(ctx, newest, got, p.Depth)
	switch {
	case err != nil:
		return mpp.Transfer{}, err
	case block == nil:
		return mpp.Transfer{}, Unavailable(errors.New("the transaction is not final yet"))
	}
	t.At = block.Time()
	for _, l := range got.Logs {
		if b, ok := p.names(l); ok {
			t.Bound = append(t.Bound, b)
		}
	}
	return t, nil
}
