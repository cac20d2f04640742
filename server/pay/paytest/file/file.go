// Package file is an example of a payment method. Its network is a file in which each line is a
// transfer. A payer appends a line, as a bank would, and presents it. For tests only.
package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"webring/server/pay/mpp"
	"webring/server/pay/x402"
)

// Method takes the lines of a file that pay one account.
type Method struct{ Path, Account string }

// line is a transfer. Its text begins with its place in the file, so no two are the same.
type line struct {
	place, second, cents int64
	from, to, memo, text string
}

func read(text string) (l line, ok bool) {
	n, _ := fmt.Sscanf(text, "%d %d %s %s %d %s", &l.place, &l.second, &l.from, &l.to, &l.cents, &l.memo)
	l.text = fmt.Sprintf("%d %d %s %s %d %s", l.place, l.second, l.from, l.to, l.cents, l.memo)
	return l, n == 6 && l.text == text && l.cents > 0 && l.second >= 0 && l.second <= mpp.LastSecond
}

func (l line) at() time.Time { return time.Unix(l.second, 0).UTC() }

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "0x" + hex.EncodeToString(sum[:])
}

// Memo is what a line that answers a challenge says last.
func Memo(c mpp.Challenge) string { return hash(c.ID) }

// Write appends a transfer, and gives its line. It is for one caller at a time.
func Write(path, from, to string, cents int64, memo string) (text string, err error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	info, err := f.Stat()
	if err == nil {
		text = fmt.Sprintf("%d %d %s %s %d %s", info.Size(), time.Now().Unix(), from, to, cents, memo)
		_, err = f.WriteString(text + "\n")
	}
	return text, errors.Join(err, f.Close())
}

func (Method) Name() string        { return "file" }
func (Method) Network() string     { return "file:test" }
func (m Method) Payee() string     { return m.Account }
func (Method) Life() time.Duration { return time.Minute }

func (m Method) Request(cents int64) (string, error) {
	return mpp.EncodeJSON(map[string]string{"amount": strconv.FormatInt(cents, 10), "currency": "usd", "recipient": m.Account})
}

// Decode does not know whether the line was written. Simulate asks that.
func (m Method) Decode(c mpp.Credential) (p mpp.Payment, err error) {
	var payload map[string]string
	err = c.DecodePayload(&payload)
	l, ok := read(payload["line"])
	if err != nil || !ok {
		return p, mpp.MalformedPayload
	}
	// The recipient may be an earlier account.
	if pays, err := (Method{m.Path, l.to}).Request(l.cents); err != nil || pays != c.Challenge.Request {
		return p, mpp.Refuse(mpp.ReasonAmount, "the line does not pay what the challenge asks for")
	}
	expires, err := c.Challenge.ExpiresAt()
	if err != nil || l.memo != Memo(c.Challenge) {
		return p, mpp.Refuse(mpp.ReasonChallenge, "the line is not for this challenge")
	}
	return mpp.Payment{Method: m.Name(), Cents: l.cents, Raw: []byte(l.text), Reference: hash(l.text), ReplayKey: m.Network() + ":" + hash(l.text),
		Payer: l.from, Payee: l.to, Binding: l.memo, ValidFrom: l.at(), ValidBefore: expires}, nil
}

func (m Method) InTime(p mpp.Payment, now, expires time.Time) *mpp.Rejection {
	return p.InTime(now, expires, m.Life())
}

func (m Method) Simulate(ctx context.Context, p mpp.Payment) error {
	_, err := m.Received(ctx, p.Payee, p.Reference)
	if errors.Is(err, mpp.ErrNoTransfer) {
		return mpp.Refuse(mpp.ReasonNotMined, "the file has no such line")
	}
	return err
}

// Broadcast sends nothing: the payer has written the line.
func (m Method) Broadcast(ctx context.Context, p mpp.Payment, _ mpp.Expenses) (mpp.Outcome, error) {
	return m.Outcome(ctx, p, time.Time{})
}

// Outcome says that a line is gone if its second is over without it: every line has the second in which
// it was written.
func (m Method) Outcome(ctx context.Context, p mpp.Payment, _ time.Time) (mpp.Outcome, error) {
	now := time.Now().Truncate(time.Second)
	switch _, err := m.Received(ctx, p.Payee, p.Reference); {
	case err == nil:
		return mpp.Outcome{State: mpp.Settled, Deep: true}, nil
	case !errors.Is(err, mpp.ErrNoTransfer):
		return mpp.Outcome{}, err
	case now.After(p.ValidFrom):
		return mpp.Outcome{State: mpp.Gone, Deep: true, Over: now, Detail: "not in the file"}, nil
	}
	return mpp.Outcome{Detail: "not in the file yet"}, nil
}

func (m Method) Clock(ctx context.Context) (time.Time, error) {
	return m.Transfers(ctx, time.Now(), func(mpp.Transfer) error { return nil })
}

// Transfers does not count a line that is not whole yet, nor on the second that is not over.
func (m Method) Transfers(_ context.Context, since time.Time, found func(mpp.Transfer) error) (until time.Time, err error) {
	until = time.Now().Truncate(time.Second)
	text, err := os.ReadFile(m.Path)
	if err != nil {
		return until, fmt.Errorf("%w: %w", mpp.ErrUnavailable, err)
	}
	whole := text[:strings.LastIndexByte(string(text), '\n')+1]
	for one := range strings.Lines(string(whole)) {
		l, ok := read(strings.TrimSuffix(one, "\n"))
		if !ok {
			return until, fmt.Errorf("%w: a line is no transfer", mpp.ErrUnavailable)
		}
		if l.to != m.Account || l.at().Before(since) {
			continue
		}
		err := found(mpp.Transfer{Reference: hash(l.text), Payer: l.from, Cents: l.cents, At: l.at(), Senders: 1, Bound: []mpp.Bound{{Payer: l.from, Binding: l.memo}}})
		if err != nil {
			return until, err
		}
	}
	return until, nil
}

func (m Method) Received(ctx context.Context, payee, reference string) (found mpp.Transfer, err error) {
	_, err = Method{m.Path, payee}.Transfers(ctx, time.Time{}, func(t mpp.Transfer) error {
		if t.Reference == reference {
			found = t
		}
		return nil
	})
	if err == nil && found.Cents == 0 {
		err = mpp.ErrNoTransfer
	}
	return found, err
}

// A written line has moved its money, has no nonce, costs the ring nothing, and no wallet signs it.

func (Method) Holds(context.Context, mpp.Payment, int64) error     { return nil }
func (Method) Unused(context.Context, mpp.Payment) error           { return nil }
func (Method) PaysGas() bool                                       { return false }
func (Method) Exact(string) (offer x402.Offer, ok bool)            { return offer, false }
func (Method) TokenDomain() *mpp.TypedDomain                       { return nil }
func (Method) ToSign(mpp.Challenge, [20]byte) (*mpp.ToSign, error) { return nil, nil }
func (Method) Payer(account [20]byte) string                       { return "0x" + hex.EncodeToString(account[:]) }
func (Method) Pace() time.Duration                                 { return time.Second }
