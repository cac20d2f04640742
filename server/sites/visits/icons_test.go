package visits

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/server/ledger"
	"webring/server/sites/fetch"
	"webring/server/sites/icon"
	"webring/static"
)

// icon gives what a member's icon is: "none", "small" or the code of a problem, and its position.
func (b *books) icon(slug string) (what string, seq uint64) {
	b.View(func(v *ledger.View) {
		d := Icon(v, "/members/"+slug+"/icon.png")
		switch seq = d.Seq; {
		case d.Status == 404 && strings.Contains(string(d.Body), "unknown_member"):
			what = "unknown"
		case d.Status != 200 || d.Media != "image/png" || len(d.Body) > icon.MaxSmall:
			b.t.Errorf("%s: %d %s", slug, d.Status, d.Media)
		case string(d.Body) == string(icon.None) && d.MaxAge == 600 && seq == 0:
			what = "none"
		case d.MaxAge == 3600 && seq == v.State().Seq():
			what = "small"
		}
	})
	return what, seq
}

// answers is what sites answer, with their icons.
type answers func(r fetch.Request) (*fetch.Response, error)

func (a answers) Get(_ context.Context, r fetch.Request) (*fetch.Response, error) { return a(r) }
func (a answers) TXT(context.Context, string, string) ([]string, error)           { return nil, nil }

// visitOf visits a member on schedule.
func visitOf(t *testing.T, v *Visitor, slug string) {
	t.Helper()
	if m, ok := v.member(slug); !ok || !v.record(t.Context(), []sight{v.visit(t.Context(), m)}, nothingDue, false) {
		t.Fatal(slug, "was not visited")
	}
}

func TestIconsAreFetchedOnceAWeek(t *testing.T) {
	favicon := static.Icons[0].Body
	synctest.Test(t, func(t *testing.T) {
		b := open(t, "a.example")
		head := ""
		var asked []string
		answer, failed := fetch.Response{Status: 200, Body: favicon}, error(nil)
		w := answers(func(r fetch.Request) (*fetch.Response, error) {
			if r.MaxBody != maxIcon {
				return page(200, head), nil
			}
			asked = append(asked, r.URL)
			return &answer, failed
		})
		v := New(Config{Ledger: b, Fetch: w})
		for _, c := range []struct {
			about   string
			change  func()
			after   time.Duration
			fetches string
			want    string
		}{
			{"at first", nil, 0, "https://a.example/favicon.ico", "small"},
			{"a day later", nil, 24 * time.Hour, "", "small"},
			{"an address that is new", func() { head = `<link rel="icon" href="https://x.example/i.png">` }, 24 * time.Hour, "https://x.example/i.png", "small"},
			{"a week later", nil, iconsAge, "https://x.example/i.png", "small"},
			{"a fault of the site", func() { answer.Status = 503 }, iconsAge, "https://x.example/i.png", "small"},
			{"a limit", func() { answer.Status, failed = 200, &fetch.Busy{} }, 24 * time.Hour, "https://x.example/i.png", "small"},
			{"no connection", func() { failed = fetch.ErrUnreachable }, 24 * time.Hour, "https://x.example/i.png", "small"},
			{"too long", func() { failed, answer.Truncated = nil, true }, 24 * time.Hour, "https://x.example/i.png", "none"},
			{"the same", func() { answer.Truncated = false }, 24 * time.Hour, "", "none"},
			{"a week after that", nil, iconsAge, "https://x.example/i.png", "small"},
			{"SVG", func() { answer.Body = []byte("<svg/>") }, iconsAge, "https://x.example/i.png", "none"},
			{"gone", func() { answer = fetch.Response{Status: 404, Body: favicon} }, iconsAge, "https://x.example/i.png", "none"},
			{"a private address", func() { head = `<link rel="icon" href="http://10.0.0.1/i.png">`; answer.Status = 200 }, iconsAge, "https://a.example/favicon.ico", "small"},
		} {
			if c.change != nil {
				c.change()
			}
			time.Sleep(c.after)
			asked = nil
			visitOf(t, v, "a")
			if got, _ := b.icon("a"); got != c.want || strings.Join(asked, " ") != c.fetches {
				t.Errorf("%s: %s, asked for %q, want %s and %q", c.about, got, asked, c.want, c.fetches)
			}
		}
		// A visit that has failed asks for no icon.
		head, asked = `<link rel="icon" href="/new.png">`, nil
		v.cfg.Fetch = answers(func(fetch.Request) (*fetch.Response, error) { return page(500, head), nil })
		visitOf(t, v, "a")
		if got, _ := b.icon("a"); got != "small" || asked != nil {
			t.Errorf("after a failure: %s, asked for %q", got, asked)
		}
	})
}

func TestIconsOfMembersThatAreGoneAreForgotten(t *testing.T) {
	small, err := icon.Small(icon.None)
	if err != nil {
		t.Fatal(err)
	}
	row := func(b *books) (has bool) {
		b.View(func(v *ledger.View) {
			value, err := v.Value(ledger.Visits, iconPrefix+"a")
			if has = len(value) > 0; err != nil {
				t.Error(err)
			}
		})
		return has
	}
	for about, c := range map[string]struct {
		gone func(stamp int64) (core.Event, *core.Texts)
		want string
	}{
		"moved": {func(stamp int64) (core.Event, *core.Texts) {
			texts := &core.Texts{URL: core.Text{Value: "https://a.example/elsewhere"}}
			return &core.Moved{Stamp: stamp, Member: "a", URL: coretest.Commit(texts.URL)}, texts
		}, "none"},
		"removed with its words": {func(stamp int64) (core.Event, *core.Texts) {
			return &core.Removed{Stamp: stamp, Member: "a", Redacted: true}, nil
		}, "unknown"},
		"hidden": {func(stamp int64) (core.Event, *core.Texts) { return &core.Hidden{Stamp: stamp, Member: "a"}, nil }, "unknown"},
	} {
		for _, observed := range []bool{true, false} { // a ledger from a backup was not observed
			b := open(t, "a.example", "b.example")
			b.do(func(tx *ledger.Tx) error {
				o, _ := tx.State().BySlug([]byte("a"))
				m, _ := targetOf(tx.State(), o)
				r := iconRow{about: aboutOf(m), at: 1, png: small}
				return keep(tx, iconPrefix+"a", r.encode())
			})
			if got, seq := b.icon("a"); got != "small" || seq == 0 {
				t.Fatalf("%s at %d", got, seq)
			}
			b.do(func(tx *ledger.Tx) error {
				e, texts := c.gone(tx.Stamp())
				_, err := tx.Append(e, texts)
				if err == nil && observed {
					err = Forget(tx, e)
				}
				return err
			})
			if got, _ := b.icon("a"); got != c.want || row(b) == observed {
				t.Errorf("%s, observed %v: %s", about, observed, got)
			}
		}
	}
	b := open(t, "a.example")
	b.do(func(tx *ledger.Tx) error {
		return errors.Join(tx.Put(ledger.Visits, iconPrefix+"a", []byte{0x80}), tx.Put(ledger.Visits, iconPrefix+"nobody", small))
	})
	for slug, want := range map[string]string{"a": "none", "nobody": "unknown", "": "unknown"} {
		if got, _ := b.icon(slug); got != want {
			t.Errorf("%q: %s", slug, got)
		}
	}
}
