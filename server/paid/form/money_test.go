package form

import (
	"math/big"
	"testing"
)

func TestAmountsAreReadExactly(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "0.00": 0, "1": 100, "1.0": 100, "1.5": 150, "1.05": 105, "0.01": 1,
		"0000001": 100, "12.34": 1234, "999999.99": 99999999, "1000000": 100000000, "1000000.00": 100000000,
	} {
		if got, err := ParseUSD(s); err != nil || got != want {
			t.Errorf("ParseUSD(%q) = %d, %v, want %d", s, got, err, want)
		}
	}
}

func TestAmountsOutOfFormOrBounds(t *testing.T) {
	for _, s := range []string{
		"", " ", "1.", ".5", "1.234", "-1", "+1", "1e2", "1,00", "1 ", " 1", "1\n", "$1", "1.0.0", "0x10",
		"١", "１", "NaN", "Infinity", "12345678.123", "1_000", "abc",
	} {
		if got, err := ParseUSD(s); err != ErrAmountSyntax {
			t.Errorf("ParseUSD(%q) = %d, %v, want %v", s, got, err, ErrAmountSyntax)
		}
	}
	for _, s := range []string{"1000000.01", "9999999", "9999999.99", "10000000", "00000001.00", "123456789012345678901234567890.12"} {
		if got, err := ParseUSD(s); err != ErrAmountTooHigh {
			t.Errorf("ParseUSD(%q) = %d, %v, want %v", s, got, err, ErrAmountTooHigh)
		}
	}
}

func TestAmountsAreWrittenWithTwoDecimals(t *testing.T) {
	for cents, want := range map[int64]string{
		0: "0.00", 1: "0.01", 10: "0.10", 100: "1.00", 12345: "123.45", 100000000: "1000000.00", 1<<36 - 1: "687194767.35",
	} {
		if got := FormatUSD(cents); got != want {
			t.Errorf("FormatUSD(%d) = %q, want %q", cents, got, want)
		}
	}
}

func FuzzParseUSD(f *testing.F) {
	for _, s := range []string{"1.00", "1000000.01", "1e9", "00000000.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		cents, err := ParseUSD(s)
		if err != nil {
			return
		}
		// math/big reads a superset of the form, exactly.
		exact, ok := new(big.Rat).SetString(s)
		if !ok || exact.Mul(exact, big.NewRat(100, 1)).Cmp(big.NewRat(cents, 1)) != 0 {
			t.Fatalf("ParseUSD(%q) = %d", s, cents)
		}
		if again, err := ParseUSD(FormatUSD(cents)); err != nil || again != cents {
			t.Fatalf("ParseUSD(FormatUSD(%d)) = %d, %v", cents, again, err)
		}
	})
}
