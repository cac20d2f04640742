package form

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"webring/core"
	"webring/core/api"
)

const (
	// maxFieldErrors bounds the answer to a body full of unknown fields.
	maxFieldErrors = 20
	// maxFieldName is the longest name of an unknown field that is repeated.
	maxFieldName = 64

	DefaultCategory = "general"

	// onlyIfRank is the field of a rank without which nothing is to be paid.
	onlyIfRank = "only_if_rank"
)

// FieldError names one thing wrong with a body: a JSON pointer (RFC 6901), ""
// for the body as a whole, and the rest of a sentence that the field's name
// begins; for a url, and for the body, the sentence without its capital.
type FieldError struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// RegisterRequest is a valid request to join, every text in the form in which
// the ring keeps it.
type RegisterRequest struct {
	Name        string
	URL         string // canonical
	Key         string // identity key of URL
	Kind        core.Kind
	Category    string
	Description string // "" when absent
	Bid         int64  // cents; 0 when absent
	OnlyIfRank  int    `json:",omitempty"` // the rank wanted or better; 0 when absent
}

// BidRequest is a valid request to fund a member, which need not exist.
type BidRequest struct {
	// Member is the reference as sent, trimmed.
	Member string
	// Slug is Member if it has the form of a slug, else "". Key is the
	// identity key of Member if it is an absolute URL, else "". At most one
	// is set; with neither the member is unknown.
	Slug, Key string
	// Amount is in cents.
	Amount int64
	// OnlyIfRank is the rank wanted, or better; 0 when absent.
	OnlyIfRank int
}

// ParseRegister reads the body of a registration: one JSON object as
// server/DESIGN.md ("Rules of paid requests") says.
// canonical gives a site's URL and its identity key, or says why it may not
// join: [SitePolicy.Canonical] does. named says why a name or a category in its
// final form may not be given, in the rest of a sentence; nil admits all. minimum is the least opening
// bid in cents.
// It checks all fields, even after the first is wrong. The error is always a *[Problem].
//
// The caller bounds the length of body.
func ParseRegister(body []byte, canonical func(raw string) (url, key string, err error), named func(field, text string) error, minimum int64) (RegisterRequest, error) {
	var f findings
	fields := f.object(body, "name", "url", "kind", "category", "description", "bid", onlyIfRank)
	if fields == nil {
		return RegisterRequest{}, f.err()
	}

	r := RegisterRequest{Category: DefaultCategory}
	if s, ok := f.required(fields, "name"); ok {
		r.Name = f.name(s, named)
	}
	if s, ok := f.required(fields, "url"); ok {
		r.URL, r.Key = f.site(s, canonical)
	}
	if s, ok := f.required(fields, "kind"); ok {
		r.Kind = f.kind(s)
	}
	if s, ok := f.optional(fields, "category"); ok {
		r.Category = f.category(s, named)
	}
	if s, ok := f.optional(fields, "description"); ok {
		r.Description, _ = f.text("/description", s, 0, core.MaxDescription)
	}
	if s, ok := f.optional(fields, "bid"); ok {
		r.Bid = f.amount("/bid", s, minimum)
	}
	r.OnlyIfRank = f.rank(fields)
	if err := f.err(); err != nil {
		return RegisterRequest{}, err
	}
	return r, nil
}

// ParseBid reads the body of a bid in the way of [ParseRegister]. Which sites
// may join has no part in it: a member that is there can be funded.
func ParseBid(body []byte, minimum int64) (BidRequest, error) {
	var f findings
	fields := f.object(body, "member", "amount", onlyIfRank)
	if fields == nil {
		return BidRequest{}, f.err()
	}

	var r BidRequest
	if s, ok := f.required(fields, "member"); ok {
		// Only trimmed: what has to be cleaned to name a member names none.
		if s = strings.TrimFunc(s, unicode.IsSpace); s == "" {
			f.add(api.InvalidRequest, "/member", "must be a member's slug or url")
		}
		r.Member = s
		if isSlug(s) {
			r.Slug = s
		} else if _, key, err := Spell(s); err == nil {
			r.Key = key
		}
	}
	if s, ok := f.required(fields, "amount"); ok {
		r.Amount = f.amount("/amount", s, minimum)
	}
	r.OnlyIfRank = f.rank(fields)
	if err := f.err(); err != nil {
		return BidRequest{}, err
	}
	return r, nil
}

// ChangeRequest is a valid request to change a member. A nil field stays as it is.
type ChangeRequest struct {
	Name, Description, Category *string
	Kind                        core.Kind // 0: it stays
	URL, Key                    string    // canonical, and its identity key; "" if it stays
	Webhook                     *string   // as given; "" removes it
}

// ParseChange reads the body of a change in the way of [ParseRegister]. An empty
// description removes the one that there is.
func ParseChange(body []byte, canonical func(raw string) (url, key string, err error), named func(field, text string) error) (ChangeRequest, error) {
	var f findings
	fields := f.object(body, "name", "url", "kind", "category", "description", "webhook")
	if fields == nil {
		return ChangeRequest{}, f.err()
	}
	var r ChangeRequest
	if s, ok := f.optional(fields, "name"); ok {
		s = f.name(s, named)
		r.Name = &s
	}
	if s, ok := f.optional(fields, "url"); ok {
		r.URL, r.Key = f.site(s, canonical)
	}
	if s, ok := f.optional(fields, "kind"); ok {
		r.Kind = f.kind(s)
	}
	if s, ok := f.optional(fields, "category"); ok {
		s = f.category(s, named)
		r.Category = &s
	}
	if s, ok := f.optional(fields, "description"); ok {
		s, _ = f.text("/description", s, 0, core.MaxDescription)
		r.Description = &s
	}
	if s, ok := f.optional(fields, "webhook"); ok {
		f.webhook(s, canonical)
		r.Webhook = &s
	}
	if err := f.err(); err != nil {
		return ChangeRequest{}, err
	}
	if r == (ChangeRequest{}) {
		return r, Invalid(api.InvalidRequest, "", "the body changes nothing; give at least one of name, description, category, kind, url and webhook")
	}
	return r, nil
}

// ParseClaim reads the body of a claim: an account, or a token that known takes.
func ParseClaim(body []byte, known func(token string) bool) (account core.Account, token string, err error) {
	var f findings
	fields := f.object(body, "account", "token")
	if fields == nil {
		return account, "", f.err()
	}
	named, names := f.optional(fields, "account")
	token, brings := f.optional(fields, "token")
	switch {
	case len(f.fields) > 0:
	case names == brings:
		return account, "", Invalid(api.InvalidRequest, "", "the body must have either account or token")
	case names:
		if account = core.AccountOf(named); account == (core.Account{}) || !strings.HasPrefix(named, "0x") {
			f.add(api.InvalidRequest, "/account", "must be an address: 0x and 40 hexadecimal digits")
		}
	case !known(token):
		f.add(api.InvalidRequest, "/token", "is none that this ring gives")
	}
	return account, token, f.err()
}

// ParseEmpty reads a body that says nothing: no bytes, or an object without fields.
func ParseEmpty(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	var f findings
	f.object(body)
	return f.err()
}

// isSlug reports whether s could be a member's slug, and so is no URL.
func isSlug(s string) bool {
	return s != "" && len(s) <= core.MaxSlug && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// findings collects what is wrong with one body.
type findings struct {
	fields []FieldError
	codes  []api.Code
	more   bool
}

func (f *findings) add(code api.Code, pointer, detail string) {
	if len(f.fields) == maxFieldErrors {
		f.more = true
		return
	}
	f.fields = append(f.fields, FieldError{pointer, detail})
	f.codes = append(f.codes, code)
}

// Invalid says what is wrong with one field of a request, by its JSON pointer, or with the
// request as a whole, by "". The detail is as in [FieldError].
func Invalid(code api.Code, pointer, detail string) *Problem {
	var f findings
	f.add(code, pointer, detail)
	return f.problem()
}

// err gives the findings as one error, or nil.
func (f *findings) err() error {
	if len(f.fields) == 0 {
		return nil
	}
	return f.problem()
}

func (f *findings) problem() *Problem {
	e := &Problem{Code: f.codes[0], Fields: f.fields}
	for _, code := range f.codes {
		if code != e.Code {
			e.Code = api.InvalidRequest
		}
	}
	switch first := f.fields[0]; {
	case f.more:
		e.Detail = fmt.Sprintf("more than %d things are wrong with the request", maxFieldErrors)
	case len(f.fields) > 1:
		e.Detail = fmt.Sprintf("%d things are wrong with the request", len(f.fields))
	case first.Pointer == "" || e.Code == api.InvalidURL:
		e.Detail = first.Detail
	default:
		e.Detail = "the field " + strings.TrimPrefix(first.Pointer, "/") + " " + first.Detail
	}
	e.Detail = strings.ToUpper(e.Detail[:1]) + e.Detail[1:] + "."
	return e
}

// given is a field of a body as it was sent.
type given struct {
	name string
	kind jsontext.Kind // 0 when it is not there, or null
	text string        // of a string, or a number as it is spelled
	seen bool
}

var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// find gives the field with this name, nil if there is none.
func find(fields []given, name string) *given {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i]
		}
	}
	return nil
}

// object reads body as one object with no names but those given, each at most
// once, and gives a field for each name. It returns nil when the body has no
// fields to go on with.
func (f *findings) object(body []byte, names ...string) []given {
	broken := func(detail string) []given {
		f.fields, f.codes, f.more = nil, nil, false
		f.add(api.InvalidRequest, "", detail)
		return nil
	}
	// Duplicates are found below, where reading can go on after one. Those
	// inside values do not matter: no field may be an object.
	d := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(d)
	d.Reset(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
	switch d.PeekKind() {
	case '{':
		// Cannot fail: the brace was seen.
		_, _ = d.ReadToken()
	case 0:
		if _, err := d.ReadToken(); errors.Is(err, io.EOF) && len(bytes.TrimSpace(body)) == 0 {
			return broken("the body is empty; a JSON object is required")
		}
		return broken(fmt.Sprintf("the body is not valid JSON near byte %d", d.InputOffset()))
	default:
		return broken("the body must be a JSON object")
	}

	fields := make([]given, len(names))
	for i, name := range names {
		fields[i].name = name
	}
	unknown := map[string]bool{}
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return broken(fmt.Sprintf("the body is not valid JSON near byte %d", d.InputOffset()))
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return broken(fmt.Sprintf("the body is not valid JSON near byte %d", d.InputOffset()))
		}
		field := find(fields, name)
		switch {
		case len(name) > maxFieldName:
			f.add(api.InvalidRequest, "", fmt.Sprintf("the body has an unknown field with a name of %d bytes", len(name)))
		case unknown[name] || field != nil && field.seen:
			f.add(api.InvalidRequest, fieldPointer(name), "is given more than once")
		case field == nil:
			f.add(api.InvalidRequest, fieldPointer(name), "is not known here")
			unknown[name] = true
		default:
			field.take(value)
		}
	}
	_, _ = d.ReadToken() // the brace
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return broken("the body must be one JSON object and nothing after it")
	}
	return fields
}

// take keeps a value, of which the decoder keeps nothing.
func (g *given) take(value jsontext.Value) {
	g.seen = true
	switch kind := value.Kind(); kind {
	case 'n':
	case '"':
		// Cannot fail: the decoder has read the value.
		text, _ := jsontext.AppendUnquote(nil, value)
		g.kind, g.text = kind, string(text)
	case '0':
		g.kind, g.text = kind, string(value)
	default:
		g.kind = kind
	}
}

// fieldPointer is the JSON pointer of a top-level field.
func fieldPointer(name string) string {
	return "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// required gives the string in a field that must be there.
func (f *findings) required(fields []given, name string) (string, bool) {
	if find(fields, name).kind == 0 {
		f.add(api.InvalidRequest, "/"+name, "is required")
		return "", false
	}
	return f.optional(fields, name)
}

// optional gives the string in a field, if it is there and one.
func (f *findings) optional(fields []given, name string) (string, bool) {
	g := find(fields, name)
	if g.kind != 0 && g.kind != '"' {
		f.add(api.InvalidRequest, "/"+name, "must be a string, not "+kindName(g.kind))
	}
	return g.text, g.kind == '"'
}

// maxRank is more than any ring has members.
const maxRank = 999_999_999

// rank gives the rank without which nothing is to be paid, 0 when none was given. A whole
// number is one in any spelling, such as 2.0.
func (f *findings) rank(fields []given) int {
	g := find(fields, onlyIfRank)
	if g.kind == 0 {
		return 0
	}
	rank, err := strconv.ParseFloat(g.text, 64)
	if g.kind != '0' || err != nil || rank != math.Trunc(rank) || rank < 1 || rank > maxRank {
		f.add(api.InvalidRequest, "/"+onlyIfRank, "must be a rank: a whole number from 1 to 999999999, without quotes")
		return 0
	}
	return int(rank)
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '0':
		return "a number"
	default:
		return "a boolean"
	}
}

// webhook checks a URL to which news are sent: a public one, in ASCII. It stays as it was given,
// because a receiver may know the caller by it.
func (f *findings) webhook(s string, canonical func(raw string) (url, key string, err error)) {
	if s == "" {
		return
	}
	_, _, err := canonical(s)
	u, parsed := url.Parse(s)
	if err != nil || parsed != nil || u.User != nil || len(s) > core.MaxURL || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '\'' }) {
		f.add(api.InvalidRequest, "/webhook", fmt.Sprintf("must be a public http or https URL of at most %d ASCII characters, or empty", core.MaxURL))
	}
}

// text returns the cleaned form of s and whether it is valid. The length of the cleaned form must lie
// in the bounds. A text that may not be empty may not look empty either.
func (f *findings) text(pointer, s string, least, most int) (clean string, ok bool) {
	clean, ok = cleanText(s)
	n := codePoints(clean)
	switch {
	case !ok:
		f.add(api.InvalidRequest, pointer, "is not valid UTF-8")
	case n < least:
		f.add(api.InvalidRequest, pointer, "must not be empty")
	case least > 0 && !visible(clean):
		f.add(api.InvalidRequest, pointer, "must have at least one character that can be seen")
	case n > most:
		f.add(api.InvalidRequest, pointer, fmt.Sprintf("must have at most %d characters, not %d", most, n))
	default:
		return clean, true
	}
	return clean, false
}

// name gives the cleaned form of a member's name. named may be nil.
func (f *findings) name(s string, named func(field, text string) error) string {
	clean, ok := f.text("/name", s, 1, core.MaxName)
	if ok && named != nil {
		if err := named("name", clean); err != nil {
			f.add(api.InvalidRequest, "/name", err.Error())
		}
	}
	return clean
}

// site gives the canonical URL of a site, and its identity key.
func (f *findings) site(s string, canonical func(raw string) (url, key string, err error)) (url, key string) {
	url, key, err := canonical(s)
	if err != nil {
		f.add(api.InvalidURL, "/url", err.Error())
	}
	return url, key
}

func (f *findings) kind(s string) core.Kind {
	kind, ok := core.ParseKind(s)
	if !ok {
		f.add(api.InvalidRequest, "/kind", `must be "agent", "mcp" or "website"`)
	}
	return kind
}

// category gives a category as it was sent. named may be nil.
func (f *findings) category(s string, named func(field, text string) error) string {
	if !core.ValidCategory(s) {
		f.add(api.InvalidRequest, "/category", "must match ^[a-z0-9][a-z0-9-]{0,31}$")
	} else if named != nil && s != DefaultCategory {
		if err := named("category", s); err != nil {
			f.add(api.InvalidRequest, "/category", err.Error())
		}
	}
	return s
}

// amount gives cents at or above minimum.
func (f *findings) amount(pointer, s string, minimum int64) int64 {
	cents, err := ParseUSD(s)
	switch {
	case errors.Is(err, ErrAmountTooHigh):
		f.add(api.BidTooHigh, pointer, "must be at most "+FormatUSD(core.MaxAmount))
	case err != nil:
		f.add(api.InvalidRequest, pointer, "must be US dollars: one to seven digits, and after a point one or two more")
	case cents < minimum:
		f.add(api.BidTooLow, pointer, "must be at least "+FormatUSD(minimum))
	}
	return cents
}
