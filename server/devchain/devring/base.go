package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"webring/server/devchain"
)

// offerOnBase starts a second chain, which passes for Base, and gives the flags
// with which the ring is paid there too. The gas account is the last but one of
// the development accounts; its key, which everybody knows, is written below folder.
// The chain is saved in data.
func offerOnBase(ctx context.Context, folder, data string, out io.Writer) (args []string, stop func(), err error) {
	chain, err := devchain.StartBase(ctx, devchain.Options{Accounts: accounts, Saved: filepath.Join(data, baseSaved)})
	if errors.Is(err, devchain.ErrSaved) {
		return nil, nil, beginAgain(err, data)
	}
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(folder, "evm-gas-key")
	if err := os.WriteFile(file, []byte(chain.Accounts[accounts-2].HexKey()+"\n"), 0o600); err != nil {
		chain.Stop()
		return nil, nil, err
	}
	fmt.Fprintf(out, "A second chain, for payments by authorisation, is at %s.\n", chain.RPC)
	return []string{"--evm-rpc", chain.RPC, "--evm-recipient", chain.Accounts[accounts-1].Address.Hex(), "--evm-gas-key-file", file}, chain.Stop, nil
}
