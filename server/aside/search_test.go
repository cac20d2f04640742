package aside

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"webring/core"
	"webring/core/coretest"
	"webring/server/ledger"
	"webring/server/ledger/ledgertest"
)

// books are a ledger, next to the obvious ring.
type books struct {
	*ledger.Ledger
	t     testing.TB
	model *coretest.Model
}

func newBooks(t testing.TB, capacity int) *books {
	l, err := ledger.Open(ledger.Config{Store: ledgertest.NewStore(), HeadPath: filepath.Join(t.TempDir(), "head"), Capacity: capacity,
		Now: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &books{l, t, &coretest.Model{Capacity: capacity}}
}

// add gives events to both, which take the same ones.
func (b *books) add(steps ...coretest.Step) {
	b.t.Helper()
	err := b.Do(context.Background(), func(tx *ledger.Tx) error {
		for _, s := range steps {
			got, want := tx.Adopt(ledger.Record{Event: s.EventBytes, Texts: s.TextBytes}), b.model.Apply(s.Event, s.Texts)
			if (got == nil) != (want == nil) {
				return fmt.Errorf("%#v: %v, want %v", s.Event, got, want)
			}
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *books) rules() {
	b.add(coretest.NewStep(&core.Rules{Stamp: 1000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Grace: 100, Decay: 100, Scorer: "s"}, nil))
}

func (b *books) join(slug, name, host string) {
	b.t.Helper()
	texts := &core.Texts{}
	texts.Name.Value, texts.URL.Value = name, "https://"+host+"/"
	b.add(coretest.NewStep(&core.Joined{Stamp: 1000, Slug: slug, Kind: core.Website, Category: "general", Fee: 100, Name: coretest.Commit(texts.Name), URL: coretest.Commit(texts.URL)}, texts))
}

// scan finds members of the obvious ring by reading all of them.
func (b *books) scan(q string, kind core.Kind, category *string) (slugs []string) {
	plain := func(text string) []string {
		word, words := "", []string{}
		for _, r := range norm.NFKD.String(text) + " " {
			switch {
			case unicode.Is(unicode.Mn, r):
			case unicode.IsLetter(r) || unicode.IsNumber(r):
				word += strings.ToLower(string(r))
			case word != "":
				words, word = append(words, word), ""
			}
		}
		return words
	}
	for _, i := range b.model.Ring(kind, category) {
		m := b.model.Members[i]
		u, err := url.Parse(m.Texts.URL.Value)
		if err != nil {
			b.t.Fatal(err)
		}
		own := plain(m.Event.Slug + " " + m.Texts.Name.Value + " " + strings.TrimPrefix(u.Hostname(), "www."))
		all := true
		for _, w := range plain(q) {
			all = all && slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(o, w) })
		}
		if all {
			slugs = append(slugs, m.Event.Slug)
		}
	}
	return slugs
}

type document struct {
	Total, Count, Limit, Offset int
	Members                     []struct{ Slug string }
	Links                       struct{ Next, Prev *string }
	Code, Parameter             string
}

func (d *document) slugs() (slugs []string) {
	for _, m := range d.Members {
		slugs = append(slugs, m.Slug)
	}
	return slugs
}

func ask(t testing.TB, x *Index, query string, status int) (d document) {
	t.Helper()
	a := x.Document(query)
	if err := json.Unmarshal(a.Body, &d); err != nil || a.Status != status {
		t.Fatalf("%s: status %d, want %d: %v %s", query, a.Status, status, err, a.Body)
	}
	return d
}

// An index finds what reading everything finds, however far behind it is when it is asked,
// page by page, and so does one that is made anew.
func TestAnIndexFindsWhatAScanFinds(t *testing.T) {
	words := []string{"a", "al", "ALPHA", "alpha-1", "ünï", "uni", "日", "日本", "b", "example", "a.com", "www", "com friends", "quoted B", "chang", "fri al", "nobody", "al al", "line break"}
	hits, changed := 0, 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 9))
		b := newBooks(t, 1<<10)
		x := NewIndex(b)
		if seed%2 == 0 {
			x.most = 3 // rows are sorted in at most searches
		}
		for _, s := range coretest.Generate(seed, 150) {
			if s.Event == nil {
				continue
			}
			b.add(s)
			if b.model.Rules == nil || random.IntN(6) > 0 {
				continue
			}
			q, kind, category := words[random.IntN(len(words))], core.Kind(random.IntN(4)), []string{"", "general", "tools"}[random.IntN(3)]
			query, filter := "q="+url.QueryEscape(q), &category
			if kind != 0 {
				query += "&kind=" + kind.String()
			}
			if category == "" {
				filter = nil
			} else {
				query += "&category=" + category
			}
			want := b.scan(q, kind, filter)
			limit := 1 + random.IntN(4)
			for _, x := range []*Index{x, NewIndex(b)} {
				var got []string
				for offset := 0; ; offset += limit {
					d := ask(t, x, fmt.Sprintf("%s&limit=%d&offset=%d", query, limit, offset), 200)
					got = append(got, d.slugs()...)
					if d.Total != len(want) || d.Count != len(d.Members) || d.Offset != offset || (d.Links.Next != nil) != (offset+limit < len(want)) {
						t.Fatalf("seed %d, %s at %d: %+v, want %d", seed, query, offset, d, len(want))
					}
					if d.Links.Next == nil {
						break
					}
					next, err := url.Parse(*d.Links.Next)
					if err != nil || next.Query().Get("q") != q || next.Query().Get("offset") != fmt.Sprint(offset+limit) {
						t.Fatalf("%s leads to %s", query, *d.Links.Next)
					}
				}
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d, %s: %q, want %q", seed, query, got, want)
				}
			}
			hits += len(want)
			changed += x.changes
			if x.changes > x.most || cap(x.entries) > mostWords*x.rows() {
				t.Fatalf("seed %d: %d rows have changed, %d entries of %d rows", seed, x.changes, cap(x.entries), x.rows())
			}
		}
	}
	if hits < 500 || changed < 500 {
		t.Errorf("%d members found, %d rows looked at one by one", hits, changed)
	}
}

// rows is how many rows the ledger has.
func (x *Index) rows() (n int) {
	x.books.View(func(v *ledger.View) { n = v.State().Rows() })
	return n
}

func TestWhatWordsFind(t *testing.T) {
	b := newBooks(t, 1<<10)
	b.rules()
	b.join("cafe-strasse", "Café Straße №7", "www.xn--bcher-kva.example")
	b.join("greek", "ΟΔΥΣΣΕΥΣ", "o.example")
	b.join("wide", "Ｆｕｌｌ Ⅳ", "w.example")
	b.join("long", "Donaudampfschifffahrtsgesellschaft", "l.example")
	b.join("long-2", "Donaudampfschifffahrtskapitän", "l2.example")
	b.join("ring", "ウェブリング हिन्दी", "k.example")
	x := NewIndex(b)
	for q, want := range map[string]string{
		"cafe": "cafe-strasse", "CAFÉ": "cafe-strasse", "cafe\u0301 STRASS": "cafe-strasse", "straße": "cafe-strasse", "afe": "", "bücher": "cafe-strasse", "bucher.exam": "cafe-strasse",
		"xn--bcher": "cafe-strasse", "www": "", "οδυσσευς": "greek", "ὀδυς": "greek", "full iv": "wide", "donaudampf": "long long-2", "donaudampfschifffahrtsk": "long-2",
		"Donaudampfschifffahrtsgesellschaften": "", "donaudampfschiff lo": "long long-2", "ウェブ": "ring", "हिन": "ring", "7": "", "no7": "cafe-strasse", "2": "long-2",
		"   -- cafe ,;": "cafe-strasse", "example": "cafe-strasse greek wide long long-2 ring", "long 2 k": "", "donau donau donau": "long long-2",
	} {
		if got := strings.Join(func() []string { d := ask(t, x, "q="+url.QueryEscape(q), 200); return d.slugs() }(), " "); got != want {
			t.Errorf("%q finds %q, want %q", q, got, want)
		}
	}
}

// What is no search is refused in one form, and what is one leaves nothing unescaped.
func TestHostileSearches(t *testing.T) {
	b := newBooks(t, 1<<10)
	x := NewIndex(b)
	if d := ask(t, x, "q=a", 500); d.Code != "internal" {
		t.Errorf("%+v", d)
	}
	b.rules()
	b.join("one", "One", "one.example")
	b.join("two", "One", "two.example")
	for _, query := range []string{"", "q=", "q=+", "q=%00%01", "q=%ff", "q=%zz", "q=---", "q=a+b+c+d+e+f+g+h+i", "q=" + strings.Repeat("a", 101), "q=" + strings.Repeat("%F0%9F%98%80", 50)} {
		if d := ask(t, x, query, 400); d.Code != "invalid_parameter" || d.Parameter != "q" {
			t.Errorf("%.40q: %+v", query, d)
		}
	}
	for query, parameter := range map[string]string{"q=a&kind=x": "kind", "q=a&limit=501": "limit", "q=a&offset=-1": "offset", "q=a&page=0": "page", "q=a&page=18014398509483": "page", "q=%ff&limit=0": "q"} {
		if d := ask(t, x, query, 400); d.Parameter != parameter {
			t.Errorf("%s: %+v", query, d)
		}
	}
	for query, total := range map[string]int{"q=" + strings.Repeat("a", 100): 0, "q=one&category=" + url.QueryEscape(`"><x`): 0, "q=ONE%22%3C%26%23+%E2%80%AE": 2, "q=&q=one&q=x": 2,
		"q=a+b+c+d+e+f+g+h": 0, "q=one&page=18014398509482": 2, "q=one&unknown=x": 2} {
		d := ask(t, x, query+"&limit=1", 200)
		if d.Total != total || d.Links.Next != nil && strings.ContainsAny(*d.Links.Next, "\"<> \u202e") {
			t.Errorf("%s: %+v", query, d)
		}
	}
}

// Rows that have changed are sorted in when they are many, and the words of a member that
// has left are forgotten; an index holds no more than it says.
func TestAnIndexIsBounded(t *testing.T) {
	const members = 3000
	b := newBooks(t, 1<<13)
	b.rules()
	b.join("first", "First of all", "first.example")
	x := NewIndex(b)
	ask(t, x, "q=first", 200)
	for i := range members {
		b.join(fmt.Sprint("m-", i), strings.Repeat(string(rune('a'+i%26)), i%30+1)+" x y z", fmt.Sprintf("m%d.example", i))
		if i == 500 {
			if d := ask(t, x, "q=m-4", 200); d.Total != 111 || x.changes != 501 {
				t.Errorf("%d found, %d rows have changed", d.Total, x.changes)
			}
		}
	}
	if d := ask(t, x, "q=m-29+x&limit=500", 200); d.Total != 111 || x.changes != 0 {
		t.Errorf("%d found, %d rows have changed", d.Total, x.changes)
	}
	has := func(row core.Ordinal) bool {
		return slices.ContainsFunc(x.entries, func(e entry) bool { return e.row == row })
	}
	if !slices.IsSortedFunc(x.entries, entry.compare) || len(x.entries) > mostWords*(members+1) || !has(0) {
		t.Errorf("%d entries", len(x.entries))
	}
	b.add(coretest.NewStep(&core.Removed{Stamp: 1000, Member: "first", Reason: "asked for", Redacted: true}, nil))
	if d := ask(t, x, "q=first", 200); d.Total != 0 || has(0) {
		t.Errorf("%d found of a member that was removed", d.Total)
	}
	var m core.Member
	m.Name, m.Slug, m.URL = strings.Repeat("a b c d e f g h i j k l m n o p q r s t u v w x y z ", 3), "s", "https://h.example/"
	if n := len(wordsOf(&m)); n != mostWords {
		t.Errorf("%d words", n)
	}
}
