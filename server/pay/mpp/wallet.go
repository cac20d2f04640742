package mpp

import (
	"encoding/json"
	"strconv"
)

// ToSign is what the wallet of a browser needs to answer a challenge: typed data for it to
// sign, and the credential with room for the signature. It holds no secret and promises
// nothing. Its JSON is the member wallet of an offer in the document of a 402.
type ToSign struct {
	Account    string     `json:"account"`    // that is to sign: 0x and 40 hex digits
	Chain      Chain      `json:"chain"`      // that the wallet has to be on
	TypedData  TypedData  `json:"typed_data"` // for eth_signTypedData_v4
	Credential Credential `json:"credential"` // its payload's signature is ""
}

// TypedData is what EIP-712 has signed. In Message, numbers are decimal strings.
type TypedData struct {
	Types       map[string][]TypedField `json:"types"`
	PrimaryType string                  `json:"primaryType"`
	Domain      TypedDomain             `json:"domain"`
	Message     any                     `json:"message"`
}

// TypedField is a field of a type.
type TypedField struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// TypedDomain is the domain of typed data. Without a contract it has three fields.
type TypedDomain struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	ChainID  uint64 `json:"chainId"`
	Contract string `json:"verifyingContract,omitempty"`
}

// Typed puts together the data of one type. Its fields are in the order in which they are
// hashed.
func Typed(domain TypedDomain, primary string, fields []TypedField, message any) TypedData {
	of := []TypedField{{"name", "string"}, {"version", "string"}, {"chainId", "uint256"}}
	if domain.Contract != "" {
		of = append(of, TypedField{"verifyingContract", "address"})
	}
	return TypedData{Types: map[string][]TypedField{"EIP712Domain": of, primary: fields}, PrimaryType: primary, Domain: domain, Message: message}
}

// Unsigned is the credential that answers c, with this payload, before it is signed. It
// leaves out what is for people.
func Unsigned(c Challenge, payload any, source string) (Credential, error) {
	c.Description = ""
	text, err := json.Marshal(payload)
	return Credential{Challenge: c, Payload: text, Source: source}, err
}

// Chain names a chain in the way of wallet_addEthereumChain (EIP-3085). Of a chain that
// wallets are not told how to reach, it has the first two fields.
type Chain struct {
	ID       string    `json:"chainId"` // 0x and hex digits
	Name     string    `json:"chainName"`
	Currency *Currency `json:"nativeCurrency,omitempty"`
	RPC      []string  `json:"rpcUrls,omitempty"`
	Explorer []string  `json:"blockExplorerUrls,omitempty"`
}

// Currency is the coin in which a chain takes its fees.
type Currency struct {
	Name     string `json:"name"`
	Symbol   string `json:"symbol"`
	Decimals int    `json:"decimals"`
}

// ChainOf names the chain with an id. The nodes of a ring are the operator's own, so only
// public ones, which the makers of the chain publish, are named.
func ChainOf(id uint64) Chain {
	c, known := chains[id]
	if !known {
		c.Name = "chain " + strconv.FormatUint(id, 10)
	}
	c.ID = "0x" + strconv.FormatUint(id, 16)
	return c
}

var (
	etherCoin = &Currency{"Ether", "ETH", 18}
	// Tempo has no coin: fees are paid in dollars. Wallets insist on 18 decimals.
	tempoCoin = &Currency{"USD", "USD", 18}

	chains = map[uint64]Chain{
		8453:  {Name: "Base", Currency: etherCoin, RPC: []string{"https://mainnet.base.org"}, Explorer: []string{"https://basescan.org"}},
		84532: {Name: "Base Sepolia", Currency: etherCoin, RPC: []string{"https://sepolia.base.org"}, Explorer: []string{"https://sepolia.basescan.org"}},
		4217:  {Name: "Tempo", Currency: tempoCoin, RPC: []string{"https://rpc.tempo.xyz"}, Explorer: []string{"https://explore.tempo.xyz"}},
		42431: {Name: "Tempo Testnet", Currency: tempoCoin, RPC: []string{"https://rpc.moderato.tempo.xyz"}, Explorer: []string{"https://explore.testnet.tempo.xyz"}},
	}
)
