package devchain

import (
	"context"
	_ "embed"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// BaseChainID is the id of the Base network, the one on which the reference
// client knows USDC.
const BaseChainID = 8453

// USDC is that token's address on Base.
var USDC = common.HexToAddress("0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913")

// token is the code of token/Token.sol, in hex; token/compile.mjs makes it.
//
//go:embed token/Token.hex
var token string

// fortune is what every account has of USDC, in base units: a million dollars.
const fortune = 1_000_000_000_000

// StartBase is [Start] for a chain in ordinary Ethereum mode that passes for Base:
// it has its id, and a token with transfers by authorisation (EIP-3009) under the
// address of USDC there, of which, as of ether, every account holds plenty.
func StartBase(ctx context.Context, o Options) (*Chain, error) {
	c, err := launch(ctx, o, "--chain-id", strconv.Itoa(BaseChainID))
	if err != nil || c.resumed {
		return c, err
	}
	if err := c.PutToken(ctx, USDC); err != nil {
		c.Stop()
		return nil, err
	}
	for _, a := range c.Accounts {
		if err := c.Endow(ctx, USDC, a.Address, big.NewInt(fortune)); err != nil {
			c.Stop()
			return nil, err
		}
	}
	return c, nil
}

// PutToken puts the code of the token at an address.
func (c *Chain) PutToken(ctx context.Context, at common.Address) error {
	if err := c.Call(ctx, nil, "anvil_setCode", at, "0x"+strings.TrimSpace(token)); err != nil {
		return fmt.Errorf("devchain: token: %w", err)
	}
	return nil
}

// Endow sets what addr holds of a token that [Chain.PutToken] put there, in base
// units. Balances are the token's first variable, a mapping.
func (c *Chain) Endow(ctx context.Context, token, addr common.Address, units *big.Int) error {
	slot := crypto.Keccak256Hash(common.LeftPadBytes(addr[:], 32), make([]byte, 32))
	if err := c.Call(ctx, nil, "anvil_setStorageAt", token, slot, common.BigToHash(units)); err != nil {
		return fmt.Errorf("devchain: endow: %w", err)
	}
	return nil
}
