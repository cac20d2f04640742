package flat_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"webring/core/flat"
)

// written gives what f writes with room for n bytes, after checking that it
// does not write beyond the slack.
func written(t *testing.T, n int, f func(flat.Pen) flat.Pen) string {
	t.Helper()
	whole := make([]byte, 3+n+flat.Slack+1)
	copy(whole, "abc")
	whole[len(whole)-1] = 0xfe
	out := string(f(flat.Write(whole[:3])).Bytes(whole))
	if whole[len(whole)-1] != 0xfe || !strings.HasPrefix(out, "abc") {
		t.Fatalf("wrote %d bytes, and beyond the slack or before the pen", len(out)-3)
	}
	return out[3:]
}

func TestLiteralsOfEveryLength(t *testing.T) {
	const all = "abcdefghijklmnopqrstuvwxyz012345"
	for n := range len(all) + 1 {
		s := all[:n]
		for most, lit := range map[int]func(flat.Pen, string) flat.Pen{8: flat.Pen.Lit8, 16: flat.Pen.Lit16, 32: flat.Pen.Lit32} {
			if n < most/2 || n > most {
				continue
			}
			if got := written(t, n, func(w flat.Pen) flat.Pen { return lit(w, s) }); got != s {
				t.Errorf("%q became %q", s, got)
			}
		}
		if got := written(t, n, func(w flat.Pen) flat.Pen { return w.Copy(s) }); got != s {
			t.Errorf("%q was copied to %q", s, got)
		}
	}
}

// Every byte at every place of texts of all lengths: what is plain is the text up to a
// place at most seven bytes before the first that needs escaping.
func TestTextsStopBeforeWhatNeedsEscaping(t *testing.T) {
	inJSON := func(c byte) bool { return c >= ' ' && c < 0x7f && !strings.ContainsRune(`"\<`, rune(c)) }
	inHTML := func(c byte) bool { return !(c < 0x80 && strings.ContainsRune(`&<>"'`, rune(c))) }
	const seed = 3
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	for n := range 26 {
		for at := range n {
			for c := range 256 {
				b := []byte(strings.Repeat("x", n))
				for i := range b {
					b[i] = " azAZ~09!#]["[random.IntN(12)]
				}
				b[at] = byte(c)
				check := func(stands func(byte) bool, plain func(string) int) {
					t.Helper()
					if n, to := len(b), plain(string(b)); stands(byte(c)) && to != n || !stands(byte(c)) && (to > at || to < at-7) {
						t.Fatalf("%q: %d bytes are plain, and %q is at %d", b, to, byte(c), at)
					}
				}
				check(inJSON, flat.PlainJSON)
				check(inHTML, flat.PlainHTML)
				if want := c == '%' || c == '+' || c >= 0x80; flat.Escapes(b) != want {
					t.Fatalf("%q has escapes: %t", b, !want)
				}
			}
		}
	}
}

func TestNumbers(t *testing.T) {
	check := func(n uint64) {
		t.Helper()
		if got, want := written(t, 20, func(w flat.Pen) flat.Pen { return w.Number(n) }), strconv.FormatUint(n, 10); got != want {
			t.Fatalf("%s was written as %s", want, got)
		}
	}
	for n := range uint64(120_000) {
		check(n)
	}
	for p := uint64(1); ; p *= 10 {
		check(p - 1)
		check(p)
		if p > math.MaxUint64/10 {
			break
		}
	}
	check(math.MaxUint64)
	for n := uint64(0); n < 100_000_000; n += 1 + n%10_007 {
		if got, want := flat.Digits(n)|flat.Zeros, fmt.Sprintf("%08d", n); string(binary.LittleEndian.AppendUint64(nil, got)) != want {
			t.Fatalf("the digits of %s are %x", want, got)
		}
	}
}

// Texts of all lengths, the same and with any one byte changed.
func TestEqualTellsTextsApart(t *testing.T) {
	for n := range 70 {
		a := strings.Repeat("x", n)
		if !flat.Equal(a, strings.Clone(a)) || flat.Equal(a, a+"x") || flat.Equal(a+"x", a) {
			t.Errorf("%d bytes are taken for others", n)
		}
		for at := range n {
			if flat.Equal(a, a[:at]+"y"+a[at+1:]) {
				t.Errorf("%d bytes are taken for others that differ at %d", n, at)
			}
		}
	}
}

func TestBeginsSeesEveryByteOfALiteral(t *testing.T) {
	const all = "abcdefghijklmnop"
	for n := 8; n <= len(all); n++ {
		literal := all[:n]
		if !flat.Begins([]byte(literal), literal) || !flat.Begins([]byte(literal+"z"), literal) || flat.Begins([]byte(literal[1:]), literal) || flat.Begins(nil, literal) {
			t.Errorf("%q is not told from others", literal)
		}
		for at := range n {
			if flat.Begins([]byte(literal[:at]+"!"+literal[at+1:]+"z"), literal) {
				t.Errorf("%q is seen where byte %d is another", literal, at)
			}
		}
	}
}
