package edgetest

import (
	"bytes"
	"cmp"
	"testing"
	"time"

	"webring/core"
	"webring/core/coretest"
	"webring/edge/front"
	"webring/edge/voucher"
	"webring/wasm/host"
)

// Base is the address of test rings, and Epoch the second at which their histories begin.
const (
	Base  = "https://ring.example"
	Epoch = 1_760_000_000
)

// Secret is a secret of edges, and Secrets has that one.
var (
	Secret     = bytes.Repeat([]byte{7}, 32)
	Secrets, _ = voucher.NewSecrets(Secret)
)

// NewRing returns a core of a ring without members.
func NewRing(t testing.TB) *host.Native {
	t.Helper()
	n := host.NewNative(100)
	Apply(t, n, &core.Rules{Stamp: Epoch * 1000, Name: "Test <Ring>", BaseURL: Base, Fee: 100, MinBid: 100, Grace: 10, Decay: 1000,
		Networks: []core.Network{{Name: "tempo:42431", Method: "tempo", Currency: "usd"}}, Scorer: "fixed", RequiredScore: 40}, nil)
	return n
}

// Apply has a core fold an event.
func Apply(t testing.TB, n *host.Native, e core.Event, texts *core.Texts) {
	t.Helper()
	s := coretest.NewStep(e, texts)
	if err := n.Apply([]host.Record{{Event: s.EventBytes, Texts: s.TextBytes}}); err != nil {
		t.Fatal(err)
	}
}

// Join has a member join so many milliseconds after [Epoch]: an agent of the category
// general, if e says nothing else.
func Join(t testing.TB, n *host.Native, after int64, name string, e core.Joined) {
	t.Helper()
	texts := &core.Texts{Name: core.Text{Value: name}, URL: core.Text{Value: "https://" + e.Slug + ".example/"}}
	e.Stamp, e.Fee = Epoch*1000+after, 100
	e.Kind, e.Category = cmp.Or(e.Kind, core.Agent), cmp.Or(e.Category, "general")
	e.Name, e.URL = coretest.Commit(texts.Name), coretest.Commit(texts.URL)
	Apply(t, n, &e, texts)
}

// NewTrio returns a core of three members: an agent "alpha" with a bid, an MCP server "beta",
// a website "gamma".
func NewTrio(t testing.TB) *host.Native {
	t.Helper()
	n := NewRing(t)
	Join(t, n, 1000, "Alpha & Co", core.Joined{Slug: "alpha", Bid: 5000})
	Join(t, n, 1001, "Beta", core.Joined{Slug: "beta", Kind: core.MCP})
	Join(t, n, 1002, "Gamma", core.Joined{Slug: "gamma", Kind: core.Website})
	n.Tick(time.Unix(Epoch+2, 0))
	return n
}

// Proxies returns trusted proxies that name their client in a field, "" for the usual one.
func Proxies(t testing.TB, field string, words ...string) front.Proxies {
	t.Helper()
	p, err := front.ParseProxies(words)
	if err == nil && field != "" {
		err = p.NameClientsIn(field)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}
