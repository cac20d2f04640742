package pages

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"math"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"webring/core/api"
	"webring/edge/cache"
	"webring/edge/card"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/templates"
)

// CardPath is the path of the ring's card, CardsPath the folder of the members' cards, and
// PreviewsPath that of the cards of other pages.
const (
	CardPath     = "/card.png"
	CardsPath    = "/cards/"
	PreviewsPath = "/previews/"
)

// subjects are what pages are about, by the first segment of their paths: what their cards say.
var subjects = map[string]struct{ title, words string }{
	"leaderboard": {"Leaderboard", "All members by rank, what a bid on each would do, and the price of first place."},
	"ring":        {"The ring", "All members of the ring, in the order of joining."},
	"join":        {"Join", "How to join the ring, with a free check of your site."},
	"embed":       {"Embed", "Widget, badge and links for the pages of members."},
	"docs":        {"API", "How programs read the ring, join it and bid: every request with its parameters, an answer and its errors."},
	"about":       {"About", "What the ring is, what a place costs, and which sites are in it."},
	"verify":      {"Verify", "Recompute the leaderboard from the signed log, in your browser or with webring verify."},
	"problems":    {"Problems", "What each error of the API means, and what to do."},
}

const (
	// cardBytes is how many bytes the cached cards take.
	cardBytes = 8 << 20
	// mostWaiting is how many requests wait for a drawing at a time. Their wait is about as
	// many times the time of two drawings.
	mostWaiting = 8
	// mostWithFormer is the same for requests that can have the card of an earlier position.
	mostWithFormer = 2
)

// cards are the cards that were drawn. They have a cache of their own, so that a walk through
// all of them evicts no page.
type cards struct {
	cached  *cache.Cache
	turn    chan struct{} // holds one element while a card is drawn, and for as long again
	waiting atomic.Int32
}

func newCards() cards {
	return cards{cached: cache.New(cardBytes), turn: make(chan struct{}, 1)}
}

// drawnCard is a card in the cache.
type drawnCard struct {
	*Page
	shows [sha256.Size]byte // hash of what it shows
}

// drawable is a view of package card.
type drawable interface{ PNG() []byte }

// Card gives the card at a path, of the moment at unless that is "", from the cache as long as it holds, or what the core
// answered instead of a document. One card is drawn at a time, and cards take at most half
// of one processor. When several requests wait, the card of an earlier position is given if
// there is one. busy says that there is none, and that many wait: then there is no card now.
func (s *Pages) Card(c Core, path, at string) (p *Page, busy bool, failed *api.Response) {
	key := s.cards.cached.Key([]byte(path + at))
	before := s.cards.find(key)
	found := before != nil && before.holds(c)
	c.Cached(found)
	if found {
		return before.Page, false, nil
	}
	if before == nil && path+at != CardPath && s.cards.waiting.Load() >= mostWaiting {
		return nil, true, nil // without a read for it
	}
	r := newReader(s, c)
	var view drawable
	named := at
	r.complete(func() {
		if at == "" {
			view = r.card(path)
		} else {
			view, named = r.momentCard(at)
		}
	})
	if r.failed != nil {
		return nil, false, r.failed
	}
	if named != at {
		key = s.cards.cached.Key([]byte(path + named))
		if before = s.cards.find(key); before != nil && before.holds(c) {
			return before.Page, false, nil
		}
	}
	// Views are plain structs: they have a JSON form.
	shown, err := json.Marshal(view)
	if err != nil {
		panic(err)
	}
	made := &drawnCard{shows: sha256.Sum256(shown)}
	if before == nil || before.shows != made.shows {
		most := int32(mostWaiting)
		switch {
		case before != nil:
			most = mostWithFormer
		case path+at == CardPath:
			most = math.MaxInt32 // it replaces others
		}
		if !s.cards.begin(most) {
			if before != nil {
				return before.Page, false, nil
			}
			return nil, true, nil
		}
		began := time.Now()
		defer func() { time.AfterFunc(time.Since(began), func() { <-s.cards.turn }) }()
		before = s.cards.find(key) // others may have drawn it meanwhile
	}
	body := (*content.Content)(nil)
	if before != nil && before.shows == made.shows {
		body = before.Content
	} else {
		body = content.New("image/png", view.PNG())
		body.Shared, body.Plain = true, true
	}
	made.Page = &Page{Content: body, entry: r.entry(r.since, r.until)}
	made.entry.Value = made
	s.cards.cached.Put(key, made.entry, body.Size())
	return made.Page, false, nil
}

func (s *cards) find(key cache.Key) *drawnCard {
	if e := s.cached.Get(key); e != nil {
		return e.Value.(*drawnCard)
	}
	return nil
}

// begin waits until a card may be drawn, and takes the turn. It reports false at once when
// that would make more than most that wait.
func (s *cards) begin(most int32) bool {
	select {
	case s.turn <- struct{}{}:
		return true
	default:
	}
	defer s.waiting.Add(-1)
	if s.waiting.Add(1) > most {
		return false
	}
	s.turn <- struct{}{}
	return true
}

// card fills the view of the card at a path.
func (r *reader) card(path string) drawable {
	var first boardDocument
	v, ok := r.survey()
	if !ok || !r.document(standings, &first) {
		return nil
	}
	name, isPreview := strings.CutPrefix(path, PreviewsPath)
	subject := subjects[strings.TrimSuffix(name, ".png")]
	if isPreview && (subject.title == "" || !strings.HasSuffix(name, ".png")) {
		r.fail(api.NotFound, noSuchPath)
		return nil
	}
	if path == CardPath || isPreview {
		view := &card.Home{Ring: v.ring(&first), Site: onCards(&v.about), Title: subject.title, Words: cmp.Or(subject.words, inWords(v.about.Fee))}
		if len(first.Leaderboard) > 0 {
			m := &first.Leaderboard[0]
			view.First, view.Host = m.Name, templates.Where(m.URL)
		}
		return view
	}
	slug, ok := strings.CutSuffix(strings.TrimPrefix(path, CardsPath), ".png")
	if !ok {
		r.fail(api.NotFound, noSuchPath)
		return nil
	}
	var detail struct{ Member describe.Member }
	if !r.document("/api/ring/"+url.PathEscape(slug), &detail) {
		return nil
	}
	m := &detail.Member
	if m.Slug != slug {
		r.fail(api.UnknownMember, noSuchMember)
		return nil
	}
	var news struct {
		Events []struct {
			At     time.Time
			Type   string
			Was    int `json:"was_rank"`
			Rank   int
			Amount string `json:"amount_usd"`
		}
	}
	did := ""
	r.origin("/api/ring/"+url.PathEscape(slug)+"/events", "", &news)
	for _, e := range news.Events { // the newest first
		if e.Type != "bid" {
			continue
		}
		if n := e.Was - e.Rank; n > 0 && e.Rank > 0 {
			did = templates.Dollars(e.Amount) + " lifted it " + strconv.Itoa(n) + templates.Plural(n, " place", " places") + e.At.UTC().Format(" on 2 January 2006")
		}
		break
	}
	return &card.Member{Ring: v.ring(&first), Here: onCard(m), Did: did,
		Site: onCards(&v.about), Name: m.Name, Host: templates.Where(m.URL),
		Rank: m.BoardRank, Standing: counting(m), Words: aging(r.freshness(m))}
}

// onCards is what cards show of the ring as a whole.
func onCards(d *describe.Ring) card.Site {
	box, path := d.Look.Drawing()
	return card.Site{Name: d.Name, Address: address(d.Base), Accent: d.Look.Accent, Logo: card.Logo{Box: box, Path: path}}
}

// counting says what of a member's total counts. Where nothing does, it says what a bid does.
func counting(m *describe.Member) string {
	if cents(m.Standing) == 0 {
		return "A bid restores " + templates.Dollars(m.Paid)
	}
	return templates.Dollars(m.Standing) + " counts now"
}

// ring is what cards show of the ring.
func (v *survey) ring(first *boardDocument) card.Ring {
	ring := card.Ring{Members: v.members}
	for i := range first.Leaderboard {
		ring.Marks = append(ring.Marks, onCard(&first.Leaderboard[i]))
	}
	for _, m := range v.marks {
		ring.Others = append(ring.Others, m.Position)
	}
	return ring
}

// onCard is a member on a card, from a document that shows standings. Of what still counts a card
// shows whole percents, so that it is not drawn again for each cent.
func onCard(m *describe.Member) card.Mark {
	paid := cents(m.Paid)
	return card.Mark{Position: m.Position, Total: paid, Percent: percent(cents(m.Standing), paid), Kind: m.Kind}
}

// address is the ring's, as people write it.
func address(base string) string {
	_, rest, _ := strings.Cut(base, "://")
	return rest
}

// aging says how a standing ages, by dates: a card is kept by those who show it.
func aging(f templates.Freshness) string {
	day := f.Until.At.UTC().Format("2 January 2006")
	switch {
	case f.State == templates.Fresh:
		return "starts fading on " + day
	case f.State == templates.Fading && f.Until.Words != "":
		return "fading, gone by " + day
	case f.State == templates.Fading:
		return "fading"
	case f.State == templates.Faded && f.Until.Words != "":
		return "faded away on " + day
	case f.State == templates.Faded:
		return "faded away"
	}
	return "no bids yet"
}
