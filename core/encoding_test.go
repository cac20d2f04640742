package core_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"webring/core"
	"webring/core/coretest"
)

func note(n int) string { return strings.Repeat("n", n) }

func rules(edit func(*core.Rules)) core.Event {
	e := &core.Rules{Stamp: 1, Name: "n", BaseURL: "b", Fee: 100, MinBid: 100, Grace: 0, Decay: 1, Networks: networks("tempo"), Scorer: "s"}
	edit(e)
	return e
}

func joined(edit func(*core.Joined)) core.Event {
	e := &core.Joined{Stamp: 1, Slug: "a", Kind: core.Agent, Category: "c", Name: core.Commitment{1}, URL: core.Commitment{2},
		Score: core.Score{Given: true, Value: 50}, Fee: 100}
	edit(e)
	return e
}

func bid(edit func(*core.Bid)) core.Event {
	e := &core.Bid{Stamp: 1, Member: "a", Amount: 100}
	edit(e)
	return e
}

func removed(edit func(*core.Removed)) core.Event {
	e := &core.Removed{Stamp: 1, Member: "a"}
	edit(e)
	return e
}

func adjusted(edit func(*core.Adjusted)) core.Event {
	e := &core.Adjusted{Stamp: 1, Adjustment: core.Credit, Member: "a", Amount: 100}
	edit(e)
	return e
}

// At each limit an event encodes, decodes to itself and encodes to the same
// bytes again.
func TestEventsAtTheirLimitsEncodeAndDecode(t *testing.T) {
	for i, e := range []core.Event{
		rules(func(e *core.Rules) {}),
		rules(func(e *core.Rules) { e.Stamp, e.Fee, e.MinBid = 0, 0, 1 }),
		rules(func(e *core.Rules) {
			e.Stamp, e.Fee, e.MinBid, e.Grace, e.Decay = core.MaxStamp, core.MaxAmount, core.MaxAmount, core.MaxWindow, core.MaxWindow
		}),
		rules(func(e *core.Rules) {
			e.Name, e.BaseURL, e.Scorer, e.RequiredScore = note(1024), note(1024), note(1024), 100
		}),
		rules(func(e *core.Rules) { e.Networks, e.Synthetic = nil, true }),
		rules(func(e *core.Rules) { e.Networks = networks(strings.Split(strings.Repeat("x,", 15)+"y", ",")...) }),
		joined(func(e *core.Joined) {}),
		joined(func(e *core.Joined) {
			e.Slug, e.Category, e.Score = strings.Repeat("a", core.MaxSlug), strings.Repeat("0", core.MaxCategory), core.Score{}
		}),
		joined(func(e *core.Joined) { e.Category = "a-" }),
		joined(func(e *core.Joined) { e.Category = "0" }),
		joined(func(e *core.Joined) { e.Fee, e.Bid, e.Score.Value = 0, core.MaxAmount, 100 }),
		joined(func(e *core.Joined) { e.Description, e.Report = core.Commitment{31: 1}, core.Commitment{255} }),
		joined(func(e *core.Joined) {
			e.Score.Provider, e.Score.Version, e.Score.ScannedAt = note(1024), note(1024), core.MaxStamp
			e.Payment = core.Payment{Method: note(1024), Network: note(1024), Transaction: note(1024), Payer: note(1024)}
		}),
		joined(func(e *core.Joined) { e.Payment.Payee, e.Payment.Binding = note(1024), note(1024) }),
		bid(func(e *core.Bid) { e.Payment.Payee, e.Payment.Binding = "0xusd/0xring", "0x5a" }),
		bid(func(e *core.Bid) { e.Payment.Binding = "0x5a" }),
		adjusted(func(e *core.Adjusted) { e.Payment.Payee = "0xusd/0xring" }),
		bid(func(e *core.Bid) { e.Amount = 1 }),
		bid(func(e *core.Bid) { e.Amount = core.MaxAmount }),
		removed(func(e *core.Removed) { e.Reason, e.Redacted = "日本 \x00", true }),
		removed(func(e *core.Removed) { e.Reason = note(1024) }),
		removed(func(e *core.Removed) { e.Code, e.Redacted = core.Spam, true }),
		removed(func(e *core.Removed) { e.Code, e.Words = core.Otherwise, core.Commitment{1} }),
		&core.Hidden{Member: "a", Why: core.Why{Code: core.Reviewing, Words: core.Commitment{31: 1}}},
		&core.Shown{Member: "a", Why: core.Why{Code: core.Resolved}},
		adjusted(func(e *core.Adjusted) { e.Adjustment, e.Amount, e.Reason = core.Void, core.MaxTotal, note(1024) }),
		adjusted(func(e *core.Adjusted) { e.Adjustment, e.Member = core.Unclaimed, "" }),
		&core.Hidden{Member: strings.Repeat("a", core.MaxSlug), Reason: note(1024)},
		&core.Hidden{Stamp: core.MaxStamp, Member: "a"},
		&core.Shown{Member: strings.Repeat("a", core.MaxSlug), Reason: note(1024)},
		&core.Shown{Stamp: core.MaxStamp, Member: "a"},
		policies(core.Policies{Terms: "https://" + note(1016), Privacy: "http://" + note(1017), Report: "mailto:" + note(1017)}),
		policies(core.Policies{Privacy: "http://a/"}),
		policies(core.Policies{Report: "https://a/日本"}),
		rules(func(e *core.Rules) { e.VisitAsleep = true }),
		rules(func(e *core.Rules) { e.VisitAsleep, e.Terms = true, "https://a/" }),
		rules(func(e *core.Rules) { e.Operator.Payee = strings.Repeat("ß", core.MaxName) }),
		rules(func(e *core.Rules) {
			e.VisitAsleep, e.Terms, e.Operator = true, "https://a/", core.Operator{Name: "n", Contact: "mailto:a@b"}
		}),
		rules(func(e *core.Rules) { e.Look = look }),
		rules(func(e *core.Rules) {
			e.VisitAsleep, e.Terms, e.Look = true, "https://a/", core.Look{Logo: "0 0 1 1 M0 0z" + strings.Repeat("z", core.MaxLogo-13)}
		}),
		rules(func(e *core.Rules) { e.Welcome = strings.Repeat("ß", core.MaxDescription) }),
		&core.Claimed{Member: strings.Repeat("a", core.MaxSlug), Owner: core.Account{19: 1}, Proof: core.ByFile},
		&core.Claimed{Stamp: core.MaxStamp, Member: "a", Owner: core.Account{0: 255}, Proof: core.ByDNS},
		&core.Changed{Member: "a", Name: core.Commitment{1}},
		&core.Changed{Member: "a", Description: core.Commitment{31: 1}},
		&core.Changed{Member: "a", Cleared: true},
		&core.Changed{Member: "a", Category: strings.Repeat("0", core.MaxCategory)},
		&core.Changed{Member: "a", Kind: core.Website},
		&core.Changed{Stamp: core.MaxStamp, Member: "a", Name: core.Commitment{1}, Cleared: true, Category: "c", Kind: core.Agent},
		&core.Moved{Member: "a", URL: core.Commitment{1}},
		&core.Moved{Stamp: core.MaxStamp, Member: "a", URL: core.Commitment{1}, Report: core.Commitment{2},
			Score: core.Score{Given: true, Value: 100, Provider: note(1024), Version: note(1024), ScannedAt: core.MaxStamp}},
		&core.Left{Stamp: core.MaxStamp, Member: "a"},
		&core.Departed{Stamp: core.MaxStamp, Member: "a"},
		&core.Returned{Stamp: core.MaxStamp, Member: "a"},
		&core.Returned{Member: "a", Owner: core.Account{19: 1}},
		&core.Returned{Stamp: core.MaxStamp, Member: strings.Repeat("a", core.MaxSlug), Owner: core.Account{0: 255}, Claimed: true},
		&core.Lapsed{Stamp: core.MaxStamp, Member: "a"},
		&core.Verified{Member: "a", Proof: core.ByFile},
		&core.Verified{Stamp: core.MaxStamp, Member: "a", Proof: core.ByLink},
		&core.Unverified{Member: "a"},
		&core.Asleep{Member: "a"},
		&core.Awake{Stamp: core.MaxStamp, Member: strings.Repeat("a", core.MaxSlug)},
		&core.SetBack{},
		&core.SetBack{Stamp: core.MaxStamp, Reason: note(1024)},
		&core.Payees{List: []core.Payee{{Network: "n", Account: "a"}}},
		&core.Payees{Stamp: core.MaxStamp, List: []core.Payee{{Network: "m", Account: "b"}, {Network: "n", Account: note(1024)}, {Network: "n", Account: note(1023) + "o"}}},
		&core.Payees{List: payees(core.MaxPayees)},
		&core.Keys{Current: "k"},
		&core.Keys{Stamp: core.MaxStamp, Current: note(1023), Next: note(1024)},
		&core.Snapshotted{Size: 1, Bytes: 1},
		&core.Snapshotted{Stamp: core.MaxStamp, Size: 1<<63 - 1, State: [16]byte{1}, Core: [32]byte{3}, Digest: [32]byte{2}, Bytes: 1<<63 - 1},
	} {
		encoded, err := core.AppendEvent([]byte("kept"), e)
		if err != nil || string(encoded[:4]) != "kept" {
			t.Errorf("%d: %v", i, err)
			continue
		}
		got, err := core.DecodeEvent(encoded[4:])
		if err != nil || !reflect.DeepEqual(got, e) {
			t.Errorf("%d: %#v decodes to %#v, %v", i, e, got, err)
		}
	}
}

func TestEventsBeyondALimitAreNotEncoded(t *testing.T) {
	for i, e := range []core.Event{
		rules(func(e *core.Rules) { e.Stamp = -1 }),
		rules(func(e *core.Rules) { e.Stamp = core.MaxStamp + 1 }),
		rules(func(e *core.Rules) { e.Name = "" }),
		rules(func(e *core.Rules) { e.Name = note(1025) }),
		rules(func(e *core.Rules) { e.Name = "\xff" }),
		rules(func(e *core.Rules) { e.BaseURL = "" }),
		rules(func(e *core.Rules) { e.BaseURL = "https://ring.example/" }),
		rules(func(e *core.Rules) { e.BaseURL = note(1025) }),
		rules(func(e *core.Rules) { e.Fee = -1 }),
		rules(func(e *core.Rules) { e.Fee = core.MaxAmount + 1 }),
		rules(func(e *core.Rules) { e.MinBid = 0 }),
		rules(func(e *core.Rules) { e.MinBid = core.MaxAmount + 1 }),
		rules(func(e *core.Rules) { e.Grace = -1 }),
		rules(func(e *core.Rules) { e.Grace = core.MaxWindow + 1 }),
		rules(func(e *core.Rules) { e.Decay = 0 }),
		rules(func(e *core.Rules) { e.Decay = core.MaxWindow + 1 }),
		rules(func(e *core.Rules) { e.Networks = networks("") }),
		rules(func(e *core.Rules) { e.Networks = networks(note(1025)) }),
		rules(func(e *core.Rules) { e.Networks = networks(strings.Split(strings.Repeat("x,", 16)+"y", ",")...) }),
		rules(func(e *core.Rules) { e.Networks = networks(strings.Split(strings.Repeat("x,", 256)+"y", ",")...) }),
		rules(func(e *core.Rules) { e.Networks = networks(slices.Repeat([]string{note(1024)}, 9)...) }), // longer than an event
		rules(func(e *core.Rules) { e.Scorer = note(1025) }),
		rules(func(e *core.Rules) { e.RequiredScore = 101 }),
		joined(func(e *core.Joined) { e.Slug = "" }),
		joined(func(e *core.Joined) { e.Slug = strings.Repeat("a", core.MaxSlug+1) }),
		joined(func(e *core.Joined) { e.Slug = "-a" }),
		joined(func(e *core.Joined) { e.Slug = "a-" }),
		joined(func(e *core.Joined) { e.Slug = "A" }),
		joined(func(e *core.Joined) { e.Slug = "ä" }),
		joined(func(e *core.Joined) { e.Slug = "a b" }),
		joined(func(e *core.Joined) { e.Kind = 0 }),
		joined(func(e *core.Joined) { e.Kind = core.Website + 1 }),
		joined(func(e *core.Joined) { e.Category = "" }),
		joined(func(e *core.Joined) { e.Category = "-a" }),
		joined(func(e *core.Joined) { e.Category = "A" }),
		joined(func(e *core.Joined) { e.Category = "a_b" }),
		joined(func(e *core.Joined) { e.Category = strings.Repeat("a", core.MaxCategory+1) }),
		joined(func(e *core.Joined) { e.Name = core.Commitment{} }),
		joined(func(e *core.Joined) { e.URL = core.Commitment{} }),
		joined(func(e *core.Joined) { e.Score.Value = 101 }),
		joined(func(e *core.Joined) { e.Score.Given = false }),
		joined(func(e *core.Joined) { e.Score.ScannedAt = -1 }),
		joined(func(e *core.Joined) { e.Score.ScannedAt = core.MaxStamp + 1 }),
		joined(func(e *core.Joined) { e.Score.Provider = note(1025) }),
		joined(func(e *core.Joined) { e.Score.Version = note(1025) }),
		joined(func(e *core.Joined) { e.Fee = -1 }),
		joined(func(e *core.Joined) { e.Bid = core.MaxAmount + 1 }),
		joined(func(e *core.Joined) { e.Payment.Method = note(1025) }),
		joined(func(e *core.Joined) { e.Payment.Transaction = note(1025) }),
		joined(func(e *core.Joined) { e.Payment.Payer = "\xc3" }),
		bid(func(e *core.Bid) { e.Amount = 0 }),
		bid(func(e *core.Bid) { e.Amount = -100 }),
		bid(func(e *core.Bid) { e.Amount = core.MaxAmount + 1 }),
		bid(func(e *core.Bid) { e.Member = "A" }),
		bid(func(e *core.Bid) { e.Payment.Payer = note(1025) }),
		bid(func(e *core.Bid) { e.Payment.Payee = note(1025) }),
		joined(func(e *core.Joined) { e.Payment.Binding = note(1025) }),
		adjusted(func(e *core.Adjusted) { e.Payment.Binding = "\xff" }),
		removed(func(e *core.Removed) { e.Member = "" }),
		removed(func(e *core.Removed) { e.Reason = note(1025) }),
		removed(func(e *core.Removed) { e.Code = core.Otherwise + 1 }),
		removed(func(e *core.Removed) { e.Code, e.Reason = core.Spam, "spam" }),
		removed(func(e *core.Removed) { e.Words = core.Commitment{1} }),
		removed(func(e *core.Removed) { e.Code, e.Words, e.Redacted = core.Spam, core.Commitment{1}, true }),
		&core.Hidden{Member: "a", Why: core.Why{Code: 255}},
		&core.Shown{Member: "a", Reason: "x", Why: core.Why{Code: core.Resolved}},
		adjusted(func(e *core.Adjusted) { e.Adjustment = 0 }),
		adjusted(func(e *core.Adjusted) { e.Adjustment = 4 }),
		adjusted(func(e *core.Adjusted) { e.Adjustment = core.Unclaimed }), // names a member
		adjusted(func(e *core.Adjusted) { e.Member = "" }),
		adjusted(func(e *core.Adjusted) { e.Amount = core.MaxTotal + 1 }),
		adjusted(func(e *core.Adjusted) { e.Amount = 0 }),
		adjusted(func(e *core.Adjusted) { e.Member = "x y" }),
		adjusted(func(e *core.Adjusted) { e.Reason = note(1025) }),
		adjusted(func(e *core.Adjusted) { e.Payment.Method = note(1025) }),
		&core.Hidden{Member: ""},
		&core.Hidden{Member: "A"},
		&core.Hidden{Member: "a", Reason: note(1025)},
		&core.Hidden{Member: "a", Reason: "\xff"},
		&core.Hidden{Stamp: -1, Member: "a"},
		&core.Shown{Member: "-a"},
		&core.Shown{Member: "a", Reason: note(1025)},
		&core.Shown{Stamp: core.MaxStamp + 1, Member: "a"},
		policies(core.Policies{Terms: "https://" + note(1017)}),
		policies(core.Policies{Terms: "mailto:a@b.example"}),
		policies(core.Policies{Privacy: "javascript:alert(1)"}),
		policies(core.Policies{Privacy: "/privacy"}),
		policies(core.Policies{Report: "javascript:alert(1)"}),
		policies(core.Policies{Report: "mailto:" + note(1018)}),
		policies(core.Policies{Report: "https://\xff/"}),
		&core.Claimed{Member: "a", Proof: core.ByFile},
		&core.Claimed{Member: "a", Owner: core.Account{1}},
		&core.Claimed{Member: "a", Owner: core.Account{1}, Proof: core.ByLink},
		&core.Claimed{Member: "", Owner: core.Account{1}, Proof: core.ByFile},
		&core.Changed{Member: "a"},
		&core.Changed{Stamp: -1, Member: "a", Kind: core.Agent},
		&core.Changed{Member: "-a", Kind: core.Agent},
		&core.Changed{Member: "a", Kind: core.Website + 1},
		&core.Changed{Member: "a", Category: "-a"},
		&core.Changed{Member: "a", Cleared: true, Description: core.Commitment{1}},
		&core.Moved{Member: "a"},
		&core.Moved{Member: "A", URL: core.Commitment{1}},
		&core.Moved{Member: "a", URL: core.Commitment{1}, Score: core.Score{Given: true, Value: 101}},
		&core.Moved{Member: "a", URL: core.Commitment{1}, Score: core.Score{Value: 1}},
		&core.Left{Member: "a b"},
		&core.Departed{},
		&core.Returned{Member: "a b"},
		&core.Returned{Member: "a", Claimed: true},
		&core.Lapsed{Member: "A"},
		&core.Verified{Member: "a"},
		&core.Verified{Member: "a", Proof: core.ByLink + 1},
		&core.Unverified{Member: ""},
		&core.Asleep{Stamp: core.MaxStamp + 1, Member: "a"},
		&core.Awake{Member: "ä"},
		&core.SetBack{Stamp: -1},
		&core.SetBack{Reason: note(1025)},
		&core.Payees{},
		&core.Payees{List: payees(core.MaxPayees + 1)},
		&core.Payees{List: []core.Payee{{Network: "n"}}},
		&core.Payees{List: []core.Payee{{Account: "a"}}},
		&core.Payees{List: []core.Payee{{Network: "n", Account: "a"}, {Network: "n", Account: "a"}}},
		&core.Payees{List: []core.Payee{{Network: "n", Account: "b"}, {Network: "n", Account: "a"}}},
		&core.Payees{List: []core.Payee{{Network: "n", Account: note(1025)}}},
		&core.Payees{Stamp: -1, List: payees(1)},
		&core.Keys{},
		&core.Keys{Next: "k"},
		&core.Keys{Current: "k", Next: "k"},
		&core.Keys{Current: note(1025)},
		&core.Keys{Current: "k", Next: note(1025)},
		&core.Snapshotted{Bytes: 1},
		&core.Snapshotted{Size: 1},
		&core.Snapshotted{Size: 1 << 63, Bytes: 1},
		&core.Snapshotted{Size: 1, Bytes: -1},
		&core.SetBack{Reason: "\xff"},
		rules(func(e *core.Rules) { e.Operator.Name = strings.Repeat("n", core.MaxName+1) }),
		rules(func(e *core.Rules) { e.Operator.Name = "\xff" }),
		rules(func(e *core.Rules) { e.Operator.Payee = strings.Repeat("n", core.MaxName+1) }),
		rules(func(e *core.Rules) { e.Operator.Contact = "javascript:1" }),
		rules(func(e *core.Rules) { e.Accent = "#a8321a" }),
		rules(func(e *core.Rules) { e.AccentDark = "#a8321a" }),
		rules(func(e *core.Rules) { e.Accent, e.AccentDark = "#a8321A", "#a8321a" }),
		rules(func(e *core.Rules) { e.Accent, e.AccentDark = "a8321aa", "#a8321a" }),
		rules(func(e *core.Rules) { e.Logo = `0 0 1 1 M0 0"` }),
		rules(func(e *core.Rules) { e.Logo = strings.Repeat("z", core.MaxLogo+1) }),
		rules(func(e *core.Rules) { e.Welcome = strings.Repeat("w", core.MaxDescription+1) }),
		rules(func(e *core.Rules) { e.Welcome = "\xff" }),
	} {
		got, err := core.AppendEvent([]byte("kept"), e)
		if !errors.Is(err, core.ErrEvent) || string(got) != "kept" {
			t.Errorf("%d: %#v: %v, dst %q", i, e, err, got)
		}
	}
}

// payees gives n of them.
func payees(n int) (all []core.Payee) {
	for i := range n {
		all = append(all, core.Payee{Network: "n", Account: fmt.Sprintf("%03d", i)})
	}
	return all
}

// look is that of an operator who has chosen all of it.
var look = core.Look{Welcome: "Come in.", Accent: "#a8321a", AccentDark: "#ff8f6b", Logo: "0 0 24 24 M2 2h20v20H2z"}

// policies are rules with these pages.
func policies(p core.Policies) core.Event { return rules(func(e *core.Rules) { e.Policies = p }) }

func TestEveryPrefixAndEveryExtensionOfAnEventIsRefused(t *testing.T) {
	for _, step := range coretest.Generate(coretest.Matched+4, 60) {
		earlier := bytes.Clone(step.EventBytes) // as an earlier version writes it
		if step.Event != nil {
			if p, _ := core.PaymentOf(step.Event); p.Payee != "" {
				earlier = earlier[:len(earlier)-2-len(p.Payee)-2-len(p.Binding)]
				if _, err := core.DecodeEvent(earlier); err != nil {
					t.Fatal(err)
				}
			}
			if why, _ := core.WhyOf(step.Event); why.Code != core.Unstated {
				if earlier = earlier[:len(earlier)-2]; why.Words.Given() {
					earlier = earlier[:len(earlier)-len(why.Words)]
				}
			}
		}
		for n := range step.EventBytes {
			if e, err := core.DecodeEvent(step.EventBytes[:n]); n != len(earlier) && (!errors.Is(err, core.ErrEvent) || e != nil) {
				t.Fatalf("%x, %d of its bytes: %v, %v", step.EventBytes, n, e, err)
			}
		}
		if step.Event == nil {
			continue
		}
		for c := range 256 {
			if _, err := core.DecodeEvent(append(bytes.Clone(step.EventBytes), byte(c))); !errors.Is(err, core.ErrEvent) {
				t.Fatalf("%x and %x: %v", step.EventBytes, c, err)
			}
		}
	}
	if _, err := core.DecodeEvent(make([]byte, core.MaxEvent+1)); !errors.Is(err, core.ErrEvent) {
		t.Errorf("an event too long: %v", err)
	}
}

// One value has one encoding. These are spellings that a lax reader would take, too.
func TestOtherSpellingsOfAnEventAreRefused(t *testing.T) {
	encode := func(e core.Event) []byte {
		b, err := core.AppendEvent(nil, e)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// put gives b with other bytes in the place of one.
	put := func(b []byte, at int, other ...byte) []byte { return slices.Concat(b[:at], other, b[at+1:]) }
	zeros := func(n int) []byte { return make([]byte, n) }
	bare := encode(rules(func(*core.Rules) {}))
	whole := encode(policies(core.Policies{Terms: "https://a/", Privacy: "https://b/", Report: "mailto:c@d"}))
	paged := encode(policies(core.Policies{Terms: "https://a/"}))
	visits := encode(rules(func(e *core.Rules) { e.VisitAsleep = true }))
	join := encode(joined(func(*core.Joined) {}))
	change := encode(&core.Changed{Stamp: 1, Member: "a", Kind: core.Agent})
	out := encode(removed(func(*core.Removed) {}))
	coded := encode(removed(func(e *core.Removed) { e.Code = core.Spam }))
	paid := encode(bid(func(*core.Bid) {}))
	bound := encode(bid(func(e *core.Bid) { e.Payment.Payee = "p" }))
	if !bytes.HasPrefix(whole, bare) || !bytes.Equal(visits, append(bytes.Clone(bare), 0, 0, 0, 0, 0, 0, 1)) {
		t.Fatalf("%x and %x do not go on %x", whole, visits, bare)
	}
	const flags = 2 + 8 + 3 + 1 + 3 + 64 // of a registration: after slug, kind, category, name and url
	const name = 2 + 8 + 3               // of a change: after the member
	for what, b := range map[string][]byte{
		"version 0":                  put(join, 0, 0),
		"version 2":                  put(join, 0, 2),
		"type 0":                     put(join, 1, 0),
		"type 16":                    put(join, 1, 16),
		"negative stamp":             put(join, 2, 0x80),
		"flag 2":                     put(join, flags, 2),
		"given, and all zero":        put(join, flags, append([]byte{1}, zeros(32)...)...),
		"a score of which no is":     put(join, flags+2, 0),
		"a code of 0":                slices.Concat(out, zeros(2)),
		"a code without a flag":      append(bytes.Clone(out), 1),
		"a byte after a code":        append(bytes.Clone(coded), 0),
		"words of all zeros":         slices.Concat(out, []byte{1, 1}, zeros(32)),
		"paid to nobody":             slices.Concat(paid, zeros(4)),
		"a payee alone":              bound[:len(bound)-2],
		"a byte after a binding":     append(bytes.Clone(bound), 0),
		"three policies, all empty":  slices.Concat(bare, zeros(6)),
		"a fourth policy":            slices.Concat(whole, zeros(2)),
		"a byte after policies":      slices.Concat(whole, zeros(1)),
		"no visits":                  slices.Concat(bare, zeros(7)),
		"no visits, pages":           slices.Concat(paged, zeros(1)),
		"an operator, cut off":       put(visits, len(visits)-1, 4),
		"an operator of nothing":     slices.Concat(put(visits, len(visits)-1, 4), zeros(6)),
		"a byte after an operator":   append(encode(rules(func(e *core.Rules) { e.Operator.Name = "n" })), 0),
		"a look, cut off":            put(visits, len(visits)-1, 2),
		"visits 8":                   put(visits, len(visits)-1, 8),
		"a look of nothing":          slices.Concat(put(visits, len(visits)-1, 2), zeros(8)),
		"a byte after a look":        append(encode(rules(func(e *core.Rules) { e.Look = look })), 0),
		"visits without pages":       append(bytes.Clone(bare), 1),
		"a byte after visits":        append(bytes.Clone(visits), 1),
		"a change of nothing":        put(change, len(change)-1, 0),
		"another kind":               put(change, len(change)-1, 4),
		"a name by flag 2":           put(change, name, 2),
		"a description by flag 3":    put(change, name+1, 3),
		"a description of all zeros": put(change, name+1, append([]byte{2}, zeros(32)...)...),
		"a claim by nobody":          slices.Concat(put(change, 1, 8)[:name], zeros(20), []byte{1}),
	} {
		if e, err := core.DecodeEvent(b); !errors.Is(err, core.ErrEvent) {
			t.Errorf("%s: %#v, %v", what, e, err)
		}
	}
	for n := range whole {
		if e, err := core.DecodeEvent(whole[:n]); n != len(bare) && !errors.Is(err, core.ErrEvent) {
			t.Errorf("%d of %d bytes: %#v, %v", n, len(whole), e, err)
		}
	}
}

func FuzzDecodeEvent(f *testing.F) {
	for seed := range uint64(4) {
		for _, step := range coretest.Generate(coretest.Matched+seed, 25) {
			if step.Event != nil {
				f.Add(step.EventBytes)
			}
		}
	}
	for _, e := range []core.Event{&core.Hidden{Stamp: 1, Member: "a", Reason: "why"}, &core.Shown{Stamp: 1, Member: "a"},
		policies(core.Policies{Terms: "https://a/"}), policies(core.Policies{Report: "mailto:a@b"}),
		rules(func(e *core.Rules) { e.Operator.Name = "n" }),
		rules(func(e *core.Rules) { e.VisitAsleep = true }), rules(func(e *core.Rules) { e.Look = look }),
		&core.Claimed{Stamp: 1, Member: "a", Owner: core.Account{1}, Proof: core.ByDNS}, &core.Verified{Stamp: 1, Member: "a", Proof: core.ByLink},
		&core.Changed{Stamp: 1, Member: "a", Name: core.Commitment{1}, Description: core.Commitment{2}, Category: "c", Kind: core.MCP},
		&core.Changed{Stamp: 1, Member: "a", Cleared: true}, &core.Left{Stamp: 1, Member: "a"}, &core.Unverified{Stamp: 1, Member: "a"},
		&core.Moved{Stamp: 1, Member: "a", URL: core.Commitment{1}, Report: core.Commitment{2}, Score: core.Score{Given: true}},
		&core.Asleep{Stamp: 1, Member: "a"}, &core.Awake{Stamp: 1, Member: "a"}, &core.SetBack{Stamp: 1, Reason: "why"}} {
		b, err := core.AppendEvent(nil, e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := core.DecodeEvent(b)
		if err != nil {
			if !errors.Is(err, core.ErrEvent) || e != nil {
				t.Fatalf("%x: %v, %v", b, e, err)
			}
			return
		}
		again, err := core.AppendEvent(nil, e)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %#v, which encodes to %x, %v", b, e, again, err)
		}
	})
}

func FuzzDecodeTexts(f *testing.F) {
	for seed := range uint64(4) {
		for _, step := range coretest.Generate(coretest.Matched+seed, 25) {
			if step.Texts != nil {
				f.Add(step.TextBytes)
			}
		}
	}
	f.Add([]byte{})
	f.Add(make([]byte, 8))
	f.Fuzz(func(t *testing.T, b []byte) {
		texts, err := core.DecodeTexts(b)
		if err != nil {
			if !errors.Is(err, core.ErrTexts) {
				t.Fatalf("%x: %v", b, err)
			}
			return
		}
		if again := core.AppendTexts(nil, &texts); !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %#v, which encodes to %x", b, texts, again)
		}
	})
}

func TestTextsThatAreNoneAreRefused(t *testing.T) {
	whole := core.AppendTexts(nil, &core.Texts{Name: core.Text{Value: "Ünï"}, URL: core.Text{Value: "u"}, Description: core.Text{Value: "d"}, Report: core.Text{Value: "r"}})
	for n := range whole {
		if _, err := core.DecodeTexts(whole[:n]); !errors.Is(err, core.ErrTexts) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	if got, err := core.DecodeTexts(whole); err != nil || got.Words.Value != "" {
		t.Errorf("%v, %v", got, err)
	}
	reason := core.AppendTexts(nil, &core.Texts{Words: core.Text{Value: "w"}})
	if got, err := core.DecodeTexts(reason); err != nil || got.Words.Value != "w" {
		t.Errorf("%v, %v", got, err)
	}
	for name, b := range map[string][]byte{
		"a byte more":   append(bytes.Clone(whole), 0),
		"empty words":   append(bytes.Clone(whole), 0, 0),
		"words cut":     reason[:len(reason)-1],
		"a sixth text":  append(bytes.Clone(reason), 0, 0),
		"too long":      make([]byte, core.MaxTexts+1),
		"invalid UTF-8": bytes.Replace(whole, []byte("Ü"), []byte{0xc3, 0xc3}, 1),
	} {
		if _, err := core.DecodeTexts(b); !errors.Is(err, core.ErrTexts) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrorsSayWhatIsWrong(t *testing.T) {
	_, err := core.AppendEvent(nil, rules(func(e *core.Rules) { e.Name = "" }))
	if err == nil || !strings.Contains(fmt.Sprint(err), "ring name") {
		t.Errorf("%v does not name the field", err)
	}
}

// networks makes networks that differ in their names only.
func networks(names ...string) []core.Network {
	list := make([]core.Network, len(names))
	for i, n := range names {
		list[i] = core.Network{Name: n, Method: "m", Currency: "c"}
	}
	return list
}
