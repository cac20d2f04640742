package hops

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
)

// The longest reports are as short as a report must be, and come back as they were.
func TestReportsComeBack(t *testing.T) {
	for _, n := range []int{0, 1, MaxCounts} {
		want := Report{Sender: SenderID{1, 2, 3}, Number: 7, Day: 20781, Hops: 1 << 40, Counts: []Count{}}
		for i := range n {
			row := (1<<26 - 1) / MaxCounts * (i + 1)
			want.Counts = append(want.Counts, Count{Row: uint32(row), From: 1<<40 - rand.Uint64N(3), To: 1 << 40})
		}
		b := want.Append([]byte("before"))[len("before"):]
		if got, err := Decode(b); err != nil || !reflect.DeepEqual(got, want) || len(b) > MaxReport {
			t.Errorf("%d bytes: %+v comes back as %+v, %v", len(b), want, got, err)
		}
	}
}

// What is read is a report, and no longer than what would be written of it.
func FuzzDecode(f *testing.F) {
	r := Report{Number: 1, Day: 2, Hops: 3, Counts: []Count{{Row: 4, From: 5, To: 6}, {Row: 7, From: 8, To: 900}}}
	b := r.Append(nil)
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Decode(b)
		if err != nil {
			if !errors.Is(err, ErrReport) {
				t.Error(err)
			}
			return
		}
		again := r.Append(nil)
		if back, err := Decode(again); err != nil || !reflect.DeepEqual(back, r) || len(r.Counts) > MaxCounts || len(again) > len(b) {
			t.Errorf("%+v comes back as %+v, %v", r, back, err)
		}
	})
}
