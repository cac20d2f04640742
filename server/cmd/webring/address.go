package main

import (
	"errors"
	"strings"

	"github.com/ethereum/go-ethereum/common"
)

// address is an account or a token in a flag; the zero address stands for none.
type address common.Address

// String is the address with its checksum, and empty for none.
func (a *address) String() string {
	if *a == (address{}) {
		return ""
	}
	return common.Address(*a).Hex()
}

// Set reads an address. Where its letters are of both cases, they are its checksum
// (EIP-55). One that does not hold tells of a mistake somewhere in the address, so no
// other spelling is proposed.
func (a *address) Set(v string) error {
	if v == "" {
		*a = address{}
		return nil
	}
	if !common.IsHexAddress(v) {
		return errors.New("it is not an account address, 0x and 40 hex digits")
	}
	read := common.HexToAddress(v)
	if read == (common.Address{}) {
		return errors.New("it is the zero address, which nobody holds")
	}
	digits := v[len(v)-2*common.AddressLength:]
	if digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) && digits != read.Hex()[2:] {
		return errors.New("its checksum (EIP-55) does not hold, so some character of it is wrong: give the address again, copied from where it was made")
	}
	*a = address(read)
	return nil
}
