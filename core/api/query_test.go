package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
)

// crowd is a ring of n members; every third is an agent in tools.
func crowd(t testing.TB, n int, edit ...func(*core.Rules)) *coretest.Ring {
	r := coretest.NewRing(t, edit...)
	for i := range n {
		k, c := core.Website, "general"
		if i%3 == 0 {
			k, c = core.Agent, "tools"
		}
		r.Join(fmt.Sprint("m", i), fmt.Sprintf("https://m%d.example/", i), ofKind(k, c))
	}
	return r
}

func TestInvalidParametersAreNamed(t *testing.T) {
	r := sample(t)
	const huge = "99999999999999999999999999"
	for parameter, values := range map[string][]string{
		"limit":    {"0", "501", huge, "x", "1.0", "-1", "+1", "%2B1", "1e2", "0x10", "%zz", "1%", "%31%", "1+", "%C3", "١"},
		"offset":   {"-1", "x", "1.5", "+0", "%", "%f", "null", "9007199254740993", huge},
		"page":     {"0", "-1", "x", "00", "1,2", "%e"},
		"kind":     {"Agent", "agents", "agent,mcp", "%", "%ff", "agent+"},
		"format":   {"json", "Redirect", "redirect%20", "%"},
		"category": {"%", "%zz", "%ff"},
	} {
		for _, path := range paths(parameter) {
			for _, value := range values {
				target := path + "?x=1&" + parameter + "=" + value
				res := fails(t, r, target, api.InvalidParameter)
				var p struct{ Parameter, Detail string }
				if err := json.Unmarshal(res.Body, &p); err != nil || res.Status != 400 || p.Parameter != parameter || !strings.HasPrefix(p.Detail, parameter+" ") {
					t.Errorf("%s: %d %s", target, res.Status, res.Body)
				}
			}
		}
	}
}

func TestParametersWithoutAValueAreAbsent(t *testing.T) {
	r := sample(t)
	for _, path := range []string{"/api/ring", "/api/leaderboard", "/api/widget", "/api/ring/next", "/api/ring/prev", "/next", "/prev"} {
		plain := get(t, r, path)
		for _, parameter := range []string{"from", "kind", "category", "format", "limit", "offset", "page"} {
			for _, query := range []string{"?" + parameter + "=", "?" + parameter, "?x=1&" + parameter + "=&" + parameter, "?%" + fmt.Sprintf("%x", parameter[0]) + parameter[1:] + "="} {
				res := get(t, r, path+query)
				if res.Status != plain.Status || res.Unknown || string(res.Body) != string(plain.Body) || string(res.Location) != string(plain.Location) {
					t.Errorf("%s%s: %d %s, unlike without", path, query, res.Status, res.Body)
				}
			}
		}
	}
	for _, path := range []string{"/api/ring/random", "/random"} {
		for _, parameter := range []string{"from", "kind", "category", "format"} {
			if res := get(t, r, path+"?"+parameter+"="); res.Status >= 400 || res.Unknown {
				t.Errorf("%s?%s=: %d %s", path, parameter, res.Status, res.Body)
			}
		}
	}
	// What is absent neither comes first nor wins.
	r = crowd(t, 10)
	for query, want := range map[string]string{"limit=&limit=2&offset=&offset=3": "m3 m4", "offset=&page=2&limit=3": "m3 m4 m5", "kind=&kind=agent&limit=1": "m0", "category&category=general&limit=1": "m1"} {
		if got := slugs(t, object(t, get(t, r, "/api/ring?"+query))["members"]); got != want {
			t.Errorf("%s gives %q, want %q", query, got, want)
		}
	}
}

func TestOffsetsBeyond2To53AreInvalid(t *testing.T) {
	r := crowd(t, 10)
	for query, valid := range map[string]bool{
		"offset=9007199254740992": true, "offset=09007199254740992": true, "offset=9007199254740993": false,
		"offset=9223372036854775808": false, "offset=18446744073709551617": false, "offset=99999999999999999999999999": false,
		// A page has an offset, which is shown as it is: none is 2^53 instead.
		"limit=1&page=18014398509482": true, "limit=500&page=18014398509482": true, "page=018014398509482": true,
		"limit=1&page=18014398509483": false, "page=9007199254740993": false, "page=18446744073709551617&limit=500": false, "limit=500&page=99999999999999999999": false,
	} {
		for _, path := range []string{"/api/ring?", "/api/leaderboard?"} {
			if !valid {
				if res := fails(t, r, path+query, api.InvalidParameter); !strings.Contains(string(res.Body), `"parameter":"`+strings.Split(strings.TrimPrefix(query, "limit=1&"), "=")[0]+`"`) && !strings.HasPrefix(query, "limit=500") {
					t.Errorf("%s%s: %s", path, query, res.Body)
				}
				continue
			}
			if l := object(t, get(t, r, path+query)); l["count"] != 0.0 || l["offset"].(float64) > 1<<53 {
				t.Errorf("%s%s: %v", path, query, l)
			}
		}
	}
}

func TestAnEscapedSlashSeparatesNothing(t *testing.T) {
	r := sample(t)
	for _, path := range []string{"/api%2Fring", "/api%2fring", "%2Fapi", "/api/ring%2Falpha", "/api/ring%2Fnext", "/api/ring/alpha%2F", "/api/ring/%2Falpha", "/%2Fnext", "/api/ring/a%2Fb"} {
		fails(t, r, path, api.NotFound)
	}
	if res := get(t, r, "/%61pi/ring/%61lpha"); res.Status != 200 {
		t.Errorf("other escapes: %d %s", res.Status, res.Body)
	}
	if res := get(t, r, "/api/widget?from=https:%2F%2Falpha.example%2F"); res.Unknown {
		t.Errorf("in a query: %s", res.Body)
	}
}

// A from that cannot be decoded names no member, unless it is the address of a
// site as it was sent. It never ends a visitor's way in a 400.
func TestFromThatIsNotUTF8IsUnknownOrAnAddressAsSent(t *testing.T) {
	r := sample(t)
	for _, from := range []string{"%", "%4", "%zz", "%ff", "a%C3", "\xff", "https%3A//gamma.example/100%"} {
		for _, path := range paths("from") {
			target := path + "?from=" + from
			res := get(t, r, target)
			strict := path == "/api/ring/next" || path == "/api/ring/prev"
			switch {
			case strict && res.Status != 404:
				t.Errorf("%s: %d %s", target, res.Status, res.Body)
			case !strict && (res.Status != 200 && res.Status != 302 || !res.Unknown):
				t.Errorf("%s: %d, unknown %t", target, res.Status, res.Unknown)
			}
		}
	}
	latin1 := get(t, r, "/api/widget?from=https://www.beta.example/docs/caf%E9")
	if latin1.Unknown || !strings.Contains(string(latin1.Body), `"member":{"slug":"beta"`) {
		t.Errorf("a page with a Latin-1 address: %s", latin1.Body)
	}
}

// paths lists the endpoints that know a parameter.
func paths(parameter string) []string {
	switch parameter {
	case "limit", "offset", "page":
		return []string{"/api/ring", "/api/leaderboard"}
	case "kind", "category":
		return []string{"/api/ring", "/api/ring/next", "/api/ring/prev", "/api/ring/random", "/next", "/prev", "/random"}
	case "format":
		return []string{"/api/ring/next", "/api/ring/prev", "/api/ring/random"}
	}
	return []string{"/api/ring/next", "/api/ring/prev", "/api/ring/random", "/api/widget", "/next", "/prev", "/random"}
}

func TestParametersThatAnEndpointDoesNotKnowAreIgnored(t *testing.T) {
	r := sample(t)
	for _, path := range api.Paths() {
		path = strings.Replace(path, "{slug}", "alpha", 1)
		for _, parameter := range []string{"limit", "offset", "page", "kind", "category", "format", "from", "utm_source", "", "LIMIT", "li%zzmit"} {
			known := false
			for _, p := range paths(parameter) {
				known = known || p == path && strings.ToLower(parameter) == parameter && parameter != "" && parameter != "utm_source" && parameter != "li%zzmit"
			}
			if known {
				continue
			}
			plain, res := get(t, r, path), get(t, r, path+"?"+parameter+"=%zz&&=&"+parameter+"=-5")
			if string(plain.Body) != string(res.Body) {
				t.Errorf("%s is another document with %s", path, parameter)
			}
		}
	}
}

// Known leaves out what does not matter, and nothing else.
func TestKnownLeavesOutWhatIsIgnored(t *testing.T) {
	r := crowd(t, 10)
	for target, want := range map[string]string{
		"/api/leaderboard?limit=2&offset=3": "", "/next?from=m1": "", "/api/ring?q=a&kind=agent&category=b&limit=1&page=2": "", "/api/ring/m1": "", "/api": "", "/nosuch?x=1": "",
		"/api/ring?l%69mit=2": "", "/api/ring/%6d1": "", "/api/ring/a%2fb?x": "", "/api/ring?limit=x": "", "/%zz?x": "", "/api/ring/next/a?x=1": "",
		"/api/leaderboard?x=1&limit=2&offset=3&y": "/api/leaderboard?limit=2&offset=3", "/api/leaderboard?limit=2&l%69mit=3&limit=": "/api/leaderboard?limit=2",
		"/api/leaderboard?kind=agent&from=m1&q=a&format=redirect": "/api/leaderboard", "/api?x": "/api", "/api/categories?limit=1": "/api/categories", "/next?": "/next",
		"/api/ring?page=7&limit=1&offset=2": "/api/ring?limit=1&offset=2", "/api/ring?page=7&offset=&limit=1": "/api/ring?page=7&limit=1",
		"/api/l%65aderboard?limit=2": "/api/leaderboard?limit=2", "/%61pi/ring?&&limit=2&": "/api/ring?limit=2", "/api/ring/m1?x=1": "/api/ring/m1", "/api/ring/%6d1?x=1": "/api/ring/%6d1",
		"/api/%72ing/next?format=redirect&x": "/api/ring/next?format=redirect", "/api/widget?from=m1&kind=agent": "/api/widget?from=m1", "/prev?from=%ff&from=m1": "/prev?from=%ff",
		"/api/ring?x=?&li%zzmit=1&limit=3&": "/api/ring?limit=3", "/random?format=redirect": "/random",
	} {
		if want == "" {
			want = target
		}
		if got := string(api.Known([]byte(target))); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
		whole, known := get(t, r, target), get(t, r, want)
		if string(whole.Body) != string(known.Body) || string(whole.Next) != string(known.Next) || string(whole.Location) != string(known.Location) {
			t.Errorf("%s is another answer than %s", target, want)
		}
	}
	target := []byte("/next?from=m1&kind=agent")
	if n := testing.AllocsPerRun(100, func() { api.Known(target) }); n > 0 {
		t.Errorf("it allocates %v times", n)
	}
}

func TestParameterSpellings(t *testing.T) {
	r := crowd(t, 10)
	for _, c := range []struct{ rule, query, want string }{
		{"plain", "limit=2&offset=3", "m3 m4"},
		{"escaped name and value", "l%69mit=%32&%6fffset=3", "m3 m4"},
		{"leading zeros", "limit=002&offset=03", "m3 m4"},
		{"the first of a repeated parameter counts", "limit=2&limit=x&offset=3&offset=4", "m3 m4"},
		{"empty pairs", "&&limit=2&=&offset=3&", "m3 m4"},
		{"'=' within a value", "x=a=b&limit=2&offset=3", "m3 m4"},
		{"'?' within a query", "x=?&limit=2&offset=3", "m3 m4"},
		{"plus is a space", "category=tools+&limit=5", ""},
		{"kind", "kind=agent", "m0 m3 m6 m9"},
		{"category", "category=general&limit=3", "m1 m2 m4"},
		{"kind and category that exclude each other", "kind=agent&category=general", ""},
		{"page", "page=2&limit=3", "m3 m4 m5"},
		{"page 1", "page=1&limit=3", "m0 m1 m2"},
		{"page of a filtered list", "kind=agent&page=2&limit=3", "m9"},
		{"offset wins over page", "page=2&limit=3&offset=1", "m1 m2 m3"},
		{"offset wins over page, in any order", "offset=0&page=3&limit=3", "m0 m1 m2"},
		{"with offset, page is not looked at", "page=x&limit=3&offset=1", "m1 m2 m3"},
		{"page beyond the end", "page=5&limit=3", ""},
		{"offset at the end", "offset=10", ""},
		{"offset before the end", "offset=9", "m9"},
	} {
		res := get(t, r, "/api/ring?"+c.query)
		l := object(t, res)
		if got := slugs(t, l["members"]); got != c.want {
			t.Errorf("%s: %s gives %q, want %q", c.rule, c.query, got, c.want)
		}
		if l["count"] != float64(len(l["members"].([]any))) {
			t.Errorf("%s: count %v", c.query, l["count"])
		}
	}
}

func TestLimitIsFromOneToFiveHundredWithOneHundredByDefault(t *testing.T) {
	r := crowd(t, 501)
	for query, want := range map[string]int{"": 100, "?limit=1": 1, "?limit=100": 100, "?limit=500": 500, "?limit=500&offset=500": 1} {
		for path, list := range map[string]string{"/api/ring": "members", "/api/leaderboard": "leaderboard"} {
			l := object(t, get(t, r, path+query))
			if got := len(l[list].([]any)); got != want || l["count"] != float64(want) || l["total"] != 501.0 {
				t.Errorf("%s%s: %d of %v", path, query, got, l["total"])
			}
		}
	}
	fails(t, r, "/api/ring?limit=0", api.InvalidParameter)
	fails(t, r, "/api/ring?limit=501", api.InvalidParameter)
}

func TestPageLinksKeepFiltersAndLimit(t *testing.T) {
	const base = "https://ring.example"
	r := crowd(t, 10)
	for _, c := range []struct{ target, next, prev string }{
		{"/api/ring", "", ""},
		{"/api/ring?limit=10", "", ""},
		{"/api/ring?limit=4", "/api/ring?limit=4&offset=4", ""},
		{"/api/ring?limit=4&offset=4", "/api/ring?limit=4&offset=8", "/api/ring?limit=4&offset=0"},
		{"/api/ring?limit=4&page=3", "", "/api/ring?limit=4&offset=4"},
		{"/api/ring?limit=4&offset=6", "", "/api/ring?limit=4&offset=2"},
		{"/api/ring?limit=4&offset=1", "/api/ring?limit=4&offset=5", "/api/ring?limit=4&offset=0"},
		{"/api/ring?limit=4&page=4", "", "/api/ring?limit=4&offset=8"},
		{"/api/ring?limit=5&page=3", "", "/api/ring?limit=5&offset=5"},
		{"/api/ring?limit=5&offset=9007199254740992", "", "/api/ring?limit=5&offset=5"},
		{"/api/ring?limit=1&kind=agent&utm=x", "/api/ring?kind=agent&limit=1&offset=1", ""},
		{"/api/ring?limit=1&category=t%6Fols&kind=agent&page=2", "/api/ring?kind=agent&category=tools&limit=1&offset=2", "/api/ring?kind=agent&category=tools&limit=1&offset=0"},
		{"/api/ring?category=none&offset=50", "", ""},
		{"/api/ring?category=&limit=1", "/api/ring?limit=1&offset=1", ""},
		{"/api/leaderboard?limit=9", "/api/leaderboard?limit=9&offset=9", ""},
		{"/api/leaderboard?limit=9&page=2&kind=agent", "", "/api/leaderboard?limit=9&offset=0"},
		{"/api/leaderboard?offset=10", "", "/api/leaderboard?limit=100&offset=0"},
	} {
		res := get(t, r, c.target)
		links := at(t, object(t, res), "links").(map[string]any)
		for name, want := range map[string]string{"next": c.next, "prev": c.prev} {
			header := map[string][]byte{"next": res.Next, "prev": res.Prev}[name]
			if want == "" {
				if links[name] != nil || len(header) != 0 {
					t.Errorf("%s: %s is %v and %s, want none", c.target, name, links[name], header)
				}
			} else if links[name] != base+want || string(header) != base+want {
				t.Errorf("%s: %s is %v and %s, want %s", c.target, name, links[name], header, base+want)
			}
		}
	}
}

func TestFollowingNextAndBackVisitsEveryMemberOnce(t *testing.T) {
	r := crowd(t, 23)
	for _, target := range []string{"/api/ring?limit=5", "/api/ring?limit=3&kind=website", "/api/leaderboard?limit=7"} {
		list := "members"
		if strings.Contains(target, "leaderboard") {
			list = "leaderboard"
		}
		follow := func(start string, link func(*api.Response) []byte) (all []string, last string) {
			for next := start; next != ""; next = strings.TrimPrefix(string(link(get(t, r, last))), "https://ring.example") {
				last = next
				all = append(all, slugs(t, object(t, get(t, r, next))[list]))
			}
			return all, last
		}
		there, last := follow(target, func(r *api.Response) []byte { return r.Next })
		back, _ := follow(last, func(r *api.Response) []byte { return r.Prev })
		for i := range there {
			if there[i] != back[len(back)-1-i] {
				t.Errorf("%s: %q forwards, %q backwards", target, there, back)
			}
		}
		whole := slugs(t, object(t, get(t, r, strings.Replace(target, "limit=", "limit=500&x=", 1)))[list])
		if strings.Join(there, " ") != whole {
			t.Errorf("%s: pages %q, whole %q", target, there, whole)
		}
	}
}

// FuzzServe gives Serve any target. Lists are held against a slow reading of
// their query.
func FuzzServe(f *testing.F) {
	for _, target := range every {
		f.Add(target, uint64(7))
	}
	for _, target := range []string{"/api/ring?limit=%31&limit=%zz", "/api/ring/%61lpha?#", "/next?from=+%00&from", "?", "/api/ring?page=9&&offset", "/api/ring?category=%F0%9F%A6%8A&kind="} {
		f.Add(target, uint64(1)<<63)
	}
	r := sample(f)
	res := new(api.Response)
	f.Fuzz(func(t *testing.T, target string, random uint64) {
		api.Serve(r.State, []byte(target), random, res)
		if fault := wrong(r.State, res); fault != "" {
			t.Fatalf("%q: %s: %d %s", target, fault, res.Status, res.Body)
		}
		if res.Status != 200 && res.Status != 302 && res.Status != 400 && res.Status != 404 && res.Status != 410 {
			t.Fatalf("%q: status %d", target, res.Status)
		}
		known := api.Known([]byte(target))
		if again := get(t, r, string(known)); string(again.Body) != string(res.Body) && !res.Drawn || len(api.Known(known)) < len(known) {
			t.Fatalf("%q: as %q, it is %s instead of %s", target, known, again.Body, res.Body)
		}
		path, query, _ := strings.Cut(target, "?")
		escapedSlash := strings.Contains(strings.ToLower(path), "%2f")
		if decoded, err := url.PathUnescape(path); err == nil && !escapedSlash && api.Serves([]byte(decoded)) != !strings.Contains(string(res.Body), `"code":"not_found"`) {
			t.Fatalf("%q: Serves does not agree with the answer %s", target, res.Body)
		}
		if path == "/api/ring" {
			checkList(t, query, res)
		}
	})
}

// checkList reads limit, offset and page the slow way.
func checkList(t *testing.T, query string, res *api.Response) {
	first := map[string]string{}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(name); err == nil {
			if _, seen := first[name]; !seen && value != "" {
				if value, err = url.QueryUnescape(value); err != nil {
					value = "broken"
				}
				first[name] = value
			}
		}
	}
	number := func(name string, least, most, otherwise uint64) (n uint64, ok bool) {
		value, given := first[name]
		if !given {
			return otherwise, true
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if errors.Is(err, strconv.ErrRange) {
			n = math.MaxUint64
		}
		for _, c := range value {
			if c < '0' || c > '9' {
				return 0, false
			}
		}
		return n, n >= least && n <= most
	}
	limit, ok := number("limit", 1, 500, 100)
	offset, offsetOK := number("offset", 0, 1<<53, 0)
	page, pageOK := uint64(1), true
	if _, given := first["offset"]; !given {
		page, pageOK = number("page", 1, 18014398509482, 1)
		offset = (page - 1) * limit
	}
	if !ok || !offsetOK || !pageOK {
		if res.Status != 400 {
			t.Fatalf("%q: status %d, want 400", query, res.Status)
		}
		return
	}
	if res.Status != 200 { // another parameter
		return
	}
	var l struct{ Limit, Offset, Count, Total uint64 }
	if err := json.Unmarshal(res.Body, &l); err != nil {
		t.Fatal(err)
	}
	if l.Limit != limit || l.Offset != offset || l.Count != min(limit, l.Total-min(l.Total, offset)) {
		t.Fatalf("%q: %+v, want limit %d offset %d", query, l, limit, offset)
	}
}
