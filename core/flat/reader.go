package flat

import (
	"math/bits"
	"unsafe"
)

// Reader reads fields one after another and does not check where their memory ends: it is
// for fields that were checked when they were written to a [Region]. It is a value, like a
// [Pen]. A field costs a few instructions and no branch, which would be the cost in
// WebAssembly.
type Reader struct{ at unsafe.Pointer }

// Read gives a reader at the beginning of b.
func Read(b []byte) Reader { return Reader{unsafe.Pointer(unsafe.SliceData(b))} }

// Skip takes the reader over n bytes.
func (r Reader) Skip(n int) Reader { return Reader{unsafe.Add(r.at, n)} }

// Byte is the next byte.
func (r Reader) Byte() byte { return *(*byte)(r.at) }

// Uint16 is the next number of 16 bits, little-endian.
func (r Reader) Uint16() uint16 { return *(*uint16)(r.at) }

// Uint32 is the next number of 32 bits, little-endian.
func (r Reader) Uint32() uint32 { return load32(r.at, 0) }

// Big64 is the next number of 64 bits, big-endian.
func (r Reader) Big64() uint64 { return bits.ReverseBytes64(load64(r.at, 0)) }

// Text is the next text, which follows its length in two bytes,
// big-endian, and the reader behind it. It aliases the memory.
func (r Reader) Text() (Text, Reader) {
	n := int(bits.ReverseBytes16(*(*uint16)(r.at)))
	return Text{unsafe.Add(r.at, 2), n}, Reader{unsafe.Add(r.at, 2+n)}
}

// Text is a text behind which [Slack] bytes can be read, whatever they are: so
// that a [Pen] can copy it in large pieces. It is valid as long as its memory is.
type Text struct {
	at unsafe.Pointer
	n  int
}

// Padded is b as a text. It must have room for Slack more bytes.
func Padded(b []byte) Text { return Text{unsafe.Pointer(unsafe.SliceData(b)), len(b)} }

// Len is the length of the text in bytes.
func (t Text) Len() int { return t.n }

// String is the text, of which no copy is made.
func (t Text) String() string { return unsafe.String((*byte)(t.at), t.n) }
