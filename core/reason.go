package core

// Reason says why the operator has removed, hidden or shown a member. The list is closed: an event
// with another number does not decode. Words that say more go with the event as [Texts], so they
// can be redacted.
type Reason uint8

// The reasons. [Unstated] is that of events of earlier versions, of which only the words say why.
const (
	Unstated    Reason = iota
	Spam               // advertising, or a site made for its place alone
	Deceptive          // phishing, malware, or a site that pretends to be another
	Unlawful           // content that the law forbids
	Rights             // content that infringes the rights of others
	Abusive            // hatred, harassment or threats
	OffTopic           // not what this ring is for, by its own terms
	Unreachable        // the site is not there, or is no longer what it was
	Requested          // somebody concerned asked for it
	Mistaken           // what was done before was a mistake
	Resolved           // what was wrong has been put right
	Reviewing          // a complaint is being looked into
	Otherwise          // none of these: the words say why
)

var reasonNames = [...]string{Spam: "spam", Deceptive: "deceptive", Unlawful: "unlawful", Rights: "rights", Abusive: "abusive",
	OffTopic: "off-topic", Unreachable: "unreachable", Requested: "requested", Mistaken: "mistaken", Resolved: "resolved",
	Reviewing: "reviewing", Otherwise: "other"}

// String gives the reason's code in documents, or "" for none.
func (r Reason) String() string {
	if int(r) >= len(reasonNames) {
		return ""
	}
	return reasonNames[r]
}

// ParseReason reads the code of a reason. [Unstated] has none.
func ParseReason(code string) (Reason, bool) {
	for r := Spam; r <= Otherwise; r++ {
		if reasonNames[r] == code {
			return r, true
		}
	}
	return Unstated, false
}

// Reasons gives the codes of all reasons. The caller owns the list.
func Reasons() []string { return append([]string(nil), reasonNames[Spam:]...) }

// Why is the reason of a [Removed], [Hidden] or [Shown] event. Events of earlier versions have words
// in their place, which cannot be redacted, in the event's own field Reason.
type Why struct {
	Code Reason
	// Words commits to the words that go with the code; zero without any. [Texts] has them, until
	// the member is redacted. An event that redacts has none: nothing could redact them later.
	Words Commitment
}

// check says what is wrong with the reason of an event that has these words of an earlier version.
func (w *Why) check(earlier string, redacts bool) error {
	switch {
	case w.Code != Unstated && w.Code.String() == "", w.Code != Unstated && earlier != "":
		return bad("reason")
	case w.Words.Given() && (w.Code == Unstated || redacts):
		return bad("words of the reason")
	}
	return nil
}

// appendWhy ends an event with its reason, which events of earlier versions do not have.
func appendWhy(b []byte, w Why) []byte {
	if w.Code == Unstated {
		return b
	}
	return appendOptional(append(b, byte(w.Code)), w.Words)
}

// why reads what appendWhy wrote, which nothing may follow.
func (r *reader) why() (w Why) {
	if len(r.rest) > 0 {
		w = Why{Reason(r.byte()), r.optional()}
		r.failed = r.failed || w.Code == Unstated
	}
	return w
}

// WhyOf gives the reason of an event that has one, and the words that an event of an earlier version
// has in its place.
func WhyOf(e Event) (w Why, earlier string) {
	switch e := e.(type) {
	case *Removed:
		return e.Why, e.Reason
	case *Hidden:
		return e.Why, e.Reason
	case *Shown:
		return e.Why, e.Reason
	}
	return w, ""
}
