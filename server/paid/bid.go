package paid

import (
	"context"
	"strconv"
	"strings"

	"webring/core"
	"webring/core/api"
	"webring/server/ledger"
	"webring/server/paid/form"
	"webring/server/paid/risk"
)

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

func (o *bid) check(v *ledger.View) error {
	st := v.State()
	at, err := o.find(st)
	if err != nil {
		return err
	}
	m := st.Member(at)
	if m.Removed {
		return &Problem{Code: api.MemberRemoved, Detail: "This member was removed from the ring and takes no bids. Nothing was charged."}
	}
	if v.RemovalAnnounced(m.Slug) {
		// The member may yet stay, so this is no [api.MemberRemoved].
		return &Problem{Code: api.PaymentPending, RetryAfter: pendingRetry,
			Detail: "This member is being taken out of the ring, or moved, as soon as the last payment for it is settled. It takes no new bids. Send the request again later. Nothing was charged."}
	}
	if _, open := v.OpenOnMember(m.Slug); m.Total()+open+o.Amount > core.MaxTotal {
		return &Problem{Code: api.TotalTooHigh, Detail: "The member's total may not go beyond " + form.FormatUSD(core.MaxTotal) + " USD."}
	}
	o.Slug = strings.Clone(m.Slug) // the state keeps the word
	return nil
}

// checkUnpaid refuses bids on members that are hidden, or that could not join any more, and
// those on a URL from which its member has moved since the challenge.
func (o *bid) checkUnpaid(v *ledger.View, payer string) error {
	st := v.State()
	at, err := o.find(st)
	if err != nil {
		return err
	}
	m := st.Member(at)
	switch holder, held := st.Holder([]byte(o.ref.Key)); {
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

func (o *bid) carriedOut(_ *core.State, e core.Event) string {
	if b, ok := e.(*core.Bid); ok && b.Member == o.Slug && b.Amount == o.Amount {
		return o.Slug
	}
	return ""
}

func (o *bid) carryOut(tx *ledger.Tx, payment core.Payment) (effect, error) {
	event := &core.Bid{Stamp: tx.Stamp(), Member: o.Slug, Amount: o.Amount, Payment: payment}
	if _, err := tx.Append(event, nil); err != nil {
		return effect{}, err
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
		body = append(body, "null"...) // hidden: the money had come before that was asked
	}
	body = appendToTakeFirst(body, st, at)
	body = append(body, `,"links":{"self":`...)
	body = api.AppendString(body, base+"/api/ring/"+m.Slug)
	body = append(body, `,"leaderboard":`...)
	body = api.AppendString(body, base+"/api/leaderboard")
	body = append(body, `,"site":`...)
	body = api.AppendString(body, m.URL)
	return effect{status: 200, slug: o.Slug, body: append(body, "}}"...)}, nil
}
