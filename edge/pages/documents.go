package pages

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"webring/templates"
)

// Pages are filled from the same documents that agents read (the service
// interface, "Resources and their fields"); these are the parts that they show.

type directoryDocument struct {
	Name        string
	Description string
	Synthetic   bool
	Payments    struct {
		How      string
		Networks []string
		Fee      string `json:"registration_fee_usd"`
		MinBid   string `json:"min_bid_usd"`
	}
	Validation struct{ Rule string }
	Policies   templates.Policies
	Endpoints  endpointList
}

type memberDocument struct {
	Slug        string
	Name        string
	URL         string
	Description string
	Kind        string
	Category    string
	Score       *int       `json:"agentic_score"`
	Report      *string    `json:"agentic_report"`
	Position    int        `json:"ring_position"`
	Joined      time.Time  `json:"joined_at"`
	Paid        string     `json:"paid_total_usd"`
	Bids        string     `json:"bid_total_usd"`
	Standing    string     `json:"effective_bid_usd"`
	LastBid     *time.Time `json:"last_bid_at"`
	Rank        int
	TakeFirst   *string `json:"to_take_first_usd"`
	BoardRank   int     `json:"leaderboard_rank"`
	Verified    string
	VerifiedAt  time.Time `json:"verified_at"`
	Health      string
	HealthSince time.Time `json:"health_since"`
	Changed     time.Time `json:"changed_at"`
	Owner       string
	Claimed     bool
	standingDocument
	Forecast []forecastDocument // on the member's own document
}

type listDocument struct {
	Total, Count, Offset int
	Members              []memberDocument
}

type boardDocument struct {
	Total, Offset int
	Rules         struct {
		MinBid      string `json:"minimum_bid_usd"`
		JoinAtFirst string `json:"join_at_first_bid_usd"`
		Grace       string `json:"grace_period"`
		Decay       string `json:"decay_span"`
	}
	Forecast    []forecastDocument
	Leaderboard []memberDocument
}

type widgetDocument struct {
	Ring               struct{ Count int }
	Member, Prev, Next *memberDocument
}

type categoriesDocument struct {
	Categories []struct {
		Category string
		Members  int
	}
}

type hopsDocument struct {
	Total struct{ From, To, Hops uint64 }
	Days  []struct {
		Day      string
		From, To uint64
	}
}

// view is what a page shows of them.
func (d *hopsDocument) view() *templates.Hops {
	h := &templates.Hops{From: d.Total.From, To: d.Total.To}
	for _, day := range slices.Backward(d.Days) {
		at, err := time.Parse(time.DateOnly, day.Day)
		if err != nil {
			return nil
		}
		h.Days = append(h.Days, templates.HopsDay{Day: at, From: day.From, To: day.To})
	}
	return h
}

// endpointList keeps the order in which the directory lists its endpoints.
type endpointList []templates.Endpoint

// UnmarshalJSON reads an object whose members are "METHOD path": "about".
func (l *endpointList) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return errors.New("pages: the endpoints are no object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var about string
		if err := d.Decode(&about); err != nil {
			return err
		}
		method, path, _ := strings.Cut(name.(string), " ")
		*l = append(*l, templates.Endpoint{Method: method, Path: path, About: about})
	}
	return nil
}

// row is a member as pages show it.
func (m *memberDocument) row() templates.Row {
	r := templates.Row{Slug: m.Slug, Name: m.Name, URL: m.URL, Description: m.Description, Kind: m.Kind, Category: m.Category,
		Position: m.Position, Joined: m.Joined, Rank: max(m.Rank, m.BoardRank), Standing: m.Standing, Paid: m.Paid, Bids: m.Bids,
		Verified: m.Verified, VerifiedAt: m.VerifiedAt, Asleep: m.Health == "asleep", HealthSince: m.HealthSince, Changed: m.Changed}
	if r.HealthSince.IsZero() {
		r.HealthSince = m.Joined
	}
	if m.Score != nil {
		r.Score = strconv.Itoa(*m.Score)
	}
	if m.Report != nil {
		r.Report = *m.Report
	}
	if m.TakeFirst != nil {
		r.TakeFirst = *m.TakeFirst
	}
	return r
}

// cents reads an amount of a document: digits with two decimals.
func cents(usd string) int64 {
	n, err := strconv.ParseInt(strings.Replace(usd, ".", "", 1), 10, 64)
	if err != nil {
		panic(err) // a document of the core that does not have its form
	}
	return n
}

// span reads a duration of the rules: PnD or PTnS.
func span(iso string) time.Duration {
	digits, unit := strings.TrimSuffix(strings.TrimPrefix(iso, "P"), "D"), day
	if seconds, ok := strings.CutPrefix(iso, "PT"); ok {
		digits, unit = strings.TrimSuffix(seconds, "S"), time.Second
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		panic(err) // a document of the core that does not have its form
	}
	return time.Duration(n) * unit
}
