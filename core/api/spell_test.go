package api

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"webring/core"
	"webring/core/flat"
)

const layout = "2006-01-02T15:04:05.000Z"

func appendTime(dst []byte, ms int64) []byte {
	dst = room(dst, len(layout))
	return instant(flat.Write(dst), ms).Bytes(dst)
}

func checkTime(t *testing.T, ms int64) {
	t.Helper()
	if got, want := string(appendTime(nil, ms)), time.UnixMilli(ms).UTC().Format(layout); got != want {
		t.Fatalf("%d ms is %s, want %s", ms, got, want)
	}
}

// Against package time, over the whole range of stamps: each day of it, and
// the milliseconds around each of its midnights.
func TestTimesAreRFC3339InUTCWithMilliseconds(t *testing.T) {
	const day = 86_400_000
	for ms := int64(0); ms <= core.MaxStamp; ms += day {
		checkTime(t, ms)
		checkTime(t, ms+day-1)
	}
	const seed = 42
	random := rand.New(rand.NewPCG(seed, seed))
	for range 200_000 {
		checkTime(t, random.Int64N(core.MaxStamp+1))
	}
	for ms, want := range map[int64]string{0: "1970-01-01T00:00:00.000Z", 951782400007: "2000-02-29T00:00:00.007Z", 4107542399999: "2100-02-28T23:59:59.999Z", core.MaxStamp: "9999-12-31T23:59:59.999Z"} {
		if got := string(appendTime([]byte("x"), ms)); got != "x"+want {
			t.Errorf("%d ms is %s, want %s", ms, got, want)
		}
	}
}

func TestMoneyHasTwoDecimals(t *testing.T) {
	for cents, want := range map[int64]string{0: "0.00", 1: "0.01", 10: "0.10", 99: "0.99", 100: "1.00", 1200: "12.00", 123456: "1234.56",
		core.MaxAmount: "1000000.00", core.MaxTotal: "687194767.35", math.MaxInt64: "92233720368547758.07"} {
		if got := string(AppendUSD([]byte("$"), cents)); got != "$"+want {
			t.Errorf("%d cents are %s, want %s", cents, got, want)
		}
	}
}

func TestWindowsAreISO8601Durations(t *testing.T) {
	for seconds, want := range map[int64]string{0: "P0D", 1: "PT1S", 59: "PT59S", 86399: "PT86399S", 86400: "P1D", 86401: "PT86401S",
		30 * 86400: "P30D", 90 * 86400: "P90D", core.MaxWindow: "P36500D"} {
		if got := string(appendDuration(nil, seconds)); got != want {
			t.Errorf("%d s is %s, want %s", seconds, got, want)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "\"\\/\b\f\n\r\t\x00\x1f\x7f", "</script><!--", "a&b", "é日本🦊", "\u2028\u2029\ufffd", "\xff", "a\xc3", "\xed\xa0\x80", "\xf0\x9f\xa6"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := AppendString([]byte("x"), s)
		if same := AppendString([]byte("x"), []byte(s)); string(same) != string(got) {
			t.Fatalf("%q as bytes is %s, as a string %s", s, same, got)
		}
		var back string
		if err := json.Unmarshal(got[1:], &back); err != nil || back != string([]rune(s)) {
			t.Fatalf("%q became %s, which reads %q, %v", s, got, back, err)
		}
		for _, c := range string(got) {
			if c < ' ' || c == '<' || c == 0x7f || c == '\u2028' || c == '\u2029' {
				t.Fatalf("%q became %s", s, got)
			}
		}
		if !utf8.Valid(got) {
			t.Fatalf("%q became %x", s, got)
		}
	})
}

func FuzzCount(f *testing.F) {
	for _, s := range []string{"", "0", "007", "9007199254740992", "9007199254740993", "18446744073709551616", "-1", "1e3", " 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := count([]byte(s))
		digits := s != "" && strings.Trim(s, "0123456789") == ""
		want, err := strconv.ParseInt(s, 10, 64)
		if err != nil || want > maxCount {
			want = maxCount
		}
		if ok != digits || ok && n != want {
			t.Fatalf("%q counts as %d %t", s, n, ok)
		}
	})
}
