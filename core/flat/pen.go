package flat

import (
	"math/bits"
	"strconv"
	"unsafe"
)

// Slack is how much room behind its last byte a [Pen] may overwrite with
// anything: whoever makes room for n bytes makes room for n + Slack.
const Slack = 64

// Pen writes bytes one after another, without looking whether there is room:
// that is for its user to see to, once for many pieces. It is a value: each
// function gives the pen behind what it wrote.
//
// It does not look because that costs more than 5 % of a request: with one comparison
// ahead of each piece, and nothing else, a widget takes 580 ns natively instead of 370
// and 4.8 µs in the module instead of 2.4, a page of 100 members 22 µs instead of 13 and
// 126 instead of 72. A request at an edge takes some 6 µs beside its document.
//
// There are several functions for literals because the compiler then makes a
// few stores of constants out of one: in WebAssembly, where a call costs as much
// as a dozen instructions, that is what documents are fast by.
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

// sixteen are 16 bytes that the compiler keeps in registers, which of an array
// it does not.
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

// long writes t at the pen. It is a call for the compiler's sake, which takes
// calls for rare, and so has all else go straight on.
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

// thirtyTwo are likewise 32 bytes.
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

// Plain says whether s stands for itself in a string of JSON as this service
// writes it: see [Pen.JSON].
func Plain(s string) bool {
	n, i, from := len(s), 0, data(s)
	for ; i+8 <= n; i += 8 {
		if notJSON(load64(from, i)) != 0 {
			return false
		}
	}
	for ; i < n; i++ {
		if notJSON(uint64(s[i])|Zeros&^255) != 0 {
			return false
		}
	}
	return true
}

// ends are the first four of n bytes, which are at least as many, and the last
// four.
func ends(p unsafe.Pointer, n int) uint64 {
	return uint64(load32(p, 0)) | uint64(load32(p, n-4))<<32
}

// JSON writes s as long as its bytes stand for themselves in a string of JSON:
// printable ASCII but '"', '\\' and '<'. It gives how many bytes of s it wrote;
// the first that it did not lies at most seven further on.
func (w Pen) JSON(s string) (Pen, int) {
	n, i, from := len(s), 0, data(s)
	if n >= 8 {
		for ; i < n-8; i += 8 {
			x := load64(from, i)
			if notJSON(x) != 0 {
				return Pen{unsafe.Add(w.at, i)}, i
			}
			store64(w.at, i, x)
		}
		x := load64(from, n-8)
		if notJSON(x) != 0 {
			return Pen{unsafe.Add(w.at, i)}, i
		}
		store64(w.at, n-8, x)
		return Pen{unsafe.Add(w.at, n)}, n
	}
	if n >= 4 {
		if x := ends(from, n); notJSON(x) == 0 {
			store32(w.at, 0, uint32(x))
			store32(w.at, n-4, uint32(x>>32))
			return Pen{unsafe.Add(w.at, n)}, n
		}
	}
	for ; i < n; i++ {
		c := s[i]
		if c < ' ' || c == '"' || c == '\\' || c == '<' || c >= 0x7f {
			break
		}
		*(*byte)(unsafe.Add(w.at, i)) = c
	}
	return Pen{unsafe.Add(w.at, i)}, i
}

// notHTML is notJSON for what must be escaped in HTML: the ampersand, angle
// brackets and both kinds of quotes.
func notHTML(x uint64) uint64 {
	amp, quote, single := x^ones*'&', x^ones*'"', x^ones*'\''
	angle := x&^(ones*2) ^ ones*'<' // '<' and '>' differ in one bit
	return ((amp-ones)&^amp | (quote-ones)&^quote | (single-ones)&^single | (angle-ones)&^angle) & highs
}

// PlainHTML says whether s stands for itself in the text of HTML and in quoted
// attributes: see [Pen.HTML].
func PlainHTML(s string) bool {
	n, i, from := len(s), 0, data(s)
	for ; i+8 <= n; i += 8 {
		if notHTML(load64(from, i)) != 0 {
			return false
		}
	}
	for ; i < n; i++ {
		if notHTML(uint64(s[i])|Zeros&^255) != 0 {
			return false
		}
	}
	return true
}

// HTML writes s as long as its bytes stand for themselves in the text of HTML
// and in quoted attributes, and gives how many bytes of s it wrote, like
// [Pen.JSON].
func (w Pen) HTML(s string) (Pen, int) {
	n, i, from := len(s), 0, data(s)
	if n >= 8 {
		for ; i < n-8; i += 8 {
			x := load64(from, i)
			if notHTML(x) != 0 {
				return Pen{unsafe.Add(w.at, i)}, i
			}
			store64(w.at, i, x)
		}
		x := load64(from, n-8)
		if notHTML(x) != 0 {
			return Pen{unsafe.Add(w.at, i)}, i
		}
		store64(w.at, n-8, x)
		return Pen{unsafe.Add(w.at, n)}, n
	}
	if n >= 4 {
		if x := ends(from, n); notHTML(x) == 0 {
			store32(w.at, 0, uint32(x))
			store32(w.at, n-4, uint32(x>>32))
			return Pen{unsafe.Add(w.at, n)}, n
		}
	}
	for ; i < n; i++ {
		switch c := s[i]; c {
		case '&', '<', '>', '"', '\'':
			return Pen{unsafe.Add(w.at, i)}, i
		default:
			*(*byte)(unsafe.Add(w.at, i)) = c
		}
	}
	return Pen{unsafe.Add(w.at, i)}, i
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
// They are divided by multiplying: in lanes of 32 bits by 100, in lanes of 16 by
// 10. The factors are such that quotients come out right in the bits that count.
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
