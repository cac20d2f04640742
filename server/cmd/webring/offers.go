package main

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/core"
	"webring/edge/durable"
	"webring/server/paid"
	"webring/server/pay/evm"
	"webring/server/pay/node"
	"webring/server/pay/tempo"
)

// defineOffers defines the settings of both payment methods. The defaults of the Ethereum-like chain
// are USDC on Base.
func (o *options) defineOffers(fs *flag.FlagSet) {
	t, e := &o.tempo, &o.evm
	fs.StringVar(&t.RPC, "tempo-rpc", "", "JSON-RPC `URL` of a Tempo node: take payments there; if the URL holds a key, use the variable or the file, because other users of the machine see flags")
	fs.Uint64Var(&t.ChainID, "tempo-chain-id", 42431, "Tempo chain `id`")
	t.Currency = common.HexToAddress("0x20c0000000000000000000000000000000000000")
	fs.Var((*address)(&t.Currency), "tempo-currency", "`address` of the token to take")
	fs.Var((*address)(&t.Recipient), "tempo-recipient", "`address` of the account that is paid")
	fs.Uint64Var(&t.Depth, "tempo-depth", 2, fileOnly+"`blocks` on top that make a block final")
	fs.StringVar(&e.RPC, "evm-rpc", "", "JSON-RPC `URL` of a node of an Ethereum-like chain: take payments by EIP-3009 authorisation there; if the URL holds a key, use the variable or the file, because other users of the machine see flags")
	fs.Uint64Var(&e.ChainID, "evm-chain-id", 8453, "`id` of the Ethereum-like chain")
	e.Currency = common.HexToAddress("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")
	fs.Var((*address)(&e.Currency), "evm-currency", "`address` of the token to take; it must have six decimals and EIP-3009")
	fs.StringVar(&e.Name, "evm-currency-name", "USD Coin", fileOnly+"`name` in the token's EIP-712 domain")
	fs.StringVar(&e.Version, "evm-currency-version", "2", fileOnly+"`version` in the token's EIP-712 domain")
	fs.Var((*address)(&e.Recipient), "evm-recipient", "`address` of the account that is paid")
	fs.StringVar(&o.gasKeyFile, "evm-gas-key-file", "", "`file` with the private key, 64 hex digits, of the account that pays gas; nothing else may use that account")
	fs.Uint64Var(&e.MaxFee, "evm-max-fee", 5_000_000_000, fileOnly+"most `wei` for a unit of gas; while it costs more, the ring takes no payments there")
	fs.TextVar(&o.gasBudget, "evm-gas-budget", big.NewInt(2_000_000_000_000_000), fileOnly+"most `wei` that payments may waste on gas in an hour, those of accounts that have never paid and again all others; 0 for no limit")
	fs.BoolVar(&e.X402, "x402", true, fileOnly+"offer these payments to x402 clients too; no other service may then take x402 payments to the same account on that chain")
	fs.Uint64Var(&e.Depth, "evm-depth", 12, fileOnly+"`blocks` on top that make a block final")
}

// howToBePaid is what to do about a ring that takes no payments.
const howToBePaid = "give --tempo-rpc and --tempo-recipient, or --evm-rpc and what it needs"

// offer is a payment method that is configured: its node, chain and token.
type offer struct {
	flags            string // how they begin
	rpc              string
	chain            uint64
	token, recipient common.Address
	domain           *common.Hash // the token's EIP-712 domain, nil when none is needed
	open             func() (paid.Method, error)
}

// offers are those that the flags configure.
func (o *options) offers() (all []offer) {
	if c := o.tempo; c.RPC != "" {
		all = append(all, offer{"--tempo", c.RPC, c.ChainID, c.Currency, c.Recipient, nil, func() (paid.Method, error) { return tempo.New(c) }})
	}
	if c := o.evm; c.RPC != "" {
		domain := evm.Domain(c.Name, c.Version, c.ChainID, c.Currency)
		all = append(all, offer{"--evm", c.RPC, c.ChainID, c.Currency, c.Recipient, &domain, func() (paid.Method, error) {
			var err error
			if c.GasKey, err = gasKey(o.gasKeyFile); err != nil {
				return nil, err
			}
			return evm.New(c)
		}})
	}
	return all
}

// paymentMethods makes the methods, in the order of their offers, and says how they are to be named.
func paymentMethods(o *options) (methods []paid.Method, networks []core.Network, err error) {
	for _, f := range o.offers() {
		m, err := f.open()
		if err != nil {
			return nil, nil, err
		}
		methods = append(methods, m)
		networks = append(networks, core.Network{Name: m.Network(), Method: m.Name(), Currency: node.LowerHex(f.token)})
	}
	return methods, networks, nil
}

// ownerProofs asks owners for proofs, on the chain that is Tempo's by the flags, also
// without a node there: a plain key needs none.
func ownerProofs(o *options) (*tempo.Proofs, error) {
	recipient := o.tempo.Recipient
	if recipient == (common.Address{}) {
		recipient = o.evm.Recipient
	}
	return tempo.NewProofs(o.tempo.ChainID, o.tempo.Currency, recipient)
}

// nodeTime is how long a start waits for what the nodes say.
const nodeTime = 5 * time.Second

// checkOffers compares the flags of all offers with what their nodes say. A node that
// does not answer contradicts nothing: the ring starts, and reads work.
func checkOffers(ctx context.Context, offers []offer, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTime)
	defer cancel()
	differences := make([]error, len(offers))
	var done sync.WaitGroup
	for i, f := range offers {
		done.Go(func() { differences[i] = f.check(ctx, log) })
	}
	done.Wait()
	return errors.Join(differences...)
}

// check names the difference, if there is one, between the flags and the node.
func (f offer) check(ctx context.Context, log *slog.Logger) error {
	unknown, difference := f.compare(ctx)
	if unknown != nil {
		log.Warn("chain and token of "+f.flags+"-rpc could not be compared with the flags", "err", unknown)
	}
	return difference
}

// compare names the difference between the flags and the node, or says why it is not
// known.
func (f offer) compare(ctx context.Context) (unknown, difference error) {
	n, err := node.Dial(f.rpc, f.chain, nodeTime)
	if err != nil {
		return nil, fmt.Errorf("%s-rpc: %w", f.flags, err)
	}
	has, err := n.Token(ctx, f.token)
	switch {
	case err != nil:
		return err, nil
	case has.Chain != f.chain:
		difference = fmt.Errorf("%s-chain-id is %d, and the node of %[1]s-rpc is on chain %[3]d: change one of the two", f.flags, f.chain, has.Chain)
	case !has.Contract:
		difference = fmt.Errorf("%s-currency is %s, and chain %d has no contract there: give the address of the token on that chain", f.flags, f.token.Hex(), f.chain)
	case has.Decimals < 0:
		difference = fmt.Errorf("%s-currency is %s, and the contract there names no decimals, so it is no token: give the address of the token", f.flags, f.token.Hex())
	case has.Decimals != node.Decimals:
		difference = fmt.Errorf("%s-currency is %s, a token with %d decimals: give a token with %d", f.flags, f.token.Hex(), has.Decimals, node.Decimals)
	case f.domain != nil && has.Domain != nil && *has.Domain != *f.domain:
		difference = fmt.Errorf("%s-currency-name and %[1]s-currency-version are not those of the EIP-712 domain of the token %[2]s, and no payment would hold: give those that it has", f.flags[2:], f.token.Hex())
	}
	return nil, difference
}

// testNetworks are public ones, by chain id.
var testNetworks = map[uint64]string{42431: "Tempo", 84532: "Base", 11155111: "Ethereum"}

// announceTests says when payments are taken in the money of public test networks.
func announceTests(offers []offer, log *slog.Logger) {
	var names []string
	for _, f := range offers {
		if name, ok := testNetworks[f.chain]; ok {
			names = append(names, fmt.Sprintf("%s (%s-chain-id %d)", name, f.flags, f.chain))
		}
	}
	if len(names) > 0 {
		log.Warn("payments are taken by the chain id of the public test network of " + strings.Join(names, " and of ") + ": that money is worth nothing")
	}
}

// newRules are the ring's rules that the flags describe.
func newRules(o *options, networks []core.Network) core.Rules {
	return core.Rules{Name: o.name, BaseURL: o.baseURL, Fee: int64(o.fee), MinBid: int64(o.minBid),
		Grace: seconds(o.grace), Decay: seconds(o.decay), Networks: networks, Scorer: o.score.Spec, RequiredScore: requiredScore, VisitAsleep: !o.skipAsleep, Policies: o.policies.Policies, Look: o.look.Look, Operator: o.operator.Operator}
}

// requiredScore is the least agent-readiness score that may join.
const requiredScore = 40

// gasKey reads a private key. Errors never repeat what the file holds.
func gasKey(path string) (*ecdsa.PrivateKey, error) {
	text, err := durable.ReadSecret(path)
	if err != nil {
		return nil, fmt.Errorf("--evm-gas-key-file: %w", err)
	}
	key, err := crypto.HexToECDSA(strings.TrimPrefix(strings.TrimSpace(string(text)), "0x"))
	if err != nil {
		return nil, fmt.Errorf("--evm-gas-key-file: %s must hold a private key of 64 hex digits", path)
	}
	return key, nil
}
