package front

import (
	"strings"
	"sync"
	"testing"
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
