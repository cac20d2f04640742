package main

import (
	"bytes"
	"slices"
	"testing"
)

// TestFiguresAreReadFromWhatGoTestPrints reads benchmarks on one processor and on
// several, and a test that prints figures between its other words.
func TestFiguresAreReadFromWhatGoTestPrints(t *testing.T) {
	const out = "goos: linux\npkg: webring/wasm/host\n" +
		"BenchmarkCall/api-next/again         \t       1\t  40934081 ns/op\t         0 host-allocs/call\t         1.161 wasm-ns/call\n" +
		"BenchmarkCall/page-100/anew-2        \t       1\t 414573711 ns/op\t         3 host-allocs/call\t         3.954 wasm-ns/call\n" +
		"BenchmarkScale-2\n" +
		"BenchmarkScale-2 \t 1\t 2910883377 ns/op\t 53.38 bid-p99-µs\t 75.48 sort/native-second\t 139.8 hour-ms\n" +
		"--- BENCH: BenchmarkScale\n    scale_linux_test.go:65: seed 31\n" +
		"BenchmarkScale has 4 words\nBenchmarkScale 1 many bid-p99-µs\n" +
		"=== CONT  TestAnEdgeStartsSoon\nBenchmarkEdgeStart/members=100000 1 812.5 disk-ms 54433042 snapshot-B\n--- PASS: x (51.69s)\n"
	p := program{goals: []goal{
		{"Call/", "wasm-ns/call", atMost(3)}, {"Call/", "host-allocs/call", atMost(0)},
		{"Call/page-100/anew", "wasm-ns/call", than("Call/api-next/again")}, {"Call/page-100/anew", "wasm-ns/call", than("Call/page-100/again")},
		{"Scale", "bid-p99-µs", atMost(20)}, {"Scale", "sort/native-second", atLeast(50)}, {"Scale", "hour", atMost(500)},
		{"EdgeStart/members=100000", "disk-ms", atMost(1000)}, {"EdgeStart/members=100000", "snapshot-B", told},
		{"EdgeStart/members=1000000", "disk-ms", atMost(1500)},
	}}
	figures, missing := p.figures([]byte(out))
	if want := []string{"Scale hour", "EdgeStart/members=1000000 disk-ms"}; !slices.Equal(missing, want) {
		t.Errorf("missing are %q, want %q", missing, want)
	}
	var got bytes.Buffer
	for _, f := range figures {
		f.print(&got)
	}
	const want = `Call/api-next/again                   1.161 wasm-ns/call               at most 3: 0.39 of it
Call/page-100/anew                    3.954 wasm-ns/call               at most 3: 1.32 of it, MISSED
Call/                                     3 host-allocs/call           at most 0, MISSED
Call/page-100/anew                    3.954 wasm-ns/call               1.161 in Call/api-next/again: 3.41 of it
Call/page-100/anew                    3.954 wasm-ns/call
Scale                                 53.38 bid-p99-µs                 at most 20: 2.67 of it, MISSED
Scale                                 75.48 sort/native-second         at least 50: 1.51 of it
EdgeStart/members=100000              812.5 disk-ms                    at most 1000: 0.81 of it
EdgeStart/members=100000           54433042 snapshot-B
`
	if got.String() != want {
		t.Errorf("printed:\n%s\nwant:\n%s", &got, want)
	}
}
