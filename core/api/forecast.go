package api

import (
	"webring/core"
	"webring/core/flat"
)

// prospectRoom is at least the length of what [prospect] writes, without what the row that it
// names needs.
const prospectRoom = 512

// prospect writes until when the standing of o is full, when it is gone, and what passes the
// member above: the one at the rank before, which is that of o.
func prospect(w flat.Pen, st *core.State, o core.Ordinal, rank int, above core.Ordinal) flat.Pen {
	from, gone, fades := st.Fades(o)
	w = second(w.Lit16(`,"full_until":`), from, fades)
	w = second(w.Lit16(`,"gone_at":`), gone, fades)
	cents, takes, ok := int64(0), 0, false
	if rank > 1 {
		cents, takes, ok = st.ToPass(o, above)
	}
	if !ok {
		return w.Lit16(`,"to_pass":null`)
	}
	w = usd(w.Lit32(`,"to_pass":{"amount_usd":"`), cents)
	w = w.Lit16(`","rank":`).Number(uint64(rank - 1))
	row := st.Row(above)
	slug, f := row.Fields().Text()
	_, f = f.Skip(1).Text()
	name, _ := f.Text()
	w = w.Lit16(`,"slug":"`).Word(slug).Lit16(`","name":"`)
	if row.Plain() {
		w = w.Word(name)
	} else {
		w = text(w, name.String())
	}
	return w.Lit16(`","takes_rank":`).Number(uint64(takes)).Byte('}')
}

// second writes an instant in quotes, or null for one that is not there or that RFC 3339
// cannot write.
func second(w flat.Pen, at int64, there bool) flat.Pen {
	if !there || at > core.MaxStamp/1000 {
		return w.Lit8(`null`)
	}
	return instant(w.Byte('"'), 1000*at).Byte('"')
}

// forecastRoom is at least the length of a forecast.
const forecastRoom = 1024

// then begins the element of a forecast for a number of days ahead.
func then(w flat.Pen, f *core.Forecast, days int) flat.Pen {
	w = w.Lit16(`,{"days":`).Number(uint64(days))
	if f.At > core.MaxStamp/1000 {
		return w
	}
	return second(w.Lit8(`,"at":`), f.At, true)
}

// memberForecast writes what o will be worth, and what it costs then to put it at rank 1.
func memberForecast(w flat.Pen, st *core.State, o core.Ordinal) flat.Pen {
	w = w.Lit32(`,"forecast":[{"days":0`)
	cents, ok := st.ToTakeFirst(o)
	w = worth(w, st.Standing(o), cents, ok)
	for i := range st.Forecasts() {
		f := &st.Forecasts()[i]
		cents, ok := st.ToTakeFirstThen(o, f)
		w = worth(then(w, f, core.ForecastDays[i]), st.StandingAt(o, f.At), cents, ok)
	}
	return w.Byte(']')
}

// worth writes the standing of a member and the price of rank 1 to it, if it is not there,
// and ends the element of a forecast.
func worth(w flat.Pen, standing, cents int64, ok bool) flat.Pen {
	w = usd(w.Lit32(`,"effective_bid_usd":"`), standing)
	if w = w.Lit32(`","to_take_first_usd":`); ok {
		return usd(w.Byte('"'), cents).Byte('"').Byte('}')
	}
	return w.Lit8(`null`).Byte('}')
}

// forecast writes who is first now and then, with which standing, and what it takes to join
// before it.
func (a *answer) forecast() {
	a.Body = room(a.Body, forecastRoom)
	w := flat.Write(a.Body).Lit32(`,"forecast":[{"days":0`)
	now := core.Forecast{}
	if leader := a.st.AppendRanked(a.found[:0], 0, 1); len(leader) > 0 {
		now.First, now.Standing = leader[0], a.st.Standing(leader[0])
	}
	w = price(w, a.st, &now)
	for i := range a.st.Forecasts() {
		f := &a.st.Forecasts()[i]
		w = price(then(w, f, core.ForecastDays[i]), a.st, f)
	}
	a.Body = w.Byte(']').Bytes(a.Body)
}

// price ends the element of a forecast with who is first.
func price(w flat.Pen, st *core.State, f *core.Forecast) flat.Pen {
	if w = w.Lit16(`,"first":`); st.Len() > 0 {
		slug, _ := st.Row(f.First).Fields().Text()
		w = w.Byte('"').Word(slug).Byte('"')
	} else {
		w = w.Lit8(`null`)
	}
	w = usd(w.Lit16(`,"first_usd":"`), f.Standing)
	return usd(w.Lit32(`","join_at_first_bid_usd":"`), st.JoinAtFirstThen(f)).Byte('"').Byte('}')
}
