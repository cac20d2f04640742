package paid

import (
	"context"
	"log/slog"
	"time"

	"webring/core/api"
	"webring/server/paid/form"
	"webring/server/pay/mpp"
	"webring/server/pay/x402"
)

// What became of a payment is in the log as one line: when its outcome is known, whether
// its request waits for that, was let go, or was an earlier process's; and when a
// request with a credential is refused. No line has a credential, a receipt, a signature or
// an Idempotency-Key; the account that pays is public in the ledger.

// Audit is the key of the attribute that marks lines of which each is about somebody's
// money or place, or about what the operator keeps out. Its values are payment, refusal,
// money (somebody has to look), adjustment, moderation and ownership. None of them may be
// left out because another looks like it.
const Audit = "audit"

// about is what the log says of a request.
type about struct {
	began      time.Time
	credential bool         // it brought one, or something in its place
	id         string       // of its challenge, which is ours
	network    string       // with payment
	payment    *mpp.Payment // that its credential brings, once that was read
	cents      int64        // of the payment or the offers
	decided    bool         // the line of its outcome is written
	accepted   *x402.Offer  // that an x402 client says it has paid, for its answer
}

// log names a payment in a line of the log.
func (w *work) log() slog.Attr { return logged(w.brought.ID, w.payment) }

func logged(id string, p mpp.Payment) slog.Attr {
	return slog.Attr{Value: slog.GroupValue(slog.String("payment", id), slog.String("method", p.Method), slog.String("transaction", p.Reference))}
}

// record writes the log line of the outcome of a payment.
func (s *Service) record(w *work, o mpp.Outcome, level slog.Level, message, outcome, member, reason string) {
	if w.ended = Outcome(outcome); outcome == mpp.Gone.String() {
		w.ended = OutcomeFailed
	}
	line := []slog.Attr{slog.String(Audit, "payment"), slog.String("payment", w.brought.ID), slog.String("operation", w.brought.Operation),
		slog.String("member", member), slog.String("amount_usd", form.FormatUSD(w.brought.Cents)),
		slog.String("method", w.payment.Method), slog.String("network", w.network.Network()), slog.String("transaction", w.settledBy(o)),
		slog.String("payer", w.payment.Payer), slog.String("outcome", outcome)}
	if reason != "" {
		line = append(line, slog.String("reason", reason))
	}
	line = append(line, slog.Int64("took_ms", s.Now().Sub(w.began).Milliseconds()), slog.String("request", w.brought.Request))
	s.Log.LogAttrs(context.Background(), level, message, line...)
}

// recordAnswer writes the line of a request that was refused, and at the debug level that
// of one that was offered to pay. A refusal of what is no payment to this ring is not an
// audit line: strangers can have any number. Nor is one of a smart account's, whose signature only
// its network can read.
func (s *Service) recordAnswer(c *Call, p *Problem) {
	a := c.about
	if p == nil || a.decided {
		return
	}
	paid := a.payment
	if paid != nil && paid.Contract {
		paid = nil
	}
	level, message := slog.LevelInfo, "payment refused"
	switch {
	case !a.credential && p.Code == api.PaymentRequired:
		level, message = slog.LevelDebug, "payment asked for"
	case !a.credential:
		level, message = slog.LevelDebug, "paid operation refused"
	case undecided(p):
		message = "payment not decided yet"
	case paid == nil:
		message = "credential refused"
	}
	if !s.Log.Enabled(s.ctx, level) {
		return
	}
	var line []slog.Attr
	if paid != nil && !undecided(p) {
		line = append(line, slog.String(Audit, "refusal"))
	}
	line = append(line, slog.String("operation", c.Operation), slog.String("code", string(p.Code)))
	if p.Reason != "" {
		line = append(line, slog.String("reason", p.Reason))
	}
	if a.id != "" {
		line = append(line, slog.String("payment", a.id))
	}
	if a.cents > 0 {
		line = append(line, slog.String("amount_usd", form.FormatUSD(a.cents)))
	}
	if paid != nil {
		line = append(line, slog.String("method", paid.Method), slog.String("network", a.network),
			slog.String("transaction", paid.Reference), slog.String("payer", paid.Payer))
	}
	line = append(line, slog.Int64("took_ms", s.Now().Sub(a.began).Milliseconds()), slog.String("request", c.Request))
	s.Log.LogAttrs(s.ctx, level, message, line...)
}
