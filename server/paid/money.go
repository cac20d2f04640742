package paid

import (
	"errors"
	"regexp"

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

// Digits and a point only: no sign, exponent, space, or separator of thousands.
var (
	amountForm = regexp.MustCompile(`^[0-9]{1,7}(\.[0-9]{1,2})?$`)
	amountLong = regexp.MustCompile(`^[0-9]{8,}(\.[0-9]{1,2})?$`)
)

// ParseUSD reads an amount in US dollars as callers write it (decisions.md,
// "Money and rank") and gives it in cents, 0 to [core.MaxAmount]. Its errors
// are [ErrAmountSyntax] and [ErrAmountTooHigh]. Minimums are the caller's.
func ParseUSD(s string) (cents int64, err error) {
	if amountLong.MatchString(s) {
		return 0, ErrAmountTooHigh
	}
	if !amountForm.MatchString(s) {
		return 0, ErrAmountSyntax
	}
	amount, err := decimal.NewFromString(s)
	if err != nil {
		return 0, ErrAmountSyntax
	}
	// Exact: at most nine digits once shifted.
	cents = amount.Shift(2).IntPart()
	if cents > core.MaxAmount {
		return 0, ErrAmountTooHigh
	}
	return cents, nil
}

// FormatUSD writes cents as dollars with exactly two decimals, the only form in
// which amounts leave the service.
func FormatUSD(cents int64) string { return string(api.AppendUSD(nil, cents)) }
