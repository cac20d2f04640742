package flat

import "encoding/binary"

// ASCII says whether all of s is ASCII. Loading a ring calls it for every text before the
// check for valid UTF-8, which takes several times as long.
func ASCII(s []byte) bool {
	const other = 0x8080808080808080
	n := len(s)
	if n < 8 {
		all := byte(0)
		for _, c := range s {
			all |= c
		}
		return all < 0x80
	}
	all := binary.LittleEndian.Uint64(s[n-8:])
	for i := 0; i < n-8; i += 8 {
		all |= binary.LittleEndian.Uint64(s[i:])
	}
	return all&other == 0
}

// Unhex returns the value of a hexadecimal digit, or -1.
func Unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
