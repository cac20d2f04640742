package flat_test

import (
	"bytes"
	"testing"

	"webring/core/flat"
)

func TestASCIIHasNoOtherCharacters(t *testing.T) {
	for n := range 40 {
		for at := range n + 1 {
			for _, c := range []byte{0, 'a', 0x7f, 0x80, 0xff} {
				b := bytes.Repeat([]byte{0xff}, n+2)
				for i := range n {
					b[1+i] = 'x'
				}
				want := true
				if at < n {
					b[1+at] = c
					want = c < 0x80
				}
				if got := flat.ASCII(b[1 : 1+n]); got != want {
					t.Fatalf("%d characters, %#x at %d: %t", n, c, at, got)
				}
			}
		}
	}
}
