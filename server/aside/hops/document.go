package hops

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"webring/core/api"
	"webring/server/ledger"
)

// defaultDays is of how many days a document tells without days.
const defaultDays = 30

// maxAge is for how many seconds a document may be kept: nodes report once a minute.
const maxAge = 60

// what says what is counted.
const what = "Redirects that the ring has answered, from the member that from names to the member that they lead to. " +
	"A client counts once an hour for each member. Crawlers and prefetches are left out. Nothing about visitors is kept."

// hopsDay is a day in a document.
type hopsDay struct {
	Day  string  `json:"day"`
	From *uint64 `json:"from,omitempty"`
	To   *uint64 `json:"to,omitempty"`
	Hops *uint64 `json:"hops,omitempty"`
}

type document struct {
	Member string    `json:"member,omitempty"`
	What   string    `json:"counted"`
	Total  hopsTotal `json:"total"`
	Days   []hopsDay `json:"days"`
}

type hopsTotal struct {
	From *uint64 `json:"from,omitempty"`
	To   *uint64 `json:"to,omitempty"`
	Hops *uint64 `json:"hops,omitempty"`
}

// Document answers a GET for "/api/hops" or "/api/ring/{slug}/hops", with the query that came:
// days is of how many days it tells, the present one last.
func (s *Store) Document(path, query string) api.Document {
	var answer api.Document
	s.ledger.View(func(v *ledger.View) { answer = s.document(v, path, query) })
	return answer
}

func (s *Store) document(v *ledger.View, path, query string) api.Document {
	base := ""
	if rules := v.State().Rules(); rules != nil {
		base = rules.BaseURL
	}
	n := defaultDays
	if values, _ := url.ParseQuery(query); values.Get("days") != "" {
		var err error
		if n, err = strconv.Atoi(values.Get("days")); err != nil || n < 1 || n > Kept {
			return api.Refusal(base, api.InvalidParameter, "days must be a number from 1 to "+strconv.Itoa(Kept)+".", `,"parameter":"days"`)
		}
	}
	row, member := uint32(wholeRing), ""
	if path != RingPath {
		member = strings.TrimSuffix(strings.TrimPrefix(path, memberPrefix), memberSuffix)
		o, known := v.State().BySlug([]byte(member))
		switch {
		case !known || v.State().Hidden(o):
			return api.Refusal(base, api.UnknownMember, "No member has this slug. GET /api/ring lists the members.", "")
		case v.State().Rank(o) == 0:
			return api.Refusal(base, api.MemberRemoved, "This member was removed from the ring. Its slug is not given again.", "")
		}
		row = uint32(o)
	}
	today := s.today()
	list, err := days(v, row, today, n)
	if err != nil {
		s.log.Error("hops", "err", err)
		return api.Refusal(base, api.Internal, "The hops cannot be read.", "")
	}
	return told(member, list, today)
}

// The paths of the documents.
const (
	RingPath     = "/api/hops"
	memberPrefix = "/api/ring/"
	memberSuffix = "/hops"
)

// told writes a document, the newest day first.
func told(member string, list []Day, today uint32) api.Document {
	d := document{Member: member, What: what, Days: []hopsDay{}}
	var from, to uint64
	for i := len(list) - 1; i >= 0; i-- {
		c := list[i]
		from, to = from+c.From, to+c.To
		day := hopsDay{Day: time.Unix(int64(today-uint32(len(list)-1-i))*24*60*60, 0).UTC().Format(time.DateOnly)}
		if member == "" {
			day.Hops = &c.From
		} else {
			day.From, day.To = &c.From, &c.To
		}
		d.Days = append(d.Days, day)
	}
	if member == "" {
		d.Total.Hops = &from
	} else {
		d.Total = hopsTotal{From: &from, To: &to}
	}
	body, err := json.Marshal(d)
	if err != nil {
		panic(err) // it has no values that JSON lacks
	}
	return api.Document{Status: 200, Media: "application/json", Body: body, MaxAge: maxAge}
}
