package paid

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
	"webring/server/sites/siteproof"
)

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

func (o *registration) check(v *ledger.View) error {
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
	if until, pending := v.URLPending(key); pending {
		return s.heldURL(until)
	}
	return nil
}

func (o *registration) checkUnpaid(v *ledger.View, payer string) error {
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
		o.service.limits.OpensCategory(v, o.Category, o.Key, account, o.named.Includes(account, true), o.promised && len(o.named) == 0))
}

func (o *registration) decide(ctx context.Context, client string) error {
	return o.measure(ctx, client, o.service.Scorer)
}

// measure puts the score of the site into o, and refuses one that is too low. If a limit
// keeps strangers out, it first asks the site for the accounts that it names.
func (o *registration) measure(ctx context.Context, client string, scorer Scorer) (err error) {
	var beyond, shared bool
	o.service.Ledger.View(func(v *ledger.View) {
		beyond = risk.Opens(v.State(), o.Category) && risk.BeyondMoney(v, false) >= 0
		shared = o.service.limits.SharesDomain(v, o.Key, core.Account{}, nil, nil) != nil
	})
	if beyond || shared {
		o.named = o.service.accountsAt(ctx, client, o.URL)
	}
	if beyond && !slices.ContainsFunc(o.named, func(n siteproof.Named) bool { return n.Host }) {
		return risk.ErrNoCategory
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
		return result, &Problem{Code: api.ScoreTooLow,
			Detail: "The site's agent-readiness score is " + strconv.Itoa(result.Score) + "; joining needs " + strconv.Itoa(required) + ". The report says what to improve. Nothing was charged.",
			More:   map[string]any{"score": result.Score, "required": required, "report": orNull(result.Report)}}
	}
	return result, nil
}

// maxScorerWords bounds provider and rubric version, in bytes.
const maxScorerWords = 256

// notInReport says whether c is a character that no URL has and that JSON escapes: a
// report full of them would make a challenge longer than the 8 KiB that the draft
// recommends as a bound.
func notInReport(c rune) bool { return c < ' ' || c == '"' || c == '\\' }

// fits makes sure that a challenge and an event can hold the score, because the event is
// written only once the payment has gone through. Nothing depends on when the site was
// scanned, so an instant that no stamp can hold is dropped.
func fits(r *score.Result) error {
	if at := r.ScannedAt.UnixMilli(); at < 0 || at > core.MaxStamp {
		r.ScannedAt = time.Time{}
	}
	if r.Score < 0 || r.Score > 100 || len(r.Report) > core.MaxReport || !utf8.ValidString(r.Report) || strings.ContainsFunc(r.Report, notInReport) ||
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

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
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

func (o *registration) carryOut(tx *ledger.Tx, payment core.Payment) (effect, error) {
	slug := o.slug(tx.State(), "")
	event := &core.Joined{Stamp: tx.Stamp(), Slug: slug, Kind: o.Kind, Category: o.Category, Fee: o.Fee, Bid: o.Bid, Payment: payment,
		Score: eventScore(o.Score)}
	event.Score.Given = !o.unscored
	texts := &core.Texts{Name: core.Text{Value: o.Name}, URL: core.Text{Value: o.URL},
		Description: core.Text{Value: o.Description}, Report: core.Text{Value: o.Score.Report}}
	if _, err := tx.Append(event, texts); err != nil {
		return effect{}, err
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
	return effect{status: 201, slug: slug, location: self, body: append(body, '}')}, nil
}

// eventScore is a score as events have it.
func eventScore(s score.Result) core.Score {
	e := core.Score{Given: true, Value: uint8(s.Score), Provider: s.Provider, Version: s.Version}
	if !s.ScannedAt.IsZero() {
		e.ScannedAt = s.ScannedAt.UnixMilli()
	}
	return e
}

// carriedOut recognises the member by its URL. If that is redacted, or the member has moved
// since, it compares the slug with the one that the order would have got.
func (o *registration) carriedOut(st *core.State, e core.Event) string {
	j, ok := e.(*core.Joined)
	if !ok || j.Kind != o.Kind || j.Category != o.Category || j.Fee != o.Fee || j.Bid != o.Bid {
		return ""
	}
	at, ok := st.BySlug([]byte(j.Slug))
	if !ok {
		return ""
	}
	if m := st.Member(at); m.URL == o.URL || (m.Redacted || m.Changed > 0) && o.slug(st, j.Slug) == j.Slug {
		return j.Slug
	}
	return ""
}

// slug is the slug that the member gets if it joins now. The slug free counts as not
// taken.
func (o *registration) slug(st *core.State, free string) string {
	return form.UniqueSlug(form.SlugBase(o.Name, string(core.KeyHost([]byte(o.Key)))), func(slug string) bool {
		_, taken := st.BySlug([]byte(slug))
		return taken && slug != free
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
