package api

import "strconv"

// AppendUSD appends an amount of US cents, which is not negative, with two
// decimals and without quotes: 1200 is 12.00.
func AppendUSD(dst []byte, cents int64) []byte {
	dst = strconv.AppendInt(dst, cents/100, 10)
	return append(dst, '.', byte('0'+cents/10%10), byte('0'+cents%10))
}
