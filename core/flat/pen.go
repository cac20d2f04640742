package flat

import (
	"math/bits"
	"strconv"
	"unsafe"
)

// Slack is how many bytes behind its last byte a [Pen] may overwrite: for n bytes, n + Slack
// must be reserved.
const Slack = 64

// Pen writes bytes one after another and does not check that there is room: its user
// reserves the room, once for many pieces. It is a value: each function returns the pen
// behind what it wrote.
//
// A check costs more than 5 % of a request: with one comparison before each piece, a widget
// takes 580 ns natively instead of 370 and 4.8 µs in the module instead of 2.4, a page of
// 100 members 22 µs instead of 13 and 126 instead of 72. A request at an edge takes some
// 6 µs more than its document.
//
// There are several functions for literals, by length, because the compiler turns each
// into a few stores of constants. In WebAssembly a call costs as much as a dozen
// instructions, so this is what makes documents fast.
type Pen struct{ at unsafe.Pointer }

// Write gives a pen at the end of b, which must have room: see [Slack].
func Write(b []byte) Pen {
	return Pen{unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), len(b))}
}

// Bytes gives what b, from which the pen was made, has become. It panics when
// more was written than there was room for, but by then it is too late.
func (w Pen) Bytes(b []byte) []byte {
	return b[:uintptr(w.at)-uintptr(unsafe.Pointer(unsafe.SliceData(b)))]
}

// Room gives the next n bytes as an empty slice with room for them, for
// functions that append; [Pen.Skip] takes the pen behind what they wrote.
func (w Pen) Room(n int) []byte { return unsafe.Slice((*byte)(w.at), n)[:0] }

// Skip takes the pen over n bytes that were written otherwise.
func (w Pen) Skip(n int) Pen { return Pen{unsafe.Add(w.at, n)} }

func store64(p unsafe.Pointer, at int, v uint64) { *(*uint64)(unsafe.Add(p, at)) = v }

func load64(p unsafe.Pointer, at int) uint64 { return *(*uint64)(unsafe.Add(p, at)) }

func store32(p unsafe.Pointer, at int, v uint32) { *(*uint32)(unsafe.Add(p, at)) = v }

func load32(p unsafe.Pointer, at int) uint32 { return *(*uint32)(unsafe.Add(p, at)) }

func data(s string) unsafe.Pointer { return unsafe.Pointer(unsafe.StringData(s)) }

// Byte writes c.
func (w Pen) Byte(c byte) Pen {
	*(*byte)(w.at) = c
	return Pen{unsafe.Add(w.at, 1)}
}

// Lit8 writes a literal of 4 to 8 bytes.
func (w Pen) Lit8(s string) Pen {
	store32(w.at, 0, load32(data(s), 0))
	store32(w.at, len(s)-4, load32(data(s), len(s)-4))
	return Pen{unsafe.Add(w.at, len(s))}
}

// Lit16 writes a literal of 8 to 16 bytes.
func (w Pen) Lit16(s string) Pen {
	store64(w.at, 0, load64(data(s), 0))
	store64(w.at, len(s)-8, load64(data(s), len(s)-8))
	return Pen{unsafe.Add(w.at, len(s))}
}

// sixteen are 16 bytes that the compiler holds in registers, unlike an array.
type sixteen struct{ a, b uint64 }

// Lit32 writes a literal of 16 to 32 bytes.
func (w Pen) Lit32(s string) Pen {
	*(*sixteen)(w.at) = *(*sixteen)(data(s))
	*(*sixteen)(unsafe.Add(w.at, len(s)-16)) = *(*sixteen)(unsafe.Add(data(s), len(s)-16))
	return Pen{unsafe.Add(w.at, len(s))}
}

// Copy writes s as it is.
func (w Pen) Copy(s string) Pen {
	n, from := len(s), data(s)
	switch {
	case n >= 8:
		for i := 0; i < n-8; i += 8 {
			store64(w.at, i, load64(from, i))
		}
		store64(w.at, n-8, load64(from, n-8))
	case n >= 4:
		store32(w.at, 0, load32(from, 0))
		store32(w.at, n-4, load32(from, n-4))
	default:
		for i := 0; i < n; i++ {
			*(*byte)(unsafe.Add(w.at, i)) = s[i]
		}
	}
	return Pen{unsafe.Add(w.at, n)}
}

// UpTo16 writes t, which is at most 16 bytes long, without a branch.
func (w Pen) UpTo16(t Text) Pen {
	*(*sixteen)(w.at) = *(*sixteen)(t.at)
	return Pen{unsafe.Add(w.at, t.n)}
}

// UpTo32 is UpTo16 for 32 bytes.
func (w Pen) UpTo32(t Text) Pen {
	*(*thirtyTwo)(w.at) = *(*thirtyTwo)(t.at)
	return Pen{unsafe.Add(w.at, t.n)}
}

// UpTo48 is UpTo16 for 48 bytes.
func (w Pen) UpTo48(t Text) Pen {
	*(*thirtyTwo)(w.at) = *(*thirtyTwo)(t.at)
	*(*sixteen)(unsafe.Add(w.at, 32)) = *(*sixteen)(unsafe.Add(t.at, 32))
	return Pen{unsafe.Add(w.at, t.n)}
}

// Word writes t, as fast as can be if it is at most 16 bytes long.
func (w Pen) Word(t Text) Pen {
	*(*sixteen)(w.at) = *(*sixteen)(t.at)
	if t.n > 16 {
		w.long(t)
	}
	return Pen{unsafe.Add(w.at, t.n)}
}

// Line is Word for what is mostly longer: up to 32 bytes.
func (w Pen) Line(t Text) Pen {
	*(*thirtyTwo)(w.at) = *(*thirtyTwo)(t.at)
	if t.n > 32 {
		w.long(t)
	}
	return Pen{unsafe.Add(w.at, t.n)}
}

// long writes t at the pen. It is not inlined: the compiler takes a branch with a call for
// the rare one, and lays out the other one straight.
//
//go:noinline
func (w Pen) long(t Text) { w.Passage(t) }

// Passage is Word for what may well be longer.
func (w Pen) Passage(t Text) Pen {
	for i := 0; i < t.n; i += 32 {
		*(*thirtyTwo)(unsafe.Add(w.at, i)) = *(*thirtyTwo)(unsafe.Add(t.at, i))
	}
	return Pen{unsafe.Add(w.at, t.n)}
}

// thirtyTwo are 32 bytes.
type thirtyTwo struct{ a, b, c, d uint64 }

// Put writes the n lowest bytes of x, the lowest first; n is at most 8.
func (w Pen) Put(x uint64, n int) Pen {
	store64(w.at, 0, x)
	return Pen{unsafe.Add(w.at, n)}
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// notJSON marks, among 8 bytes, whether there is one that does not stand for
// itself in a string of JSON as this service writes it: below ' ', '"', '\\',
// '<', DEL, or beyond ASCII. Only whether it is 0 means something.
func notJSON(x uint64) uint64 {
	quote, backslash, less := x^ones*'"', x^ones*'\\', x^ones*'<'
	return (x | (x - ones*' ') | (quote - ones) | (backslash - ones) | (less - ones) | (x + ones)) & highs
}

// PlainJSON gives how many bytes of s, from its beginning on, stand for themselves in a
// string of JSON as this service writes it: printable ASCII but '"', '\\' and '<'. The
// first byte that does not lies at most seven bytes further on.
func PlainJSON(s string) (n int) {
	from := data(s)
	for ; n+8 <= len(s); n += 8 {
		if notJSON(load64(from, n)) != 0 {
			return n
		}
	}
	for n < len(s) && notJSON(uint64(s[n])|Zeros&^255) == 0 {
		n++
	}
	return n
}

// ends are the first four of n bytes, which are at least as many, and the last
// four.
func ends(p unsafe.Pointer, n int) uint64 {
	return uint64(load32(p, 0)) | uint64(load32(p, n-4))<<32
}

// notHTML is notJSON for what must be escaped in HTML: the ampersand, angle
// brackets and both kinds of quotes.
func notHTML(x uint64) uint64 {
	amp, quote, single := x^ones*'&', x^ones*'"', x^ones*'\''
	angle := x&^(ones*2) ^ ones*'<' // '<' and '>' differ in one bit
	return ((amp-ones)&^amp | (quote-ones)&^quote | (single-ones)&^single | (angle-ones)&^angle) & highs
}

// PlainHTML is [PlainJSON] for the text of HTML and for quoted attributes.
func PlainHTML(s string) (n int) {
	from := data(s)
	for ; n+8 <= len(s); n += 8 {
		if notHTML(load64(from, n)) != 0 {
			return n
		}
	}
	for n < len(s) && notHTML(uint64(s[n])|Zeros&^255) == 0 {
		n++
	}
	return n
}

// Number writes n in decimal digits, without leading zeros: up to 20 bytes.
func (w Pen) Number(n uint64) Pen {
	if n >= 100_000_000 {
		return w.Skip(len(strconv.AppendUint(w.Room(20), n, 10)))
	}
	return w.Decimal(Digits(n))
}

// Decimal writes digits without leading zeros.
func (w Pen) Decimal(digits uint64) Pen {
	leading := uint(bits.TrailingZeros64(digits|1<<56)) &^ 7 // of zeros, in bits; one digit stays
	return w.Put((digits|Zeros)>>leading, int(8-leading/8))
}

// Cents writes digits of cents as an amount in dollars: 00001234 is 12.34.
func (w Pen) Cents(digits uint64) Pen {
	leading := uint(bits.TrailingZeros64(digits|1<<40)) &^ 7 // of six; one digit stays
	digits |= Zeros
	return w.Put(digits>>leading, int(6-leading/8)).Put('.'|digits>>48<<8, 3)
}

// Zeros are eight zeros as text: what makes text of [Digits].
const Zeros = ones * '0'

// Digits are the eight digits of n, which is below 10^8, in a byte each, the
// first of them lowest.
//
// Multiplications divide them: parts of 32 bits by 100, parts of 16 bits by 10. The factors
// are such that quotients are right in the bits that are used.
func Digits(n uint64) uint64 {
	const tenThousand = 10_000
	high := n * 109_951_163 >> 40
	x := high + (n-high*tenThousand)<<32
	high = x * 10_486 >> 20 & (127<<32 | 127)
	x = high + (x-high*100)<<16
	high = x * 103 >> 10 & (15<<48 | 15<<32 | 15<<16 | 15)
	return high + (x-high*10)<<8
}

// Equal says whether a and b are the same text, without the call that == is in
// WebAssembly.
func Equal(a, b string) bool {
	n, p, q := len(a), data(a), data(b)
	switch {
	case n != len(b):
		return false
	case n-8 <= 8 && n >= 8:
		return (load64(p, 0)^load64(q, 0))|(load64(p, n-8)^load64(q, n-8)) == 0
	case n >= 8:
		for i := 0; i < n-8; i += 8 {
			if load64(p, i) != load64(q, i) {
				return false
			}
		}
		return load64(p, n-8) == load64(q, n-8)
	case n >= 4:
		return ends(p, n) == ends(q, n)
	}
	for i := range n {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// Begins says whether b begins with a literal of 8 to 16 bytes.
func Begins(b []byte, s string) bool {
	p, q := unsafe.Pointer(unsafe.SliceData(b)), data(s)
	return len(b) >= len(s) && load64(p, 0) == load64(q, 0) && load64(p, len(s)-8) == load64(q, len(s)-8)
}

// Escapes says whether among raw there is a byte that has to be decoded in a
// request target: '%', '+', or one beyond ASCII. Without one, the bytes are what
// they say.
func Escapes(raw []byte) bool {
	n, i, from := len(raw), 0, unsafe.Pointer(unsafe.SliceData(raw))
	for ; i+8 <= n; i += 8 {
		x := load64(from, i)
		percent, plus := x^ones*'%', x^ones*'+'
		if (x|(percent-ones)|(plus-ones))&highs != 0 {
			return true
		}
	}
	for ; i < n; i++ {
		if c := raw[i]; c == '%' || c == '+' || c >= 0x80 {
			return true
		}
	}
	return false
}
