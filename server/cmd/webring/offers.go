package main

import (
	"context"
	"crypto/ecdsa"
	"errors"
	"flag"
	"fmt"
	"log/slog"
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

// offer is what the flags of a payment method say of its node, chain and token.
type offer struct {
	flags     string // how they begin
	rpc       string
	chain     uint64
	token     address
	recipient address
	domain    *common.Hash // the token's EIP-712 domain, nil when none is needed
}

// offers are those that the flags configure.
func (o *options) offers() (all []offer) {
	if o.tempoRPC != "" {
		all = append(all, offer{flags: "--tempo", rpc: o.tempoRPC, chain: o.tempoChainID, token: o.tempoCurrency, recipient: o.tempoRecipient})
	}
	if f := &o.evm; f.rpc != "" {
		domain := evm.Domain(f.name, f.version, f.chainID, common.Address(f.currency))
		all = append(all, offer{flags: "--evm", rpc: f.rpc, chain: f.chainID, token: f.currency, recipient: f.recipient, domain: &domain})
	}
	return all
}

// ownerProofs asks owners for proofs, on the chain that is Tempo's by the flags, also
// without a node there: a plain key needs none.
func ownerProofs(o *options) (*tempo.Proofs, error) {
	recipient := o.tempoRecipient
	if recipient == (address{}) {
		recipient = o.evm.recipient
	}
	return tempo.NewProofs(o.tempoChainID, common.Address(o.tempoCurrency), common.Address(recipient))
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
	has, err := n.Token(ctx, common.Address(f.token))
	switch {
	case err != nil:
		return err, nil
	case has.Chain != f.chain:
		difference = fmt.Errorf("%s-chain-id is %d, and the node of %[1]s-rpc is on chain %[3]d: change one of the two", f.flags, f.chain, has.Chain)
	case !has.Contract:
		difference = fmt.Errorf("%s-currency is %s, and chain %d has no contract there: give the address of the token on that chain", f.flags, f.token.String(), f.chain)
	case has.Decimals < 0:
		difference = fmt.Errorf("%s-currency is %s, and the contract there names no decimals, so it is no token: give the address of the token", f.flags, f.token.String())
	case has.Decimals != node.Decimals:
		difference = fmt.Errorf("%s-currency is %s, a token with %d decimals: give a token with %d", f.flags, f.token.String(), has.Decimals, node.Decimals)
	case f.domain != nil && has.Domain != nil && *has.Domain != *f.domain:
		difference = fmt.Errorf("%s-currency-name and %[1]s-currency-version are not those of the EIP-712 domain of the token %[2]s, and no payment would hold: give those that it has", f.flags[2:], f.token.String())
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

// paymentMethods makes the methods that the flags configure, in the order of
// their offers, and says how they are to be named.
func paymentMethods(o *options) (methods []paid.Method, networks []core.Network, err error) {
	if o.tempoRPC != "" {
		currency := common.Address(o.tempoCurrency)
		m, err := tempo.New(tempo.Config{RPC: o.tempoRPC, ChainID: o.tempoChainID, Depth: o.tempoDepth, Currency: currency, Recipient: common.Address(o.tempoRecipient)})
		if err != nil {
			return nil, nil, err
		}
		methods = append(methods, m)
		networks = append(networks, core.Network{Name: m.Network(), Method: m.Name(), Currency: node.LowerHex(currency)})
	}
	m, network, err := o.evm.method()
	if err != nil {
		return nil, nil, err
	}
	if m != nil {
		methods, networks = append(methods, m), append(networks, network)
	}
	return methods, networks, nil
}

// newRules are the ring's rules that the flags describe.
func newRules(o *options, networks []core.Network) core.Rules {
	return core.Rules{Name: o.name, BaseURL: o.baseURL, Fee: int64(o.fee), MinBid: int64(o.minBid),
		Grace: seconds(o.grace), Decay: seconds(o.decay), Networks: networks, Scorer: o.score.spec, RequiredScore: requiredScore, VisitAsleep: !o.skipAsleep, Policies: o.policies.Policies}
}

// requiredScore is the least agent-readiness score that may join.
const requiredScore = 40

// evmFlags configure the offer on an Ethereum-like chain. Their defaults are USDC
// on Base.
type evmFlags struct {
	rpc, name, version, gasKeyFile string
	currency, recipient            address
	chainID, depth                 uint64
	maxFee, gasBudget              uint64
	x402                           bool
}

func (f *evmFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.rpc, "evm-rpc", "", "JSON-RPC `URL` of a node of an Ethereum-like chain: take payments by EIP-3009 authorisation there; if the URL holds a key, use the variable or the file, because other users of the machine see flags")
	fs.Uint64Var(&f.chainID, "evm-chain-id", 8453, "`id` of the Ethereum-like chain")
	f.currency = address(common.HexToAddress("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"))
	fs.Var(&f.currency, "evm-currency", "`address` of the token to take; it must have six decimals and EIP-3009")
	fs.StringVar(&f.name, "evm-currency-name", "USD Coin", fileOnly+"`name` in the token's EIP-712 domain")
	fs.StringVar(&f.version, "evm-currency-version", "2", fileOnly+"`version` in the token's EIP-712 domain")
	fs.Var(&f.recipient, "evm-recipient", "`address` of the account that is paid")
	fs.StringVar(&f.gasKeyFile, "evm-gas-key-file", "", "`file` with the private key, 64 hex digits, of the account that pays gas; nothing else may use that account")
	fs.Uint64Var(&f.maxFee, "evm-max-fee", 5_000_000_000, fileOnly+"most `wei` for a unit of gas; while it costs more, the ring takes no payments there")
	fs.Uint64Var(&f.gasBudget, "evm-gas-budget", 5_000_000, fileOnly+"most `gas` that payments of new accounts may waste in an hour; each account that has paid has a tenth of it for itself; 0 for no limit")
	fs.BoolVar(&f.x402, "x402", true, fileOnly+"offer these payments to x402 clients too; no other service may then take x402 payments to the same account on that chain")
	fs.Uint64Var(&f.depth, "evm-depth", 12, fileOnly+"`blocks` on top that make a block final")
}

func (f *evmFlags) validate() error {
	if f.rpc != "" && (f.recipient == (address{}) || f.gasKeyFile == "") {
		return errors.New("--evm-rpc needs --evm-recipient, the account to be paid, and --evm-gas-key-file, the account that submits")
	}
	return nil
}

// method makes the method and says how it is to be named; nil when it is not
// configured.
func (f *evmFlags) method() (paid.Method, core.Network, error) {
	if f.rpc == "" {
		return nil, core.Network{}, nil
	}
	key, err := gasKey(f.gasKeyFile)
	if err != nil {
		return nil, core.Network{}, err
	}
	m, err := evm.New(evm.Config{RPC: f.rpc, ChainID: f.chainID, Currency: common.Address(f.currency), Name: f.name, Version: f.version,
		Recipient: common.Address(f.recipient), Depth: f.depth, GasKey: key, MaxFee: f.maxFee, X402: f.x402})
	if err != nil {
		return nil, core.Network{}, err
	}
	return m, core.Network{Name: m.Network(), Method: m.Name(), Currency: node.LowerHex(common.Address(f.currency))}, nil
}

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
