package main

import (
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"webring/core/api"
	"webring/server/pay/mpp"
)

// TestInterfaceBodies holds the line on bodies, for both paid operations: the
// same body is either taken, and then gets its 402, or refused whole.
func TestInterfaceBodies(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", c.RPC)...)
	for path, valid := range map[string]string{
		"/api/register": `{"name":"Newcomer","url":"https://newcomer.dev/","kind":"agent"}`,
		"/api/bid":      `{"member":"beta","amount":"1.00"}`,
	} {
		first, second := "/name", `,"name":"Again"}`
		if path == "/api/bid" {
			first, second = "/member", `,"member":"alpha"}`
		}
		for _, b := range []struct {
			rule, body string
			pointers   []string
		}{
			{"an empty body is 422", "", []string{""}},
			{"white space is an empty body", " \n\t", []string{""}},
			{"an array is no object", "[" + valid + "]", []string{""}},
			{"a string is no object", `"x"`, []string{""}},
			{"null is no object", "null", []string{""}},
			{"not JSON", "name=Newcomer", []string{""}},
			{"cut off", valid[:len(valid)-3], []string{""}},
			{"one object: two", valid + valid, []string{""}},
			{"one object: something after it", valid + " x", []string{""}},
			{"a comma too many", valid[:len(valid)-1] + ",}", []string{""}},
			{"a comment", valid[:len(valid)-1] + "/* */}", []string{""}},
			{"UTF-8", strings.Replace(valid, ":\"", ":\"\xff", 1), []string{""}},
			{"no duplicate fields", valid[:len(valid)-1] + second, []string{first}},
			{"no unknown fields", valid[:len(valid)-1] + `,"colour":"red"}`, []string{"/colour"}},
			{"no unknown fields: another case", valid[:len(valid)-1] + `,"` + strings.ToUpper(first[1:]) + `":"x"}`, []string{"/" + strings.ToUpper(first[1:])}},
			{"pointers are escaped", valid[:len(valid)-1] + `,"a/b~c":1}`, []string{"/a~1b~0c"}},
			{"no field at all", "{}", nil},
			{"at most 16 KiB: with 16 KiB of rubbish", strings.Repeat("x", 16<<10), []string{""}},
		} {
			t.Run(path+": "+b.rule, func(t *testing.T) {
				o := o.in(t)
				doc := o.refused(o.post(path, b.body), 422, "invalid_request")
				if got := errorPointers(t, doc); b.pointers != nil && !slices.Equal(got, b.pointers) || len(got) == 0 {
					t.Errorf("errors at %q, want %q", got, b.pointers)
				}
			})
		}
		t.Run(path+": at most 16 KiB", func(t *testing.T) {
			o := o.in(t)
			full := valid + strings.Repeat(" ", 16<<10-len(valid))
			o.offered(o.post(path, full), "payment_required")
			o.refused(o.post(path, full+" "), 413, "body_too_large")
		})
		for _, media := range []string{"", "application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.ring+json"} {
			t.Run(path+": type "+media, func(t *testing.T) {
				o := o.in(t)
				var header []string
				if media != "" {
					header = []string{"Content-Type", media}
				}
				o.offered(o.send("POST", path, []byte(valid), header...), "payment_required")
			})
		}
		for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", "application/jsonp"} {
			t.Run(path+": type "+media, func(t *testing.T) {
				o := o.in(t)
				doc := o.refused(o.send("POST", path, []byte(valid), "Content-Type", media), 422, "invalid_request")
				if got := errorPointers(t, doc); !slices.Equal(got, []string{""}) {
					t.Errorf("errors at %q", got)
				}
			})
		}
	}
}

// TestInterfaceBodyCodings holds that a body may come in gzip or zstd, at the origin and
// through an edge, that its challenge is about the bytes that came, and 415.
func TestInterfaceBodyCodings(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	secret := secretFile(t)
	o := start(t, "--tempo-rpc", c.RPC, "--core", "native", "--edge-secret-file", secret)
	near := o.follow(t, o.verifier(), "--core", "native", "--edge-secret-file", secret)
	packer, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(`{"name":"Coded","url":"https://coded.dev/","kind":"agent"}`)); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	for _, b := range []struct {
		node   *origin
		coding string
		body   []byte
	}{
		{o, "gzip", packed.Bytes()},
		{near, "zstd", packer.EncodeAll([]byte(`{"name":"Coded too","url":"https://coded-too.dev/","kind":"agent"}`), nil)},
	} {
		send := func(body []byte, header ...string) reply {
			return b.node.send("POST", "/api/register", body, append(header, "Content-Type", "application/json")...)
		}
		ch := b.node.challenge(send(b.body, "Content-Encoding", b.coding))
		if ch.Digest != mpp.Digest(b.body) {
			t.Errorf("%s: the challenge is about %s", b.coding, ch.Digest)
		}
		credential := signedBy(wallet(t), ch)
		if r := send(append(slices.Clone(b.body), b.body...), "Content-Encoding", b.coding, "Authorization", credential); r.Status != 422 {
			t.Errorf("%s: two documents: %d %s", b.coding, r.Status, r.Body)
		}
		if r := send(b.body, "Content-Encoding", b.coding, "Authorization", credential); r.Status != 201 {
			t.Errorf("%s: %d %s", b.coding, r.Status, r.Body)
		}
		r := send([]byte("{}"), "Content-Encoding", "br")
		b.node.fields(r, "Accept-Encoding", "gzip, zstd")
		for code, refused := range map[string]reply{
			"unsupported_encoding": r,
			"invalid_request":      send([]byte("{}"), "Content-Encoding", b.coding),
			"body_too_large":       send(packer.EncodeAll(make([]byte, 16<<10+1), nil), "Content-Encoding", "zstd"),
		} {
			if got := refused.code(t); got != code || refused.Status != api.Code(code).Status() {
				t.Errorf("%s: %d %s, want %s", b.coding, refused.Status, got, code)
			}
		}
	}
	if got := o.received(); got != 200 {
		t.Errorf("%d cents were received", got)
	}
}

// TestInterfaceBidFields holds the table of BidRequest, and that a bid's member
// is an exact slug or canonical URL, so that money lands on no neighbour.
func TestInterfaceBidFields(t *testing.T) {
	t.Parallel()
	c, _ := chain(t)
	o := founded(t, reference, append(freely, "--tempo-rpc", c.RPC)...)
	for _, b := range []struct {
		rule, body string
		status     int
		code       string
		pointer    string
	}{
		{"member by slug", `{"member":"beta","amount":"1.00"}`, 402, "payment_required", ""},
		{"member by URL", `{"member":"https://www.beta.dev/app/","amount":"1.00"}`, 402, "payment_required", ""},
		{"member by another spelling of its URL", `{"member":"http://BETA.dev:80/%61pp/index.html#x","amount":"1.00"}`, 402, "payment_required", ""},
		{"member is required", `{"amount":"1.00"}`, 422, "invalid_request", "/member"},
		{"member is not null", `{"member":null,"amount":"1.00"}`, 422, "invalid_request", "/member"},
		{"member is a string", `{"member":5,"amount":"1.00"}`, 422, "invalid_request", "/member"},
		{"member is not empty", `{"member":" ","amount":"1.00"}`, 422, "invalid_request", "/member"},
		{"an unknown slug", `{"member":"nobody","amount":"1.00"}`, 404, "unknown_member", ""},
		{"a slug is exact", `{"member":"Beta","amount":"1.00"}`, 404, "unknown_member", ""},
		{"an unknown URL", `{"member":"https://nobody.dev/","amount":"1.00"}`, 404, "unknown_member", ""},
		{"no prefix of a URL", `{"member":"https://shared.dev/foo/other","amount":"1.00"}`, 404, "unknown_member", ""},
		{"no bare host", `{"member":"alpha.dev","amount":"1.00"}`, 404, "unknown_member", ""},
		{"not below a member", `{"member":"https://alpha.dev/x","amount":"1.00"}`, 404, "unknown_member", ""},
		{"a removed member: 410", `{"member":"eta","amount":"1.00"}`, 410, "member_removed", ""},
		{"a removed member's URL is nobody's", `{"member":"https://eta.dev/","amount":"1.00"}`, 404, "unknown_member", ""},
		{"amount is required", `{"member":"beta"}`, 422, "invalid_request", "/amount"},
		{"amount is a string", `{"member":"beta","amount":1.00}`, 422, "invalid_request", "/amount"},
		{"amount at the minimum", `{"member":"beta","amount":"1"}`, 402, "payment_required", ""},
		{"amount below the minimum", `{"member":"beta","amount":"0.99"}`, 422, "bid_too_low", "/amount"},
		{"amount without increments", `{"member":"beta","amount":"1.37"}`, 402, "payment_required", ""},
		{"amount at the maximum", `{"member":"beta","amount":"1000000.00"}`, 402, "payment_required", ""},
		{"amount above the maximum", `{"member":"beta","amount":"1000000.01"}`, 422, "bid_too_high", "/amount"},
		{"amount of 8 digits", `{"member":"beta","amount":"00000001.00"}`, 422, "bid_too_high", "/amount"},
		{"amount with three decimals", `{"member":"beta","amount":"1.000"}`, 422, "invalid_request", "/amount"},
		{"amount negative", `{"member":"beta","amount":"-1.00"}`, 422, "invalid_request", "/amount"},
		{"fields are checked before the member", `{"member":"nobody","amount":"0.99"}`, 422, "bid_too_low", "/amount"},
	} {
		t.Run(b.rule, func(t *testing.T) {
			o := o.in(t)
			r := o.post("/api/bid", b.body)
			if b.status == 402 {
				o.offered(r, b.code)
				return
			}
			doc := o.refused(r, b.status, b.code)
			if b.pointer != "" {
				if got := errorPointers(t, doc); !slices.Equal(got, []string{b.pointer}) {
					t.Errorf("errors at %q", got)
				}
			}
		})
	}
}
