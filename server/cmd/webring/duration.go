package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
