package pages

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"webring/core/api"
	"webring/edge/card"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/static"
	"webring/templates"
)

// momentsDocument is the ring at moments from its first event on, as the origin replays it.
type momentsDocument struct {
	Members []struct{ Slug, Name, URL, Kind string }
	Moments []pastMoment
}

type pastMoment struct {
	Seq     uint64
	At      time.Time
	Members int
	Marks   [][4]int64 // place in Members, position in the ring, cents paid, cents that count
}

// firstMoment is the value of at that stands for the first one.
const firstMoment = "first"

// momentName spells the value of at: the number of an event or an instant. It is "" for anything else.
func momentName(value string) string {
	if value == firstMoment {
		return value
	}
	if n, err := strconv.ParseUint(value, 10, 53); err == nil {
		return strconv.FormatUint(n, 10)
	}
	for _, form := range [...]string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, value); err == nil && t.Year() > 0 && t.Year() < 10000 {
			return t.UTC().Format(time.RFC3339)
		}
	}
	return ""
}

// find gives the last moment at or before the one that at names, or the first.
func (d *momentsDocument) find(at string) (i int) {
	seq, err := strconv.ParseUint(at, 10, 53)
	instant, _ := time.Parse(time.RFC3339, at)
	for i+1 < len(d.Moments) && at != firstMoment {
		next := &d.Moments[i+1]
		if err == nil && next.Seq > seq || err != nil && next.At.After(instant) {
			break
		}
		i++
	}
	return i
}

// replayTime bounds how long a page waits for the moments, which it cannot do without.
const replayTime = 4 * time.Second

const (
	noMoments   = "Only the origin can replay the ring, and it does not answer at the moment. Ask again in a few seconds."
	notReplayed = "This ring's history is too long to be replayed. See the ring as it is: /ring"
)

// replay is the document that was read last. Many pages and cards are made of one, and to decode it
// takes milliseconds.
type replay struct {
	mu   sync.Mutex
	text []byte
	read *momentsDocument
}

// decode gives nil for what is no such document.
func (p *replay) decode(text []byte) *momentsDocument {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read == nil || !bytes.Equal(p.text, text) {
		d := new(momentsDocument)
		if json.Unmarshal(text, d) != nil {
			return nil
		}
		p.text, p.read = text, d
	}
	return p.read
}

// moments reads the moments of the ring. It gives nil when there are none, and the page fails.
func (r *reader) moments() *momentsDocument {
	var text json.RawMessage
	if !r.originWithin(replayTime, describe.MomentsPath, "", &text) {
		r.fail(api.OriginUnavailable, noMoments)
		return nil
	}
	d := r.pages.replay.decode(text)
	if d == nil || len(d.Moments) == 0 {
		r.fail(api.NotFound, notReplayed)
		return nil
	}
	return d
}

// moment draws the page of the ring as it was.
func (r *reader) moment(path, at string) *content.Content {
	v, ok := r.survey()
	if !ok {
		return nil
	}
	d := r.moments()
	if d == nil {
		if v.members == 0 {
			r.fail(api.EmptyRing, "The ring has no members at present.")
		}
		return nil
	}
	i := d.find(at)
	m := &d.Moments[i]
	when := m.At.UTC().Format("2 January 2006, 15:04 UTC")
	view := templates.Moment{Seq: m.Seq, At: m.At, Number: i + 1, Of: len(d.Moments),
		Page: frame(&v.about, path, "The ring on "+when+" – "+v.about.Name, "The ring as it was on "+when+", replayed from its public log.")}
	if i > 0 {
		view.Earlier = d.Moments[i-1].Seq
	}
	if i+1 < len(d.Moments) {
		view.Later = d.Moments[i+1].Seq
	}
	query := "?at=" + strconv.FormatUint(m.Seq, 10)
	view.Share = templates.Share{URL: r.core.BaseURL() + path + query, Image: r.core.BaseURL() + CardPath + query, Alt: view.Page.Description}
	view.Picture = templates.Picture{Members: m.Members, Past: true, Script: static.Ring.Path, Seq: m.Seq}
	for k, mark := range m.Marks {
		is := &d.Members[mark[0]]
		view.Picture.Top = append(view.Picture.Top, templates.Mark{Slug: is.Slug, Name: is.Name, URL: is.URL, Kind: is.Kind, Position: int(mark[1]), Total: mark[2], Standing: mark[3]})
		if k < momentRows {
			view.First = append(view.First, templates.MomentRow{Slug: is.Slug, Name: is.Name, Counts: usd(mark[3])})
		}
	}
	return drawn(view.HTML())
}

// momentRows is how many members the page of a moment lists.
const momentRows = 10

// momentCard fills the view of the card of the moment that at names, and spells its at. There is one
// card for each moment, whichever events name it.
func (r *reader) momentCard(at string) (view drawable, named string) {
	v, ok := r.survey()
	if !ok {
		return nil, at
	}
	d := r.moments()
	if d == nil {
		return nil, at
	}
	m := &d.Moments[d.find(at)]
	home := &card.Home{Ring: card.Ring{Members: m.Members}, Site: onCards(&v.about), Title: m.At.UTC().Format("2 January 2006"),
		Words: v.about.Name + " as it was at " + m.At.UTC().Format("15:04 UTC") + ", replayed from its public log."}
	for k, mark := range m.Marks {
		is := &d.Members[mark[0]]
		home.Marks = append(home.Marks, card.Mark{Position: int(mark[1]), Total: mark[2], Percent: percent(mark[3], mark[2]), Kind: is.Kind})
		if k == 0 {
			home.First, home.Host = is.Name, templates.Where(is.URL)
		}
	}
	return home, strconv.FormatUint(m.Seq, 10)
}
