package main

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
)

func TestMembersAreSampledFromAllOverTheRing(t *testing.T) {
	for _, members := range []int{1, 10, 1000, mostTargets, mostTargets + 1, 1_000_000, 10_000_000} {
		most := members/mostTargets + 1
		n, last, widest := 0, -1, 0
		for i := range members {
			if sampled(i, members) {
				widest = max(widest, i-last)
				n, last = n+1, i
			}
		}
		if widest = max(widest, members-1-last); n != min(members, mostTargets) || widest > most {
			t.Errorf("%d of %d members, up to %d from one to the next", n, members, widest)
		}
	}
}

func TestOffsetsAreOfWholePagesAndDiffer(t *testing.T) {
	for members, want := range map[int]int{1: 1, 10: 1, 100: 1, 101: 2, 1000: 901, 1100: 1000, 1_000_000: 1000} {
		names := offsets(members)
		last := 0
		for _, name := range names {
			n, err := strconv.Atoi(name)
			if err != nil || n < 0 || n > max(members-100, 0) {
				t.Errorf("%d members: offset %q", members, name)
			}
			last = max(last, n)
		}
		different := slices.Compact(slices.Sorted(slices.Values(names)))
		if len(names) != want || len(different) != want || last < (members-100)*9/10 {
			t.Errorf("%d members: %d offsets, %d of them different, up to %d; want %d", members, len(names), len(different), last, want)
		}
		if !slices.Equal(names, offsets(members)) {
			t.Errorf("%d members: another order the second time", members)
		}
	}
}

// TestTargetsAreAskedInTurn holds that no target is asked again before all others
// were, by whichever connection, and that Redis is asked about the same members.
func TestTargetsAreAskedInTurn(t *testing.T) {
	names := []string{"b", "a", "c"}
	get := gets("/x?from=", names, "Accept-Encoding: gzip")
	rank := &targets{names: names, request: func(to []byte, name string) []byte { return command(to, "ZREVRANK", "board", name) }}
	for i := range 7 {
		name := names[i%3]
		want := fmt.Sprintf("so far GET /x?from=%s HTTP/1.1\r\nHost: ring.example\r\nUser-Agent: bench\r\nAccept: */*\r\nAccept-Encoding: gzip\r\n\r\n", name)
		if got := get.append([]byte("so far ")); string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
		want = "*3\r\n$8\r\nZREVRANK\r\n$5\r\nboard\r\n$1\r\n" + name + "\r\n"
		if got := rank.append(nil); string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
