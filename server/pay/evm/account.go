package evm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"webring/server/pay/mpp"
	"webring/server/pay/node"
)

// An account with code does not sign with a key of its address: the token asks the code
// whether a signature is the account's own (ERC-1271). Such a signature can have any length,
// and one authorisation can have any number of them.

// maxSignature bounds the signature of an account, in bytes: each costs gas. That of a passkey
// takes about 800.
const maxSignature = 2048

// mark ends a signature that is wrapped as ERC-6492 says.
var mark = bytes.Repeat([]byte{0x64, 0x92}, 16)

// wrapper is what comes before the mark: the contract that deploys the account, the call of it
// that does so, and the account's signature.
var wrapper = func() abi.Arguments {
	kind := func(name string) abi.Argument {
		t, err := abi.NewType(name, "", nil)
		if err != nil {
			panic(err) // the names are constants
		}
		return abi.Argument{Type: t}
	}
	return abi.Arguments{kind("address"), kind("bytes"), kind("bytes")}
}()

// unwrap gives the account's own signature. Wallets wrap it as long as they do not know that
// the account is deployed.
func unwrap(signature []byte) (own []byte, wrapped bool, err error) {
	body, wrapped := bytes.CutSuffix(signature, mark)
	if !wrapped {
		return signature, false, nil
	}
	parts, err := wrapper.Unpack(body)
	if err != nil {
		return nil, true, err
	}
	return parts[2].([]byte), true, nil
}

// undeployed refuses an authorisation that only code could accept, of an account without
// code. Its code could be deployed together with the transfer, but what that costs, and what
// it calls, would be for the payer to choose and for the gas account to pay.
func (a *authorization) undeployed() *mpp.Rejection {
	if !a.whole || len(a.signature) == 64 { // as long as that of a key
		return mpp.Refuse(mpp.ReasonSigner, "the signature is not the payer's for this token on this chain. If the account is a smart account, it must be deployed on this chain first")
	}
	return mpp.Refuse(mpp.ReasonAbsent, "the account has no code on this chain, and this signature is not by a key of its address. "+
		"If it is a smart account, deploy it on this chain first, for example by sending any transaction from it. Then pay the new challenge. Nothing was charged")
}

// askCode asks for the code of the account at a block.
func askCode(code *hexutil.Bytes, account common.Address, block string) rpc.BatchElem {
	return rpc.BatchElem{Method: "eth_getCode", Result: code, Args: []any{account, block}}
}

// accepted begins the answer of code to which a signature is its own.
var accepted = slices.Concat(node.Selector("isValidSignature(bytes32,bytes)"), make([]byte, 28))

// disowned says what an account's code has against an authorisation that would revert, nil if
// nothing, or if it has no code. It asks the code as the token does, once with half of the gas
// that is paid for, as the token needs some too, and once with much more, to tell code that
// refuses from code that needs more.
func (m *Method) disowned(ctx context.Context, a *authorization) *mpp.Rejection {
	var code, answer, generous hexutil.Bytes
	data := hexutil.Bytes(slices.Concat(node.Selector("isValidSignature(bytes32,bytes)"), a.digest(m.domain), node.Number(64), packed(a.signature)))
	ask := func(answer *hexutil.Bytes, gas uint64) rpc.BatchElem {
		return rpc.BatchElem{Method: "eth_call", Result: answer, Args: []any{map[string]any{"to": a.from, "data": data, "gas": hexutil.Uint64(gas)}, "latest"}}
	}
	questions := []rpc.BatchElem{askCode(&code, a.from, "latest"), ask(&answer, maxGas/2), ask(&generous, 5*maxGas)}
	if err := m.Node.Ask(ctx, questions...); err != nil || questions[0].Error != nil || len(code) == 0 {
		return nil
	}
	silent := func(q rpc.BatchElem) bool { return errors.Is(node.Refused(q.Error), mpp.ErrUnavailable) }
	switch {
	case slices.ContainsFunc(questions[1:], silent) || bytes.HasPrefix(answer, accepted):
		return nil
	case bytes.HasPrefix(generous, accepted):
		return mpp.Refuse(mpp.ReasonGas, fmt.Sprintf("the account's code takes too much gas to check the signature: the ring pays for %d units in all", maxGas))
	}
	return mpp.Refuse(mpp.ReasonSigner, "the account's code does not accept the signature")
}

// packed are bytes as an argument of a function: their number, and they, in whole words.
func packed(b []byte) []byte {
	return slices.Concat(node.Number(uint64(len(b))), b, make([]byte, -len(b)&31))
}
