package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"strings"
	"testing"
	"time"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/core/snap"
)

// seen is what a visitor notices of a traversal: the slug of the member, or
// the address it is sent to, or the code of the problem; and "?" in front when
// the host says that from was unknown.
func seen(t *testing.T, r *coretest.Ring, target string) string {
	t.Helper()
	res := get(t, r, target)
	mark := ""
	if res.Unknown {
		mark = "?"
	}
	switch res.Status {
	case 302:
		return mark + string(res.Location)
	case 200:
		return mark + at(t, object(t, res), "member", "slug").(string)
	}
	var p struct{ Code string }
	if err := json.Unmarshal(res.Body, &p); err != nil {
		t.Fatal(err)
	}
	return mark + p.Code
}

func check(t *testing.T, r *coretest.Ring, rows [][3]string) {
	t.Helper()
	for _, row := range rows {
		if got := seen(t, r, row[1]); got != row[2] {
			t.Errorf("%s: %s is %s, want %s", row[0], row[1], got, row[2])
		}
	}
}

func ofKind(k core.Kind, category string) func(*core.Joined, *core.Texts) {
	return func(e *core.Joined, _ *core.Texts) { e.Kind, e.Category = k, category }
}

func TestARingOfNoneIsEmptyEverywhere(t *testing.T) {
	r := coretest.NewRing(t)
	for _, target := range []string{"/api/ring/next", "/api/ring/prev", "/api/ring/random", "/api/ring/next?format=redirect",
		"/api/ring/random?format=redirect", "/next", "/prev", "/random", "/next?kind=agent"} {
		if res := fails(t, r, target, api.EmptyRing); res.Status != 404 {
			t.Errorf("%s: %d", target, res.Status)
		}
	}
	check(t, r, [][3]string{
		{"whatever from says", "/api/ring/next?from=x", "empty_ring"},
		{"links go on without from, and find nobody", "/next?from=x", "?empty_ring"},
		{"random goes on without from, and finds nobody", "/api/ring/random?from=x", "?empty_ring"},
	})
	if w := object(t, get(t, r, "/api/widget?from=x")); w["member"] != nil || w["prev"] != nil || w["next"] != nil || at(t, w, "ring", "count") != 0.0 {
		t.Errorf("widget of an empty ring: %v", w)
	}
	if l := object(t, get(t, r, "/api/ring")); l["total"] != 0.0 || len(l["members"].([]any)) != 0 {
		t.Errorf("list of an empty ring: %v", l)
	}
	if l := object(t, get(t, r, "/api/leaderboard")); l["total"] != 0.0 || len(l["leaderboard"].([]any)) != 0 || at(t, l, "rules", "join_at_first_bid_usd") != "0.00" {
		t.Errorf("leaderboard of an empty ring: %v", l)
	}
	if l := object(t, get(t, r, "/api/categories")); l["count"] != 0.0 || len(l["categories"].([]any)) != 0 {
		t.Errorf("categories of an empty ring: %v", l)
	}
}

// A ring that lost all its members looks like one that never had any, and its answers
// are true of both.
func TestNobodyIsSaidToHaveNeverJoined(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("m1", "https://m1.example/")
	r.Remove("m1", false)
	if res := fails(t, r, "/api/ring/next?from=m1", api.EmptyRing); !strings.Contains(string(res.Body), "no members at present") {
		t.Errorf("%s", res.Body)
	}
}

func TestARingOfOneIsItsOwnNeighbour(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("one", "https://one.example/")
	for _, path := range []string{"/api/ring/next", "/api/ring/prev", "/api/ring/random"} {
		check(t, r, [][3]string{{"one", path, "one"}, {"one", path + "?from=one", "one"}})
	}
	check(t, r, [][3]string{{"one", "/next?from=one", "https://one.example/"}, {"one", "/random?from=one", "https://one.example/"}})
	w := object(t, get(t, r, "/api/widget?from=one"))
	for _, who := range []string{"member", "prev", "next"} {
		if at(t, w, who, "slug") != "one" {
			t.Errorf("widget of one: %s is %v", who, w[who])
		}
	}
}

func TestARingOfTwoHasTheOtherOnBothSides(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("one", "https://one.example/")
	r.Join("two", "https://two.example/")
	check(t, r, [][3]string{
		{"next without from is the first", "/api/ring/next", "one"},
		{"prev without from is the last", "/api/ring/prev", "two"},
		{"next", "/api/ring/next?from=one", "two"},
		{"next wraps around", "/api/ring/next?from=two", "one"},
		{"prev", "/api/ring/prev?from=two", "one"},
		{"prev wraps around", "/api/ring/prev?from=one", "two"},
		{"random leaves from out", "/api/ring/random?from=one", "two"},
		{"random leaves from out", "/random?from=two", "https://one.example/"},
	})
}

func TestFiltersSelectTargetsAndNeverTheStart(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("a1", "https://a1.example/", ofKind(core.Agent, "tools"))
	r.Join("w1", "https://w1.example/", ofKind(core.Website, "general"))
	r.Join("m1", "https://m1.example/", ofKind(core.MCP, "tools"))
	r.Join("w2", "https://w2.example/", ofKind(core.Website, "tools"))
	r.Join("a2", "https://a2.example/", ofKind(core.Agent, "general"))
	check(t, r, [][3]string{
		{"the nearest that matches", "/api/ring/next?from=w1&kind=agent", "a2"},
		{"the nearest that matches, backwards", "/api/ring/prev?from=w1&kind=agent", "a1"},
		{"from does not match and keeps its place", "/api/ring/next?from=m1&kind=website", "w2"},
		{"around the edge", "/api/ring/next?from=w2&kind=website", "w1"},
		{"around the edge, backwards", "/api/ring/prev?from=a1&kind=agent", "a2"},
		{"from alone matches", "/api/ring/next?from=m1&kind=mcp", "m1"},
		{"from alone matches, backwards", "/api/ring/prev?from=m1&kind=mcp", "m1"},
		{"from alone matches, at random", "/api/ring/random?from=m1&kind=mcp", "m1"},
		{"the only other", "/api/ring/random?from=a1&kind=agent", "a2"},
		{"category", "/api/ring/next?from=w2&category=tools", "a1"},
		{"kind and category", "/api/ring/prev?from=a1&kind=website&category=tools", "w2"},
		{"kind and category on links", "/next?from=a1&kind=website&category=tools", "https://w2.example/"},
		{"kind and category on links", "/prev?from=a1&kind=agent&category=general", "https://a2.example/"},
		{"kind and category on /random", "/random?kind=mcp&category=tools", "https://m1.example/"},
		{"the edge among what matches", "/api/ring/next?kind=website", "w1"},
		{"the edge among what matches, backwards", "/api/ring/prev?category=tools", "w2"},
		{"no match", "/api/ring/next?kind=mcp&category=general", "empty_ring"},
		{"no match from a member", "/api/ring/next?from=m1&category=none", "empty_ring"},
		{"no match on links", "/next?category=none", "empty_ring"},
		{"category outside the pattern", "/api/ring/next?category=Tools", "empty_ring"},
		{"category outside the pattern", "/api/ring/next?category=-", "empty_ring"},
		{"category outside the pattern", "/api/ring/next?category=a%20b%22%26", "empty_ring"},
		{"category too long", "/api/ring/next?category=" + strings.Repeat("a", 33), "empty_ring"},
		{"a category without a value is none", "/api/ring/next?category=", "a1"},
	})
	if got := at(t, object(t, get(t, r, "/api/widget?from=m1&kind=agent")), "next", "slug"); got != "w2" {
		t.Errorf("the widget knows no filter, and leads to %v", got)
	}
}

func TestRandomIsUniformAndUsesTheBitsGiven(t *testing.T) {
	r := coretest.NewRing(t)
	for i := range 5 {
		r.Join(fmt.Sprint("m", i), fmt.Sprintf("https://m%d.example/", i))
	}
	for _, c := range []struct {
		target string
		want   string
	}{
		{"/api/ring/random", "m0 m1 m2 m3 m4"},
		{"/api/ring/random?from=m2", "m0 m1 m3 m4"},
		{"/api/ring/random?from=m0", "m1 m2 m3 m4"},
		{"/api/ring/random?from=nobody", "m0 m1 m2 m3 m4"},
	} {
		want := strings.Fields(c.want)
		for i := range uint64(1000) {
			res := getRandom(t, r, c.target, i*(^uint64(0)/1000))
			got := at(t, object(t, res), "member", "slug").(string)
			if share := want[int(i)*len(want)/1000]; got != share && i*uint64(len(want))%1000 != 0 {
				t.Fatalf("%s: bits %d of 1000 give %s, want %s", c.target, i, got, share)
			}
			if at(t, object(t, res), "direction") != "random" || res.Validity != api.Never {
				t.Fatalf("%s: %s", c.target, res.Body)
			}
		}
	}
}

func TestUnknownFromByEndpoint(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("one", "https://one.example/")
	r.Join("two", "https://two.example/")
	r.Join("gone", "https://gone.example/")
	r.Remove("gone", false)
	for _, from := range []string{"nobody", "nobody.example", "https%3A%2F%2Fnobody.example%2F", "gone", "gone.example", "https://gone.example/", "%20", "%00", "%C3%BC.example"} {
		check(t, r, [][3]string{
			{"next refuses", "/api/ring/next?from=" + from, "unknown_member"},
			{"prev refuses", "/api/ring/prev?from=" + from, "unknown_member"},
			{"next refuses to redirect", "/api/ring/next?format=redirect&from=" + from, "unknown_member"},
			{"prev refuses to redirect", "/api/ring/prev?format=redirect&from=" + from, "unknown_member"},
			{"/next enters at its edge", "/next?from=" + from, "?https://one.example/"},
			{"/prev enters at its edge", "/prev?from=" + from, "?https://two.example/"},
			{"random goes on", "/api/ring/random?from=" + from, "?two"},
			{"random goes on", "/api/ring/random?format=redirect&from=" + from, "?https://two.example/"},
			{"/random goes on", "/random?from=" + from, "?https://two.example/"},
		})
		res := get(t, r, "/api/widget?from="+from)
		w := object(t, res)
		if !res.Unknown || w["member"] != nil || at(t, w, "next", "slug") != "one" || at(t, w, "prev", "slug") != "two" {
			t.Errorf("widget from %s: %s", from, res.Body)
		}
	}
	check(t, r, [][3]string{
		{"no from is not unknown", "/next", "https://one.example/"},
		{"empty from is no from", "/next?from=", "https://one.example/"},
		{"empty from is no from", "/api/ring/prev?from=&kind=website", "two"},
	})
	if get(t, r, "/api/widget?from=").Unknown || get(t, r, "/api/widget").Unknown {
		t.Error("a widget without from has an unknown from")
	}
}

func TestFromIsSlugURLOrBareHost(t *testing.T) {
	r := coretest.NewRing(t)
	for _, m := range [][2]string{
		{"data", "https://data.com/"}, {"foo", "https://a.com/foo"}, {"root", "https://www.a.com/"}, {"foobar", "https://a.com/foobar/"},
		{"deep", "http://a.com/foo/bar/index.html"}, {"port", "https://a.com:8443/"}, {"query", "https://a.com/foo?q=1"}, {"b.com", "https://c.com/"},
		{"wwwcom", "https://www.com/"}, {"idn", "https://xn--bcher-kva.example/"},
	} {
		slug := strings.ReplaceAll(m[0], ".", "-")
		r.Join(slug, m[1], func(e *core.Joined, _ *core.Texts) { e.Payment.Payer = "0x00000000000000000000000000000000000000aa" })
	}
	for _, c := range []struct{ rule, from, want string }{
		{"slug", "deep", "deep"},
		{"slugs are exact", "Deep", "unknown_member"},
		{"URL as registered", "https://a.com/foo", "foo"},
		{"URL with the other scheme", "http://a.com/foo", "foo"},
		{"URL with a slash more", "https://a.com/foo/", "foo"},
		{"URL with index.html", "https://a.com/foo/index.html", "foo"},
		{"URL without index.html", "https://a.com/foo/bar", "deep"},
		{"URL with www.", "https://www.a.com/foo", "foo"},
		{"URL without www.", "https://a.com", "root"},
		{"host in capitals", "HTTPS://A.COM/foo", "foo"},
		{"paths keep their case", "https://a.com/FOO", "root"},
		{"default port", "https://a.com:443/foo", "foo"},
		{"fragment", "https://a.com/foo#x", "foo"},
		{"dot segments", "https://a.com/x/../foo/.", "foo"},
		{"escapes of plain letters", "https://a.com/%66oo", "foo"},
		{"query is identity", "https://a.com/foo?q=1", "query"},
		{"another query is a page below", "https://a.com/foo?q=2", "foo"},
		{"longest prefix", "https://a.com/foo/x/y", "foo"},
		{"longer prefix", "https://a.com/foo/bar/y", "deep"},
		{"/foo is not /foobar", "https://a.com/foobar", "foobar"},
		{"/foo is not /foob", "https://a.com/foob", "root"},
		{"/foobar is not /fo", "https://a.com/fo", "root"},
		{"a.com is not data.com", "https://data.com/foo", "data"},
		{"data.com is not a.com", "data.com", "data"},
		{"ta.com is nobody", "https://ta.com/", "unknown_member"},
		{"x.a.com is nobody", "x.a.com", "unknown_member"},
		{"a.com.evil.example is nobody", "https://a.com.evil.example/", "unknown_member"},
		{"bare host: the one at its root", "a.com", "root"},
		{"bare host with www.", "www.a.com", "root"},
		{"bare host in capitals", "A.Com", "root"},
		{"bare host with the root's dot", "a.com.", "root"},
		{"bare host that is www.com", "www.com", "wwwcom"},
		{"host with a port is that page", "a.com:8443", "port"},
		{"host with a path is that page", "a.com/foo", "foo"},
		{"port of its own", "https://a.com:8443/x", "port"},
		{"port of nobody", "https://a.com:9000/", "unknown_member"},
		{"A-label", "xn--bcher-kva.example", "idn"},
		{"other host characters", "bücher.example", "unknown_member"},
		{"other scheme", "ftp://a.com/foo", "unknown_member"},
		{"user information", "https://me@a.com/foo", "unknown_member"},
	} {
		if got := seen(t, r, "/api/ring/next?from="+escape(c.from)); got != after(t, r, c.want) {
			t.Errorf("%s: next from %s is %s, want the one after %s", c.rule, c.from, got, c.want)
		}
		w := object(t, get(t, r, "/api/widget?from="+escape(c.from)))
		if c.want == "unknown_member" && w["member"] != nil || c.want != "unknown_member" && at(t, w, "member", "slug") != c.want {
			t.Errorf("%s: the widget takes %s for %v, want %s", c.rule, c.from, w["member"], c.want)
		}
	}
}

// after gives the slug that follows in ring order.
func after(t *testing.T, r *coretest.Ring, slug string) string {
	o, ok := r.BySlug([]byte(slug))
	if !ok {
		return slug
	}
	return r.Member((o + 1) % core.Ordinal(r.Rows())).Slug
}

func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

func TestRemovalClosesTheGapAndKeepsTheSlug(t *testing.T) {
	r := coretest.NewRing(t)
	for _, slug := range []string{"one", "two", "three"} {
		r.Join(slug, "https://"+slug+".example/")
	}
	r.Remove("two", false)
	check(t, r, [][3]string{{"over the gap", "/api/ring/next?from=one", "three"}, {"over the gap", "/api/ring/prev?from=three", "one"}})
	if got := at(t, object(t, get(t, r, "/api/ring/three")), "member", "ring_position"); got != 2.0 {
		t.Errorf("ring_position %v, want 2", got)
	}
	if res := fails(t, r, "/api/ring/two", api.MemberRemoved); res.Status != 410 {
		t.Errorf("a removed member: %d", res.Status)
	}
	if res := fails(t, r, "/api/ring/four", api.UnknownMember); res.Status != 404 {
		t.Errorf("an unknown member: %d", res.Status)
	}
	r.Join("two-2", "https://two.example/")
	if got := at(t, object(t, get(t, r, "/api/ring/two-2")), "member", "ring_position"); got != 3.0 {
		t.Errorf("ring_position %v of the URL that joined again, want 3", got)
	}
}

// Of a member that its owner took out of the ring, the problem says until when it can return.
func TestADepartedMemberSaysUntilWhenItCanReturn(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("one", "https://one.example/")
	r.Join("two", "https://two.example/")
	left := r.Stamp
	r.Do(&core.Departed{Member: "two"}, nil)
	until := time.UnixMilli(left + 7*24*3600*1000).UTC().Format("2006-01-02T15:04:05.000Z")
	if body := fails(t, r, "/api/ring/two", api.MemberRemoved).Body; !strings.Contains(string(body), until) {
		t.Errorf("%s does not say %s", body, until)
	}
	check(t, r, [][3]string{{"unknown", "/api/ring/next?from=two.example", "unknown_member"}, {"passed over", "/api/ring/next?from=one", "one"}})
	r.Do(&core.Returned{Member: "two"}, nil)
	check(t, r, [][3]string{{"back", "/api/ring/next?from=one", "two"}, {"back at its place", "/api/ring/prev?from=two.example", "one"}})
	r.Do(&core.Departed{Member: "two"}, nil)
	r.Do(&core.Lapsed{Member: "two"}, nil)
	if body := fails(t, r, "/api/ring/two", api.MemberRemoved).Body; strings.Contains(string(body), "return") {
		t.Errorf("%s", body)
	}
}

// Between a registration without its texts and the removal that explains it,
// the member is as removed.
func TestAMemberWithoutTextsIsNeverServed(t *testing.T) {
	r := coretest.NewRing(t)
	r.Join("one", "https://one.example/")
	e := &core.Joined{Stamp: r.Stamp, Slug: "blank", Kind: core.Agent, Category: "general", Fee: 100, Bid: 5000,
		Name: core.Commitment{1}, URL: core.Commitment{2}}
	if err := r.Apply(coretest.NewStep(e, nil).EventBytes, nil); err != nil {
		t.Fatal(err)
	}
	r.Wait(1)
	fails(t, r, "/api/ring/blank", api.MemberRemoved)
	check(t, r, [][3]string{{"unknown", "/api/ring/next?from=blank", "unknown_member"}, {"passed over", "/api/ring/next?from=one", "one"}})
	if got := slugs(t, at(t, object(t, get(t, r, "/api/leaderboard")), "leaderboard")); got != "one" {
		t.Errorf("leaderboard: %s", got)
	}
}

func TestRedirectsCarryThePlainAddressAndAnEscapedLink(t *testing.T) {
	r := coretest.NewRing(t)
	url := "https://one.example/a?x='1'&y=2"
	r.Join("one", url, func(_ *core.Joined, texts *core.Texts) { texts.Name.Value = `<script>"&'` })
	for _, target := range []string{"/next", "/prev", "/random", "/api/ring/next?format=redirect", "/api/ring/prev?format=redirect", "/api/ring/random?format=redirect", "/next?format=json"} {
		res := get(t, r, target)
		if res.Status != 302 || string(res.Location) != url || res.Media != api.HTML || res.Validity != api.Never {
			t.Errorf("%s: %d to %s, media %d, validity %d", target, res.Status, res.Location, res.Media, res.Validity)
		}
		body := string(res.Body)
		if !strings.Contains(body, `href="https://one.example/a?x=&#39;1&#39;&amp;y=2"`) || !strings.Contains(body, `&lt;script&gt;&#34;&amp;&#39;</a>`) {
			t.Errorf("%s: %s", target, body)
		}
	}
}

// The page of every redirect escapes what needs it, whether its state folded the events,
// was restored or attached, and whichever members have left.
func TestRedirectsEscapeWhateverTheirStateWasMadeOf(t *testing.T) {
	r := coretest.NewRing(t)
	names := []string{"plain", "<", ">", "&amp;", `"`, "'", "twelve bytes", "<script>12345678", "12345678</a>", "1234567'", "12345678\"", "ü<", "gone<b>"}
	for i, name := range names {
		url := fmt.Sprintf("https://m%d.example/", i)
		if i%3 == 0 {
			url += "?a=1&b=2"
		}
		r.Join(fmt.Sprint("m", i), url, func(_ *core.Joined, texts *core.Texts) { texts.Name.Value = name })
	}
	r.Remove("m4", false)
	r.Remove("m12", true)
	restored, err := snap.Open(100, 7, snap.Append(nil, r.State), core.Means{})
	if err != nil {
		t.Fatal(err)
	}
	header, memory := restored.Image(nil)
	attached, err := core.Attach(100, header, bytes.Clone(memory))
	if err != nil {
		t.Fatal(err)
	}
	for how, st := range map[string]*core.State{"folded": r.State, "restored": restored, "attached": attached} {
		st.Advance(0)
		for i := range names {
			slug := fmt.Sprint("m", i)
			o, in := st.Named([]byte(slug))
			if in == (i == 4 || i == 12) {
				t.Errorf("%s: %s is in the ring: %t", how, slug, in)
			}
			if !in {
				continue
			}
			m := st.Member(o)
			want := fmt.Sprintf(`href="%s">%s</a>.`, html.EscapeString(m.URL), html.EscapeString(m.Name))
			var res api.Response
			api.Serve(st, []byte("/next?from="+st.Slug(st.Prev(o))), 1, &res)
			if m.Name != names[i] || string(res.Location) != m.URL || !strings.Contains(string(res.Body), want) {
				t.Errorf("%s: to %s by %s", how, res.Location, res.Body)
			}
		}
	}
}

// A redirect says between which members it is, whatever spelled from; nothing else does.
func TestRedirectsSayBetweenWhichMembersTheyAre(t *testing.T) {
	r := coretest.NewRing(t)
	for _, slug := range []string{"one", "two", "three"} {
		r.Join(slug, "https://"+slug+".example/")
	}
	for target, want := range map[string][2]uint32{
		"/next?from=one":   {1, 2},
		"/next?from=three": {3, 1},
		"/prev?from=one":   {1, 3},
		"/next?from=https://one.example/some/page": {1, 2},
		"/next?from=%6Fne":                         {1, 2},
		"/next":                                    {0, 1},
		"/prev?from=nobody":                        {0, 3},
		"/api/ring/next?from=two&format=redirect":  {2, 3},
		"/api/ring/next?from=two":                  {},
		"/api/widget?from=two":                     {},
		"/api/ring/two":                            {},
		"/next?from=one&kind=mcp":                  {},
		"/api/ring/random?from=two&format=other":   {},
	} {
		if res := get(t, r, target); [2]uint32{res.From, res.To} != want {
			t.Errorf("%s: from %d to %d, want %v", target, res.From, res.To, want)
		}
	}
	if res := get(t, r, "/random?from=one"); res.From != 1 || res.To != 2 && res.To != 3 {
		t.Errorf("random: from %d to %d", res.From, res.To)
	}
}
