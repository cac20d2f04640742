package front

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/valyala/fasthttp"
)

func FuzzRequestTarget(f *testing.F) {
	for _, s := range []string{"/next?from=https://a.com", "*", "http://x", "http://x?y", "https://x/y#z", "//x", "://", "http://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sent string) {
		if strings.ContainsFunc(sent, unicode.IsControl) {
			t.Skip("a request line with controls is not read")
		}
		var h fasthttp.RequestHeader
		h.SetRequestURI(sent)
		target, ok := Target(&h)
		if !ok {
			return
		}
		if target[0] != '/' || strings.Contains(string(target), "#") {
			t.Errorf("%q: target %q", sent, target)
		}
		if strings.HasPrefix(sent, "/") && string(target) != sent {
			t.Errorf("%q became %q", sent, target)
		}
		DecodePath(Path(target))
	})
}

func TestIsPrintable(t *testing.T) {
	for length := range 20 {
		for at := range length {
			for c := range 256 {
				b := bytes.Repeat([]byte("~ "), 10)[:length]
				b[at] = byte(c)
				if got, want := IsPrintable(b), c >= ' ' && c <= '~'; got != want {
					t.Fatalf("%q: %v", b, got)
				}
			}
		}
	}
}

func TestTargetsWithoutForeignHostsCostNothing(t *testing.T) {
	for _, target := range []string{"/next?from=alpha", "/api/ring", "/api/widget?from=https%3A%2F%2Falpha.example%2Fk%25C3%25A4se%3Fx%3D%C3%BC", "/next?category=%C3%BC&from=a.example&x=%zz",
		"/prev?from=xn--mller-kva.example", "/api/widget?fromage=m%C3%BCller.example"} {
		b := []byte(target)
		if n := testing.AllocsPerRun(100, func() {
			if got := ASCIIHosts(b); &got[0] != &b[0] {
				t.Fatalf("%s becomes %s", target, got)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", target, n)
		}
	}
}

func FuzzASCIIHosts(f *testing.F) {
	for _, from := range []string{"müller.example", "m%C3%BCller.example", "MÜLLER.Example", "mu%CC%88ller.example", "müller。example", "m%25C3%25BCller.example",
		"%78n--mller-kva.example", "https%3A%2F%2Fm%C3%BCller.example%2F", "https%3a%2f%2fm%25c3%25bcller.example%3a443%2f", "https://m%C3%BCller.example/caf%E9", "m%C3%BCller.example%2Fk%C3%A4se", "m%25C3%25BCller.example:443/x"} {
		f.Add([]byte("/next?kind=x&from=" + from + "&y"))
	}
	f.Add([]byte("/next?from=%&from=%25&&=&from"))
	f.Fuzz(func(t *testing.T, target []byte) {
		given := bytes.Clone(target)
		once := ASCIIHosts(target)
		if !bytes.Equal(given, target) {
			t.Fatalf("%q was changed to %q", given, target)
		}
		if twice := ASCIIHosts(once); !bytes.Equal(twice, once) {
			t.Errorf("%q becomes %q, and that %q", given, once, twice)
		}
		path, query, _ := bytes.Cut(given, []byte("?"))
		newPath, newQuery, _ := bytes.Cut(once, []byte("?"))
		before, _ := url.ParseQuery(string(query))
		after, _ := url.ParseQuery(string(newQuery))
		delete(before, "from")
		delete(after, "from")
		if !bytes.Equal(path, newPath) || fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("%q becomes %q: more than from has changed", given, once)
		}
	})
}
