package form

import (
	"errors"
	"strings"

	"github.com/shopspring/decimal"

	"webring/core"
	"webring/core/api"
)

// What [ParseUSD] finds wrong with an amount.
var (
	// ErrAmountSyntax: the text is no amount in US dollars.
	ErrAmountSyntax = errors.New("paid: malformed amount")
	// ErrAmountTooHigh: an amount above 1000000.00, or with eight digits and
	// more before the point.
	ErrAmountTooHigh = errors.New("paid: amount too high")
)

// ParseUSD reads an amount in US dollars as callers write it (server/DESIGN.md,
// "Rules of paid requests") and gives it in cents, 0 to [core.MaxAmount]. Its errors
// are [ErrAmountSyntax] and [ErrAmountTooHigh]. Minimums are the caller's.
func ParseUSD(s string) (cents int64, err error) {
	dollars, rest, point := strings.Cut(s, ".")
	if !digits(dollars) || point && (!digits(rest) || len(rest) > 2) {
		return 0, ErrAmountSyntax
	}
	if len(dollars) > 7 {
		return 0, ErrAmountTooHigh
	}
	amount, err := decimal.NewFromString(s)
	if err != nil {
		return 0, ErrAmountSyntax
	}
	// Exact: at most nine digits once shifted.
	if cents = amount.Shift(2).IntPart(); cents > core.MaxAmount {
		return 0, ErrAmountTooHigh
	}
	return cents, nil
}

// digits says that s has at least one and nothing else: no sign, exponent, space
// or separator of thousands.
func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// FormatUSD writes cents as dollars with exactly two decimals, the only form in
// which amounts leave the service.
func FormatUSD(cents int64) string { return string(api.AppendUSD(make([]byte, 0, 96), cents)) }
