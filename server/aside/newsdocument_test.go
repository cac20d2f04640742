package aside_test

import (
	"encoding/json"
	"testing"

	"webring/core"
	"webring/core/coretest"
	"webring/server/aside"
	"webring/server/ledger"
)

// News of a payment have what its transfer is found by, those of a removal the code of its reason and
// not its words, and those of earlier versions what they know.
func TestNewsTellWhatTheirEventsSay(t *testing.T) {
	r := newRing(t)
	r.add(rules(r.stamp, 86400), nil)
	e, texts := joins(r.stamp, 1, 0)
	e.Payment = core.Payment{Method: "evm", Network: "evm:8453", Transaction: "0xabc", Payer: "0xpayer", Payee: "0xusd/0xring", Binding: "0xnonce"}
	r.add(e, texts)
	r.add(&core.Bid{Stamp: r.stamp, Member: e.Slug, Amount: 100, Payment: core.Payment{Method: "evm", Network: "evm:8453", Transaction: "0xdef", Payer: "0xpayer"}}, nil)
	words := &core.Texts{Words: core.Text{Value: "a cheat"}}
	r.add(&core.Removed{Stamp: r.stamp, Member: e.Slug, Why: core.Why{Code: core.Spam, Words: coretest.Commit(words.Words)}}, words)
	var got struct {
		Events []struct {
			Type, Reason string
			Payment      json.RawMessage
		}
	}
	r.View(func(v *ledger.View) {
		a, _ := aside.News(v, "/api/events", "", nil)
		if err := json.Unmarshal(a.Body, &got); err != nil {
			t.Fatal(err)
		}
	})
	want := map[string][2]string{
		"joined":  {`{"network":"evm:8453","transaction":"0xabc","payer":"0xpayer","payee":"0xusd/0xring","binding":"0xnonce"}`, ""},
		"bid":     {`{"network":"evm:8453","transaction":"0xdef","payer":"0xpayer"}`, ""},
		"removed": {"", "spam"},
	}
	for _, e := range got.Events {
		if is := [2]string{string(e.Payment), e.Reason}; is != want[e.Type] {
			t.Errorf("%s: %s", e.Type, is)
		}
		delete(want, e.Type)
	}
	if len(want) > 0 {
		t.Errorf("no news of %v", want)
	}
}
