package describe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"webring/core/api"
)

// Reader is where the facts come from: the read surface of one node. Its Serve
// is that of [webring/core/api], and may be called concurrently.
type Reader interface {
	Serve(target []byte, r *api.Response)
}

// Site is what a document rests on besides the ring itself. The zero value is
// usable.
type Site struct {
	// Has says whether the node answers a GET of a path. Documents lead to
	// nothing that it does not. nil: every path.
	Has func(path string) bool
	// Contact is the address for security reports as a URI, or "".
	Contact string
	// Hub is the WebSub hub that feeds name, or "".
	Hub string
	// Version is that of the program, "" for one of no release.
	Version string
	// Example is a site that may join by this ring's rules, without a slash at
	// its end; the example of a registration names an address below it. ""
	// stands for the ring's own site, or a public one when it has none.
	Example string
	// OriginData answers a GET for data of the origin that is not in the ledger;
	// nil when the node has none of it.
	OriginData func(ctx context.Context, path, query string) api.Document
	// Witnessed says how many events of the log witnesses have cosigned, and when the last of
	// them did; nil without a policy.
	Witnessed func() (size int64, at time.Time)
	// Deprecated says since when a path is the old surface; nil for none.
	Deprecated map[string]Deprecation
}

// devel is the version of a program of no release.
const devel = "0.0.0-devel"

// Deprecation is the end of a path: since when it is the old surface, and when
// it goes.
type Deprecation struct {
	Since, Sunset time.Time
	Successor     string // path of what replaces it
}

// Source gives the facts of one document, and notes how long they hold. It is
// used for one document, by one goroutine.
type Source struct {
	Site
	reader Reader
	now    time.Time
	until  time.Time
	r      api.Response
	err    error // the first that a read or an encoder gave: what is read after it is empty
}

// NewSource begins to read at the instant now.
func NewSource(r Reader, site Site, now time.Time) *Source {
	return &Source{Site: site, reader: r, now: now.UTC()}
}

// Until is the instant from which the document differs for another reason than
// what was read for it; zero for never.
func (s *Source) Until() time.Time { return s.until }

// A Problem is a refusal of the read surface, as it stood in its document.
type Problem struct {
	Status int
	Body   []byte // the document
}

// Error quotes it.
func (p *Problem) Error() string { return fmt.Sprintf("describe: %d %.200s", p.Status, p.Body) }

// fail notes an error, unless there was one before.
func (s *Source) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// read decodes the document at a target, or fails with a *[Problem].
func (s *Source) read(target string, into any) {
	if s.err != nil {
		return
	}
	s.reader.Serve([]byte(target), &s.r)
	if s.r.Status != 200 {
		s.err = &Problem{s.r.Status, bytes.Clone(s.r.Body)}
	} else if err := json.Unmarshal(s.r.Body, into); err != nil {
		s.err = fmt.Errorf("describe: %s: %w", target, err)
	}
}

// json encodes a document.
func (s *Source) json(doc any) []byte {
	b, err := json.Marshal(doc)
	s.fail(err)
	return b
}

// OriginTime bounds how long a page waits for data of the origin that it can do without, and originAgain
// is after how many seconds it asks again for what it did not get.
const (
	OriginTime  = 250 * time.Millisecond
	originAgain = 10
)

// ReadOrigin decodes data of the origin that is not in the ledger into doc, and gives for how many
// seconds that holds. It reports false when there is none within wait.
func (s *Site) ReadOrigin(wait time.Duration, path, query string, doc any) (seconds int, ok bool) {
	if s.OriginData == nil {
		return math.MaxInt32, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	d := s.OriginData(ctx, path, query)
	if d.Status != 200 || json.Unmarshal(d.Body, doc) != nil {
		return originAgain, false
	}
	return max(d.MaxAge, 1), true
}

// origin is ReadOrigin for a document, at a target.
func (s *Source) origin(target string, doc any) bool {
	path, query, _ := strings.Cut(target, "?")
	seconds, ok := s.ReadOrigin(OriginTime, path, query, doc)
	if until := s.now.Add(time.Duration(seconds) * time.Second); s.until.IsZero() || until.Before(s.until) {
		s.until = until
	}
	return ok
}

func (s *Source) has(path string) bool { return s.Has == nil || s.Has(path) }

// Ring is what the directory says of the ring as a whole.
type Ring struct {
	Name        string
	Description string
	OpenAPI     string // URL of the OpenAPI document
	Synthetic   bool
	Payments    `json:"payments"`
	Validation  struct{ Rule string } // which score joins
	Policies    Policies
	Operator    Operator
	Look        Look
	Base        string `json:"-"` // base URL, without a slash at its end
}

// Payments are the prices, and the ways to pay.
type Payments struct {
	How      string // how to pay, or why payment is impossible
	Networks []string
	Offers   []Offer
	Fee      string `json:"registration_fee_usd"`
	MinBid   string `json:"min_bid_usd"`
}

// Policies are pages of the operator; a field is "" when there is none.
type Policies struct {
	Terms, Privacy string
	Report         string // where to report a member: a page, or a mailto address
}

// Operator is who runs the ring; a field is "" where that is not said.
type Operator struct {
	Name    string
	Contact string // a page, or a mailto address
	Payee   string // who receives the payments, in words
}

// Look is how the operator has the ring look; a field is "" where that is not said.
type Look struct {
	Welcome    string
	Accent     string // on light paper, as #rrggbb
	AccentDark string `json:"accent_dark"`
	Logo       string // the view box of a drawing and the data of its path
}

// Drawing gives the view box of the logo and the data of its path, "" without a logo.
func (l Look) Drawing() (box, path string) {
	at := max(strings.IndexAny(l.Logo, "Mm"), 0)
	return strings.TrimSpace(l.Logo[:at]), l.Logo[at:]
}

// Offer is one way to pay.
type Offer struct{ Method, Intent, Network, Currency string }

// ring reads the directory.
func (s *Source) ring() (ring Ring) {
	s.read("/api", &ring)
	ring.Base = strings.TrimSuffix(ring.OpenAPI, "/openapi.json")
	return ring
}

// Member is a member as documents show it. What it says of itself is data: it is shown as text,
// and its URL leads to a stranger. A field that a document does not have, or that is null in it,
// is zero.
type Member struct {
	Slug        string
	Name        string
	URL         string
	Description string
	Kind        string
	Category    string
	Score       json.Number `json:"agentic_score"`
	Report      string      `json:"agentic_report"`
	Position    int         `json:"ring_position"`
	Joined      time.Time   `json:"joined_at"`
	Paid        string      `json:"paid_total_usd"`
	Bids        string      `json:"bid_total_usd"`
	Standing    string      `json:"effective_bid_usd"`
	LastBid     time.Time   `json:"last_bid_at"`
	Rank        int         // in a leaderboard
	BoardRank   int         `json:"leaderboard_rank"` // the same elsewhere
	TakeFirst   string      `json:"to_take_first_usd"`
	Verified    string      // how its site proved itself, "" when it has not
	VerifiedAt  time.Time   `json:"verified_at"`
	Health      string      // awake or asleep
	HealthSince time.Time   `json:"health_since"`
	Changed     time.Time   `json:"changed_at"`
	Owner       string
	Claimed     bool
	FullUntil   time.Time `json:"full_until"` // zero without bids: for ever
	GoneAt      time.Time `json:"gone_at"`    // zero also when it is too far ahead
	ToPass      struct {
		Amount string `json:"amount_usd"`
		Rank   int    // of the member directly above, 0 for the leader
		Takes  int    `json:"takes_rank"` // that the bid gives
	} `json:"to_pass"`
	Forecast []Forecast
}

// Forecast is the price of first place at one time if no bid comes until then.
type Forecast struct {
	Days      int // from now, 0 for now
	At        time.Time
	Standing  string `json:"first_usd"`             // at rank 1, in a leaderboard
	JoinFirst string `json:"join_at_first_bid_usd"` // for a new member, fee not included
	TakeFirst string `json:"to_take_first_usd"`     // for the member of the document, "" when it is first then
}

// Span reads a duration of the rules: PnD or PTnS.
func Span(iso string) time.Duration {
	digits, unit := strings.TrimSuffix(strings.TrimPrefix(iso, "P"), "D"), 24*time.Hour
	if seconds, ok := strings.CutPrefix(iso, "PT"); ok {
		digits, unit = strings.TrimSuffix(seconds, "S"), time.Second
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		panic(err) // a document of the core that does not have its form
	}
	return time.Duration(n) * unit
}

// members reads a part of the members of a kind, "" for all, in ring order, and how many there are.
func (s *Source) members(kind string, offset, limit int) (list []Member, total int) {
	var doc struct {
		Total   int
		Members []Member
	}
	s.read(membersTarget(kind, offset, limit), &doc)
	return doc.Members, doc.Total
}

func membersTarget(kind string, offset, limit int) string {
	target := fmt.Sprintf("/api/ring?limit=%d&offset=%d", limit, offset)
	if kind != "" {
		target += "&kind=" + kind
	}
	return target
}

// leader reads who holds rank 1; the list is empty in an empty ring.
func (s *Source) leader() []Member {
	var doc struct{ Leaderboard []Member }
	s.read("/api/leaderboard?limit=1", &doc)
	return doc.Leaderboard
}

// example is the address that the example of a registration names. The ledger
// position of what was read last is part of it: once paid for it is taken, and
// then there is another.
func (s *Source) example(base string) string {
	site := s.Example
	if site == "" {
		site = "https://my-agent.dev"
		if u, err := url.Parse(base); err == nil && u.Port() == "" && strings.Contains(u.Hostname(), ".") {
			if _, err := netip.ParseAddr(u.Hostname()); err != nil {
				site = base
			}
		}
	}
	return site + "/?example=" + strconv.FormatUint(s.r.Seq, 10)
}
