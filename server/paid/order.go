package paid

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/paid/risk"
	"webring/server/sites/score"
)

// operation is one of those that are named in a [Call].
type operation struct {
	// parse reads a request. Without pinned, it is a new one, and the rules in force apply. With
	// pinned, it answers a challenge that has promised what it pinned, and the rules do not
	// apply again. It refuses with a *[Problem].
	parse func(c *Call, rules *core.Rules, pinned map[string]string) (order, error)
	owner bool // the owner of a member proves itself for it: the orders are [*proven]
}

// order is what a request is for: a [purchase], or an owner's request, which costs nothing.
type order interface {
	// stillHolds says why the order cannot be carried out, by what the ledger holds, for money that has come
	// already, too.
	stillHolds(v *ledger.View) error
	// mayBegin says why the order may not be paid for now, though it could be carried out: the operator keeps
	// the payer out, a rank is not reached, or an account may not have it. account is "" until a
	// credential names one.
	mayBegin(v *ledger.View, account string) error
	// decide finds everything that the challenge is to pin, such as a site's score.
	decide(ctx context.Context, client string) error
	// pin gives what the parser needs in addition to the request. The map is the caller's.
	pin() map[string]string
	// cents is the price.
	cents() int64
	// describe says in a few words what is asked for. That of a purchase shows no member's
	// words.
	describe() string
}

// purchase is an order that is paid for. It is stored as JSON with the reservation; see
// [Service.load].
type purchase interface {
	order
	// subject fills in what the reservation blocks while it is open.
	subject(r *ledger.Reservation)
	// carryOut appends the event and renders the answer. It runs in a turn of the writer
	// after the payment has settled.
	carryOut(tx *ledger.Tx, payment core.Payment) (result, error)
}

// load rebuilds an order from its reservation, and from nothing else: the configuration may
// have changed.
func (s *Service) load(r *ledger.Reservation) (o purchase, err error) {
	switch r.Operation {
	case OpRegister:
		o = &registration{service: s, promised: true}
	case OpBid:
		o = &bid{}
	default:
		return nil, fmt.Errorf("paid: no operation %q", r.Operation)
	}
	return o, json.Unmarshal(r.Pinned, o)
}

// result is what an order has done.
type result struct {
	status   int
	slug     string
	location string // address of what was made, or ""
	body     []byte
}

// Draft is what [Service.Check] found about a registration.
type Draft struct {
	// Request is the registration in the form in which the ring would keep it,
	// when nothing is wrong with its fields.
	Request form.RegisterRequest
	// Fields is what is wrong, as [form.FieldError] says.
	Fields []form.FieldError
	// Refusal is any other reason why paying would be of no use. Without one,
	// and with nothing wrong, a paid request gets a 402.
	Refusal *Problem
	// Score is nil when it is not known. Required is the least that may join.
	Score    *score.Result
	Required int
	// Price is the fee and the opening bid in cents.
	Price int64
	// Slug is the slug that the member would get if it joined now, and Rank its rank; 0
	// when the registration is refused.
	Slug string
	Rank int
}

// checkTime bounds the check of a draft: a scorer reads a whole site for it.
const checkTime = 25 * time.Second

// RefusesName says why no member of the ring can have a name, nil if one can.
func (s *Service) RefusesName(name string) (err error) {
	s.Ledger.View(func(v *ledger.View) { err = s.Names.In(v.State().Rules().Name)("name", name) })
	return err
}

// Check says what would become of a registration with this body. It applies the
// validation, limits and scores of a request that is to be paid, but makes no challenge
// and reserves nothing. It does not ask whether a payment network answers at the moment. It
// takes checkTime at most.
func (s *Service) Check(ctx context.Context, client string, body []byte) Draft {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	return s.check(body, func(o *registration) error { return o.measure(ctx, client, cmp.Or(s.DraftScorer, s.Scorer)) })
}

// CheckAgain says it of a registration that was checked before: by what was found about its site
// then, and by the ring of now. It asks nothing of anybody.
func (s *Service) CheckAgain(body []byte, earlier *Draft) Draft {
	return s.check(body, func(o *registration) error {
		if earlier.Score != nil {
			o.Score = *earlier.Score
		}
		if earlier.Refusal != nil {
			return earlier.Refusal
		}
		return nil
	})
}

func (s *Service) check(body []byte, measure func(o *registration) error) (d Draft) {
	var read order
	var err, refused error
	s.Ledger.View(func(v *ledger.View) {
		rules := v.State().Rules()
		d.Required = int(rules.RequiredScore)
		if read, err = s.parseRegistration(&Call{Body: body}, rules, nil); err == nil {
			refused = cmp.Or(read.stillHolds(v), read.mayBegin(v, ""))
		}
	})
	if wrong, ok := errors.AsType[*Problem](err); ok {
		d.Fields = wrong.Fields
		return d
	}
	o := read.(*registration)
	d.Request, d.Price = o.RegisterRequest, o.cents()
	if d.Refusal = s.refusal(refused); d.Refusal != nil {
		return d
	}
	d.Refusal = s.refusal(measure(o))
	if o.Score.Provider != "" {
		d.Score = &o.Score
	}
	if d.Refusal == nil && len(s.Methods) == 0 {
		d.Refusal = unconfigured
	}
	s.Ledger.View(func(v *ledger.View) {
		st := v.State()
		d.Slug = o.slug(st)
		if d.Refusal == nil {
			row := core.Ordinal(st.Rows())
			d.Rank = 1 + sort.Search(st.Rows(), func(above int) bool { return st.TotalForRank(row, above+1) <= d.Price })
		}
	})
	return d
}

var unconfigured = &Problem{Code: api.PaymentsUnconfigured, RetryAfter: 3600,
	Detail: "This ring takes no payments right now, so joining and bidding are unavailable. Reading works. Nothing was charged."}

// registration is one order to join. What the challenge promised is pinned in
// it; it is stored as JSON with the reservation.
type registration struct {
	service *Service
	// promised is set once a challenge was issued for the order. Limits for new
	// challenges then no longer refuse it, as long as the state has room.
	promised bool
	// unscored is set for a registration that the operator gives its effect.
	unscored bool

	form.RegisterRequest
	Fee   int64 // cents
	Score score.Result
	named risk.NamedBy // by the site, if that matters
}

// Names of what a registration pins in the opaque parameter.
const (
	pinURL      = "url"
	pinFee      = "fee" // cents
	pinScore    = "score"
	pinReport   = "report"
	pinProvider = "provider"
	pinVersion  = "version"
	pinScanned  = "scanned" // RFC 3339
)

func (o *registration) pin() map[string]string {
	pinned := map[string]string{pinFee: strconv.FormatInt(o.Fee, 10)}
	pinSite(pinned, o.URL, o.Score)
	o.named.Pin(pinned)
	return pinned
}

// pinSite pins a URL with its score.
func pinSite(pinned map[string]string, url string, s score.Result) {
	pinned[pinURL], pinned[pinScore], pinned[pinProvider] = url, strconv.Itoa(s.Score), s.Provider
	if s.Report != "" {
		pinned[pinReport] = s.Report
	}
	if s.Version != "" {
		pinned[pinVersion] = s.Version
	}
	if !s.ScannedAt.IsZero() {
		pinned[pinScanned] = s.ScannedAt.UTC().Format(time.RFC3339Nano)
	}
}

// pinnedScore gives the score that pinSite has pinned for a URL.
func pinnedScore(pinned map[string]string, url string) (s score.Result, err error) {
	points, err := strconv.Atoi(pinned[pinScore])
	if err != nil || pinned[pinURL] != url {
		return s, errPinned
	}
	s = score.Result{Score: points, Report: pinned[pinReport], Provider: pinned[pinProvider], Version: pinned[pinVersion]}
	if at := pinned[pinScanned]; at != "" {
		if s.ScannedAt, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return s, errPinned
		}
	}
	return s, nil
}

var errPinned = errors.New("paid: the body is not what the challenge was issued for")

func (s *Service) parseRegistration(c *Call, rules *core.Rules, pinned map[string]string) (order, error) {
	if pinned == nil {
		r, err := form.ParseRegister(c.Body, s.Sites.Canonical, s.Names.In(rules.Name), rules.MinBid)
		if err != nil {
			return nil, err
		}
		return &registration{service: s, RegisterRequest: r, Fee: rules.Fee}, nil
	}
	r, err := form.ParseRegister(c.Body, form.Spell, nil, 1)
	if err != nil {
		return nil, err
	}
	o := &registration{service: s, promised: true, RegisterRequest: r, named: risk.PinnedNames(pinned)}
	if o.Score, err = pinnedScore(pinned, r.URL); err != nil {
		return nil, err
	}
	if o.Fee, err = strconv.ParseInt(pinned[pinFee], 10, 64); err != nil || o.Fee < 0 || o.Fee > core.MaxAmount {
		return nil, errPinned
	}
	return o, nil
}

func (o *registration) stillHolds(v *ledger.View) error {
	st := v.State()
	if err := o.service.urlFree(v, o.Key, nil); err != nil {
		return err
	}
	// What was promised before a limit was met may go beyond it.
	rows := st.Rows() + v.OpenRegistrations()
	if !o.promised {
		rows += st.Capacity() / 10
	}
	if rows >= st.Capacity() {
		return &Problem{Code: api.RingFull, RetryAfter: 3600, Detail: "The ring is full right now. Try again later. Nothing was charged."}
	}
	return risk.CategoryLeft(v, o.Category, o.promised)
}

// urlFree says why the URL with an identity key cannot be taken now. member is the one that
// is to move there, which may hold it already in another spelling; nil for a registration.
func (s *Service) urlFree(v *ledger.View, key string, member *core.Ordinal) error {
	st := v.State()
	at, taken := st.Holder([]byte(key))
	until, departed := int64(0), false
	if taken {
		until, departed = st.Departed(at)
	}
	switch {
	case departed:
		p := notOwner(st.Rules().BaseURL, st.Member(at).Slug)
		p.Code = api.AlreadyRegistered
		p.Detail = "The member with this URL has left, and its owner can return until " + time.UnixMilli(until).UTC().Format(time.RFC3339) +
			". The URL is free within an hour after that. If the site is yours, it can name your account now: see links.claim. Nothing was charged."
		return p
	case taken && member != nil && at == *member:
	case taken && st.Hidden(at):
		return risk.NotAdmitted("The operator has hidden the member with this URL. The member keeps its URL.")
	case taken:
		return &Problem{Code: api.AlreadyRegistered, Detail: "This URL is already in the ring. Bid on the member to raise its rank. Nothing was charged.", More: selfLink(st.Rules().BaseURL, st.Member(at).Slug)}
	}
	if until, pending := v.URLPending(key); pending { // another payment can be mined until then
		wait := max(pendingRetry, risk.Seconds(until.Sub(s.Now())))
		return &Problem{Code: api.PaymentPending, RetryAfter: wait,
			Detail: fmt.Sprintf("Somebody else is registering this address; ask again in %d s. Nothing was charged by this request.", wait)}
	}
	return nil
}

func (o *registration) mayBegin(v *ledger.View, payer string) error {
	if err := risk.Blocked(v, o.URL, payer, o.Name, o.Description, o.Category); err != nil {
		return err
	}
	st := v.State()
	if err := risk.Ranks(v, core.Ordinal(st.Rows()), 0, o.cents(), o.OnlyIfRank, o.Fee, "join_at_rank_bid_usd", "an opening bid"); err != nil {
		return err
	}
	if payer == "" {
		return nil
	}
	account := core.AccountOf(payer)
	// A challenge for which the site was asked promises only the accounts that it names.
	return cmp.Or(o.service.limits.SharesDomain(v, o.Key, account, nil, o.named),
		o.service.limits.OpensCategory(v, o.Category, account))
}

func (o *registration) decide(ctx context.Context, client string) error {
	return o.measure(ctx, client, o.service.Scorer)
}

// measure puts the score of the site into o, and refuses one that is too low. If a limit
// keeps strangers out, it first asks the site for the accounts that it names.
func (o *registration) measure(ctx context.Context, client string, scorer Scorer) (err error) {
	var shared bool
	o.service.Ledger.View(func(v *ledger.View) {
		shared = o.service.limits.SharesDomain(v, o.Key, core.Account{}, nil, nil) != nil
	})
	if shared {
		o.named, _ = o.service.accountsAt(ctx, client, o.URL)
	}
	o.Score, err = o.service.measure(ctx, client, scorer, o.URL)
	return err
}

// measure asks the scorer about a site, and refuses a score that is too low, which it gives
// nevertheless.
func (s *Service) measure(ctx context.Context, client string, scorer Scorer, url string) (score.Result, error) {
	var required int
	s.Ledger.View(func(v *ledger.View) { required = int(v.State().Rules().RequiredScore) })
	result, err := scorer.Score(ctx, client, url)
	if err == nil {
		err = fits(&result)
	}
	if err != nil {
		s.Log.Info("no score", "err", err)
		return score.Result{}, scoreProblem(err, required)
	}
	if result.Score < required {
		var report any
		if result.Report != "" {
			report = result.Report
		}
		return result, &Problem{Code: api.ScoreTooLow,
			Detail: "The site's agent-readiness score is " + strconv.Itoa(result.Score) + "; joining needs " + strconv.Itoa(required) + ". The report says what to improve. Nothing was charged.",
			More:   map[string]any{"score": result.Score, "required": required, "report": report}}
	}
	return result, nil
}

// maxScorerWords bounds provider and rubric version, in bytes.
const maxScorerWords = 256

// fits makes sure that a challenge and an event can hold the score, because the event is
// written only once the payment has gone through. Nothing depends on when the site was
// scanned, so an instant that no stamp can hold is dropped.
func fits(r *score.Result) error {
	if at := r.ScannedAt.UnixMilli(); at < 0 || at > core.MaxStamp {
		r.ScannedAt = time.Time{}
	}
	// No URL has these characters, and JSON escapes them: a report full of them would make a
	// challenge longer than the 8 KiB that the draft recommends as a bound.
	escaped := func(c rune) bool { return c < ' ' || c == '"' || c == '\\' }
	if r.Score < 0 || r.Score > 100 || len(r.Report) > core.MaxReport || !utf8.ValidString(r.Report) || strings.ContainsFunc(r.Report, escaped) ||
		len(r.Provider)+len(r.Version) > maxScorerWords {
		return errors.New("paid: a score beyond its limits")
	}
	return nil
}

// scoreProblem says to the caller why there is no score, and so no challenge.
func scoreProblem(err error, required int) error {
	retry := 1
	var pending *score.Pending
	var unavailable *score.Unavailable
	switch {
	case errors.Is(err, score.ErrBadTarget):
		return &Problem{Code: api.InvalidURL, Detail: "The scoring service cannot examine this URL. Give the public address of a site that answers over http or https. Nothing was charged."}
	case errors.As(err, new(*score.NotScorable)):
		return &Problem{Code: api.ScoreTooLow, Detail: "There is no agent-readiness score for this site: " + err.Error(),
			More: map[string]any{"score": nil, "required": required, "report": nil}}
	case errors.As(err, &pending):
		return &Problem{Code: api.ScorePending, RetryAfter: max(1, int(pending.RetryAfter.Seconds())),
			Detail: "The scoring service is still examining the site. Send the request again a little later. Nothing was charged."}
	case errors.As(err, &unavailable):
		retry = max(retry, int(unavailable.RetryAfter.Seconds()))
		if unavailable.Busy {
			return &Problem{Code: api.ScoreUnavailable, RetryAfter: retry,
				Detail: "No score can be made right now: scores are limited for each client, for each site and in total, and a service that fails gets a pause. Send the request again later. Nothing was charged."}
		}
	}
	return &Problem{Code: api.ScoreUnavailable, RetryAfter: retry,
		Detail: "The scoring service gives no answer right now. Send the request again later. Nothing was charged."}
}

func (o *registration) cents() int64 { return o.Fee + o.Bid }

func (o *registration) describe() string {
	if o.Bid > 0 {
		return "Join the ring: fee " + form.FormatUSD(o.Fee) + " USD and opening bid " + form.FormatUSD(o.Bid) + " USD"
	}
	return "Join the ring: fee " + form.FormatUSD(o.Fee) + " USD"
}

func (o *registration) subject(r *ledger.Reservation) {
	r.URLKey, r.OnlyIfRank = o.Key, o.OnlyIfRank
}

func (o *registration) carryOut(tx *ledger.Tx, payment core.Payment) (result, error) {
	slug := o.slug(tx.State())
	event := &core.Joined{Stamp: tx.Stamp(), Slug: slug, Kind: o.Kind, Category: o.Category, Fee: o.Fee, Bid: o.Bid, Payment: payment,
		Score: eventScore(o.Score)}
	event.Score.Given = !o.unscored
	texts := &core.Texts{Name: core.Text{Value: o.Name}, URL: core.Text{Value: o.URL},
		Description: core.Text{Value: o.Description}, Report: core.Text{Value: o.Score.Report}}
	if _, err := tx.Append(event, texts); err != nil {
		return result{}, err
	}
	st := tx.State()
	at, _ := st.BySlug([]byte(slug))
	self := st.Rules().BaseURL + "/api/ring/" + slug
	body := append([]byte(nil), `{"joined":true,"member":`...)
	body = api.AppendMember(body, st, at, true)
	if o.Bid > 0 {
		body = append(body, `,"leaderboard_rank":`...)
		body = strconv.AppendInt(body, int64(st.Rank(at)), 10)
	}
	body = appendToTakeFirst(body, st, at)
	body = append(body, `,"welcome":`...)
	body = api.AppendString(body, "Welcome to "+st.Rules().Name+". You are number "+strconv.Itoa(st.Position(at))+" in the ring.")
	body = append(body, `,"links":{"self":`...)
	body = api.AppendString(body, self)
	body = append(body, `,"proof":`...)
	body = api.AppendString(body, proofOf(st, st.Seq()))
	body = appendToShow(body, st.Rules().BaseURL, slug)
	return result{status: 201, slug: slug, location: self, body: append(body, "}}"...)}, nil
}

// appendToShow appends the links to what a payer can show of a member, to others in an object.
func appendToShow(body []byte, base, slug string) []byte {
	for _, link := range [...][2]string{{"page", "/members/" + slug}, {"card", "/cards/" + slug + ".png"}, {"badge", "/badge/" + slug + ".svg"}, {"snippet", "/embed?from=" + slug}} {
		body = append(body, `,"`+link[0]+`":`...)
		body = api.AppendString(body, base+link[1])
	}
	return body
}

// eventScore is a score as events have it.
func eventScore(s score.Result) core.Score {
	e := core.Score{Given: true, Value: uint8(s.Score), Provider: s.Provider, Version: s.Version}
	if !s.ScannedAt.IsZero() {
		e.ScannedAt = s.ScannedAt.UnixMilli()
	}
	return e
}

// slug is the slug that the member gets if it joins now.
func (o *registration) slug(st *core.State) string {
	return form.UniqueSlug(form.SlugBase(o.Name, string(core.KeyHost([]byte(o.Key)))), func(slug string) bool {
		_, taken := st.BySlug([]byte(slug))
		return taken
	})
}

// appendToTakeFirst appends the member to_take_first_usd, null for the leader.
func appendToTakeFirst(body []byte, st *core.State, at core.Ordinal) []byte {
	body = append(body, `,"to_take_first_usd":`...)
	cents, ok := st.ToTakeFirst(at)
	if !ok {
		return append(body, "null"...)
	}
	body = append(body, '"')
	body = api.AppendUSD(body, cents)
	return append(body, '"')
}

// bid is one order to fund a member. Slug is the member that was meant when
// the challenge was issued; it is stored as JSON with the reservation.
type bid struct {
	ref form.BidRequest // as sent

	Slug       string
	Amount     int64 // cents
	OnlyIfRank int   `json:",omitempty"`
}

func parseBid(c *Call, rules *core.Rules, pinned map[string]string) (order, error) {
	minimum := int64(1)
	if pinned == nil {
		minimum = rules.MinBid
	}
	r, err := form.ParseBid(c.Body, minimum)
	if err != nil {
		return nil, err
	}
	if pinned != nil && pinned[pinMember] == "" {
		return nil, errPinned
	}
	return &bid{ref: r, Slug: pinned[pinMember], Amount: r.Amount, OnlyIfRank: r.OnlyIfRank}, nil
}

// pinMember names the slug in the opaque parameter: a URL in the body may be another
// member's by the time of the payment.
const pinMember = "member"

func (o *bid) pin() map[string]string { return map[string]string{pinMember: o.Slug} }

func (o *bid) stillHolds(v *ledger.View) error {
	st := v.State()
	at, err := o.find(st)
	if err != nil {
		return err
	}
	m := st.Member(at)
	if _, open := v.OpenOnMember(m.Slug); m.Total()+open+o.Amount > core.MaxTotal {
		return &Problem{Code: api.TotalTooHigh, Detail: "The member's total may not go beyond " + form.FormatUSD(core.MaxTotal) + " USD."}
	}
	o.Slug = strings.Clone(m.Slug) // the state keeps the word
	return nil
}

// mayBegin also refuses bids on members that have left, are hidden, or could not join any more, and
// those on a URL from which its member has moved since the challenge.
func (o *bid) mayBegin(v *ledger.View, payer string) error {
	st := v.State()
	at, _ := o.find(st)
	m := st.Member(at)
	switch holder, held := st.Holder([]byte(o.ref.Key)); {
	case m.Removed:
		return &Problem{Code: api.MemberRemoved, Detail: "This member was removed from the ring and takes no bids. Nothing was charged."}
	case o.ref.Key != "" && (!held || holder != at):
		return &Problem{Code: api.UnknownMember, Detail: "The member that had this URL has moved to another one. To bid on it, name its slug. Nothing was charged."}
	case m.Hidden:
		return risk.NotAdmitted("The operator has hidden this member, so it takes no bids.")
	case risk.Blocked(v, m.URL, "", m.Name, m.Description) != nil:
		return risk.NotAdmitted("The operator of this ring takes no payments for this member.")
	}
	if err := risk.Blocked(v, "", payer, ""); err != nil {
		return err
	}
	return risk.Ranks(v, at, m.Total(), o.Amount, o.OnlyIfRank, 0, "to_take_rank_usd", "a bid")
}

// find gives the member: by the slug that the challenge pinned or, before the challenge,
// by the exact slug or canonical URL that was sent. Money must not go to a member with a
// similar name.
func (o *bid) find(st *core.State) (core.Ordinal, error) {
	slug := o.Slug
	if slug == "" {
		slug = o.ref.Slug
	}
	if at, ok := st.BySlug([]byte(slug)); ok {
		return at, nil
	}
	if at, ok := st.Holder([]byte(o.ref.Key)); ok && o.ref.Key != "" {
		return at, nil
	}
	return 0, &Problem{Code: api.UnknownMember, Detail: "No member has this slug or URL. /api/ring lists the members."}
}

func (o *bid) decide(context.Context, string) error { return nil }
func (o *bid) cents() int64                         { return o.Amount }
func (o *bid) describe() string                     { return "Bid " + form.FormatUSD(o.Amount) + " USD on " + o.Slug }
func (o *bid) subject(r *ledger.Reservation)        { r.Member, r.OnlyIfRank = o.Slug, o.OnlyIfRank }

func (o *bid) carryOut(tx *ledger.Tx, payment core.Payment) (result, error) {
	event := &core.Bid{Stamp: tx.Stamp(), Member: o.Slug, Amount: o.Amount, Payment: payment}
	if _, err := tx.Append(event, nil); err != nil {
		return result{}, err
	}
	st := tx.State()
	at, _ := st.BySlug([]byte(o.Slug))
	m := st.Member(at)
	base := st.Rules().BaseURL
	body := append([]byte(nil), `{"bid":{"member":`...)
	body = api.AppendString(body, m.Slug)
	body = append(body, `,"amount_usd":"`...)
	body = api.AppendUSD(body, o.Amount)
	body = append(body, `"},"bid_total_usd":"`...)
	body = api.AppendUSD(body, m.Bids)
	body = append(body, `","leaderboard_rank":`...)
	if rank := st.Rank(at); rank > 0 {
		body = strconv.AppendInt(body, int64(rank), 10)
	} else {
		body = append(body, "null"...) // not in the ring: the money was sent before it left, or before that was asked
	}
	body = appendToTakeFirst(body, st, at)
	body = append(body, `,"links":{"self":`...)
	body = api.AppendString(body, base+"/api/ring/"+m.Slug)
	body = append(body, `,"leaderboard":`...)
	body = api.AppendString(body, base+"/api/leaderboard")
	if m.URL != "" { // the words of the member may be deleted
		body = append(body, `,"site":`...)
		body = api.AppendString(body, m.URL)
	}
	body = append(body, `,"proof":`...)
	body = api.AppendString(body, proofOf(st, st.Seq()))
	body = appendToShow(body, base, m.Slug)
	return result{status: 200, slug: o.Slug, body: append(body, "}}"...)}, nil
}
