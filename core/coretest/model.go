package coretest

import (
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"sort"
	"strings"

	"webring/core"
)

// Model is the obvious ring. It keeps every member that ever joined in join
// order, and finds every answer anew. It is for one goroutine.
type Model struct {
	Capacity int
	Rules    *core.Rules
	Members  []*Member
	Seq      uint64
	Stamp    int64 // of the last event, milliseconds
	Clock    int64 // seconds
	Paid     int64 // cents, payments that were voided included
	Voided   int64 // cents
}

// Member is one member of a [Model]. Texts is nil when some of them were redacted
// before the model saw them. Event and Texts are those of the registration, with what was
// changed since in its place.
type Member struct {
	Event    *core.Joined
	Texts    *core.Texts
	Owner    string // account that the site has named or that took the member back, "" for the payer
	Claimed  bool   // the site has named it
	Proof    core.Proof
	Verified int64 // milliseconds
	Asleep   bool
	Since    int64 // milliseconds since which it is asleep or awake, 0 for ever
	Changed  int64 // milliseconds of the last change or move
	Bids     int64 // cents
	LastBid  int64 // milliseconds
	Removed  bool
	Redacted bool // by a removal
	Hidden   bool // and not removed since
	Departed bool // and Removed, and may return

	site *site // what Texts.URL says
}

// Live says whether the member is in the ring.
func (m *Member) Live() bool { return m.holdsURL() && !m.Hidden && !m.Departed }

// holdsURL says whether no other member can register the member's URL.
func (m *Member) holdsURL() bool { return (!m.Removed || m.Departed) && m.Texts != nil }

// Total is the fee and every bid, in cents.
func (m *Member) Total() int64 { return m.Event.Fee + m.Bids }

// Apply takes an event, and for a registration its texts or nil, and says
// whether it applies: nil, or the error of [core.State.Apply]. The event is
// well-formed, and texts that are there fit it.
func (m *Model) Apply(e core.Event, texts *core.Texts) error {
	if _, rules := e.(*core.Rules); !rules && m.Rules == nil {
		return core.ErrNotOpened
	}
	if _, back := e.(*core.SetBack); !back && e.When() < m.Stamp {
		return core.ErrStampOrder
	}
	switch e := e.(type) {
	case *core.Rules:
		m.Rules = e
	case *core.SetBack:
		m.setBack(e.Stamp)
	case *core.Joined:
		if err := m.join(e, texts); err != nil {
			return err
		}
	case *core.Bid:
		if err := m.pay(e.Member, e.Amount, e.Stamp); err != nil {
			return err
		}
	case *core.Removed:
		member, err := m.find(e.Member)
		if err == core.ErrRemoved && (e.Redacted && !member.Redacted || member.Departed) {
			err = nil
		}
		if err != nil {
			return err
		}
		member.Removed, member.Hidden, member.Departed = true, false, false
		member.Redacted = member.Redacted || e.Redacted
	case *core.Hidden:
		member, err := m.find(e.Member)
		if err == nil && member.Hidden {
			err = core.ErrHidden
		}
		if err != nil {
			return err
		}
		member.Hidden = true
	case *core.Shown:
		member, err := m.find(e.Member)
		if err == nil && !member.Hidden {
			err = core.ErrShown
		}
		if err != nil {
			return err
		}
		member.Hidden = false
	case *core.Adjusted:
		switch e.Adjustment {
		case core.Credit:
			if err := m.pay(e.Member, e.Amount, e.Stamp); err != nil {
				return err
			}
		case core.Void:
			if _, err := m.find(e.Member); err == core.ErrUnknown {
				return err
			}
			m.Voided += e.Amount
		default:
			m.Paid += e.Amount
		}
	case *core.Payees, *core.Keys:
	case *core.Snapshotted:
		if e.Size > m.Seq {
			return core.ErrAhead
		}
	case *core.Returned, *core.Lapsed:
		member, err := m.find(core.MemberOf(e))
		if err == core.ErrUnknown {
			return err
		}
		back, returns := e.(*core.Returned)
		given := returns && back.Owner != core.Account{}
		if !member.Departed && (!given || member.Removed || core.AccountOf(member.owner()) == back.Owner) {
			return core.ErrNotDeparted
		}
		if returns {
			member.Removed, member.Changed = false, e.When()
		}
		if given {
			member.Owner, member.Claimed, member.Proof, member.Verified = back.Owner.String(), back.Claimed, 0, 0
		}
		member.Departed = false
	default:
		member, err := m.find(core.MemberOf(e))
		if err == nil {
			err = m.revise(member, e, texts)
		}
		if err != nil {
			return err
		}
	}
	m.Seq++
	m.Stamp = e.When()
	m.Advance(m.Stamp / 1000)
	return nil
}

// setBack has all that was done later be done at this instant.
func (m *Model) setBack(stamp int64) {
	m.Clock = stamp / 1000
	for _, member := range m.Members {
		joined := *member.Event
		joined.Stamp = min(joined.Stamp, stamp)
		member.Event = &joined
		member.LastBid, member.Verified = min(member.LastBid, stamp), min(member.Verified, stamp)
		member.Since, member.Changed = min(member.Since, stamp), min(member.Changed, stamp)
	}
}

// Advance brings the clock to second now, if it is behind.
func (m *Model) Advance(now int64) {
	if now > m.Clock {
		m.Clock = now
	}
}

func (m *Model) join(e *core.Joined, texts *core.Texts) error {
	if len(m.Members) >= m.Capacity {
		return core.ErrCapacity
	}
	for _, other := range m.Members {
		if other.Event.Slug == e.Slug {
			return core.ErrSlugTaken
		}
	}
	joining := &Member{Event: e, Texts: texts, Bids: e.Bid, LastBid: e.Stamp}
	if texts != nil {
		joining.site = parseSite(texts.URL.Value)
		for _, other := range m.Members {
			if other.holdsURL() && other.site.is(joining.site) {
				return core.ErrURLTaken
			}
		}
	}
	m.Members = append(m.Members, joining)
	m.Paid += joining.Total()
	return nil
}

func (m *Model) find(slug string) (*Member, error) {
	for _, member := range m.Members {
		if member.Event.Slug == slug {
			if member.Removed {
				return member, core.ErrRemoved
			}
			return member, nil
		}
	}
	return nil, core.ErrUnknown
}

func (m *Model) pay(slug string, amount, stamp int64) error {
	member, err := m.find(slug)
	if err == core.ErrUnknown {
		return err
	}
	if member.Total()+amount > core.MaxTotal {
		return core.ErrTotal
	}
	member.Bids += amount
	member.LastBid = stamp
	m.Paid += amount
	return nil
}

// revise applies what an owner or a visit says of a member.
func (m *Model) revise(member *Member, e core.Event, texts *core.Texts) error {
	switch e := e.(type) {
	case *core.Claimed:
		member.Owner, member.Claimed, member.Proof, member.Verified = e.Owner.String(), true, e.Proof, e.Stamp
	case *core.Changed:
		joined := *member.Event
		if e.Category != "" {
			joined.Category = e.Category
		}
		if e.Kind != 0 {
			joined.Kind = e.Kind
		}
		member.Event, member.Changed = &joined, e.Stamp
		if texts == nil && (e.Name.Given() || e.Description.Given()) {
			member.Texts = nil
		}
		if member.Texts != nil {
			words := *member.Texts
			if e.Name.Given() {
				words.Name = texts.Name
			}
			if e.Description.Given() {
				words.Description = texts.Description
			}
			if e.Cleared {
				words.Description = core.Text{}
			}
			member.Texts = &words
		}
	case *core.Moved:
		if texts != nil && member.Texts != nil {
			to := parseSite(texts.URL.Value)
			for _, other := range m.Members {
				if other != member && other.holdsURL() && other.site.is(to) {
					return core.ErrURLTaken
				}
			}
			words := *member.Texts
			words.URL, words.Report = texts.URL, texts.Report
			member.Texts, member.site = &words, to
		} else {
			member.Texts = nil
		}
		joined := *member.Event
		joined.Score = e.Score
		member.Event, member.Proof, member.Verified, member.Changed = &joined, 0, 0, e.Stamp
		if member.Asleep {
			member.Asleep, member.Since = false, e.Stamp
		}
	case *core.Left:
		member.Removed, member.Hidden = true, false
	case *core.Departed:
		if member.Hidden {
			return core.ErrHidden
		}
		member.Removed, member.Departed, member.Changed = true, true, e.Stamp
	case *core.Verified:
		if member.Proof == e.Proof {
			return core.ErrVerified
		}
		member.Proof, member.Verified = e.Proof, e.Stamp
	case *core.Unverified:
		if member.Proof == 0 {
			return core.ErrUnverified
		}
		member.Proof, member.Verified = 0, 0
	case *core.Asleep:
		if member.Asleep {
			return core.ErrAsleep
		}
		member.Asleep, member.Since = true, e.Stamp
	case *core.Awake:
		if !member.Asleep {
			return core.ErrAwake
		}
		member.Asleep, member.Since = false, e.Stamp
	}
	return nil
}

// Walkable gives those of [Model.Ring] to which traversal leads: the ones that are awake, or
// all if none is or the rules say so.
func (m *Model) Walkable(kind core.Kind, category *string) (awake []int) {
	ring := m.Ring(kind, category)
	for _, i := range ring {
		if !m.Members[i].Asleep || m.Rules.VisitAsleep {
			awake = append(awake, i)
		}
	}
	if len(awake) == 0 {
		return ring
	}
	return awake
}

// Ring gives the ordinals of the members in the ring that match, in ring
// order. The kind 0 and a nil category match all.
func (m *Model) Ring(kind core.Kind, category *string) []int {
	ring := []int{}
	for i, member := range m.Members {
		if member.Live() && (kind == 0 || member.Event.Kind == kind) &&
			(category == nil || member.Event.Category == *category) {
			ring = append(ring, i)
		}
	}
	return ring
}

// Standing is that of a member at the clock, in cents.
func (m *Model) Standing(i int) int64 { return m.StandingAt(i, m.Clock) }

// StandingAt follows core/README.md, "Money and rank", word by word.
func (m *Model) StandingAt(i int, second int64) int64 {
	member := m.Members[i]
	if member.Bids == 0 {
		return member.Total()
	}
	elapsed := second - member.LastBid/1000 - m.Rules.Grace
	if elapsed <= 0 {
		return member.Total()
	}
	if elapsed >= m.Rules.Decay {
		return 0
	}
	product := new(big.Int).Mul(big.NewInt(member.Total()), big.NewInt(m.Rules.Decay-elapsed))
	return product.Div(product, big.NewInt(m.Rules.Decay)).Int64()
}

// At gives the model as it will be at a later second if nothing happens until then.
func (m *Model) At(second int64) *Model {
	later := *m
	later.Clock = second
	return &later
}

// Ranked gives the ordinals of the members in the ring, first rank first.
func (m *Model) Ranked() []int {
	ranked := m.Ring(0, nil)
	slices.SortStableFunc(ranked, func(a, b int) int {
		return big.NewInt(m.Standing(b)).Cmp(big.NewInt(m.Standing(a)))
	})
	return ranked
}

// ToTakeFirst searches the least payment that would rank i before the leader, if its total may be
// so high.
func (m *Model) ToTakeFirst(i int) (cents int64, ok bool) {
	ranked := m.Ranked()
	if !slices.Contains(ranked, i) || ranked[0] == i {
		return 0, false
	}
	return m.toPass(i, ranked[0], m.Standing(ranked[0]))
}

// toPass searches the least payment that would rank i before a member with a standing.
func (m *Model) toPass(i, other int, standing int64) (cents int64, ok bool) {
	cents = m.least(func(payment int64) bool {
		total := m.Members[i].Total() + payment
		return total > standing || total == standing && i < other
	})
	return cents, m.Members[i].Total()+cents <= core.MaxTotal
}

// ToPass searches the least payment that would rank i before the member above it, and gives
// the rank that i has then, if its total may be so high.
func (m *Model) ToPass(i, above int) (cents int64, rank int, ok bool) {
	if cents, ok = m.toPass(i, above, m.Standing(above)); !ok {
		return 0, 0, false
	}
	rank = 1
	total := m.Members[i].Total() + cents
	for _, other := range m.Ring(0, nil) {
		if standing := m.Standing(other); other != i && (standing > total || standing == total && other < i) {
			rank++
		}
	}
	return cents, rank, true
}

// JoinAtFirst searches the least opening bid that would rank a new member
// first.
func (m *Model) JoinAtFirst() int64 {
	ranked := m.Ranked()
	if len(ranked) == 0 || m.Rules.Fee > m.Standing(ranked[0]) {
		return 0
	}
	return m.least(func(bid int64) bool { return m.Rules.Fee+bid > m.Standing(ranked[0]) })
}

// least searches the least payment, at or above the minimum, that is enough.
func (m *Model) least(enough func(cents int64) bool) int64 {
	above := sort.Search(core.MaxTotal+2, func(n int) bool { return enough(m.Rules.MinBid + int64(n)) })
	return m.Rules.MinBid + int64(above)
}

// Walk goes around the ring from a member, or enters it at its edge with
// from −1, until a member matches. It reports false when none does.
func (m *Model) Walk(from, step int, kind core.Kind, category *string) (int, bool) {
	ring, matching := m.Ring(0, nil), m.Walkable(kind, category)
	at := slices.Index(ring, from)
	if at < 0 && step < 0 {
		at = 0
	}
	for range ring {
		at = (at + step + len(ring)) % len(ring)
		if slices.Contains(matching, ring[at]) {
			return ring[at], true
		}
	}
	return 0, false
}

// Random picks among the matching members by 64 random bits; from, unless it
// is −1, only when nothing else matches.
func (m *Model) Random(random uint64, from int, kind core.Kind, category *string) (int, bool) {
	matching := slices.Clone(m.Walkable(kind, category))
	if at := slices.Index(matching, from); at >= 0 && len(matching) > 1 {
		matching = slices.Delete(matching, at, at+1)
	}
	if len(matching) == 0 {
		return 0, false
	}
	scaled := new(big.Int).SetUint64(random)
	scaled.Mul(scaled, big.NewInt(int64(len(matching)))).Rsh(scaled, 64)
	return matching[scaled.Int64()], true
}

// withoutScheme matches the address of a page that begins with its host.
var withoutScheme = regexp.MustCompile(`^[^:/?#]+(:[1-9][0-9]*)?(?:[/?#].*)?$`)

var bareName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// Resolve finds the member in the ring that from names, −1 for none. Spellings
// of a URL that net/url reads otherwise than the ring are not for the model.
func (m *Model) Resolve(from string) int {
	ring := m.Ring(0, nil)
	for _, i := range ring {
		if m.Members[i].Event.Slug == from {
			return i
		}
	}
	if bareName.MatchString(from) {
		name, best := parseSite("https://"+from), -1
		for _, i := range ring {
			site := m.Members[i].site
			if site.host == name.host && (best < 0 || site.depth() < m.Members[best].site.depth()) {
				best = i
			}
		}
		return best
	}
	if parts := withoutScheme.FindStringSubmatch(from); parts != nil && parts[1] != ":80" {
		from = "https://" + from
	} else if parts != nil {
		from = "http://" + from
	}
	given := parseSite(from)
	if given == nil {
		return -1
	}
	for _, i := range ring {
		if m.Members[i].site.is(given) {
			return i
		}
	}
	best := -1
	for _, i := range ring {
		site := m.Members[i].site
		if site.holds(given) && (m.Members[i].Proof != 0 || m.ownedWithRoot(i)) && (best < 0 || len(site.path) > len(m.Members[best].site.path)) {
			best = i
		}
	}
	return best
}

// owner is the account to which a member belongs, "" for an unknown one.
func (m *Member) owner() string {
	if m.Owner != "" {
		return m.Owner
	}
	return strings.ToLower(address.FindString(m.Event.Payment.Payer))
}

// ownedWithRoot says whether the account of a member is that of the member at the root
// of its site, if there is one.
func (m *Model) ownedWithRoot(i int) bool {
	own := m.Members[i]
	for _, j := range m.Ring(0, nil) {
		root := m.Members[j]
		if root.site.is(&site{host: own.site.host, port: own.site.port}) && i != j {
			return own.owner() != "" && own.owner() == root.owner()
		}
	}
	return true
}

var address = regexp.MustCompile(`0x[0-9A-Fa-f]{40}$`)

// site is what of a URL decides identity.
type site struct {
	host, port string
	path       []string
	query      string
}

// parseSite reads an absolute http or https URL, nil for anything else.
func parseSite(raw string) *site {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil
	}
	u = u.ResolveReference(u) // removes dot segments
	s := &site{host: strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), port: u.Port(), query: u.RawQuery}
	if bare, ok := strings.CutPrefix(s.host, "www."); ok && strings.Contains(bare, ".") {
		s.host = bare
	}
	if u.Scheme == "http" && s.port == "80" || u.Scheme == "https" && s.port == "443" {
		s.port = ""
	}
	path := strings.TrimSuffix(strings.TrimSuffix(u.Path, "index.html"), "/")
	if strings.HasSuffix(u.Path, "index.html") && !strings.HasSuffix(u.Path, "/index.html") {
		path = u.Path
	}
	if path != "" {
		s.path = strings.Split(path, "/")[1:]
	}
	return s
}

func (s *site) is(other *site) bool {
	return s.host == other.host && s.port == other.port && s.query == other.query && slices.Equal(s.path, other.path)
}

// depth orders the sites on a host by which of them the bare host means: by how long
// the path is, and then those without a port and a query first.
func (s *site) depth() int {
	if s.port == "" && s.query == "" {
		return 2 * len(s.path)
	}
	return 2*len(s.path) + 1
}

// holds says whether other lies at or below s.
func (s *site) holds(other *site) bool {
	return s.host == other.host && s.port == other.port && s.query == "" &&
		len(s.path) <= len(other.path) && slices.Equal(s.path, other.path[:len(s.path)])
}
