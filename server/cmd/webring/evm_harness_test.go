package main

import (
	"context"
	"encoding/hex"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"webring/server/devchain"
	"webring/server/pay/mpp"
	"webring/server/pay/paytest"
	"webring/server/pay/x402"
)

// base is the chain in ordinary mode that all tests of the second offer use.
// TestMain stops it.
var base struct {
	once  sync.Once
	chain *devchain.Chain
	err   error
}

// baseChain starts that chain once. Without Node there is none, and chain says so.
func baseChain(t *testing.T) *devchain.Chain {
	t.Helper()
	chain(t)
	base.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		base.chain, base.err = devchain.StartBase(ctx, devchain.Options{Accounts: accounts})
	})
	if base.err != nil {
		t.Fatal(base.err)
	}
	return base.chain
}

// shop is an origin that takes payments by authorisation.
type shop struct {
	*origin
	chain *devchain.Chain
	gas   common.Address
}

// evmShop starts one with a gas account of its own.
func evmShop(t *testing.T, args ...string) *shop {
	t.Helper()
	return evmShopOn(t, baseChain(t), args...)
}

func evmShopOn(t *testing.T, c *devchain.Chain, args ...string) *shop {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "gas-key")
	if err := os.WriteFile(file, []byte(hex.EncodeToString(crypto.FromECDSA(key))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &shop{chain: c, gas: crypto.PubkeyToAddress(key.PublicKey)}
	s.tank(t, ether)
	recipient, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	account := crypto.PubkeyToAddress(recipient.PublicKey)
	s.origin = start(t, append([]string{"--evm-rpc", c.RPC, "--evm-recipient", account.Hex(), "--evm-gas-key-file", file, "--evm-depth", "2"}, args...)...)
	s.recipient = account
	t.Cleanup(func() {
		if strings.Contains(s.log.String(), hex.EncodeToString(crypto.FromECDSA(key))) {
			t.Error("the gas account's key is in the log")
		}
	})
	return s
}

var ether = big.NewInt(1e18)

// tank sets what the gas account has.
func (s *shop) tank(t *testing.T, wei *big.Int) {
	t.Helper()
	if err := s.chain.Call(t.Context(), nil, "anvil_setBalance", s.gas, (*hexutil.Big)(wei)); err != nil {
		t.Fatal(err)
	}
}

// payer makes an account with a thousand dollars.
func (s *shop) payer() paytest.EVM {
	s.t.Helper()
	w := freshWallet(s.t)
	s.endow(w, 1_000_000_000)
	return w
}

// smart makes a smart account with a thousand dollars, for which all these wallets sign.
func (s *shop) smart(owners ...paytest.EVM) common.Address {
	s.t.Helper()
	account, all := s.payer().Address(), []common.Address{}
	for _, w := range owners {
		all = append(all, w.Address())
	}
	if err := s.chain.PutAccount(context.Background(), account, all...); err != nil {
		s.t.Fatal(err)
	}
	return account
}

// endow sets what a payer has, in base units.
func (s *shop) endow(payer paytest.EVM, units int64) {
	s.t.Helper()
	if err := s.chain.Endow(context.Background(), devchain.USDC, payer.Address(), big.NewInt(units)); err != nil {
		s.t.Fatal(err)
	}
}

// offer asks for a challenge of the second kind.
func (s *shop) offer(path, body string) mpp.Challenge {
	s.t.Helper()
	r := s.post(path, body, "Accept-Payment", "evm/charge")
	if r.Status != http.StatusPaymentRequired {
		s.t.Fatalf("POST %s %s: status %d, no challenge: %s\n%s", path, body, r.Status, r.Body, s.log)
	}
	c := s.challenge(r)
	if c.Method != "evm" {
		s.t.Fatalf("the offer is of %q", c.Method)
	}
	return c
}

// exact asks for an offer of x402.
func (s *shop) exact(path, body string) paytest.Accepted {
	s.t.Helper()
	r := s.post(path, body)
	required, err := paytest.ReadRequired(r.Header.Get(x402.RequiredField))
	if r.Status != http.StatusPaymentRequired || err != nil || len(required.Accepts) != 1 {
		s.t.Fatalf("POST %s %s: status %d, %s %q: %v\n%s", path, body, r.Status, x402.RequiredField, r.Header.Get(x402.RequiredField), err, r.Body)
	}
	return required.Accepts[0]
}

// credentialField is the header field in which a credential is presented.
func credentialField(credential string) string {
	if strings.HasPrefix(credential, "Payment ") {
		return "Authorization"
	}
	return x402.SignatureField
}

// present sends a credential.
func (s *shop) present(path, body, credential string, header ...string) reply {
	s.t.Helper()
	return s.post(path, body, append([]string{credentialField(credential), credential}, header...)...)
}

// authorized is what the ring's account holds of the token, in cents.
func (s *shop) authorized() int64 {
	s.t.Helper()
	units, err := s.chain.Balance(context.Background(), devchain.USDC, s.recipient)
	if err != nil {
		s.t.Fatal(err)
	}
	return units.Int64() / 10_000
}

// submissions is how many transactions of the gas account were mined.
func (s *shop) submissions() uint64 {
	s.t.Helper()
	var n hexutil.Uint64
	if err := s.chain.Call(context.Background(), &n, "eth_getTransactionCount", s.gas, "latest"); err != nil {
		s.t.Fatal(err)
	}
	return uint64(n)
}

// submit has somebody else call the token, and waits until that is mined.
func (s *shop) submit(calldata []byte) {
	s.t.Helper()
	stranger := s.chain.Accounts[len(s.chain.Accounts)-1].Address
	var hash common.Hash
	if err := s.chain.Call(context.Background(), &hash, "eth_sendTransaction", map[string]any{
		"from": stranger, "to": devchain.USDC, "data": hexutil.Bytes(calldata), "gas": "0x493e0"}); err != nil {
		s.t.Fatal(err)
	}
	eventually(s.t, "a stranger's transaction", time.Minute, func() bool {
		var receipt *struct{ Status hexutil.Uint64 }
		err := s.chain.Call(context.Background(), &receipt, "eth_getTransactionReceipt", hash)
		if err == nil && receipt != nil && receipt.Status != 1 {
			s.t.Fatal("a stranger's transaction was reverted")
		}
		return err == nil && receipt != nil
	})
}

// tempoRecipient is the account that the harness has an origin paid into on Tempo.
func tempoRecipient(o *origin) common.Address {
	for i, a := range o.args {
		if a == "--tempo-recipient" {
			return common.HexToAddress(o.args[i+1])
		}
	}
	return common.Address{}
}

// noncePaying is the nonce of an authorisation for a challenge.
func noncePaying(id, realm string) common.Hash { return crypto.Keccak256Hash([]byte(id + realm)) }

func freshWallet(t *testing.T) paytest.EVM {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return paytest.EVM{Key: key}
}
