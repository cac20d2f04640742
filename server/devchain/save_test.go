package devchain_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/devchain"
)

// startSaved starts a chain of one kind that is saved in a file.
func startSaved(t *testing.T, start func(context.Context, devchain.Options) (*devchain.Chain, error), file string) *devchain.Chain {
	t.Helper()
	chain, err := start(t.Context(), devchain.Options{Accounts: 4, Saved: file})
	if errors.Is(err, devchain.ErrNoNode) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(chain.Stop)
	return chain
}

// ask is a question to the chain's address, as everybody but its own process asks.
func ask(t *testing.T, chain *devchain.Chain, result any, method string, args ...any) {
	t.Helper()
	client, err := rpc.DialContext(t.Context(), chain.RPC)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.CallContext(t.Context(), result, method, args...); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
}

// transfer is a transaction of the first account that gives the second a token.
func transfer(chain *devchain.Chain, token common.Address, units int64) map[string]any {
	data := crypto.Keccak256([]byte("transfer(address,uint256)"))[:4]
	data = append(data, common.LeftPadBytes(chain.Accounts[1].Address[:], 32)...)
	data = append(data, common.LeftPadBytes(big.NewInt(units).Bytes(), 32)...)
	return map[string]any{"from": chain.Accounts[0].Address, "to": token, "data": hexutil.Bytes(data), "gas": hexutil.Uint64(1_000_000)}
}

// A chain that is killed at the moment at which it has told of a transaction has it
// when it goes on, and everything else that was.
func TestWhatASavedChainHasToldIsOnTheNextOne(t *testing.T) {
	for name, kind := range map[string]struct {
		start func(context.Context, devchain.Options) (*devchain.Chain, error)
		token common.Address
	}{
		"Tempo": {devchain.Start, devchain.PathUSD},
		"Base":  {devchain.StartBase, devchain.USDC},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "chains", "kept")
			var hashes []common.Hash
			var told []map[string]any
			var given int64
			had := new(big.Int)
			for round := range 4 {
				chain := startSaved(t, kind.start, file)
				has, err := chain.Balance(t.Context(), kind.token, chain.Accounts[1].Address)
				if err != nil {
					t.Fatal(err)
				}
				if round == 0 {
					had.Set(has)
				}
				if now := new(big.Int).Sub(has, had); !now.IsInt64() || now.Int64() != given {
					t.Errorf("round %d: the payee has %v more, want %d", round, now, given)
				}
				for i, hash := range hashes {
					var receipt map[string]any
					ask(t, chain, &receipt, "eth_getTransactionReceipt", hash)
					if !reflect.DeepEqual(receipt, told[i]) {
						t.Errorf("round %d: the receipt of %v is\n%v, was\n%v", round, hash, receipt, told[i])
					}
				}
				var hash common.Hash
				ask(t, chain, &hash, "eth_sendTransaction", transfer(chain, kind.token, 7))
				var receipt map[string]any
				for deadline := time.Now().Add(time.Minute); receipt == nil && time.Now().Before(deadline); {
					ask(t, chain, &receipt, "eth_getTransactionReceipt", hash)
				}
				chain.Stop() // which is kill -9
				if receipt["status"] != "0x1" {
					t.Fatalf("round %d: receipt %v", round, receipt)
				}
				hashes, told, given = append(hashes, hash), append(told, receipt), given+7
			}
		})
	}
}

// Before anything is paid on it, a chain leaves nothing behind.
func TestASavedChainWithoutTransactionsWritesNoFile(t *testing.T) {
	folder := t.TempDir()
	chain := startSaved(t, devchain.Start, filepath.Join(folder, "kept"))
	var head hexutil.Uint64
	ask(t, chain, &head, "eth_blockNumber")
	chain.Stop()
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestASavedChainThatDoesNotLoadIsNamed(t *testing.T) {
	if err := devchain.Install(t.Context()); errors.Is(err, devchain.ErrNoNode) {
		t.Skip(err)
	}
	var other bytes.Buffer
	zip := gzip.NewWriter(&other)
	fmt.Fprint(zip, `{"accounts":{},"what another release writes":1}`)
	zip.Close()
	for name, held := range map[string][]byte{
		"empty":                 {},
		"no archive":            []byte("hello"),
		"cut short":             other.Bytes()[:other.Len()-4],
		"of another release":    other.Bytes(),
		"of another checksum":   append(other.Bytes()[:other.Len()-8:other.Len()-8], make([]byte, 8)...),
		"a folder, not a chain": nil,
	} {
		file := filepath.Join(t.TempDir(), "kept")
		if held == nil {
			if err := os.Mkdir(file, 0o700); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(file, held, 0o600); err != nil {
			t.Fatal(err)
		}
		chain, err := devchain.Start(t.Context(), devchain.Options{Accounts: 1, Saved: file})
		if err == nil {
			chain.Stop()
		}
		if !errors.Is(err, devchain.ErrSaved) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
