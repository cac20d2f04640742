package core

import (
	"strings"

	"webring/core/flat"
)

// Payer is the account that paid a registration, on whichever network: the last 12
// of the 20 bytes of its address, which keeps rows short. Addresses are hashes: to
// find a key for one that ends like one of a million members' takes 2^76 attempts.
// The zero value is an unknown account, which is equal to no other.
type Payer [12]byte

const addressBytes = 20

// PayerOf finds the account in what a [Payment] says of its payer: an address, "0x" and
// 40 hexadecimal digits, by itself or at the end of an identifier with colons, such as
// did:pkh:eip155:8453:0x….
func PayerOf(payer string) (p Payer) {
	address := payer[strings.LastIndexByte(payer, ':')+1:]
	if len(address) != len("0x")+2*addressBytes || address[:2] != "0x" {
		return Payer{}
	}
	var all [addressBytes]byte
	for i := range all {
		high, low := flat.Unhex(address[2+2*i]), flat.Unhex(address[3+2*i])
		if high < 0 || low < 0 {
			return Payer{}
		}
		all[i] = byte(high<<4 | low)
	}
	copy(p[:], all[addressBytes-len(p):])
	return p
}

// Is reports whether both are the same known account.
func (p Payer) Is(other Payer) bool { return p == other && p != Payer{} }

// Payer gives the account that paid the registration of o.
func (s *store) Payer(o Ordinal) (p Payer) {
	_, head := s.row(o)
	copy(p[:], head[len(head)-8-len(p):])
	return p
}
