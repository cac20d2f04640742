package main

import (
	"crypto/ecdsa"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/core"
	"webring/edge/durable"
	"webring/server/paid"
	"webring/server/pay/evm"
	"webring/server/pay/node"
)

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
