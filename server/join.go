package server

import (
	"context"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"webring/core/api"
	"webring/server/paid"
	"webring/templates"
)

// Check gives what answers the form of the join page. extra are words for the
// command line that pays, such as the address of a development chain, or "".
func Check(s *paid.Service, base func() string, extra string) func(context.Context, string, templates.Draft) templates.Checked {
	return func(ctx context.Context, client string, form templates.Draft) templates.Checked {
		d := s.Check(ctx, client, form.JSON())
		c := templates.Checked{Wrong: map[string]string{}, Price: paid.FormatUSD(d.Price), Slug: d.Slug}
		for _, f := range d.Fields {
			name := strings.TrimPrefix(f.Pointer, "/")
			if c.Wrong[name] == "" {
				c.Wrong[name] = sentence(name, f.Detail)
			}
		}
		if d.Score != nil {
			c.Score, c.Scorer, c.Report = strconv.Itoa(d.Score.Score), d.Score.Provider, d.Score.Report
		}
		if p := d.Refusal; p != nil {
			c.Refusal, c.Code = p.Detail, string(p.Code)
			if links, ok := p.More["links"].(map[string]string); ok && p.Code == api.AlreadyRegistered {
				c.Existing = path.Base(links["self"])
			}
		}
		if len(c.Wrong) == 0 && c.Refusal == "" {
			body := cleaned(d.Request).JSON()
			c.Body, c.Command = string(body), templates.RegisterCommand(base(), extra, body)
		}
		return c
	}
}

// cleaned is a registration as the ring would keep it: what the command line
// shows is what it sends, without characters that cannot be seen.
func cleaned(r paid.RegisterRequest) templates.Draft {
	d := templates.Draft{Name: r.Name, URL: r.URL, Kind: r.Kind.String(), Category: r.Category, Description: r.Description}
	if r.Bid > 0 {
		d.Bid = paid.FormatUSD(r.Bid)
	}
	return d
}

// labels are the fields as the form calls them.
var labels = map[string]string{"name": "The name", "url": "The address", "kind": "The kind",
	"category": "The category", "description": "The description", "bid": "The opening bid"}

// sentence makes a sentence of a [paid.FieldError].
func sentence(field, detail string) string {
	label, known := labels[field]
	if !known || field == "url" && detail != "is required" {
		first, size := utf8.DecodeRuneInString(detail)
		return string(unicode.ToUpper(first)) + detail[size:] + "."
	}
	return label + " " + detail + "."
}
