package core

// ForecastDays are how many days ahead forecasts look.
var ForecastDays = [...]int{7, 30}

// DaySeconds is the length of a day in seconds.
const DaySeconds = 86_400

// Forecast predicts the first place at an instant, if until then no payment comes and no
// member joins, leaves, is hidden or is shown. Without members, First and Standing are 0.
//
// Instants are those at which days begin in UTC, so a forecast is the same for a whole day.
type Forecast struct {
	At       int64 // second
	First    Ordinal
	Standing int64 // of First at that second, in cents
}

// Day is the second at which the UTC day of the clock began. It is the only part of the clock
// on which forecasts depend.
func (s *State) Day() int64 { return s.clock - s.clock%DaySeconds }

// Forecasts gives a forecast for each of [ForecastDays], counted from [State.Day]. The caller
// must not change them.
func (s *State) Forecasts() *[len(ForecastDays)]Forecast {
	s.settled()
	return &s.ranking.ahead
}

// StandingAt returns the standing of o in cents at a second, if o gets no bid until then.
func (s *State) StandingAt(o Ordinal, second int64) int64 { return s.decline(o).worth(second) }

// ToTakeFirstThen is [State.ToTakeFirst] at the instant of a forecast.
func (s *State) ToTakeFirstThen(o Ordinal, f *Forecast) (cents int64, ok bool) {
	return s.toLead(o, f.First, f.Standing)
}

// JoinAtFirstThen is [State.JoinAtFirst] at the instant of a forecast.
func (s *State) JoinAtFirstThen(f *Forecast) int64 { return s.joinBefore(f.Standing) }

// Fades returns the second from which the standing of o falls, which may be past, and the
// second from which it is 0. ok is false for a member without bids: its standing never falls.
func (s *State) Fades(o Ordinal) (from, gone int64, ok bool) {
	d := s.decline(o)
	if d.start == never {
		return 0, 0, false
	}
	return d.start, d.start + d.decay, true
}

// look brings the forecasts up to date with the ranking. touched are the members that events
// have ranked since the last time.
//
// The standing at a given second changes only by a payment. It raises it, except that the
// first bid ends that a standing never falls. So the one that led there leads on, or a touched
// member does. Others are looked at only when a day has begun, and when the one that led has
// left the ring or had its first bid.
func (s *State) look(touched []Ordinal) {
	for i := range s.ranking.ahead {
		f := &s.ranking.ahead[i]
		at := s.Day() + int64(ForecastDays[i])*DaySeconds
		if s.ranks.Len == 0 {
			*f = Forecast{At: at}
			continue
		}
		if f.At != at || int(f.First) >= s.rows || !s.has(f.First, ranked) {
			s.foresee(f, at)
			continue
		}
		for _, o := range touched {
			if !s.has(o, ranked) {
				continue
			}
			cents := s.StandingAt(o, at)
			if o == f.First && cents < f.Standing {
				s.foresee(f, at)
				break
			}
			f.consider(o, cents)
		}
	}
}

// consider makes o the first if it leads with a standing.
func (f *Forecast) consider(o Ordinal, cents int64) {
	if cents > f.Standing || cents == f.Standing && o < f.First {
		f.First, f.Standing = o, cents
	}
}

// foreseen is how many of the ranking foresee looks at one by one. Their rows lie anywhere in
// memory; beyond that, reading all rows one after another is faster.
const foreseen = 1024

// foresee finds the first among all members. Standings only fall, so it walks down the
// ranking no further than to where the present standing is less than one found.
func (s *State) foresee(f *Forecast, at int64) {
	*f = Forecast{At: at, Standing: -1}
	var some [64]uint64
	for from := 0; from < min(s.ranks.Len, foreseen); from += len(some) {
		for _, key := range s.ranks.Append(some[:0], from, len(some)) {
			cents, o := rankedAs(key)
			if cents < f.Standing || cents == f.Standing && o > f.First {
				return
			}
			f.consider(o, s.StandingAt(o, f.At))
		}
	}
	if s.ranks.Len <= foreseen {
		return
	}
	for o := range Ordinal(s.rows) {
		if s.has(o, ranked) {
			f.consider(o, s.StandingAt(o, f.At))
		}
	}
}
