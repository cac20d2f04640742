package api

import "webring/core/flat"

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
	if cents < 1<<32 {
		// In 32 bits the compiler divides by multiplying.
		dollars := uint32(cents) / 100
		return w.Number(uint64(dollars)).Byte('.').Two(uint32(cents) - dollars*100)
	}
	dollars := uint64(cents) / 100
	return w.Number(dollars).Byte('.').Two(uint32(uint64(cents) - dollars*100))
}
