package devchain

import (
	"bufio"
	"cmp"
	"context"
	"crypto/ecdsa"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rpc"
)

// ChainID is the id of the public Tempo test network. Clients that see it need
// to be told only where the node is.
const ChainID = 42431

// Stablecoins that the chain is born with. Every account holds plenty of each.
var (
	PathUSD  = common.HexToAddress("0x20c0000000000000000000000000000000000000")
	AlphaUSD = common.HexToAddress("0x20c0000000000000000000000000000000000001")
	BetaUSD  = common.HexToAddress("0x20c0000000000000000000000000000000000002")
)

// Options of a chain; the zero value is what tests want.
type Options struct {
	Port     int    // 0: any free one
	Accounts int    // 0: 100
	Saved    string // the file that the chain is saved in, so that the next one goes on from it; "": it ends with Stop
}

// Account is one funded account of the well-known development mnemonic.
type Account struct {
	Address common.Address
	Key     *ecdsa.PrivateKey
}

// HexKey is the private key as wallets and the reference client take it.
func (a Account) HexKey() string { return hexutil.Encode(crypto.FromECDSA(a.Key)) }

// Chain is a running chain. Its methods are safe for concurrent use.
type Chain struct {
	RPC      string // http://127.0.0.1:port
	Accounts []Account

	client  *rpc.Client
	cmd     *exec.Cmd
	gone    chan struct{} // closed when the process has ended
	resumed bool          // whether it went on from a file
	saver   *saver        // nil unless the chain is saved
}

// startTimeout bounds how long a chain may take to mine its first block.
const startTimeout = 60 * time.Second

// Start installs what is needed, runs a Tempo chain that mines once a second, and
// returns when it has mined: on the genesis block the clock stands at 1, and
// no payment is valid. ctx bounds the start only; end the chain with Stop.
func Start(ctx context.Context, o Options) (*Chain, error) {
	// T4 is the first hard fork with expiring nonces: without it a wallet's
	// second payment is taken, answered with a hash, and never mined.
	return launch(ctx, o, "--network", "tempo", "--hardfork", "T4", "--chain-id", strconv.Itoa(ChainID))
}

// launch starts a chain of the given kind.
func launch(ctx context.Context, o Options, kind ...string) (*Chain, error) {
	if err := Install(ctx); err != nil {
		return nil, err
	}
	dir, err := Dir()
	if err != nil {
		return nil, err
	}
	if o.Accounts == 0 {
		o.Accounts = 100
	}
	scratch, err := os.MkdirTemp("", "devchain")
	if err != nil {
		return nil, fmt.Errorf("devchain: %w", err)
	}
	defer os.RemoveAll(scratch)
	config := filepath.Join(scratch, "accounts.json")

	program, err := chainProgram(dir)
	if err != nil {
		return nil, err
	}
	args := append(kind, "--block-time", "1",
		"--accounts", strconv.Itoa(o.Accounts), "--host", "127.0.0.1",
		"--port", strconv.Itoa(o.Port), "--config-out", config)
	c := &Chain{gone: make(chan struct{})}
	if o.Saved != "" {
		state := filepath.Join(scratch, "state.json")
		if c.resumed, err = unpack(o.Saved, state); err != nil {
			return nil, err
		}
		if c.resumed {
			args = append(args, "--load-state", state)
		}
	}
	c.cmd = exec.Command(program, args...)
	if err := c.run(ctx); c.resumed && errors.Is(err, errEndedAtOnce) {
		return nil, fmt.Errorf("%w: %s: %w", ErrSaved, o.Saved, err)
	} else if err != nil {
		return nil, err
	}
	head, err := c.ready(ctx, config)
	if err == nil && o.Saved != "" {
		err = c.saveTo(o.Saved, head)
	}
	if err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// chainProgram finds the chain: the prebuilt one that npm brought, or else one
// that the developer installed. It is run directly; a launcher in between
// would let the chain outlive a killed parent.
func chainProgram(dir string) (string, error) {
	prebuilt := filepath.Join(dir, "node_modules", "@foundry-rs", "anvil-"+runtime.GOOS+"-"+runtime.GOARCH, "bin", "anvil")
	if _, err := os.Stat(prebuilt); err == nil {
		return prebuilt, nil
	}
	if installed, err := exec.LookPath("anvil"); err == nil {
		return installed, nil
	}
	return "", fmt.Errorf("devchain: no prebuilt chain for %s/%s: install Foundry's anvil 1.7.1 or newer so that it is in PATH", runtime.GOOS, runtime.GOARCH)
}

// errEndedAtOnce is why there is no chain, when anvil refuses what it was given.
var errEndedAtOnce = errors.New("devchain: the chain ended at once")

// run starts the process and learns its address.
func (c *Chain) run(ctx context.Context) error {
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("devchain: %w", err)
	}
	var complaint strings.Builder
	c.cmd.Stderr = &complaint
	c.cmd.SysProcAttr = DieWithParent()
	started, address := make(chan error), make(chan string, 1)
	go func() {
		// The death signal follows the thread, not the process: this thread
		// must live as long as the chain.
		runtime.LockOSThread()
		defer close(c.gone)
		err := c.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			if at, ok := strings.CutPrefix(lines.Text(), "Listening on "); ok {
				address <- at
				break
			}
		}
		io.Copy(io.Discard, stdout)
		c.cmd.Wait()
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("devchain: start the chain: %w", err)
	}
	select {
	case at := <-address:
		c.RPC = "http://" + at
		return nil
	case <-c.gone:
		return fmt.Errorf("%w: %s", errEndedAtOnce, strings.TrimSpace(complaint.String()))
	case <-ctx.Done():
		c.Stop()
		return ctx.Err()
	case <-time.After(startTimeout):
		c.Stop()
		return errors.New("devchain: the chain does not listen")
	}
}

// ready reads the accounts, waits for a block of this run, and returns its number:
// until then the chain's clock stands where the last run ended, or at 1.
func (c *Chain) ready(ctx context.Context, config string) (block uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	raw, err := os.ReadFile(config)
	if err != nil {
		return 0, fmt.Errorf("devchain: %w", err)
	}
	var made struct {
		Keys []hexutil.Bytes `json:"private_keys"`
	}
	if err := json.Unmarshal(raw, &made); err != nil {
		return 0, fmt.Errorf("devchain: accounts: %w", err)
	}
	for _, k := range made.Keys {
		key, err := crypto.ToECDSA(k)
		if err != nil {
			return 0, fmt.Errorf("devchain: accounts: %w", err)
		}
		c.Accounts = append(c.Accounts, Account{Address: crypto.PubkeyToAddress(key.PublicKey), Key: key})
	}
	if c.client, err = rpc.DialContext(ctx, c.RPC); err != nil {
		return 0, fmt.Errorf("devchain: %w", err)
	}
	var before, head hexutil.Uint64
	if err := c.Call(ctx, &before, "eth_blockNumber"); err != nil {
		return 0, fmt.Errorf("devchain: %w", err)
	}
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		if err := c.Call(ctx, &head, "eth_blockNumber"); err == nil && head > before {
			return uint64(head), nil
		}
		select {
		case <-poll.C:
		case <-c.gone:
			return 0, errors.New("devchain: the chain ended while starting")
		case <-ctx.Done():
			return 0, fmt.Errorf("devchain: no block was mined: %w", ctx.Err())
		}
	}
}

// Call is a JSON-RPC call to the node, its evm_ and anvil_ methods included.
func (c *Chain) Call(ctx context.Context, result any, method string, args ...any) error {
	return c.client.CallContext(ctx, result, method, args...)
}

// Balance is what addr holds of token, in base units (a millionth of a dollar).
func (c *Chain) Balance(ctx context.Context, token, addr common.Address) (*big.Int, error) {
	data := append(crypto.Keccak256([]byte("balanceOf(address)"))[:4], common.LeftPadBytes(addr[:], 32)...)
	var word hexutil.Bytes
	call := map[string]any{"to": token, "data": hexutil.Bytes(data)}
	if err := c.Call(ctx, &word, "eth_call", call, "latest"); err != nil {
		return nil, fmt.Errorf("devchain: balance: %w", err)
	}
	return new(big.Int).SetBytes(word), nil
}

// NextNonce is the nonce that an account's next transaction has, after those that wait to be
// mined, as clients ask for it.
func (c *Chain) NextNonce(ctx context.Context, addr common.Address) (uint64, error) {
	var next hexutil.Uint64
	err := c.Call(ctx, &next, "eth_getTransactionCount", addr, "pending")
	return uint64(next), err
}

// Stop ends the chain and returns when its process is gone. It is safe to call twice. Blocks
// that were mined and not reported yet are not saved.
func (c *Chain) Stop() {
	if c.saver != nil {
		c.saver.server.Close()
	}
	if c.client != nil {
		c.client.Close()
	}
	c.cmd.Process.Kill()
	<-c.gone
}

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

//go:embed token/Account.hex
var account string

// PutAccount puts a smart account (token/Account.sol) at an address, for whose signatures
// all owners must sign. Without owners it is one to which others can delegate, each signing
// with its own key.
func (c *Chain) PutAccount(ctx context.Context, at common.Address, owners ...common.Address) error {
	one := common.BigToHash(common.Big1)
	slots := map[common.Hash]common.Hash{{}: common.BigToHash(big.NewInt(int64(len(owners))))}
	for _, owner := range owners {
		slots[crypto.Keccak256Hash(common.LeftPadBytes(owner[:], 32), one[:])] = one
	}
	err := c.Call(ctx, nil, "anvil_setCode", at, "0x"+strings.TrimSpace(account))
	for slot, value := range slots {
		err = cmp.Or(err, c.Call(ctx, nil, "anvil_setStorageAt", at, slot, value))
	}
	if err != nil {
		return fmt.Errorf("devchain: account: %w", err)
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

// The ports of [FreeAddress] lie below the ephemeral ports, so that a program that opens
// connections does not take one by chance.
const (
	firstPort = 10_000
	ports     = 32_768 - firstPort
)

var lastPort = rand.Uint32N(ports)

// FreeAddress gives a loopback address at which nothing listens, for a process that is
// about to start there. It gives every address once before it repeats one, and
// programs that use it at the same time most likely begin at different ones. It panics
// if every port is taken.
func FreeAddress() string {
	for range ports {
		address := net.JoinHostPort("127.0.0.1", strconv.FormatUint(uint64(firstPort+atomic.AddUint32(&lastPort, 1)%ports), 10))
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	panic("devchain: every port of loopback is taken")
}
