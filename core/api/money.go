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

// manyCents are more than eight digits.
const manyCents = 100_000_000

// usd is AppendUSD for a pen.
func usd(w flat.Pen, cents int64) flat.Pen {
	if cents >= manyCents {
		const rest = 1_000_000 // six digits of them, which no zero is left out of
		six := flat.Digits(uint64(cents)%rest) | flat.Zeros
		return w.Number(uint64(cents)/rest).Put(six>>16, 4).Put('.'|six>>48<<8, 3)
	}
	return w.Cents(flat.Digits(uint64(cents)))
}
