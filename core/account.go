package core

import (
	"strings"

	"webring/core/flat"
)

// Account is an address of 20 bytes that pays and signs, on whichever network. The zero
// value is an unknown account, which is equal to no other.
type Account [20]byte

// AccountOf finds the account in what a [Payment] says of its payer: an address, "0x" and
// 40 hexadecimal digits, by itself or at the end of an identifier with colons, such as
// did:pkh:eip155:8453:0x….
func AccountOf(payer string) (a Account) {
	address := payer[strings.LastIndexByte(payer, ':')+1:]
	if len(address) != len("0x")+2*len(a) || address[:2] != "0x" {
		return Account{}
	}
	for i := range a {
		high, low := flat.Unhex(address[2+2*i]), flat.Unhex(address[3+2*i])
		if high < 0 || low < 0 {
			return Account{}
		}
		a[i] = byte(high<<4 | low)
	}
	return a
}

// Is reports whether both are the same known account.
func (a Account) Is(other Account) bool { return a == other && a != Account{} }

// String gives the address in lower case, or "" for an unknown account.
func (a Account) String() string {
	if a == (Account{}) {
		return ""
	}
	return string(a.Append(make([]byte, 0, 2+2*len(a))))
}

// Append appends the 42 characters of the address, those of an unknown account too.
func (a Account) Append(dst []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, "0x"...)
	for _, b := range a {
		dst = append(dst, digits[b>>4], digits[b&15])
	}
	return dst
}

// A row has its owner in two parts. The digest of a state covers the end of the account
// alone, and that of a snapshot covers the beginning, too.
const (
	ownerBegin = 8
	ownerEnd   = len(Account{}) - ownerBegin
)

// Owner gives the account to which the member with row o belongs: the one that paid its
// registration, or the one that the site has named since.
func (s *store) Owner(o Ordinal) (a Account) {
	copy(a[:ownerBegin], s.texts[4*int(s.at[o])+ownerAt:])
	_, head := s.row(o)
	copy(a[ownerBegin:], head[len(head)-8-ownerEnd:])
	return a
}

// own replaces the owner of a row.
func (s *State) own(o Ordinal, a Account) {
	beginning := s.texts[4*int(s.at[o])+ownerAt:][:ownerBegin]
	s.owners.sub(hashOwner(o, beginning))
	copy(beginning, a[:ownerBegin])
	s.owners.add(hashOwner(o, beginning))
	_, head := s.row(o)
	copy(head[len(head)-8-ownerEnd:], a[ownerBegin:])
}

// sameOwner reports whether two members have the same known owner. It compares what the
// digest of a state covers.
func (s *store) sameOwner(o, other Ordinal) bool {
	a, b := s.Owner(o), s.Owner(other)
	end := [ownerEnd]byte(a[ownerBegin:])
	return end == [ownerEnd]byte(b[ownerBegin:]) && end != [ownerEnd]byte{}
}
