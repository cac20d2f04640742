package pages

import (
	"strconv"
	"time"

	"webring/templates"
)

// Pages say how long ago something was, and how long it will take. Such words hold only for a
// while, so code that writes them shortens the time for which the page is valid. They count
// from the instant of the documents on the page: two nodes with one position and second write
// the same.

const (
	day = 24 * time.Hour
	// fewMinutes is the step in which times within the last hour are told.
	fewMinutes = 5 * time.Minute
	// inDays is from how long on a time ahead is told in days.
	inDays = 47*time.Hour + 30*time.Minute
	// longAgo is from how long on a time past is told by its date.
	longAgo = 60 * day
	// sameYear is how far from now a date can be told without its year.
	sameYear = 300 * day
)

// now is the second of which the page speaks. It is called when all documents have been
// read, and lies within the time for which they are valid.
func (r *reader) now() time.Time { return time.Unix(max(min(r.second, r.until-1), r.since), 0).UTC() }

// from and before say that what is written holds from an instant on, and before one.
func (r *reader) from(t time.Time)   { r.since = max(r.since, second(t)) }
func (r *reader) before(t time.Time) { r.until = min(r.until, second(t)) }

// second is the first whole second that is not before an instant.
func second(t time.Time) int64 { return t.Add(time.Second - 1).Unix() }

// ago says how long ago something was.
func (r *reader) ago(t time.Time) templates.When {
	w := templates.When{At: t}
	passed := max(r.now().Sub(t), 0)
	unit, short := day, " day"
	switch {
	case passed >= longAgo:
		r.from(t.Add(longAgo))
		w.Words = "on " + r.date(t).Words
		return w
	case passed < time.Hour:
		unit, short = fewMinutes, " min"
	case passed < 2*day:
		unit, short = time.Hour, " h"
	}
	n := passed / unit
	if n > 0 {
		r.from(t.Add(n * unit))
	}
	r.before(t.Add((n + 1) * unit))
	switch {
	case n == 0:
		w.Words = "just now"
		return w
	case unit == fewMinutes:
		n *= fewMinutes / time.Minute
	case unit == day && n > 1:
		short = " days"
	}
	w.Words = strconv.Itoa(int(n)) + short + " ago"
	return w
}

// soonAgo is ago for what happens all the time: within two minutes it tells seconds.
func (r *reader) soonAgo(t time.Time) templates.When {
	const few = 10 * time.Second
	n := max(r.now().Sub(t), 0) / few
	if n >= 12 {
		return r.ago(t)
	}
	w := templates.When{At: t, Words: "just now"}
	if n > 0 {
		w.Words = strconv.Itoa(int(n*few/time.Second)) + " seconds ago"
		r.from(t.Add(n * few))
	}
	r.before(t.Add((n + 1) * few))
	return w
}

// left says how long it will take until an instant that has not come yet.
func (r *reader) left(t time.Time) templates.When {
	w := templates.When{At: t}
	rest := t.Sub(r.now())
	r.before(t)
	unit, one, many := time.Hour, " hour", " hours"
	if rest > inDays {
		unit, one, many = day, " day", " days"
		r.before(t.Add(-inDays))
	}
	// The nearest whole number of units.
	n := (rest + unit/2 - 1) / unit
	r.from(t.Add(-n*unit - unit/2))
	switch n {
	case 0:
		w.Words = "less than an hour"
		return w
	case 1:
		w.Words = "1" + one
	default:
		w.Words = strconv.Itoa(int(n)) + many
	}
	r.before(t.Add(-n*unit + unit/2))
	return w
}

// date is the day of an instant, without its year if that is not needed.
func (r *reader) date(t time.Time) templates.When {
	w := templates.When{At: t, Words: t.UTC().Format("2 January")}
	switch away := t.Sub(r.now()); {
	case away > sameYear:
		r.before(t.Add(-sameYear))
	case away <= -sameYear:
		r.from(t.Add(sameYear))
	default:
		r.from(t.Add(-sameYear))
		r.before(t.Add(sameYear))
		return w
	}
	w.Words = t.UTC().Format("2 January 2006")
	return w
}

// in is the day on which it will be so long from now, whatever the time of day.
func (r *reader) in(d time.Duration) templates.When {
	begins := r.now().Add(d).Truncate(day)
	r.from(begins.Add(-d))
	r.before(begins.Add(day - d))
	return r.date(begins)
}

// lasted says how long something took, in whole days, hours or minutes.
func lasted(d time.Duration) string {
	unit, one, many := day, " day", " days"
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		unit, one, many = time.Minute, " minute", " minutes"
	case d < 2*day:
		unit, one, many = time.Hour, " hour", " hours"
	}
	if n := int(d / unit); n > 1 {
		return strconv.Itoa(n) + many
	}
	return "1" + one
}

// lasting says how long something has lasted that goes on, in whole days or hours. drawn is that
// rounded up: what is drawn by it holds as long as the words.
func (r *reader) lasting(from time.Time) (words string, drawn time.Duration) {
	unit, passed := day, max(r.now().Sub(from), 0)
	if passed < 2*day {
		unit = time.Hour
	}
	n := passed / unit
	drawn = (n + 1) * unit
	r.before(from.Add(drawn))
	if n == 0 {
		return "less than an hour", drawn
	}
	r.from(from.Add(n * unit))
	return lasted(n * unit), drawn
}
