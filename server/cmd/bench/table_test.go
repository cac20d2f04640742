package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRowsAreRelatedToThoseWhoWereAskedTheSame relates the ring and its edge to
// their peers and to themselves at a thousand members, a peer to another that was
// asked what is like its own question, and nobody else to anything.
func TestRowsAreRelatedToThoseWhoWereAskedTheSame(t *testing.T) {
	var table table
	add := func(members int, by, name, like string, depth int, cpus ...float64) {
		for _, cpu := range cpus {
			q := &question{name: name, server: &server{name: by}, like: like, depth: depth, targets: gets("/", []string{"a", "b"})}
			table.add(members, q, result{rate: 100 * cpu, cpu: cpu, p99: time.Millisecond, load: 0.5})
		}
	}
	for _, members := range []int{1000, 100_000} {
		slower := float64(members) / 1000
		add(members, ring, "/next", "", 1, 9*slower, 4*slower, 2*slower) // the median is 4
		add(members, ring, "/next", "", 16, 1)
		add(members, edge, "/next", "", 1, 6)
		add(members, uncounted, "/next", "", 1, 5)
		add(members, edge, "detail", "rank", 1, 10)
		add(members, ring, "home", "/next", 1, 20)
		add(members, "fasthttp", "/next", "", 1, 2)
		add(members, "nginx", "/next", "", 1, 4)
		add(members, "fasthttp", "detail", "rank", 1, 8)
		add(members, "redis", "rank", "", 1, 5)
	}
	table.relate()
	var got []string
	for _, r := range table.Rows {
		for _, x := range r.Ratios {
			got = append(got, fmt.Sprintf("%d %s %s %d: %s %.1f %.1f", r.Members, r.Server, r.Question, r.Depth, x.Than, x.CPU, x.Rate))
		}
	}
	want := []string{
		"1000 webring /next 1: fasthttp 2.0 2.0",
		"1000 webring /next 1: nginx 1.0 1.0",
		"1000 edge /next 1: edge bare 1.2 1.2",
		"1000 edge /next 1: fasthttp 3.0 3.0",
		"1000 edge /next 1: nginx 1.5 1.5",
		"1000 edge bare /next 1: fasthttp 2.5 2.5",
		"1000 edge bare /next 1: nginx 1.2 1.2",
		"1000 edge detail 1: fasthttp 1.2 1.2",
		"1000 edge detail 1: redis 2.0 2.0",
		"1000 webring home 1: fasthttp 10.0 10.0",
		"1000 webring home 1: nginx 5.0 5.0",
		"1000 fasthttp detail 1: redis 1.6 1.6",
		"100000 webring /next 1: itself at 1000 100.0 100.0",
		"100000 webring /next 1: fasthttp 200.0 200.0",
		"100000 webring /next 1: nginx 100.0 100.0",
		"100000 webring /next 16: itself at 1000 1.0 1.0",
		"100000 edge /next 1: itself at 1000 1.0 1.0",
		"100000 edge /next 1: edge bare 1.2 1.2",
		"100000 edge /next 1: fasthttp 3.0 3.0",
		"100000 edge /next 1: nginx 1.5 1.5",
		"100000 edge bare /next 1: itself at 1000 1.0 1.0",
		"100000 edge bare /next 1: fasthttp 2.5 2.5",
		"100000 edge bare /next 1: nginx 1.2 1.2",
		"100000 edge detail 1: itself at 1000 1.0 1.0",
		"100000 edge detail 1: fasthttp 1.2 1.2",
		"100000 edge detail 1: redis 2.0 2.0",
		"100000 webring home 1: itself at 1000 1.0 1.0",
		"100000 webring home 1: fasthttp 10.0 10.0",
		"100000 webring home 1: nginx 5.0 5.0",
		"100000 fasthttp detail 1: redis 1.6 1.6",
	}
	if !slices.Equal(got, want) {
		t.Errorf("related:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i, members := range []int{1000, 100_000} {
		if f := table.Figures[i]; len(table.Figures) != 2 || f.Benchmark != fmt.Sprintf("Counting/members=%d", members) || f.Value != 1.2 || !f.Missed {
			t.Errorf("what counting costs: %+v of %d figures", f, len(table.Figures))
		}
	}
	var out bytes.Buffer
	table.print(&out)
	if line := " 100000  /next        webring       1        2      40000        1ms   400.00   50%  itself at 1000 100.00 100.00; fasthttp 200.00 200.00; nginx 100.00 100.00\n"; !strings.Contains(out.String(), line) {
		t.Errorf("printed:\n%s\nwant a line %q", &out, line)
	}
}
