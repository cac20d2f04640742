package pages

import (
	"bytes"
	"context"
	"image/png"
	"strings"
	"testing"
	"time"

	"webring/core/api"
	"webring/edge/card"
	"webring/edge/describe"
)

// cardOf gives the card at a path as one node sends it.
func cardOf(t *testing.T, s *Pages, c Core, path string) (fields string, body []byte, busy bool) {
	t.Helper()
	p, busy, failed := s.Card(c, path, "")
	if failed != nil {
		t.Fatalf("%s: status %d: %s", path, failed.Status, failed.Body)
	}
	if busy {
		return "", nil, true
	}
	lines, _, sent := p.AppendAnswer(nil, noFields{}, c)
	return string(lines), sent, false
}

// Two nodes draw the same card, and a card that shows what it showed is not drawn again.
func TestEachNodeDrawsTheSameCard(t *testing.T) {
	one, other := newCore(t), newCore(t)
	at, beside := New(describe.Site{}, time.Now), New(describe.Site{}, time.Now)
	for _, path := range []string{CardPath, CardsPath + "alpha.png"} {
		one.Tick(time.Unix(epoch+2, 0))
		other.Tick(time.Unix(epoch+3, 0))
		fields, body, _ := cardOf(t, at, one, path)
		again, same, _ := cardOf(t, beside, other, path)
		if !bytes.Equal(body, same) || !bytes.HasPrefix(body, []byte("\x89PNG\r\n")) {
			t.Errorf("%s: %d and %d bytes", path, len(body), len(same))
		}
		tag := func(fields string) string { return fields[:strings.Index(fields, "\r\n")] }
		if tag(fields) != tag(again) || !strings.Contains(fields, "Content-Type: image/png\r\n") || strings.Contains(fields, "Vary") {
			t.Errorf("%s: %s and %s", path, fields, again)
		}
	}
}

// A card shows what has faded since it was drawn, and is not drawn anew for cents.
func TestACardFades(t *testing.T) {
	c, s := newCore(t), New(describe.Site{}, time.Now)
	for _, path := range []string{CardPath, CardsPath + "alpha.png"} {
		before := 1 << 30
		for _, second := range []int64{2, 260, 760, 2000} { // the bid fades, and has faded away
			c.Tick(time.Unix(epoch+second, 0))
			_, body, _ := cardOf(t, s, c, path)
			bright := inked(t, body)
			if bright >= before {
				t.Errorf("%s after %d s: %d pixels of the ring are bright, %d were", path, second, bright, before)
			}
			before = bright
		}
	}
	c.Tick(time.Unix(epoch+300, 0))
	_, body, _ := cardOf(t, s, c, CardPath)
	until := s.cards.find(s.cards.cached.Key([]byte(CardPath))).entry.Until
	c.Tick(time.Unix(until, 0))
	if _, again, _ := cardOf(t, s, c, CardPath); until > epoch+302 || &again[0] != &body[0] {
		t.Errorf("the card was drawn anew for a cent, %d s later", until-epoch-300)
	}
}

// A card says what the last bid did, by the news of the member.
func TestACardSaysWhatABidDid(t *testing.T) {
	c := newCore(t)
	for news, want := range map[string]string{
		`{"type":"outbid","was_rank":2,"rank":3},{"at":"2026-11-24T09:00:00Z","type":"bid","was_rank":20,"rank":2,"amount_usd":"1.00"},{"type":"bid","was_rank":30,"rank":20,"amount_usd":"9.00"}`: "$1 lifted it 18 places on 24 November 2026",
		`{"at":"2026-11-24T09:00:00Z","type":"bid","was_rank":2,"rank":1,"amount_usd":"2.50"}`:                                                                                                     "$2.50 lifted it 1 place on 24 November 2026",
		`{"type":"bid","was_rank":1,"rank":1,"amount_usd":"1.00"},{"type":"bid","was_rank":3,"rank":1,"amount_usd":"1.00"}`:                                                                        "",
		`{"type":"joined","rank":1,"amount_usd":"1.00"}`: "",
		`7`: "",
	} {
		s := New(describe.Site{OriginData: func(_ context.Context, path, query string) api.Document {
			return api.Document{Status: 200, MaxAge: 10, Body: []byte(map[string]string{"/api/ring/alpha/events": `{"events":[` + news + `]}`}[path])}
		}}, time.Now)
		r := newReader(s, c)
		if got := r.card(CardsPath + "alpha.png").(*card.Member).Did; got != want {
			t.Errorf("%s: %q, want %q", news, got, want)
		}
	}
}

// inked counts the bright pixels of the rays of a card, outside the marks of the ring.
func inked(t *testing.T, file []byte) (n int) {
	t.Helper()
	m, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for x := 880; x < 916; x++ {
		for y := 40; y < 135; y++ {
			if r, g, b, _ := m.At(x, y).RGBA(); r > 2*g || b > 2*r {
				n++
			}
		}
	}
	return n
}

// While a card is drawn, others wait, or they get the one before, or are told that too many
// wait.
func TestOneCardIsDrawnAtATime(t *testing.T) {
	c := newCore(t)
	s := New(describe.Site{}, time.Now)
	path := CardsPath + "alpha.png"
	c.Tick(time.Unix(epoch+2, 0))
	_, before, _ := cardOf(t, s, c, path)
	s.cards.turn <- struct{}{} // after the time that the drawing took again
	s.cards.waiting.Store(mostWithFormer)
	c.Tick(time.Unix(epoch+500, 0))
	if _, body, _ := cardOf(t, s, c, path); !bytes.Equal(body, before) {
		t.Error("the card before is not given while another is drawn")
	}

	fresh := New(describe.Site{}, time.Now)
	fresh.cards.turn <- struct{}{}
	fresh.cards.waiting.Store(mostWaiting)
	if _, _, busy := cardOf(t, fresh, c, path); !busy {
		t.Error("one more waits")
	}
	fresh.cards.waiting.Store(0)
	got := make(chan []byte)
	go func() {
		p, _, _ := fresh.Card(c, path, "")
		if p == nil {
			got <- nil
			return
		}
		_, _, body := p.AppendAnswer(nil, noFields{}, c)
		got <- body
	}()
	select {
	case <-got:
		t.Fatal("two cards are drawn at a time")
	case <-time.After(20 * time.Millisecond):
	}
	<-fresh.cards.turn
	if body := <-got; !bytes.HasPrefix(body, []byte("\x89PNG\r\n")) {
		t.Errorf("after the wait: %d bytes", len(body))
	}
}

// A path that names no member has no card, and nothing is drawn for it.
func TestCardsThatAreNotThere(t *testing.T) {
	c := newCore(t)
	s := New(describe.Site{}, time.Now)
	for path, code := range map[string]api.Code{CardsPath + "nobody.png": api.UnknownMember, CardsPath + "alpha": api.NotFound, CardsPath + "next.png": api.UnknownMember,
		CardsPath + "alpha.example.png": api.UnknownMember} {
		_, _, failed := s.Card(c, path, "")
		if failed == nil || failed.Status != code.Status() || !bytes.Contains(failed.Body, []byte(code)) {
			t.Errorf("%s: %+v, want %s", path, failed, code)
		}
	}
}
