package aside

import (
	"net/url"
	"strconv"
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

type hopsDocument struct {
	Member string     `json:"member,omitempty"`
	What   string     `json:"counted"`
	Total  hopsCounts `json:"total"`
	Days   []hopsDay  `json:"days"`
}

type hopsDay struct {
	Day string `json:"day"`
	hopsCounts
}

// hopsCounts has From and To of a member, or Hops of the whole ring.
type hopsCounts struct {
	From *uint64 `json:"from,omitempty"`
	To   *uint64 `json:"to,omitempty"`
	Hops *uint64 `json:"hops,omitempty"`
}

func countsOf(member string, c *day) hopsCounts {
	if member == "" {
		return hopsCounts{Hops: &c.From}
	}
	return hopsCounts{From: &c.From, To: &c.To}
}

// Document answers a GET for "/api/hops" or "/api/ring/{slug}/hops", with the query that came:
// days is of how many days it tells, the present one last.
func (s *Hops) Document(path, query string) (d api.Document) {
	s.ledger.View(func(v *ledger.View) { d = s.document(v, path, query) })
	return d
}

func (s *Hops) document(v *ledger.View, path, query string) api.Document {
	st := v.State()
	n := defaultDays
	if values, _ := url.ParseQuery(query); values.Get("days") != "" {
		var err error
		if n, err = strconv.Atoi(values.Get("days")); err != nil || n < 1 || n > HopsKept {
			return refuseParameter(st, "days", "from 1 to "+strconv.Itoa(HopsKept))
		}
	}
	row, slug := uint32(wholeRing), ""
	if path != hopsPath {
		o, name, refused := member(st, path, hopsSuffix)
		if refused != nil {
			return *refused
		}
		row, slug = uint32(o), name
	}
	today := s.today()
	list, err := days(v, row, today, n)
	if err != nil {
		s.log.Error("hops", "err", err)
		return refuse(st, api.Internal, "The hops cannot be read.")
	}
	return answer(tellHops(slug, list, today), maxAge, 0)
}

// tellHops makes a document, the newest day first.
func tellHops(member string, list []day, today uint32) *hopsDocument {
	d := &hopsDocument{Member: member, What: what, Days: []hopsDay{}}
	var total day
	for i := len(list) - 1; i >= 0; i-- {
		total.From += list[i].From
		total.To += list[i].To
		at := time.Unix(int64(today-uint32(len(list)-1-i))*24*60*60, 0).UTC()
		d.Days = append(d.Days, hopsDay{at.Format(time.DateOnly), countsOf(member, &list[i])})
	}
	d.Total = countsOf(member, &total)
	return d
}
