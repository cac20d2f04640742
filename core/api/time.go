package api

import (
	"strconv"

	"webring/core/flat"
)

// instant writes an instant, in milliseconds since 1970 UTC and within 0 to
// [core.MaxStamp], as RFC 3339 in UTC with milliseconds and without quotes:
// 2026-01-31T08:00:00.000Z. It puts three words together in registers: "2026-01-",
// "31T08:00" and ":00.000Z".
func instant(w flat.Pen, ms int64) flat.Pen {
	// From here on in 32 bits, in which the compiler divides by multiplying.
	day := uint32(uint64(ms) / 86_400_000)
	hundredths := uint32(uint64(ms)-uint64(day)*86_400_000) / 10
	last := uint64(ms) - uint64(day)*86_400_000 - uint64(hundredths)*10
	second := hundredths / 100
	minute := second / 60
	hour := minute / 60
	year, month, date := civil(day)
	// The digits of the date, and those of the time but the last.
	d := flat.Digits(uint64(year*10_000+month*100+date)) | flat.Zeros
	t := flat.Digits(uint64(hour*1_000_000+(minute-hour*60)*10_000+(second-minute*60)*100+hundredths-second*100)) | flat.Zeros
	const two = 1<<16 - 1
	return w.Put(d&(1<<32-1)|'-'<<32|(d>>32&two)<<40|'-'<<56, 8).
		Put(d>>48|'T'<<16|(t&two)<<24|':'<<40|(t>>16&two)<<48, 8).
		Put(':'|(t>>32&two)<<8|'.'<<24|(t>>48)<<32|('0'+last)<<48|'Z'<<56, 8)
}

// civil gives the Gregorian date of a day counted from 1970-01-01, not before
// it. Years are taken from March on, so that the day that leap years add is
// the last of a year and all months before it have the same place in every
// year (Neri, Schneider: Euclidean affine functions and their application to
// calendar algorithms, 2022).
func civil(day uint32) (year, month, date uint32) {
	const centuries = 146_097       // days of four of them
	quarters := 4*(day+719_468) + 3 // of days from 0000-03-01 on
	century := quarters / centuries
	// A year has 4 × 365.25 quarters, of which 2^32 / 1461 is the reciprocal.
	years := 2_939_745 * uint64(quarters%centuries|3)
	ofYear := uint32(years) / 2_939_745 / 4
	// Months from March have 31 30 31 30 31 days, over and over: 2^16 / 2141 each.
	months := 2_141*ofYear + 197_913
	next := ofYear / 306 // 1 from January on
	return 100*century + uint32(years>>32) + next, months>>16 - 12*next, months&(1<<16-1)/2_141 + 1
}

// appendDuration appends whole seconds as an ISO 8601 duration: in days when
// they are whole days, otherwise in seconds.
func appendDuration(dst []byte, seconds int64) []byte {
	const day = 86_400
	if seconds%day == 0 {
		dst = append(dst, 'P')
		dst = strconv.AppendInt(dst, seconds/day, 10)
		return append(dst, 'D')
	}
	dst = append(dst, "PT"...)
	dst = strconv.AppendInt(dst, seconds, 10)
	return append(dst, 'S')
}
