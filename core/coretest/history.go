package coretest

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"

	"webring/core"
)

// Step is one thing that happens to a ring: an event, or, when Event is nil,
// the clock reaching the second Now.
type Step struct {
	Event core.Event
	Texts *core.Texts // that the event commits to; nil when there are none or they were redacted
	Now   int64

	// What [core.State.Apply] takes.
	EventBytes, TextBytes []byte
}

// NewStep encodes an event.
func NewStep(e core.Event, texts *core.Texts) Step {
	s := Step{Event: e, Texts: texts}
	var err error
	if s.EventBytes, err = core.AppendEvent(nil, e); err != nil {
		panic(fmt.Sprintf("coretest: %#v: %v", e, err))
	}
	if texts != nil {
		s.TextBytes = core.AppendTexts(nil, texts)
	}
	return s
}

// Without gives the step as it reads after the texts were deleted.
func (s Step) Without() Step {
	s.Texts, s.TextBytes = nil, nil
	return s
}

// generator writes one history. It keeps just enough to make most of the
// events apply.
type generator struct {
	*rand.Rand
	seed   uint64
	fast   bool // windows of seconds, otherwise of days
	stamp  int64
	ahead  int64 // clock, seconds
	slugs  []string
	hidden []string // at some time
	steps  []Step

	departed []string // at some time
}

// Matched is the first of the seeds whose histories have the events of today: with payees, bindings,
// reasons by code, and those about payees, keys and snapshots. The histories of earlier seeds stay
// as they were, since golden files hold their digests.
const Matched = 1 << 32

// Generate gives the history of a seed: n steps after the first, which opens
// the ring, about a third as many events of owners and visits, and now and then a clock that
// is ahead until it is set back. Most events apply; some name what is not there, repeat a slug or a
// URL, or carry a stamp out of order. In half of the histories the windows of
// decay are seconds, in half days. In every fourth, owners leave and return.
func Generate(seed uint64, n int) []Step {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x72696e67)), seed: seed}
	g.fast = seed%2 == 0
	g.stamp = 1_760_000_000_000 + g.Int64N(1e9)
	g.ahead = g.stamp / 1000
	owned, ahead := rand.New(rand.NewPCG(seed, 0x6f776e)), rand.New(rand.NewPCG(seed, 0x626163))
	parting, published := rand.New(rand.NewPCG(seed, 0x706172)), rand.New(rand.NewPCG(seed, 0x707562))
	if g.IntN(20) == 0 {
		g.add(&core.Bid{Stamp: g.stamp, Member: "early", Amount: 100, Payment: g.payment()}, nil)
	}
	g.rules()
	for n -= len(g.steps) - 1; n > 0; n-- {
		g.pass()
		switch p := g.IntN(100); {
		case p < 30:
			g.join()
		case p < 60:
			g.bid()
		case p < 66:
			g.remove()
		case p < 71:
			g.adjust()
		case p < 74:
			g.rules()
		case p < 80:
			g.hide()
		case p < 85:
			g.show()
		default:
			g.clock()
		}
		if owned.IntN(3) == 0 {
			g.own(owned)
		}
		if ahead.IntN(40) == 0 {
			g.setBack(ahead)
		}
		if seed >= Matched && published.IntN(6) == 0 {
			g.publish(published)
		}
		if seed%4 == 3 && parting.IntN(4) == 0 {
			g.part(parting)
		}
	}
	return g.steps
}

// own adds an event of an owner or of a visit. It draws from a source of its own, so the other
// events of a seed do not depend on it.
func (g *generator) own(r *rand.Rand) {
	if len(g.slugs) == 0 {
		return
	}
	others := g.Rand
	g.Rand = r
	defer func() { g.Rand = others }()
	slug, proof := g.member(), core.Proof(1+g.IntN(3))
	switch g.IntN(10) {
	case 0:
		g.add(&core.Claimed{Stamp: g.when(), Member: slug, Owner: core.Account{19: byte(0xaa + g.IntN(2))}, Proof: 1 + proof%2}, nil)
	case 1, 2:
		g.change(slug)
	case 3, 4:
		g.move(slug)
	case 5:
		if g.IntN(3) == 0 {
			g.add(&core.Left{Stamp: g.when(), Member: slug}, nil)
		}
	case 6:
		g.add(&core.Verified{Stamp: g.when(), Member: slug, Proof: proof}, nil)
	case 7:
		g.add(&core.Unverified{Stamp: g.when(), Member: slug}, nil)
	case 8:
		// Now and then the whole ring falls asleep.
		for _, slug := range g.slugs[g.IntN(len(g.slugs)):] {
			g.add(&core.Asleep{Stamp: g.when(), Member: slug}, nil)
		}
	default:
		g.add(&core.Awake{Stamp: g.when(), Member: slug}, nil)
	}
}

// setBack adds events of a clock that is ahead, and then sets that back, as own adds events.
func (g *generator) setBack(r *rand.Rand) {
	others, slugs, stamp := g.Rand, len(g.slugs), g.stamp
	g.Rand = r
	defer func() { g.Rand, g.slugs, g.stamp = others, g.slugs[:slugs], stamp }()
	for range g.IntN(4) {
		g.stamp += g.Int64N(200_000) * g.unit()
		switch g.IntN(3) {
		case 0:
			g.join()
		case 1:
			g.bid()
		default:
			g.own(r)
		}
	}
	g.add(&core.SetBack{Stamp: stamp - g.Int64N(3000), Reason: g.pick("", "the clock was ahead")}, nil)
}

// publish adds an event about payees, keys or a snapshot, as own adds events. Some are about snapshots
// of events to come.
func (g *generator) publish(r *rand.Rand) {
	others := g.Rand
	g.Rand = r
	defer func() { g.Rand = others }()
	switch g.IntN(3) {
	case 0:
		g.add(&core.Payees{Stamp: g.when(), List: []core.Payee{{Network: "tempo:42431", Account: fmt.Sprintf("0xusd/%d", g.IntN(3))}}}, nil)
	case 1:
		g.add(&core.Keys{Stamp: g.when(), Current: fmt.Sprint("key ", g.IntN(3)), Next: g.pick("", "next")}, nil)
	default:
		g.add(&core.Snapshotted{Stamp: g.when(), Size: 1 + g.Uint64N(2*uint64(len(g.steps))), Digest: [32]byte{1}, Bytes: 1 + g.Int64N(9)}, nil)
	}
}

// part adds events by which owners leave and return. It draws from a source of its own, as
// own does.
func (g *generator) part(r *rand.Rand) {
	if len(g.slugs) == 0 {
		return
	}
	others := g.Rand
	g.Rand = r
	defer func() { g.Rand = others }()
	slug := g.member()
	if len(g.departed) > 0 && g.IntN(3) > 0 {
		slug = g.departed[g.IntN(len(g.departed))]
	}
	switch g.IntN(7) {
	case 0, 1, 2:
		g.departed = append(g.departed, slug)
		g.add(&core.Departed{Stamp: g.when(), Member: slug}, nil)
	case 3, 4, 5:
		e := &core.Returned{Stamp: g.when(), Member: slug}
		if g.seed >= Matched && g.IntN(2) == 0 {
			e.Owner, e.Claimed = core.Account{19: byte(0xaa + g.IntN(2))}, g.IntN(2) == 0
		}
		g.add(e, nil)
	default:
		g.add(&core.Lapsed{Stamp: g.when(), Member: slug}, nil)
	}
}

func (g *generator) change(slug string) {
	e, texts := &core.Changed{Stamp: g.when(), Member: slug}, &core.Texts{}
	if g.IntN(2) == 0 {
		texts.Name = g.text(g.pick("Al", "Alpha and all its friends", "\"Changed\" <b>", "Ünï ☃"))
		e.Name = Commit(texts.Name)
	}
	switch g.IntN(3) {
	case 0:
		texts.Description = g.text(strings.Repeat(g.pick("longer ", "ß"), 1+g.IntN(40)))
		e.Description = Commit(texts.Description)
	case 1:
		e.Cleared = true
	}
	if g.IntN(3) == 0 {
		e.Category = g.pick("general", "tools", "a", "x-")
	}
	if g.IntN(3) == 0 || *e == (core.Changed{Stamp: e.Stamp, Member: slug}) {
		e.Kind = core.Kind(1 + g.IntN(3))
	}
	if !core.CommitmentsOf(e).Some() || g.IntN(25) == 0 {
		texts = nil
	}
	g.add(e, texts)
}

func (g *generator) move(slug string) {
	texts := &core.Texts{URL: g.text(g.url())}
	e := &core.Moved{Stamp: g.when(), Member: slug, URL: Commit(texts.URL)}
	if g.IntN(2) == 0 {
		e.Score = core.Score{Given: true, Value: uint8(g.IntN(101)), Provider: "is-agentic", Version: "2"}
		texts.Report = g.text("https://scores.example/moved/" + slug)
		e.Report = Commit(texts.Report)
	}
	if g.IntN(25) == 0 {
		texts = nil
	}
	g.add(e, texts)
}

func (g *generator) add(e core.Event, texts *core.Texts) {
	g.steps = append(g.steps, NewStep(e, texts))
}

// pass lets the writer's clock run: not at all, for parts of a second, or for
// a good part of a window.
func (g *generator) pass() {
	switch g.IntN(5) {
	case 0:
	case 1:
		g.stamp += g.Int64N(1500)
	default:
		g.stamp += g.Int64N(20_000) * g.unit()
	}
}

// unit is 1 where windows are seconds, otherwise what makes them days.
func (g *generator) unit() int64 {
	if g.fast {
		return 1
	}
	return 40_000
}

// when is the stamp of the next event, now and then out of order.
func (g *generator) when() int64 {
	if g.IntN(50) == 0 {
		return g.stamp - 1 - g.Int64N(3000)
	}
	return g.stamp
}

// clock lets the state's clock run to the writer's, or ahead of it: events
// with earlier stamps follow.
func (g *generator) clock() {
	g.ahead = max(g.ahead, g.stamp/1000) + g.Int64N(30)*g.unit()
	g.steps = append(g.steps, Step{Now: g.ahead})
}

func (g *generator) rules() {
	e := &core.Rules{
		Stamp: g.stamp, Name: "Ring & <Friends>", BaseURL: g.pick("https://ring.example", "http://127.0.0.1:8402", "https://x.example/a%20b"),
		Fee: int64(g.IntN(3)) * 100, MinBid: 1 + int64(g.IntN(2))*99, Grace: 30 * 86400, Decay: 90 * 86400,
		Scorer: "is-agentic", RequiredScore: 40, Synthetic: g.IntN(4) == 0,
	}
	if g.IntN(2) == 0 {
		e.Fee = 100
	}
	if g.fast {
		e.Grace, e.Decay = g.Int64N(30), 1+g.Int64N(120)
	}
	for range g.IntN(3) {
		name := g.pick("tempo", "base")
		e.Networks = append(e.Networks, core.Network{Name: name, Method: name, Currency: "0xusd"})
	}
	g.add(e, nil)
}

// join draws from few names and addresses, so that they meet.
func (g *generator) join() {
	slug := fmt.Sprintf("m%d", g.IntN(60))
	if len(g.slugs) == 0 || g.IntN(10) > 0 {
		slug = fmt.Sprintf("%s-%d", g.pick("alpha", "beta", "a-very-long-name-indeed"), len(g.slugs))
	}
	texts := &core.Texts{Name: g.text(g.pick("Alpha", "\"Quoted\" \\ <b>", "Ünï ☃ 日本", "line\nbreak\tand\u2028", "a&b", "🦊")),
		URL: g.text(g.url())}
	e := &core.Joined{Stamp: g.when(), Slug: slug, Kind: core.Kind(1 + g.IntN(3)),
		Category: g.pick("general", "tools", "a", "x-"), Fee: 100, Payment: g.payment()}
	// Two accounts, one of them spelled in two ways, and those that are not known.
	e.Payment.Payer = [...]string{"did:pkh:eip155:42431:0x00000000000000000000000000000000000000aa", "0xpayer",
		"0x00000000000000000000000000000000000000AA", "did:pkh:eip155:8453:0x00000000000000000000000000000000000000bb"}[(g.seed+uint64(len(g.slugs)))%4]
	if g.IntN(3) > 0 {
		texts.Description = g.text(strings.Repeat(g.pick("long ", "é"), 1+g.IntN(20)))
		e.Description = Commit(texts.Description)
	}
	if g.IntN(3) > 0 {
		e.Score = core.Score{Given: true, Value: uint8(g.IntN(101)), Provider: "is-agentic", ScannedAt: e.Stamp / 2}
		texts.Report = g.text("https://scores.example/r?id=" + slug + "&v=\"1\"")
		e.Report = Commit(texts.Report)
	}
	if g.IntN(3) == 0 {
		e.Bid = g.amount()
	}
	e.Name, e.URL = Commit(texts.Name), Commit(texts.URL)
	g.slugs = append(g.slugs, slug)
	if g.IntN(25) == 0 {
		texts = nil
	}
	g.add(e, texts)
}

func (g *generator) bid() {
	g.add(&core.Bid{Stamp: g.when(), Member: g.member(), Amount: g.amount(), Payment: g.payment()}, nil)
}

func (g *generator) remove() {
	e := &core.Removed{Stamp: g.when(), Member: g.member(), Reason: "spam", Redacted: g.IntN(2) == 0}
	texts := g.why(&e.Reason, &e.Why, core.Spam, e.Redacted)
	g.add(e, texts)
}

func (g *generator) hide() {
	slug := g.member()
	g.hidden = append(g.hidden, slug)
	e := &core.Hidden{Stamp: g.when(), Member: slug, Reason: "reported"}
	texts := g.why(&e.Reason, &e.Why, core.Reviewing, false)
	g.add(e, texts)
}

// why gives an event the code of a reason, unless it is one of an earlier version, and now and then
// with words. It draws nothing, so the other events of a seed do not depend on it.
func (g *generator) why(earlier *string, why *core.Why, code core.Reason, redacts bool) *core.Texts {
	n := len(g.steps) % 4
	if n == 0 || g.seed < Matched {
		return nil
	}
	*earlier, why.Code = "", code
	if n == 1 || redacts {
		return nil
	}
	texts := &core.Texts{Words: core.Text{Salt: [16]byte{byte(n)}, Value: "Ünï: see \"the terms\""}}
	if why.Words = Commit(texts.Words); n == 2 {
		return nil // they were redacted since
	}
	return texts
}

// show draws from those that were hidden once, so that most of these events apply.
func (g *generator) show() {
	slug := g.member()
	if len(g.hidden) > 0 && g.IntN(6) > 0 {
		slug = g.hidden[g.IntN(len(g.hidden))]
	}
	e := &core.Shown{Stamp: g.when(), Member: slug, Reason: "answered"}
	texts := g.why(&e.Reason, &e.Why, core.Resolved, false)
	g.add(e, texts)
}

func (g *generator) adjust() {
	e := &core.Adjusted{Stamp: g.when(), Adjustment: core.Adjustment(1 + g.IntN(3)), Member: g.member(),
		Amount: g.amount(), Payment: g.payment(), Reason: "reorganised"}
	if e.Adjustment == core.Unclaimed {
		e.Member = ""
	}
	g.add(e, nil)
}

// amount draws small sums, so that standings tie, and now and then the
// highest.
func (g *generator) amount() int64 {
	switch g.IntN(12) {
	case 0:
		return core.MaxAmount
	case 1:
		return 1 + g.Int64N(core.MaxAmount)
	case 2, 3, 4:
		return int64(1+g.IntN(5)) * 100
	}
	return 1 + g.Int64N(1000)
}

func (g *generator) member() string {
	if len(g.slugs) == 0 || g.IntN(30) == 0 {
		return "nobody"
	}
	return g.slugs[g.IntN(len(g.slugs))]
}

func (g *generator) url() string {
	host := g.pick("a.com", "www.a.com", "data.com", "b.a.com", "www.com", "xn--bcher-kva.example")
	if g.IntN(3) == 0 {
		host = fmt.Sprintf("h%d.example", g.IntN(20))
	}
	return g.pick("https://", "http://") + host + g.pick("", "", "", ":8443") +
		g.pick("", "/", "/foo", "/foo/", "/foobar", "/foo/bar", "/foo/bar/index.html", "/index.html", "/%C3%BC/~x", "/foo?q=1", "/?q=1")
}

func (g *generator) payment() core.Payment {
	n := g.Uint64()
	p := core.Payment{Method: "tempo", Network: "tempo:42431", Transaction: fmt.Sprintf("0x%064x", n), Payer: "0xpayer"}
	if g.seed >= Matched && n%4 > 0 { // others are of an earlier version
		p.Payee, p.Binding = "0xusd/0xring", fmt.Sprintf("0x%064x", ^n)
	}
	return p
}

func (g *generator) text(value string) core.Text {
	t := core.Text{Value: value}
	for i := range t.Salt {
		t.Salt[i] = byte(g.Uint32())
	}
	return t
}

func (g *generator) pick(from ...string) string { return from[g.IntN(len(from))] }

// Commit gives the commitment to a text.
func Commit(t core.Text) core.Commitment {
	return sha256.Sum256(append(t.Salt[:], t.Value...))
}

// References gives spellings of from to try on a ring: what its members, hidden
// ones too, are called, neighbours of it, and strangers.
func References(m *Model) []string {
	refs := []string{"nobody", "a.com", "A.COM.", "www.a.com", "ta.com", "com", "www.com", "h1.example", "https://a.com",
		"https://a.com:80/", "http://a.com:80/foo", "https://a.com/foobar", "https://a.com/foob", "https://a.com/foo/b",
		"https://a.com/foo/./x/../bar", "https://a.com/foo?q=2", "https://nobody.example/", "ftp://a.com/", "//a.com/", "/foo", "a.com/foo", "a.com:443", "a.com:80", "a.com:80/foo", "a.com:8080/foo", "www.a.com/foo/b?q#f", "a.com/", "a.com?q=2", "a.com#f", "A.com:443/foo/index.html", "a.com:/foo", "a.com:x/foo", "mailto:x@a.com", "x@a.com/foo", "javascript:a.com/foo", "a.com://foo", "ta.com/foo", "com/foo", "a.com/foobar", "https:///", "-"}
	for _, member := range m.Members {
		if !member.holdsURL() {
			continue
		}
		raw := member.Texts.URL.Value
		u := member.site
		refs = append(refs, member.Event.Slug, strings.ToUpper(member.Event.Slug), raw, "HTTP"+strings.TrimPrefix(strings.TrimPrefix(raw, "https"), "http"),
			raw+"#fragment", u.host, "www."+u.host, strings.Replace(raw, "://", "://www.", 1))
		if u.query == "" {
			folder := strings.TrimSuffix(raw, "/") + "/"
			_, bare, _ := strings.Cut(folder, "://")
			refs = append(refs, bare, bare+"deeper/page?x=1", strings.TrimSuffix(bare, "/")+"x", "www."+bare, "x"+bare, bare+strings.Repeat("x/", 200), folder, folder+"deeper/page?x=1", raw+"x", raw+"?q=1", folder+"index.html",
				// Longer than a member's address can be, as typed or once it is escaped.
				folder+strings.Repeat("x/", 200), folder+strings.Repeat("x", 400)+"?q=1", folder+strings.Repeat("é", 60),
				raw+"?q="+strings.Repeat("%C3%A9/", 60), raw+"#"+strings.Repeat("y", 300))
		}
	}
	return refs
}
