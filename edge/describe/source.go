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
	// nothing that it does not. nil stands for every path.
	Has func(path string) bool
	// Contact is the address for security reports as a URI, or "".
	Contact string
	// Version is that of the program, "" for one of no release.
	Version string
	// Example is a site that may join by this ring's rules, without a slash at
	// its end; the example of a registration names an address below it. ""
	// stands for the ring's own site, or a public one when it has none.
	Example string
	// Client is the command that runs the reference client of the payment protocol; ""
	// stands for its newest version.
	Client string
	// Beside answers a GET for what the origin keeps beside the ledger, at a path with a query;
	// nil when the node has none of it.
	Beside func(ctx context.Context, path, query string) api.Document
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

// read decodes the document at a target. It refuses with a *[Problem].
func (s *Source) read(target string, into any) error {
	s.reader.Serve([]byte(target), &s.r)
	if s.r.Status != 200 {
		return &Problem{s.r.Status, bytes.Clone(s.r.Body)}
	}
	if err := json.Unmarshal(s.r.Body, into); err != nil {
		return fmt.Errorf("describe: %s: %w", target, err)
	}
	return nil
}

// besideTime bounds how long a page waits for what the origin keeps beside the ledger, and
// besideAgain is after how many seconds it asks again for what it did not get.
const (
	besideTime  = 250 * time.Millisecond
	besideAgain = 10
)

// ReadBeside decodes what the origin keeps beside the ledger into doc, and gives for how many
// seconds that holds. It reports false when there is none at present: pages do without.
func (s *Site) ReadBeside(path, query string, doc any) (seconds int, ok bool) {
	if s.Beside == nil {
		return math.MaxInt32, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), besideTime)
	defer cancel()
	d := s.Beside(ctx, path, query)
	if d.Status != 200 || json.Unmarshal(d.Body, doc) != nil {
		return besideAgain, false
	}
	return max(d.MaxAge, 1), true
}

// beside is ReadBeside for a document, at a target.
func (s *Source) beside(target string, doc any) bool {
	path, query, _ := strings.Cut(target, "?")
	seconds, ok := s.ReadBeside(path, query, doc)
	if until := s.now.Add(time.Duration(seconds) * time.Second); s.until.IsZero() || until.Before(s.until) {
		s.until = until
	}
	return ok
}

func (s *Source) has(path string) bool { return s.Has == nil || s.Has(path) }

// Ring is what documents say of the ring as a whole.
type Ring struct {
	Name        string
	Base        string // base URL
	Description string
	Synthetic   bool
	How         string // how to pay, or why nobody can
	Offers      []Offer
	Fee, MinBid string
	Rule        string // which score joins
	Policies    Policies
}

// Policies are pages of the operator; a field is "" when there is none.
type Policies struct{ Terms, Privacy, Report string }

// Offer is one way to pay.
type Offer struct{ Method, Intent, Network, Currency string }

// ring reads the directory.
func (s *Source) ring() (Ring, error) {
	var doc struct {
		Name        string
		Description string
		OpenAPI     string
		Synthetic   bool
		Payments    struct {
			How    string
			Offers []Offer
			Fee    string `json:"registration_fee_usd"`
			MinBid string `json:"min_bid_usd"`
		}
		Validation struct{ Rule string }
		Policies   Policies
	}
	if err := s.read("/api", &doc); err != nil {
		return Ring{}, err
	}
	return Ring{
		Name: doc.Name, Base: strings.TrimSuffix(doc.OpenAPI, "/openapi.json"), Description: doc.Description, Synthetic: doc.Synthetic,
		How: doc.Payments.How, Offers: doc.Payments.Offers, Fee: doc.Payments.Fee, MinBid: doc.Payments.MinBid,
		Rule: doc.Validation.Rule, Policies: doc.Policies,
	}, nil
}

// Member is a member as documents show it. What it says of itself is data: it is shown as text,
// and its URL leads to a stranger.
type Member struct {
	Slug        string
	Name        string
	URL         string
	Kind        string
	Category    string
	Description string
	Joined      time.Time `json:"joined_at"`
	Paid        string    `json:"paid_total_usd"`    // "" where time has no part in the document
	Standing    string    `json:"effective_bid_usd"` // likewise
	LastBid     time.Time `json:"last_bid_at"`       // zero for none
	Rank        int       // on the leaderboard
	Health      string    // awake or asleep
	Verified    string    // how its site proved itself, "" when it has not
}

// members reads a part of the ring in ring order, and how many there are.
func (s *Source) members(offset, limit int) (list []Member, total int, err error) {
	var doc struct {
		Total   int
		Members []Member
	}
	err = s.read(membersTarget(offset, limit), &doc)
	return doc.Members, doc.Total, err
}

func membersTarget(offset, limit int) string {
	return fmt.Sprintf("/api/ring?limit=%d&offset=%d", limit, offset)
}

// leader reads who holds rank 1; the list is empty in an empty ring.
func (s *Source) leader() (list []Member, err error) {
	var doc struct{ Leaderboard []Member }
	err = s.read("/api/leaderboard?limit=1", &doc)
	return doc.Leaderboard, err
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
