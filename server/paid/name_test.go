package paid

import (
	"errors"
	"strings"
	"testing"

	"webring/core"
)

func TestNamesThatReadAsIfTheRingSaidSoAreRefused(t *testing.T) {
	for _, c := range []struct{ ring, refused, taken string }{
		{"Northern Lights", "Official Acme|ACME (official)|The-Official_Site|Ｏｆｆｉｃｉａｌ Acme|Ófficial|o f f i c i a l|Acme: off icial", "Officially late|Unofficial Acme|Office|Offici"},
		{"Northern Lights", "Verified|Acme, verified!|veri fied|v\u0435rifi\u0435d|VERIFIED\u2714|\u24e5erified", "Verify me|Unverified claims"},
		{"Northern Lights", "Admin|admin's desk|adm1n|\u0430dmin|\u0410\u0434\u043c\u0438\u043d|ADMIN|ad-min|adm\u0131n", "Administration|Badminton|Ad Astra"},
		{"Northern Lights", "Rank 1|rank #1|1st in rank|rank1|R\u00e4nk \u2460|Rank No. 12|\u0440\u0430\u043d\u043a 1|7: rank", "Rank and File|Frank 1|PageRank 2|Ranking 4|1 Acme"},
		{"Northern Lights", "Northern Lights|The NORTHERN lights team|NorthernLights|n\u043erthern-l1ghts|Northern Llghts", "Northern Light|Southern Lights|Lights, Northern"},
		{"Webring", "Webring|my webring page|Web Ring", "Webrings|My ring"},
		{"\u6c34\u6ce2\u73af", "\u6c34\u6ce2\u73af|A \u6c34\u6ce2 \u73af", "\u6c34\u6ce2"},
		{"\u2605", "", "\u2605|Star"},
	} {
		var p NamePolicy
		for name := range strings.SplitSeq(c.refused, "|") {
			if name != "" && p.check(name, c.ring) == nil {
				t.Errorf("%q is taken in the ring %q", name, c.ring)
			}
		}
		for name := range strings.SplitSeq(c.taken, "|") {
			if err := p.check(name, c.ring); err != nil {
				t.Errorf("%q is refused in the ring %q: it %v", name, c.ring, err)
			}
		}
	}
}

func TestTheOperatorAllowsNamesThatAreReserved(t *testing.T) {
	for _, c := range []struct {
		allow, name string
		ok          bool
	}{
		{"official", "The Official Acme", true},
		{"official", "Official and verified", false},
		{"Official Gazette", "The official gazette of Acme", true},
		{"Official Gazette", "Official Acme", false},
		{"Official Gazette", "Official Gazette, official", false},
		{"rank", "Rank 1", true},
		{"Rank 9 Records", "rank 9 records", true},
		{"Rank 9 Records", "Rank 1", false},
		{"Webring", "Webring Directory", true},
	} {
		if err := (NamePolicy{Allow: []string{"Nobody", c.allow}}).check(c.name, "Webring"); (err == nil) != c.ok {
			t.Errorf("%q where %q is allowed: %v", c.name, c.allow, err)
		}
	}
	if (NamePolicy{Allow: []string{"official", "!?"}}).Validate() == nil || (NamePolicy{Allow: []string{"official"}}).Validate() != nil {
		t.Error("an entry that allows nothing is taken, or one that allows something is not")
	}
}

// A name is refused before there is a challenge, and never after one: what was
// promised under other rules is kept.
func TestReservedNamesAreRefusedBeforeTheChallengeAlone(t *testing.T) {
	s := &Service{Config: Config{}}
	rules := &core.Rules{Name: "Northern Lights", MinBid: minimumBid}
	body := []byte(register("name", `"Official Acme"`))
	_, err := s.first(body, rules)
	var input *InputError
	if !errors.As(err, &input) || input.Code != "invalid_request" || len(input.Fields) != 1 || input.Fields[0].Pointer != "/name" ||
		input.Detail != `The field name must not hold the word "official": it would read as if the ring said so.` {
		t.Errorf("a new registration: %+v, %v", input, err)
	}
	r, err := s.first(body, rules)
	if err == nil {
		t.Errorf("taken: %+v", r)
	}
	s.Names.Allow = []string{"official"}
	if r, err = s.first(body, rules); err != nil || r.Name != "Official Acme" {
		t.Errorf("allowed: %+v, %v", r, err)
	}
	s.Names.Allow = nil
	o, err := (&registering{s}).restore(body, map[string]string{pinURL: r.URL, pinFee: "100", pinScore: "70"})
	if err != nil || o.(*registration).Name != "Official Acme" {
		t.Errorf("one that was promised: %+v, %v", o, err)
	}
}

func FuzzReservedNames(f *testing.F) {
	f.Add("Official Acme", "Webring", "official")
	f.Add("ra\u0308nk \u2460", "\u6c34\u6ce2\u73af", "")
	f.Fuzz(func(t *testing.T, name, ring, allowed string) {
		name, ok := cleanText(name)
		if !ok || len(name) > 400 || len(ring) > 400 || len(allowed) > 400 {
			return
		}
		err := NamePolicy{}.check(name, ring)
		if err == nil && (NamePolicy{Allow: []string{allowed}}).check(name, ring) != nil {
			t.Fatalf("%q is refused because %q is allowed", name, allowed)
		}
		// Whole names are allowed by themselves.
		if p := (NamePolicy{Allow: []string{name, slugify(name)}}); p.check(name, ring) != nil {
			t.Fatalf("%q is allowed and refused", name)
		}
	})
}
