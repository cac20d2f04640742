package aside

import "encoding/binary"

// appendNumbers appends numbers as varints, the form of all values in the tables.
func appendNumbers(dst []byte, numbers ...uint64) []byte {
	for _, n := range numbers {
		dst = binary.AppendUvarint(dst, n)
	}
	return dst
}

// numbers reads varints. whole is false if it ends at one that is malformed.
func numbers(b []byte) (all []uint64, whole bool) {
	all = make([]uint64, 0, len(b))
	for len(b) > 0 {
		x, n := binary.Uvarint(b)
		if n <= 0 {
			return all, false
		}
		all, b = append(all, x), b[n:]
	}
	return all, true
}
