package coretest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"webring/core"
)

// One event of each type, every field filled.
func examples() (names []string, events []core.Event, texts *core.Texts) {
	text := func(salt byte, value string) core.Text {
		t := core.Text{Value: value}
		for i := range t.Salt {
			t.Salt[i] = salt + byte(i)
		}
		return t
	}
	payment := core.Payment{Method: "tempo", Network: "tempo:42431", Transaction: "0x" + strings.Repeat("ab", 32), Payer: "0x" + strings.Repeat("cd", 20)}
	bound := payment
	bound.Payee, bound.Binding = "0x"+strings.Repeat("20", 20)+"/0x"+strings.Repeat("ef", 20), "0x"+strings.Repeat("5a", 32)
	unbound := bound
	unbound.Binding = ""
	texts = &core.Texts{Name: text(0x10, "Ünï & Co"), URL: text(0x30, "https://uni.example/a"),
		Description: text(0x50, "Eine Beschreibung."), Report: text(0x70, "https://scores.example/1")}
	return []string{"rules", "joined", "joined bare", "bid", "removed", "removed redacted", "adjusted credit", "adjusted void", "adjusted unclaimed",
			"hidden", "shown", "rules with policies", "rules with one policy",
			"claimed", "changed", "changed kind", "cleared", "moved", "moved bare", "left", "verified", "unverified", "asleep", "awake",
			"rules that visit sleepers", "rules that visit sleepers, with a policy", "rules that visit sleepers, with a look", "rules of an operator", "set back",

			"departed", "returned", "lapsed",

			"joined and bound", "bid and bound", "adjusted credit and bound", "adjusted void without a binding",
			"removed by code", "removed by code, redacted", "removed with words", "hidden with words", "shown by code",
			"payees", "keys", "keys alone", "snapshotted", "given back"},
		[]core.Event{
			&core.Rules{Stamp: 1769846400000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Grace: 2592000,
				Decay: 7776000, Networks: []core.Network{{Name: "tempo:42431", Method: "tempo", Currency: "0x20c0"}, {Name: "eip155:8453", Method: "evm", Currency: "0x8335"}}, Scorer: "is-agentic", RequiredScore: 40, Synthetic: true},
			&core.Joined{Stamp: 1769846401000, Slug: "uni-co", Kind: core.MCP, Category: "general",
				Name: Commit(texts.Name), URL: Commit(texts.URL), Description: Commit(texts.Description), Report: Commit(texts.Report),
				Score: core.Score{Given: true, Value: 72, Provider: "is-agentic", Version: "3", ScannedAt: 1769846399000},
				Fee:   100, Bid: 250, Payment: payment},
			&core.Joined{Stamp: 1769846402000, Slug: "bare", Kind: core.Agent, Category: "0", Name: Commit(texts.Name), URL: Commit(texts.URL)},
			&core.Bid{Stamp: 1769846403000, Member: "uni-co", Amount: core.MaxAmount, Payment: payment},
			&core.Removed{Stamp: 1769846404000, Member: "bare", Reason: "spam"},
			&core.Removed{Stamp: 1769846405000, Member: "uni-co", Reason: "asked for", Redacted: true},
			&core.Adjusted{Stamp: 1769846406000, Adjustment: core.Credit, Member: "uni-co", Amount: 1, Payment: payment, Reason: "found later"},
			&core.Adjusted{Stamp: core.MaxStamp, Adjustment: core.Void, Member: "uni-co", Amount: 100, Payment: payment, Reason: "reorganised"},
			&core.Adjusted{Stamp: core.MaxStamp, Adjustment: core.Unclaimed, Amount: core.MaxTotal, Payment: payment, Reason: "nobody's"},
			&core.Hidden{Stamp: 1769846407000, Member: "uni-co", Reason: "reported"},
			&core.Shown{Stamp: 1769846408000, Member: "uni-co", Reason: "answered"},
			&core.Rules{Stamp: 1769846409000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Decay: 1, Scorer: "is-agentic",
				Policies: core.Policies{Terms: "https://ring.example/terms", Privacy: "http://ring.example/privacy", Report: "mailto:abuse@ring.example"}},
			&core.Rules{Stamp: 1769846410000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Decay: 1, Scorer: "is-agentic",
				Policies: core.Policies{Report: "https://ring.example/report"}},
			&core.Claimed{Stamp: 1769846411000, Member: "uni-co", Owner: core.AccountOf(payment.Payer), Proof: core.ByDNS},
			&core.Changed{Stamp: 1769846412000, Member: "uni-co", Name: Commit(texts.Name), Description: Commit(texts.Description), Category: "tools", Kind: core.Agent},
			&core.Changed{Stamp: 1769846413000, Member: "uni-co", Kind: core.Website},
			&core.Changed{Stamp: 1769846414000, Member: "uni-co", Cleared: true},
			&core.Moved{Stamp: 1769846415000, Member: "uni-co", URL: Commit(texts.URL), Report: Commit(texts.Report),
				Score: core.Score{Given: true, Value: 40, Provider: "is-agentic", Version: "3", ScannedAt: 1769846414500}},
			&core.Moved{Stamp: 1769846416000, Member: "uni-co", URL: Commit(texts.URL)},
			&core.Left{Stamp: 1769846417000, Member: "uni-co"},
			&core.Verified{Stamp: 1769846418000, Member: "uni-co", Proof: core.ByLink},
			&core.Unverified{Stamp: 1769846419000, Member: "uni-co"},
			&core.Asleep{Stamp: 1769846420000, Member: "uni-co"},
			&core.Awake{Stamp: 1769846421000, Member: "uni-co"},
			&core.Rules{Stamp: 1769846422000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Decay: 1, Scorer: "is-agentic", VisitAsleep: true},
			&core.Rules{Stamp: 1769846423000, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Decay: 1, Scorer: "is-agentic", VisitAsleep: true,
				Policies: core.Policies{Terms: "https://ring.example/terms"}},
			&core.Rules{Stamp: 1769846423500, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Decay: 1, Scorer: "is-agentic", VisitAsleep: true,
				Look: core.Look{Welcome: "Come in.", Accent: "#a8321a", AccentDark: "#ff8f6b", Logo: "0 0 24 24 M2 2h20v20H2z"}},
			&core.Rules{Stamp: 1769846423600, Name: "Ring", BaseURL: "https://ring.example", Fee: 100, MinBid: 100, Decay: 1, Scorer: "is-agentic", VisitAsleep: true,
				Look:     core.Look{Welcome: "Come in."},
				Operator: core.Operator{Name: "Ada Ünï", Contact: "mailto:ada@ring.example", Payee: "Ada's Shop"}},
			&core.SetBack{Stamp: 1769846400000, Reason: "the clock was ahead"},
			&core.Departed{Stamp: 1769846424000, Member: "uni-co"},
			&core.Returned{Stamp: 1769846425000, Member: "uni-co"},
			&core.Lapsed{Stamp: 1769846426000, Member: "uni-co"},
			&core.Joined{Stamp: 1769846427000, Slug: "bound", Kind: core.Agent, Category: "0", Name: Commit(texts.Name), URL: Commit(texts.URL), Fee: 100, Payment: bound},
			&core.Bid{Stamp: 1769846428000, Member: "uni-co", Amount: 100, Payment: bound},
			&core.Adjusted{Stamp: 1769846429000, Adjustment: core.Credit, Member: "uni-co", Amount: 1, Payment: bound, Reason: "found later"},
			&core.Adjusted{Stamp: 1769846430000, Adjustment: core.Void, Member: "uni-co", Amount: 1, Payment: unbound, Reason: "reorganised"},
			&core.Removed{Stamp: 1769846431000, Member: "uni-co", Why: core.Why{Code: core.Spam}},
			&core.Removed{Stamp: 1769846432000, Member: "uni-co", Redacted: true, Why: core.Why{Code: core.Requested}},
			&core.Removed{Stamp: 1769846433000, Member: "uni-co", Why: core.Why{Code: core.Otherwise, Words: Commit(texts.Name)}},
			&core.Hidden{Stamp: 1769846434000, Member: "uni-co", Why: core.Why{Code: core.Reviewing, Words: Commit(texts.Name)}},
			&core.Shown{Stamp: 1769846435000, Member: "uni-co", Why: core.Why{Code: core.Resolved}},
			&core.Payees{Stamp: 1769846436000, List: []core.Payee{{Network: "evm:8453", Account: bound.Payee}, {Network: "tempo:42431", Account: bound.Payee}}},
			&core.Keys{Stamp: 1769846437000, Current: "ring.example+0a0b0c0d+AQID", Next: "ring.example+01020304+AQIE"},
			&core.Keys{Stamp: 1769846438000, Current: "ring.example+01020304+AQIE"},
			&core.Snapshotted{Stamp: 1769846439000, Size: 10_000, State: [16]byte{1, 15: 2}, Core: [32]byte{5, 31: 6}, Digest: [32]byte{3, 31: 4}, Bytes: 1 << 20},
			&core.Returned{Stamp: 1769846440000, Member: "uni-co", Owner: core.AccountOf(payment.Payer), Claimed: true},
		}, texts
}

// The encoding is a format for ever: these bytes may be added to, not changed.
func TestEventsKeepTheirBytesForEver(t *testing.T) {
	var b bytes.Buffer
	names, events, texts := examples()
	for i, e := range events {
		encoded, err := core.AppendEvent(nil, e)
		if err != nil {
			t.Fatalf("%s: %v", names[i], err)
		}
		fmt.Fprintf(&b, "%s\n%x\n", names[i], encoded)
	}
	fmt.Fprintf(&b, "texts\n%x\n", core.AppendTexts(nil, texts))
	fmt.Fprintf(&b, "texts bare\n%x\n", core.AppendTexts(nil, &core.Texts{Name: texts.Name, URL: texts.URL}))
	fmt.Fprintf(&b, "texts of a reason\n%x\n", core.AppendTexts(nil, &core.Texts{Words: texts.Name}))
	golden(t, "events.txt", b.Bytes())

	// And the other way: what is kept decodes to the events above.
	lines := strings.Split(b.String(), "\n")
	for i, want := range events {
		encoded, err := hex.DecodeString(lines[2*i+1])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := core.DecodeEvent(encoded); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s decodes to %#v, %v", names[i], got, err)
		}
	}
}

// Everything that the first histories serve, folded into a digest for each: a
// change to any document, number or order shows here.
func TestHistoriesServeWhatTheyServedBefore(t *testing.T) {
	var b bytes.Buffer
	for seed := range uint64(100) {
		st := core.NewState(capacity, seed)
		digest := sha256.New()
		for _, step := range Generate(seed, length) {
			if step.Event == nil {
				st.Advance(step.Now)
			} else if err := st.Apply(step.EventBytes, step.TextBytes); err != nil {
				fmt.Fprintln(digest, err)
			}
			if st.Rules() != nil {
				st.Advance(0)
				digest.Write(served(st))
			}
		}
		fmt.Fprintf(&b, "%d %x\n", seed, digest.Sum(nil)[:16])
	}
	golden(t, "histories.txt", b.Bytes())
}

// What is decoded is what was encoded, and keeps nothing of the bytes it came from.
func TestEveryEventOfTheHistoriesEncodesOneWay(t *testing.T) {
	each(t, func(t *testing.T, seed uint64) {
		for _, step := range Generate(seed, length) {
			if step.Event == nil {
				continue
			}
			e, err := core.DecodeEvent(step.EventBytes)
			if clear(step.EventBytes); err != nil || !reflect.DeepEqual(e, step.Event) {
				t.Fatalf("%#v decodes to %#v, %v", step.Event, e, err)
			}
			if step.Texts == nil {
				continue
			}
			texts, err := core.DecodeTexts(step.TextBytes)
			if err != nil || texts != *step.Texts {
				t.Fatalf("%#v decodes to %#v, %v", step.Texts, texts, err)
			}
		}
	})
}
