package flat_test

import (
	"strings"
	"testing"

	"webring/core/flat"
)

// Texts of all lengths around those at which a pen copies otherwise, behind one
// another and before other bytes.
func TestTextsAreReadAndWrittenWhole(t *testing.T) {
	const all = "abcdefghijklmnopqrstuvwxyz0123456789"
	for n := range 100 {
		s := strings.Repeat(all, 3)[:n]
		b := append([]byte{byte(n >> 8), byte(n)}, s...)
		b = append(append(b, 0, 2, 'o', 'k', 7), 1, 2, 3, 4, 5, 6, 7, 8)
		memory := append(b, make([]byte, flat.Slack)...)
		text, r := flat.Read(memory).Text()
		next, r := r.Text()
		if text.String() != s || text.Len() != n || next.String() != "ok" || r.Byte() != 7 || r.Skip(1).Big64() != 0x0102030405060708 {
			t.Fatalf("%q was read as %q, and what follows as %q", s, text.String(), next.String())
		}
		for name, write := range map[string]func(flat.Pen, flat.Text) flat.Pen{"word": flat.Pen.Word, "line": flat.Pen.Line, "passage": flat.Pen.Passage} {
			if got := written(t, n, func(w flat.Pen) flat.Pen { return write(w, text) }); got != s {
				t.Errorf("%q was written as the %s %q", s, name, got)
			}
		}
		for most, write := range map[int]func(flat.Pen, flat.Text) flat.Pen{16: flat.Pen.UpTo16, 32: flat.Pen.UpTo32, 48: flat.Pen.UpTo48} {
			if n > most {
				continue
			}
			if got := written(t, n, func(w flat.Pen) flat.Pen { return write(w, text) }); got != s {
				t.Errorf("%q was written, up to %d bytes long, as %q", s, most, got)
			}
		}
	}
}

func TestPlainTextsAreThoseOfPrintableASCII(t *testing.T) {
	for n := 1; n < 20; n++ {
		for at := range n {
			for c := range 256 {
				b := []byte(strings.Repeat("x", n))
				b[at] = byte(c)
				if want := c >= ' ' && c < 0x7f && c != '"' && c != '\\' && c != '<'; (flat.PlainJSON(string(b)) == n) != want {
					t.Fatalf("%q is plain: %t", b, !want)
				}
			}
		}
	}
}
