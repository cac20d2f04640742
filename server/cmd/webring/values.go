package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"webring/server/paid/form"
)

// list is a repeatable flag; its environment twin separates with commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

// Set adds one or, separated by commas, several values.
func (l *list) Set(v string) error {
	for _, s := range strings.Split(v, ",") {
		if s = strings.TrimSpace(s); s != "" {
			*l = append(*l, s)
		}
	}
	return nil
}

// cents is an amount of money in a flag.
type cents int64

func (c *cents) String() string { return form.FormatUSD(int64(*c)) }

// Set reads dollars with at most two decimals.
func (c *cents) Set(v string) error {
	n, err := form.ParseUSD(v)
	*c = cents(n)
	return err
}

// seconds gives a duration that validate has found whole.
func seconds(d time.Duration) int64 { return int64(d / time.Second) }

// day is 24 hours, whatever a calendar says.
const day = 24 * time.Hour

// duration is a time in a flag.
type duration time.Duration

// String is the time in a form that Set reads: in days where they are whole.
func (d *duration) String() string {
	t := time.Duration(*d)
	if t != 0 && t%day == 0 {
		return fmt.Sprintf("%dd", t/day)
	}
	return t.String()
}

// Set reads what [parseDuration] reads.
func (d *duration) Set(v string) error {
	t, err := parseDuration(v)
	*d = duration(t)
	return err
}

// parseDuration reads a time as [time.ParseDuration] does, with days before it or
// alone: 30d, 1d12h, 90s.
func parseDuration(v string) (time.Duration, error) {
	wrong := errors.New("it must be a time such as 30d, 720h or 90s")
	if days, rest, found := strings.Cut(v, "d"); found {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil {
			return 0, wrong
		}
		v = fmt.Sprintf("%dh%s", 24*n, rest)
	}
	d, err := time.ParseDuration(v)
	if err != nil {
		return 0, wrong
	}
	return d, nil
}

// address is an account or a token in a flag; the zero address stands for none.
type address common.Address

// String is the address with its checksum, and empty for none.
func (a *address) String() string {
	if *a == (address{}) {
		return ""
	}
	return common.Address(*a).Hex()
}

// Set reads an address. Where its letters are of both cases, they are its checksum
// (EIP-55). One that does not hold tells of a mistake somewhere in the address, so no
// other spelling is proposed.
func (a *address) Set(v string) error {
	if v == "" {
		*a = address{}
		return nil
	}
	if !common.IsHexAddress(v) {
		return errors.New("it is not an account address, 0x and 40 hex digits")
	}
	read := common.HexToAddress(v)
	if read == (common.Address{}) {
		return errors.New("it is the zero address, which has no owner")
	}
	digits := v[len(v)-2*common.AddressLength:]
	if digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) && digits != read.Hex()[2:] {
		return errors.New("its checksum (EIP-55) does not hold, so some character of it is wrong: give the address again, copied from where it was made")
	}
	*a = address(read)
	return nil
}
