package visits

import (
	"bytes"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
)

const (
	feedPrefix = "f"
	// maxFeeds is how many feeds the document lists: of the members with the highest ranks.
	maxFeeds = 1000
	// feedsAge is how long a document is kept, and feedsLeast how long if the ring has changed.
	feedsAge, feedsLeast = time.Minute, 5 * time.Second
	opmlMedia            = "text/x-opml; charset=utf-8"
)

// keepFeed writes the row of the feed of a member, or deletes it if feed is "".
func keepFeed(tx *ledger.Tx, m target, feed string) error {
	var now []byte
	if feed != "" {
		now = append(binary.AppendUvarint(nil, aboutOf(m)), feed...)
	}
	return keep(tx, feedPrefix+m.slug, now)
}

// keep writes a row, or deletes it if now is nil, unless it is so already.
func keep(tx *ledger.Tx, key string, now []byte) error {
	before, err := tx.View().Value(ledger.Visits, key)
	if err != nil || bytes.Equal(now, before) {
		return err
	}
	return tx.Put(ledger.Visits, key, now)
}

// Forget deletes the feed and the icon of the member of an event, if the member's page is no longer in
// the ring by it. It is called after the event was applied. A row that is left is not shown.
func Forget(tx *ledger.Tx, e core.Event) error {
	switch e.(type) {
	case *core.Moved, *core.Left, *core.Departed, *core.Removed, *core.Hidden:
		slug := core.MemberOf(e)
		err := errors.Join(keep(tx, feedPrefix+slug, nil), keep(tx, iconPrefix+slug, nil))
		if !errors.Is(err, ledger.ErrTurn) {
			return err
		}
	}
	return nil
}

// Feeds lists the feeds of members as OPML. Its functions may be called concurrently.
type Feeds struct {
	ledger Views
	now    func() time.Time
	log    *slog.Logger

	mu   sync.Mutex
	kept api.Document
	made time.Time
	head opmlHead
	list []withFeed // the members in kept
}

// Views gives views of a ledger.
type Views interface{ View(fn func(*ledger.View)) }

// withFeed is a member that has a feed.
type withFeed struct {
	o    core.Ordinal
	rank int
	outline
}

// NewFeeds prepares a list of the feeds that visits have found.
func NewFeeds(l Views, now func() time.Time, log *slog.Logger) *Feeds {
	return &Feeds{ledger: l, now: now, log: log}
}

// Document answers a GET for the list. It is made again when it is a minute old; when it is some
// seconds old and the ring has changed; and when a member that it lists is gone.
func (f *Feeds) Document() api.Document {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fresh() {
		return f.kept
	}
	head, list, seq, err := f.read()
	if err != nil {
		f.log.Error("visits: the feeds of members cannot be read", "err", err)
		return api.Refusal(head.base, api.Internal, "The feeds cannot be read.", "")
	}
	now := f.now()
	head.Modified = f.head.Modified
	if f.made.IsZero() || head != f.head || !slices.EqualFunc(list, f.list, func(a, b withFeed) bool { return a.outline == b.outline }) {
		head.Modified = now.UTC().Format(time.RFC1123Z)
	}
	f.head, f.list, f.made = head, list, now
	f.kept = api.Document{Status: 200, Media: opmlMedia, Body: opml(head, list), MaxAge: int(feedsAge / time.Second), Seq: seq}
	return f.kept
}

func (f *Feeds) fresh() (is bool) {
	age := f.now().Sub(f.made)
	if f.made.IsZero() || age < 0 || age >= feedsAge {
		return false
	}
	f.ledger.View(func(v *ledger.View) {
		st := v.State()
		is = st.Seq() == f.kept.Seq || age < feedsLeast && !slices.ContainsFunc(f.list, func(m withFeed) bool {
			return st.Hidden(m.o) || st.Rank(m.o) == 0
		})
	})
	return is
}

// read gives the members that have a feed, in ring order. seq is how many events there were
// before the first was read.
func (f *Feeds) read() (head opmlHead, list []withFeed, seq uint64, err error) {
	total, from := 0, feedPrefix
	for more := true; more && err == nil; {
		var rows []ledger.TableRow
		f.ledger.View(func(v *ledger.View) {
			st := v.State()
			if from == feedPrefix {
				seq = st.Seq()
				if rules := st.Rules(); rules != nil {
					head.Title, head.base = rules.Name+": feeds of members", rules.BaseURL
				}
			}
			rows, err = v.Scan(ledger.Visits, feedPrefix, from, readAtOnce)
			for _, row := range rows {
				if m, is := feedOf(st, row); is {
					list = append(list, m)
					total++
				}
			}
		})
		if more = len(rows) == readAtOnce; more {
			from = rows[len(rows)-1].Key + "\x00"
		}
		if len(list) > maxFeeds {
			slices.SortFunc(list, func(a, b withFeed) int { return a.rank - b.rank })
			list = list[:maxFeeds]
		}
	}
	if total > maxFeeds {
		head.Title += fmt.Sprintf(" (the first %d by rank, of %d)", maxFeeds, total)
	}
	slices.SortFunc(list, func(a, b withFeed) int { return int(a.o) - int(b.o) })
	return head, list, seq, err
}

// feedOf reads a row, unless its member is hidden, gone or asleep, or was at another URL then.
func feedOf(st *core.State, row ledger.TableRow) (f withFeed, is bool) {
	o, known := st.BySlug([]byte(row.Key[len(feedPrefix):]))
	about, n := binary.Uvarint(row.Value)
	if !known || n <= 0 {
		return f, false
	}
	m, there := targetOf(st, o)
	if !there || m.Asleep || aboutOf(m) != about {
		return f, false
	}
	return withFeed{o, st.Rank(o), outline{"rss", m.Name, m.Name, string(row.Value[n:]), m.URL}}, true
}

// opmlHead is the head of an OPML document.
type opmlHead struct {
	Title    string `xml:"title"`
	Modified string `xml:"dateModified"`
	base     string // the base URL of the ring
}

// outline is a feed in an OPML document. OPML calls feeds of all types rss.
type outline struct {
	Type  string `xml:"type,attr,omitempty"`
	Text  string `xml:"text,attr"`
	Title string `xml:"title,attr,omitempty"`
	Feed  string `xml:"xmlUrl,attr,omitempty"`
	Site  string `xml:"htmlUrl,attr,omitempty"`
}

// opml writes an OPML document.
//
// Document: OPML 2.0.
func opml(head opmlHead, list []withFeed) []byte {
	doc := struct {
		XMLName xml.Name  `xml:"opml"`
		Version string    `xml:"version,attr"`
		Head    opmlHead  `xml:"head"`
		Lines   []outline `xml:"body>outline"`
	}{Version: "2.0", Head: head}
	for _, m := range list {
		doc.Lines = append(doc.Lines, m.outline)
	}
	if len(list) == 0 { // OPML has no document without an outline
		doc.Lines = []outline{{Text: "No member has a feed yet."}}
	}
	body, err := xml.MarshalIndent(doc, "", " ")
	if err != nil {
		panic(err) // it has strings alone
	}
	return append(append([]byte(xml.Header), body...), '\n')
}
