package api

import (
	"strconv"

	"webring/core/flat"
)

// AppendTime appends an instant, in milliseconds since 1970 UTC and within
// 0 to [core.MaxStamp], as RFC 3339 in UTC with milliseconds and without
// quotes: 2026-01-31T08:00:00.000Z.
func AppendTime(dst []byte, ms int64) []byte {
	dst = room(dst, timeLength)
	return instant(flat.Write(dst), ms).Bytes(dst)
}

const timeLength = len("2026-01-31T08:00:00.000Z")

// instant is AppendTime for a pen.
func instant(w flat.Pen, ms int64) flat.Pen {
	// From here on in 32 bits, in which the compiler divides by multiplying.
	day := uint32(uint64(ms) / 86_400_000)
	rest := uint32(uint64(ms) - uint64(day)*86_400_000)
	year, month, date := civil(day)
	hundreds := year / 100
	second := rest / 1000
	rest -= second * 1000
	minute := second / 60
	hour := minute / 60
	tens := rest / 10
	return w.Two(hundreds).Two(year - hundreds*100).Byte('-').Two(month).Byte('-').Two(date).Byte('T').
		Two(hour).Byte(':').Two(minute - hour*60).Byte(':').Two(second - minute*60).Byte('.').
		Two(tens).Byte('0' + byte(rest-tens*10)).Byte('Z')
}

// civil gives the Gregorian date of a day counted from 1970-01-01, not before
// it. Years are taken from March on, so that the day that leap years add is
// the last of a year and all months before it have the same place in every
// year.
func civil(day uint32) (year, month, date uint32) {
	const (
		yearDays    = 365
		fourYears   = 4*yearDays + 1
		century     = 25*fourYears - 1
		fourHundred = 4*century + 1
	)
	day += 719_468 // from 0000-03-01
	era := day / fourHundred
	day %= fourHundred
	// The last day of four years, of a century's end and of the era is the
	// one too many: taking them out makes every year 365 days long.
	y := (day - day/(fourYears-1) + day/century - day/(fourHundred-1)) / yearDays
	day -= yearDays*y + y/4 - y/100
	// Months from March have 31 30 31 30 31 days, over and over: 153 in five.
	m := (5*day + 2) / 153
	date = day - (153*m+2)/5 + 1
	year = 400*era + y
	if m < 10 {
		return year, m + 3, date
	}
	return year + 1, m - 9, date
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
