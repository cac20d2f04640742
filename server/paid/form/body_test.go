package form

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"webring/core"
	"webring/core/api"
)

const minimumBid = 100

// invalid gives err as an *Problem, which every error here must be.
func invalid(t *testing.T, body string, err error) *Problem {
	t.Helper()
	var input *Problem
	if !errors.As(err, &input) {
		t.Fatalf("%s: error %v is no *Problem", body, err)
	}
	if input.Detail == "" || !strings.HasSuffix(input.Detail, ".") || len(input.Fields) == 0 {
		t.Errorf("%s: %+v does not say what is wrong", body, input)
	}
	return input
}

func TestRegisterReadsAllFields(t *testing.T) {
	full := RegisterRequest{
		Name: "Acme", URL: "https://www.acme.com/a/", Key: "acme.com/a", Kind: core.Agent,
		Category: "dev-tools", Description: "An agent.", Bid: 250,
	}
	least := RegisterRequest{Name: "Acme", URL: "https://acme.com", Key: "acme.com", Kind: core.MCP, Category: "general"}
	for _, c := range []struct {
		rule, body string
		want       RegisterRequest
	}{
		{"all fields", `{"name":" Acme\n","url":"HTTPS://www.acme.com/a/#x","kind":"agent","category":"dev-tools","description":"An agent.","bid":"2.5"}`, full},
		{"any order", `{"bid":"2.50","description":"An agent.","category":"dev-tools","kind":"agent","url":"https://www.acme.com/a/","name":"Acme"}`, full},
		{"escapes", `{"n\u0061me":"\u0041cme","url":"https:\/\/www.acme.com/a/","kind":"agent","category":"dev-tools","description":"An agent.","bid":"2.50"}`, full},
		{"white space around", " \r\n{\t\"name\":\"Acme\",\"url\":\"https://acme.com\",\"kind\":\"mcp\"}\n", least},
		{"null is absent", `{"name":"Acme","url":"https://acme.com","kind":"mcp","category":null,"description":null,"bid":null}`, least},
		{"description empty after cleaning is absent", `{"name":"Acme","url":"https://acme.com","kind":"mcp","description":" \u200b\n"}`, least},
	} {
		got, err := ParseRegister([]byte(c.body), SitePolicy{}.Canonical, nil, minimumBid)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.rule, got, err, c.want)
		}
	}
}

// register makes a valid body with some fields, raw JSON, replaced or added.
func register(fields ...string) string {
	values := map[string]string{"name": `"Acme"`, "url": `"https://acme.com"`, "kind": `"mcp"`}
	order := []string{"name", "url", "kind"}
	for i := 0; i < len(fields); i += 2 {
		if _, ok := values[fields[i]]; !ok {
			order = append(order, fields[i])
		}
		values[fields[i]] = fields[i+1]
	}
	var parts []string
	for _, name := range order {
		if values[name] != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", name, values[name]))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func quoted(s string, n int) string { return `"` + strings.Repeat(s, n) + `"` }

func TestRegisterBounds(t *testing.T) {
	for _, body := range []string{
		register("name", quoted("ü", 80)),
		register("name", quoted("😀", 80)),
		register("name", `" `+strings.Repeat("u\u0308", 80)+`"`),
		register("description", quoted("ü", 300)),
		register("category", quoted("a", 32)),
		register("category", `"0-"`),
		register("bid", `"1"`),
		register("bid", `"1000000.00"`),
		register("only_if_rank", `1`),
		register("only_if_rank", `999999999`),
		register("only_if_rank", `1.0`),
		register("only_if_rank", `1e2`),
		register("only_if_rank", `null`),
	} {
		if _, err := ParseRegister([]byte(body), SitePolicy{}.Canonical, nil, minimumBid); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	for _, c := range []struct {
		body    string
		code    api.Code
		pointer string
	}{
		{register("name", quoted("ü", 81)), "invalid_request", "/name"},
		{register("name", `""`), "invalid_request", "/name"},
		{register("name", `" \u200b\u0000"`), "invalid_request", "/name"},
		{register("name", `"\u3164\ufe0f \u2800"`), "invalid_request", "/name"},
		{register("name", ``), "invalid_request", "/name"},
		{register("name", `null`), "invalid_request", "/name"},
		{register("name", `7`), "invalid_request", "/name"},
		{register("name", `["Acme"]`), "invalid_request", "/name"},
		{register("name", `{"a":1,"a":2}`), "invalid_request", "/name"},
		{register("name", `true`), "invalid_request", "/name"},
		{register("url", ``), "invalid_request", "/url"},
		{register("url", `1`), "invalid_request", "/url"},
		{register("url", `""`), "invalid_url", "/url"},
		{register("url", `"acme.com"`), "invalid_url", "/url"},
		{register("url", `"https://127.0.0.1/"`), "invalid_url", "/url"},
		{register("url", `"https://acme.com/`+strings.Repeat("x", 300)+`"`), "invalid_url", "/url"},
		{register("kind", ``), "invalid_request", "/kind"},
		{register("kind", `""`), "invalid_request", "/kind"},
		{register("kind", `"Agent"`), "invalid_request", "/kind"},
		{register("kind", `"robot"`), "invalid_request", "/kind"},
		{register("category", quoted("a", 33)), "invalid_request", "/category"},
		{register("category", `""`), "invalid_request", "/category"},
		{register("category", `"-a"`), "invalid_request", "/category"},
		{register("category", `"A"`), "invalid_request", "/category"},
		{register("category", `1`), "invalid_request", "/category"},
		{register("description", quoted("ü", 301)), "invalid_request", "/description"},
		{register("description", `false`), "invalid_request", "/description"},
		{register("bid", `2`), "invalid_request", "/bid"},
		{register("bid", `2.50`), "invalid_request", "/bid"},
		{register("bid", `""`), "invalid_request", "/bid"},
		{register("bid", `"2.505"`), "invalid_request", "/bid"},
		{register("bid", `"-2"`), "invalid_request", "/bid"},
		{register("bid", `"0.99"`), "bid_too_low", "/bid"},
		{register("bid", `"0"`), "bid_too_low", "/bid"},
		{register("bid", `"1000000.01"`), "bid_too_high", "/bid"},
		{register("bid", `"12345678"`), "bid_too_high", "/bid"},
		{register("only_if_rank", `0`), "invalid_request", "/only_if_rank"},
		{register("only_if_rank", `-1`), "invalid_request", "/only_if_rank"},
		{register("only_if_rank", `1.5`), "invalid_request", "/only_if_rank"},
		{register("only_if_rank", `1e-2`), "invalid_request", "/only_if_rank"},
		{register("only_if_rank", `1e400`), "invalid_request", "/only_if_rank"},
		{register("only_if_rank", `1000000000`), "invalid_request", "/only_if_rank"},
		{register("only_if_rank", `"1"`), "invalid_request", "/only_if_rank"},
		{register("only_if_rank", `[1]`), "invalid_request", "/only_if_rank"},
		{register("only_if_rank", `true`), "invalid_request", "/only_if_rank"},
		{register("Name", `"x"`), "invalid_request", "/Name"},
		{register("a/b~c", `1`), "invalid_request", "/a~1b~0c"},
		{register("slug", `null`), "invalid_request", "/slug"},
		{register(strings.Repeat("x", 100), `1`), "invalid_request", ""},
	} {
		got, err := ParseRegister([]byte(c.body), SitePolicy{}.Canonical, nil, minimumBid)
		input := invalid(t, c.body, err)
		if got != (RegisterRequest{}) || input.Code != c.code || len(input.Fields) != 1 || input.Fields[0].Pointer != c.pointer {
			t.Errorf("%s: %+v, want %s at %q", c.body, input, c.code, c.pointer)
		}
	}
}

func TestBodyIsOneStrictObject(t *testing.T) {
	for _, body := range []string{
		"", "  \n", "null", "[]", `"x"`, "7", "{", "}", `{"name"}`, `{"name":}`, `{"name":"x",}`, `{"name":"x"`,
		`{name:"x"}`, `{'name':'x'}`, `{"name":"x"} {}`, register() + "x", register() + ",", "\ufeff" + register(),
		register("name", "\"\xff\""), register("name", `"\ud800"`), register("name", "\"a\nb\""),
		`{"name":"x" /* */}`, `{"name":NaN}`, strings.Repeat("[", 16000), strings.Repeat(`{"a":`, 3000),
	} {
		for _, err := range []error{
			second(ParseRegister([]byte(body), SitePolicy{}.Canonical, nil, minimumBid)),
			second(ParseBid([]byte(body), minimumBid)),
		} {
			input := invalid(t, body, err)
			if input.Code != "invalid_request" || len(input.Fields) != 1 || input.Fields[0].Pointer != "" {
				t.Errorf("%q: %+v", body, input)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestDuplicateFieldsAreRefusedWhateverTheirSpelling(t *testing.T) {
	for _, body := range []string{
		`{"name":"Acme","url":"https://acme.com","kind":"mcp","name":"Acme"}`,
		`{"name":"Acme","url":"https://acme.com","kind":"mcp","n\u0061me":null}`,
		`{"name":null,"url":"https://acme.com","kind":"mcp","name":"Acme"}`,
	} {
		_, err := ParseRegister([]byte(body), SitePolicy{}.Canonical, nil, minimumBid)
		input := invalid(t, body, err)
		if input.Code != "invalid_request" || input.Fields[0] != (FieldError{"/name", "is given more than once"}) {
			t.Errorf("%s: %+v", body, input)
		}
	}
}

func TestAllFieldsAreCheckedAndTheCodeIsTheOneTheyShare(t *testing.T) {
	body := `{"kind":"robot","url":"ftp://acme.com","bid":"0.10","category":"A","nme":"Acme","description":1}`
	_, err := ParseRegister([]byte(body), SitePolicy{}.Canonical, nil, minimumBid)
	input := invalid(t, body, err)
	var pointers []string
	for _, f := range input.Fields {
		pointers = append(pointers, f.Pointer)
	}
	want := []string{"/nme", "/name", "/url", "/kind", "/category", "/description", "/bid"}
	if input.Code != "invalid_request" || !reflect.DeepEqual(pointers, want) {
		t.Errorf("%+v, want %v", input, want)
	}

	body = register("url", `"x"`, "bid", `"0.10"`)
	if _, err = ParseRegister([]byte(body), SitePolicy{}.Canonical, nil, minimumBid); invalid(t, body, err).Code != "invalid_request" {
		t.Errorf("two findings with different codes: %+v", err)
	}
}

func TestDetailIsASentence(t *testing.T) {
	for body, want := range map[string]string{
		"":                                   "The body is empty; a JSON object is required.",
		register("name", ""):                 "The field name is required.",
		register("url", `"https://a.com:8"`): "The url's port is neither 80 nor 443.",
		register("bid", `"0.50"`):            "The field bid must be at least 1.00.",
		register("bid", `5`):                 "The field bid must be a string, not a number.",
		register("x", `1`, "kind", `"x"`):    "2 things are wrong with the request.",
	} {
		_, err := ParseRegister([]byte(body), SitePolicy{}.Canonical, nil, minimumBid)
		if got := invalid(t, body, err).Detail; got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func TestAnswerToManyUnknownFieldsIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, `"f%d":0,`, i)
	}
	body := "{" + b.String() + register()[1:]
	_, err := ParseRegister([]byte(body), SitePolicy{}.Canonical, nil, minimumBid)
	if input := invalid(t, "2000 unknown fields", err); len(input.Fields) != maxFieldErrors || !strings.Contains(input.Detail, "20") {
		t.Errorf("%d findings, %q", len(input.Fields), input.Detail)
	}
}

func TestBidNamesAMemberBySlugOrURL(t *testing.T) {
	for _, c := range []struct {
		body string
		want BidRequest
	}{
		{`{"member":"acme-2","amount":"1.00"}`, BidRequest{Member: "acme-2", Slug: "acme-2", Amount: 100}},
		{`{"amount":"1000000","member":" acme "}`, BidRequest{Member: "acme", Slug: "acme", Amount: 100000000}},
		{`{"member":"https://www.acme.com/a/index.html","amount":"1.5"}`, BidRequest{Member: "https://www.acme.com/a/index.html", Key: "acme.com/a", Amount: 150}},
		{`{"member":"https://bücher.de","amount":"2"}`, BidRequest{Member: "https://bücher.de", Key: "xn--bcher-kva.de", Amount: 200}},
		// A site that could not join today may be there from other days.
		{`{"member":"https://acme.test","amount":"2"}`, BidRequest{Member: "https://acme.test", Key: "acme.test", Amount: 200}},
		// No host names, no guessing: these name no member.
		{`{"member":"acme.com","amount":"2"}`, BidRequest{Member: "acme.com", Amount: 200}},
		{`{"member":"Acme","amount":"2"}`, BidRequest{Member: "Acme", Amount: 200}},
		{`{"member":"ac\u200bme","amount":"2"}`, BidRequest{Member: "ac\u200bme", Amount: 200}},
		{`{"member":` + quoted("a", 49) + `,"amount":"2"}`, BidRequest{Member: strings.Repeat("a", 49), Amount: 200}},
	} {
		if got, err := ParseBid([]byte(c.body), minimumBid); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.body, got, err, c.want)
		}
	}
}

func TestBidBounds(t *testing.T) {
	for _, c := range []struct {
		body    string
		code    api.Code
		pointer string
	}{
		{`{"amount":"1.00"}`, "invalid_request", "/member"},
		{`{"member":null,"amount":"1.00"}`, "invalid_request", "/member"},
		{`{"member":" ","amount":"1.00"}`, "invalid_request", "/member"},
		{`{"member":1,"amount":"1.00"}`, "invalid_request", "/member"},
		{`{"member":"acme"}`, "invalid_request", "/amount"},
		{`{"member":"acme","amount":null}`, "invalid_request", "/amount"},
		{`{"member":"acme","amount":1.00}`, "invalid_request", "/amount"},
		{`{"member":"acme","amount":"1.001"}`, "invalid_request", "/amount"},
		{`{"member":"acme","amount":"0.99"}`, "bid_too_low", "/amount"},
		{`{"member":"acme","amount":"1000000.01"}`, "bid_too_high", "/amount"},
		{`{"member":"acme","amount":"1.00","amount":"2.00"}`, "invalid_request", "/amount"},
		{`{"member":"acme","amount":"1.00","name":"x"}`, "invalid_request", "/name"},
	} {
		got, err := ParseBid([]byte(c.body), minimumBid)
		input := invalid(t, c.body, err)
		if got != (BidRequest{}) || input.Code != c.code || len(input.Fields) != 1 || input.Fields[0].Pointer != c.pointer {
			t.Errorf("%s: %+v, want %s at %s", c.body, input, c.code, c.pointer)
		}
	}
}

func FuzzParseRegister(f *testing.F) {
	for _, body := range []string{
		register(), register("bid", `"2.50"`, "description", `"x"`, "category", `"a"`), register("x", `{"a":[1,"\u0000"]}`),
		`{"name":"a","name":"b"}`, `{"description":"","kind":"mcp"}`, `{"account":"0x0000000000000000000000000000000000000001"}`,
		`{"token":"` + strings.Repeat("A", 48) + `"}`, `[`, "", `{"member":"https://bücher.de","amount":"1"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ParseRegister(body, SitePolicy{}.Canonical, nil, minimumBid)
		if err != nil {
			if input := invalid(t, string(body), err); len(input.Fields) > maxFieldErrors || r != (RegisterRequest{}) {
				t.Fatalf("%q: %+v", body, input)
			}
		} else if r.Name == "" || codePoints(r.Name) > 80 || codePoints(r.Description) > 300 || len(r.URL) > 300 ||
			r.Key == "" || r.Kind == 0 || !core.ValidCategory(r.Category) || r.Bid != 0 && r.Bid < minimumBid {
			t.Fatalf("%q: %+v", body, r)
		}
		c, err := ParseChange(body, SitePolicy{}.Canonical, nil)
		if err != nil {
			invalid(t, string(body), err)
		} else if c == (ChangeRequest{}) || c.Name != nil && (*c.Name == "" || codePoints(*c.Name) > 80) || c.Description != nil && codePoints(*c.Description) > 300 ||
			(c.URL == "") != (c.Key == "") || c.Category != nil && !core.ValidCategory(*c.Category) {
			t.Fatalf("%q: %+v", body, c)
		}
		if account, token, err := ParseClaim(body, func(token string) bool { return len(token) == 48 }); err != nil {
			invalid(t, string(body), err)
		} else if (account == core.Account{}) == (token == "") {
			t.Fatalf("%q: %v %q", body, account, token)
		}
		b, err := ParseBid(body, minimumBid)
		if err != nil {
			invalid(t, string(body), err)
		} else if b.Member == "" || b.Slug != "" && b.Key != "" || b.Amount < minimumBid || b.Amount > core.MaxAmount {
			t.Fatalf("%q: %+v", body, b)
		}
	})
}
