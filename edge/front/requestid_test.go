package front

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"unicode"

	"github.com/valyala/fasthttp"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestWhatAClientCallsItsRequest(t *testing.T) {
	lines := func(all ...string) (b [][]byte) {
		for _, s := range all {
			b = append(b, []byte(s))
		}
		return b
	}
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, c := range []struct {
		ids, traces []string
		want        string
	}{
		{[]string{"abcd-123"}, nil, "abcd-123"},
		{[]string{"A.z_0-9" + strings.Repeat("x", 57)}, []string{parent}, "A.z_0-9" + strings.Repeat("x", 57)},
		{[]string{"short-7"}, []string{parent}, trace},
		{[]string{strings.Repeat("x", 65)}, []string{parent}, trace},
		{[]string{"abcd-123", "abcd-123"}, []string{parent}, trace},
		{[]string{"abcd 1234"}, nil, ""},
		{[]string{"abcd\r\nX: 1"}, nil, ""},
		{[]string{"abcdefg\xc3\xa4"}, nil, ""},
		{[]string{"abcdefg@"}, nil, ""},
		{[]string{"abcdefg\x00"}, nil, ""},
		{[]string{""}, nil, ""},
		{nil, []string{parent, parent}, ""},
		{nil, []string{strings.ToUpper(parent)}, ""},
		{nil, []string{parent + "-x"}, ""},
		{nil, []string{"01" + parent[2:] + "-x"}, trace},
		{nil, []string{"01" + parent[2:] + "x"}, ""},
		{nil, []string{"ff" + parent[2:]}, ""},
		{nil, []string{"00-00000000000000000000000000000000-00f067aa0ba902b7-01"}, ""},
		{nil, []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"}, ""},
		{nil, []string{parent[:54]}, ""},
		{nil, nil, ""},
	} {
		if got := string(GivenID(lines(c.ids...), lines(c.traces...))); got != c.want {
			t.Errorf("%q, %q: %q and not %q", c.ids, c.traces, got, c.want)
		}
	}
}

func TestMadeIDsDiffer(t *testing.T) {
	var seen sync.Map
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5000 {
				id := AppendID(nil)
				if !ValidID(id) || len(id) > 26 {
					t.Errorf("%q is no id", id)
				}
				if _, again := seen.LoadOrStore(string(id), true); again {
					t.Errorf("%q was made twice", id)
				}
			}
		})
	}
	all.Wait()
}

func FuzzTrace(f *testing.F) {
	f.Add([]byte(parent))
	f.Add([]byte("01" + parent[2:] + "-more"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if id := TraceID(b); id != nil && !ValidID(id) {
			t.Errorf("%q of %q is no id", id, b)
		}
	})
}

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
