package api

import (
	"math/bits"

	"webring/core/flat"
)

// AppendUSD appends an amount of US cents, which is not negative, with two
// decimals and without quotes: 1200 is 12.00.
func AppendUSD(dst []byte, cents int64) []byte {
	dst = room(dst, maxUSD)
	return usd(flat.Write(dst), cents).Bytes(dst)
}

// maxUSD is the length of the highest amount.
const maxUSD = 21

// usd is AppendUSD for a pen.
func usd(w flat.Pen, cents int64) flat.Pen {
	if cents >= 100_000_000 {
		dollars := uint64(cents) / 100
		return w.Number(dollars).Put('.'|(flat.Digits(uint64(cents)-100*dollars)|flat.Zeros)>>48<<8, 3)
	}
	// Six digits of dollars, of which the last one stands, and two of cents.
	x := flat.Digits(uint64(cents))
	leading := uint(bits.TrailingZeros64(x|1<<40)) &^ 7
	x |= flat.Zeros
	return w.Put(x>>leading, int(6-leading/8)).Put('.'|x>>48<<8, 3)
}
