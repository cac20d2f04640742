package visits

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/server/ledger"
	"webring/server/sites/fetch"
)

var update = flag.Bool("update", false, "write the golden files")

const feedLink = `<link rel="alternate" type="application/rss+xml" href="https://feeds.dev/?of=%s&amp;b='2'">`

// feeds gives the slugs of members with a row, and the names that the list has, as " names".
func (b *books) feeds(f *Feeds) (rows, names string) {
	b.t.Helper()
	b.View(func(v *ledger.View) {
		all, err := v.Scan(ledger.Visits, feedPrefix, feedPrefix, 5000)
		if err != nil {
			b.t.Error(err)
		}
		for _, row := range all {
			rows += " " + row.Key[len(feedPrefix):]
		}
	})
	d := f.Document()
	var doc struct {
		Outlines []struct {
			Name string `xml:"title,attr"`
		} `xml:"body>outline"`
	}
	if err := xml.Unmarshal(d.Body, &doc); err != nil || d.Status != 200 {
		b.t.Errorf("%v: %d %s", err, d.Status, d.Body)
	}
	for _, o := range doc.Outlines {
		names += " " + o.Name
	}
	return rows, strings.TrimRight(names, " ")
}

func (b *books) newFeeds() *Feeds { return NewFeeds(b, time.Now, slog.New(slog.DiscardHandler)) }

func TestFeedsAreKeptWhileTheirSitesHaveThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, "b.example", "a.example", "none.example", "card.example")
		answers := map[string]*fetch.Response{}
		w := newWeb(func(host string, r fetch.Request) (*fetch.Response, error) {
			name, _, _ := strings.Cut(host, ".")
			if a := answers[name]; a != nil {
				return a, nil
			} else if name == "none" {
				return page(200, fmt.Sprintf("<p>Hello</p>"+feedLink, name)), nil
			}
			return page(200, fmt.Sprintf("<title>x</title>"+feedLink, name)), nil
		})
		v, f := New(Config{Ledger: b, Fetch: w}), b.newFeeds()
		visit := func() {
			t.Helper()
			for _, slug := range []string{"a", "b", "none"} {
				if m, ok := v.member(slug); !ok || !v.record(t.Context(), []sight{v.visit(t.Context(), m)}, nothingDue, false) {
					t.Fatal(slug, "was not visited")
				}
			}
		}
		want := func(about, rows, names string) {
			t.Helper()
			if r, n := b.feeds(f); r != rows || n != names {
				t.Errorf("%s: rows %q, listed %q, want %q and %q", about, r, n, rows, names)
			}
		}
		want("before the first visit", "", "")
		visit()
		want("within a minute", " a b", "")
		time.Sleep(feedsAge)
		want("after one", " a b", " b a")
		first := f.Document()
		seq := b.Size()
		visit()
		time.Sleep(feedsAge)
		if again := f.Document(); string(again.Body) != string(first.Body) || b.Size() != seq {
			t.Errorf("nothing has changed but the document:\n%s\n%s", first.Body, again.Body)
		}
		for about, answer := range map[string]*fetch.Response{
			"an error": page(500, "Oh"), "a refusal": page(403, "No"), "no page": {Status: 200, Header: map[string][]string{"Content-Type": {"text/plain"}}, URL: page(200, "").URL},
			"the beginning of a page": {Status: 200, Header: page(200, "").Header, URL: page(200, "").URL, Body: []byte("<title>"), Truncated: true},
		} {
			answers["a"] = answer
			visit()
			time.Sleep(feedsAge)
			want(about, " a b", " b a")
		}
		answers["a"] = page(200, "<p>Moved house</p>")
		visit()
		time.Sleep(feedsAge)
		want("a page without one", " b", " b")

		// A site of two pages has the feed of either.
		m, _ := v.member("a")
		for _, pages := range [][2]string{{fmt.Sprintf(feedLink, "a"), ""}, {"", fmt.Sprintf(feedLink, "a")}} {
			s := sight{target: m}
			v.findLink(&s, page(200, pages[0]))
			if v.findLink(&s, page(200, pages[1])); !s.fed || s.feed == "" {
				t.Errorf("%q: %q", pages, s.feed)
			}
		}
	})
}

func TestFeedsOfMembersThatAreGoneAreNotListed(t *testing.T) {
	for about, gone := range map[string]func(stamp int64) (core.Event, *core.Texts){
		"moved": func(stamp int64) (core.Event, *core.Texts) {
			return &core.Moved{Stamp: stamp, Member: "a"}, &core.Texts{URL: core.Text{Value: "https://a.example/elsewhere"}}
		},
		"left":    func(stamp int64) (core.Event, *core.Texts) { return &core.Left{Stamp: stamp, Member: "a"}, nil },
		"removed": func(stamp int64) (core.Event, *core.Texts) { return &core.Removed{Stamp: stamp, Member: "a"}, nil },
		"hidden":  func(stamp int64) (core.Event, *core.Texts) { return &core.Hidden{Stamp: stamp, Member: "a"}, nil },
		"asleep":  func(stamp int64) (core.Event, *core.Texts) { return &core.Asleep{Stamp: stamp, Member: "a"}, nil },
	} {
		for _, observed := range []bool{true, false} { // a ledger from a backup was not observed
			synctest.Test(t, func(t *testing.T) {
				b := open(t, "a.example", "b.example")
				f := b.newFeeds()
				b.give("a", "b")
				if _, names := b.feeds(f); names != " a b" {
					t.Fatalf("%q", names)
				}
				b.do(func(tx *ledger.Tx) error {
					e, texts := gone(tx.Stamp())
					if m, is := e.(*core.Moved); is {
						m.URL = coretest.Commit(texts.URL)
					}
					_, err := tx.Append(e, texts)
					if err == nil && observed {
						err = Forget(tx, e)
					}
					return err
				})
				if about == "moved" || about == "asleep" { // the others at once
					time.Sleep(feedsLeast)
				}
				kept := " a b"
				if observed && about != "asleep" {
					kept = " b"
				}
				if rows, names := b.feeds(f); rows != kept || names != " b" {
					t.Errorf("%s, observed %v: rows %q, listed %q", about, observed, rows, names)
				}
				if m, there := New(Config{Ledger: b}).member("a"); !there {
					// A visit that was under way finds that its member is gone.
					m.slug = "a"
					b.do(func(tx *ledger.Tx) error {
						_, err := judgeVisit(tx, &sight{target: m, outcome: Answered, fed: true, feed: "https://feeds.dev/"}, false)
						return err
					})
					if rows, _ := b.feeds(f); rows != " b" {
						t.Errorf("%s, after a visit: %q", about, rows)
					}
				}
			})
		}
	}
}

// give writes feeds of members.
func (b *books) give(slugs ...string) {
	b.t.Helper()
	b.do(func(tx *ledger.Tx) error {
		var errs []error
		for _, slug := range slugs {
			o, _ := tx.State().BySlug([]byte(slug))
			m, _ := targetOf(tx.State(), o)
			errs = append(errs, keepFeed(tx, m, "https://feeds.dev/?a=1&of='"+slug+"'"))
		}
		return errors.Join(errs...)
	})
}

func TestTheListOfFeedsIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hosts, slugs []string
		for i := range maxFeeds + 7 {
			slugs = append(slugs, fmt.Sprintf("m%04d", i))
			hosts = append(hosts, slugs[i]+".example")
		}
		b := open(t, hosts...)
		b.give(slugs...)
		b.do(func(tx *ledger.Tx) error { // the last one leads
			_, err := tx.Append(&core.Adjusted{Stamp: tx.Stamp(), Member: slugs[len(slugs)-1], Adjustment: core.Credit, Amount: 500}, nil)
			return err
		})
		f := b.newFeeds()
		_, names := b.feeds(f)
		list := strings.Fields(names)
		if len(list) != maxFeeds || list[0] != "m0000" || list[maxFeeds-2] != "m0998" || list[maxFeeds-1] != slugs[len(slugs)-1] {
			t.Errorf("%d: %q", len(list), list)
		}
		if body := string(f.Document().Body); !strings.Contains(body, "<title>Test: feeds of members (the first 1000 by rank, of 1007)</title>") {
			t.Errorf("%.300s", body)
		}
	})
}

func TestTheListOfFeedsIsOPML(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, "plain.example", "h0.example", "h1.example", "h2.example", "h3.example")
		names := []string{`"><script>alert(1)</script>`, "Tom & 'Jerry' ]]> <!-- -->", "\u202eright to left", "日本 &amp; 😀"}
		b.do(func(tx *ledger.Tx) error {
			for i, name := range names {
				texts := &core.Texts{Name: core.Text{Value: name}, URL: core.Text{Value: fmt.Sprintf("https://h%d.example/?q='a'&b=%%22", i)}}
				slug := fmt.Sprint("h", i)
				_, changed := tx.Append(&core.Changed{Stamp: tx.Stamp(), Member: slug, Name: coretest.Commit(texts.Name)}, &core.Texts{Name: texts.Name})
				_, moved := tx.Append(&core.Moved{Stamp: tx.Stamp(), Member: slug, URL: coretest.Commit(texts.URL)}, &core.Texts{URL: texts.URL})
				if err := errors.Join(changed, moved); err != nil {
					return err
				}
			}
			return nil
		})
		f := b.newFeeds()
		check := func(golden string) {
			t.Helper()
			d := f.Document()
			if *update {
				if err := os.WriteFile(golden, d.Body, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || string(d.Body) != string(want) || d.Media != opmlMedia || d.MaxAge != 60 || d.Seq != b.Size() {
				t.Errorf("%v: %d of %d events, %s\n%s\nwant\n%s", err, d.Seq, b.Size(), d.Media, d.Body, want)
			}
		}
		check("testdata/empty.opml")
		b.give("h0", "h1", "h2", "h3", "plain")
		time.Sleep(feedsAge)
		check("testdata/feeds.opml")
		if _, list := b.feeds(f); list != " plain "+strings.Join(names, " ") {
			t.Errorf("%q", list)
		}
	})
}

func TestFeedsThatCannotBeRead(t *testing.T) {
	b := open(t, "a.example")
	b.do(func(tx *ledger.Tx) error {
		return errors.Join(tx.Put(ledger.Visits, feedPrefix+"a", []byte{0x80}), tx.Put(ledger.Visits, feedPrefix+"nobody", []byte("\x01https://x.dev/")), tx.Put(ledger.Visits, feedPrefix, []byte("\x01")))
	})
	if _, names := b.feeds(b.newFeeds()); names != "" {
		t.Errorf("malformed rows are listed: %q", names)
	}
}
