package aside

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
)

const (
	// usualPage and MaxPage are how many news a document of the ring has.
	usualPage = 100
	MaxPage   = 500
	// For how many seconds documents may be kept: that of a member, of the newest news of the
	// ring, and of older ones.
	memberAge, newestAge, olderAge = 10, 5, 60
	// lastLeads is how many changes of the lead a document tells of.
	lastLeads = 20
)

// event is news in a document.
type event struct {
	ID     uint64 `json:"id"`
	At     string `json:"at"`
	Type   string `json:"type"`
	Member string `json:"member"`
	By     string `json:"by,omitempty"`
	Was    int    `json:"was_rank,omitempty"`
	Rank   int    `json:"rank,omitempty"`
	Amount string `json:"amount_usd,omitempty"`
	Proof  string `json:"proof,omitempty"`
	Seq    uint64 `json:"seq,omitempty"`
	// Payment names the transfer of a payment. Reason is the code of a removal.
	Payment *payment `json:"payment,omitempty"`
	Reason  string   `json:"reason,omitempty"`
}

// payment is a [core.Payment] in a document.
type payment struct {
	Network     string `json:"network"`
	Transaction string `json:"transaction"`
	Payer       string `json:"payer"`
	Payee       string `json:"payee,omitempty"`
	Binding     string `json:"binding,omitempty"`
}

// detail adds what only the event in the ledger says.
func (e *event) detail(v *ledger.View, k kind) error {
	switch k {
	case joined, bid, credited, removed:
	default:
		return nil
	}
	if e.Seq == 0 {
		return nil
	}
	written, err := v.Event(e.Seq - 1)
	if err != nil {
		return err
	}
	if why, _ := core.WhyOf(written); why.Code != core.Unstated {
		e.Reason = why.Code.String()
	}
	if p, _ := core.PaymentOf(written); p.Transaction != "" {
		e.Payment = &payment{p.Network, p.Transaction, p.Payer, p.Payee, p.Binding}
	}
	return nil
}

// lead is who led from an instant on, and until when.
type lead struct {
	Member string `json:"member"`
	Name   string `json:"name,omitempty"` // of one that is in the ring
	From   string `json:"from"`
	Until  string `json:"until,omitempty"`
}

type ringDocument struct {
	Events   []event  `json:"events"`
	Next     uint64   `json:"next"`
	More     bool     `json:"more"`
	Complete bool     `json:"complete"`
	Leads    []lead   `json:"leads"`
	Best     *bestBid `json:"best_bid,omitempty"`
	Links    struct {
		Next string `json:"next"`
	} `json:"links"`
}

type memberDocument struct {
	Member string  `json:"member"`
	Events []event `json:"events"`
	// Webhook says how its owner's webhook is, nil if there is none.
	Webhook *webhookState `json:"webhook,omitempty"`
	// TakeBack says which earlier owner can take the member back, nil if none can.
	TakeBack *takeBack `json:"take_back,omitempty"`
}

type takeBack struct {
	Account string `json:"account"`
	Until   string `json:"until"`
}

// News answers a GET for "/api/events" or "/api/ring/{slug}/events" with the query that
// came. best is nil where nobody looks for the best bid. It is ahead when the reader knows news that this ledger does not have yet, or has lost:
// a node that follows gets them from the one that leads.
func News(v *ledger.View, path, query string, best *Best) (d api.Document, ahead bool) {
	st := v.State()
	if path != eventsPath {
		o, slug, refused := member(st, path, eventsSuffix)
		if refused != nil {
			return *refused, false
		}
		items, err := itemsAt(v, memberKey(o))
		if err != nil {
			return refuse(st, api.Internal, "The news cannot be read."), false
		}
		slices.Reverse(items)
		list, err := events(v, items)
		if err != nil {
			return refuse(st, api.Internal, "The news cannot be read."), false
		}
		hook, err := WebhookOf(v, slug)
		lost, failed := LostOf(v, slug, st.Clock()*1000)
		if err != nil || failed != nil {
			return refuse(st, api.Internal, "The news cannot be read."), false
		}
		doc := &memberDocument{Member: slug, Events: list, Webhook: hook.state()}
		if lost != nil {
			doc.TakeBack = &takeBack{lost.Owner.String(), instant(lost.Until)}
		}
		return answer(doc, memberAge, st.Seq()), false
	}
	since, limit, refused := readPage(query)
	if refused != "" {
		return refuseParameter(st, refused, "within its bounds"), false
	}
	ring, ahead, err := ofRing(v, since, limit)
	if err != nil {
		return refuse(st, api.Internal, "The news cannot be read."), false
	}
	ring.Best = best.tell(st)
	age := newestAge
	if ring.More {
		age = olderAge
	}
	ring.Links.Next = baseURL(st) + eventsPath + "?since=" + strconv.FormatUint(ring.Next, 10)
	return answer(ring, age, st.Seq()), ahead
}

// readPage reads the parameters of the ring's news: since is nil when it is absent. refused
// names the one that is invalid.
func readPage(query string) (since *uint64, limit int, refused string) {
	limit = usualPage
	values, _ := url.ParseQuery(query)
	if s := values.Get("since"); s != "" {
		n, err := strconv.ParseUint(s, 10, 53)
		if err != nil {
			return nil, 0, "since"
		}
		since = &n
	}
	if s := values.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > MaxPage {
			return nil, 0, "limit"
		}
		limit = n
	}
	return since, limit, ""
}

// ofRing gives up to limit news after the number since, or the newest without it. The number
// is ahead if it was not given yet.
func ofRing(v *ledger.View, since *uint64, limit int) (d *ringDocument, ahead bool, err error) {
	s, err := readStatus(v)
	if err != nil {
		return nil, false, err
	}
	if s == nil {
		s = &status{}
	}
	oldest, after := uint64(1), uint64(0)
	if s.batch > Batches {
		oldest = s.batch - Batches + 1
	}
	var found []item
	d = &ringDocument{Complete: true, Leads: []lead{}}
	if since == nil {
		for n := s.batch; n >= oldest && len(found) < limit; n-- {
			items, err := itemsAt(v, batchKey(n))
			if err != nil {
				return nil, false, err
			}
			found = append(items, found...)
		}
		found = found[max(0, len(found)-limit):]
	} else {
		after = *since
		first := after >> idBits
		// A number that was not given yet is one of a ring that has lost its last events.
		d.Complete = first >= oldest || after == 0 && oldest == 1 || first+1 == oldest && after&(1<<idBits-1) == 1<<idBits-1
		if ahead = first > s.batch; ahead {
			d.Complete, first = false, s.batch+1
		}
		for n := max(first, oldest); n <= s.batch && len(found) <= limit; n++ {
			items, err := itemsAt(v, batchKey(n))
			if err != nil {
				return nil, false, err
			}
			for _, i := range items {
				if i.id > after {
					found = append(found, i)
				}
			}
		}
		if d.More = len(found) > limit; d.More {
			found = found[:limit]
		}
	}
	d.Next = s.batch<<idBits | (1<<idBits - 1)
	if d.More {
		d.Next = found[len(found)-1].id
	} else if len(found) == 0 && after>>idBits == s.batch {
		d.Next = after
	}
	if d.Events, err = events(v, found); err != nil {
		return nil, false, err
	}
	if d.Leads, err = leadsFor(v); err != nil {
		return nil, false, err
	}
	return d, ahead, nil
}

// shown gives the slug of a member unless nothing may be said of it any more.
func shown(st *core.State, o core.Ordinal) (slug string, some bool) {
	if int(o) >= st.Rows() || st.Hidden(o) {
		return "", false
	}
	m := st.Member(o)
	return m.Slug, !m.Redacted
}

// events tells of news, but for members of which nothing may be said.
func events(v *ledger.View, items []item) ([]event, error) {
	st, list := v.State(), make([]event, 0, len(items))
	for _, i := range items {
		slug, some := shown(st, i.member)
		if !some || i.kind.String() == "" {
			continue
		}
		e := event{ID: i.id, At: instant(i.at), Type: i.kind.String(), Member: slug, Was: i.was, Rank: i.rank, Proof: i.proof.String(), Seq: i.event}
		if i.kind == outbid {
			e.By, _ = shown(st, i.by)
		}
		if i.cents != 0 {
			e.Amount = string(api.AppendUSD(nil, i.cents))
		}
		if err := e.detail(v, i.kind); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// leadsFor lists the latest leaders, the current one first.
func leadsFor(v *ledger.View) ([]lead, error) {
	all, err := leadsOf(v)
	if err != nil {
		return nil, err
	}
	list, until := []lead{}, ""
	for _, t := range slices.Backward(all) {
		if len(list) == lastLeads {
			break
		}
		if t.some {
			if slug, some := shown(v.State(), t.member); some {
				one := lead{Member: slug, From: instant(t.at), Until: until}
				if v.State().Rank(t.member) > 0 {
					one.Name = v.State().Member(t.member).Name
				}
				list = append(list, one)
			}
		}
		until = instant(t.at)
	}
	return list, nil
}

func instant(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
