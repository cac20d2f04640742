package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"webring/server/devchain"
	"webring/server/ledger/ledgertest"
	"webring/server/pay/paytest"
)

// buyer pays for one wish after the other, at any node, and notes every answer that it is
// given about a payment.
type buyer struct {
	name   string
	at     []*process // where it may go
	random *rand.Rand
	seen   *seen
	accept string                            // the method that it pays by
	sign   func(offer reply) (string, error) // makes the credential
	client *http.Client
	slugs  []string // members to bid on

	tries atomic.Int64 // requests
}

// hasty bounds a request of a buyer, which then asks another node.
const hasty = 15 * time.Second

// purchase is a wish with what its buyer knows about it.
type purchase struct {
	path, body  string
	cents       int64
	credential  string
	id          string
	transaction string
}

// tempoBuyer signs by itself, and lets its transactions end soon.
func tempoBuyer(w devchain.Account, random *rand.Rand) func(reply) (string, error) {
	return func(offer reply) (string, error) {
		c, err := readChallenge(offer)
		if err != nil {
			return "", err
		}
		ahead := int64(10 + random.IntN(15))
		return signedBy(w, c, func(d *paytest.TempoDraft) { d.ValidBefore = uint64(time.Now().Unix() + ahead) }), nil
	}
}

// referenceBuyer has the reference client sign.
func referenceBuyer(client *devchain.Client, w devchain.Account) func(reply) (string, error) {
	return func(offer reply) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), longEnough)
		defer cancel()
		return client.Sign(ctx, w.HexKey(), offer.Header.Get("WWW-Authenticate"))
	}
}

// evmBuyer authorises a transfer that the ring submits.
func evmBuyer(w paytest.EVM) func(reply) (string, error) {
	return func(offer reply) (string, error) {
		c, err := readChallenge(offer)
		if err != nil {
			return "", err
		}
		return w.Header(c, paytest.ValidFor(40*time.Second)), nil
	}
}

// errUnsettled: a payment without a known outcome.
var errUnsettled = errors.New("not settled")

// buy makes a wish and pays for it until it is granted or, with nothing charged, cannot be,
// or until ctx ends. It gives what was not settled then.
func (b *buyer) buy(ctx context.Context, n int) (*purchase, error) {
	p := b.wish(n)
	for ctx.Err() == nil {
		offer, err := b.ask(ctx, p)
		if err != nil {
			return nil, nil // ctx has ended, and nothing was signed
		}
		if p.credential, err = b.sign(offer); err != nil {
			return nil, err
		}
		if p.id, p.transaction, err = b.seen.sign(p.credential); err != nil {
			return nil, err
		}
		sentField("Authorization", p.credential)
		switch again, err := b.present(ctx, p); {
		case errors.Is(err, errUnsettled):
			return p, nil
		case err != nil || !again:
			return nil, err
		}
	}
	return nil, nil
}

// wish is a registration or a bid.
func (b *buyer) wish(n int) *purchase {
	cents := int64(100 + b.random.IntN(400))
	slug := fmt.Sprintf("%s-%d", b.name, n)
	switch b.random.IntN(4) {
	case 0:
		return &purchase{path: "/api/register", body: fmt.Sprintf(`{"name":%q,"url":"https://%s.dev/","kind":"agent"}`, slug, slug), cents: 100}
	case 1:
		return &purchase{path: "/api/register", body: fmt.Sprintf(`{"name":%q,"url":"https://%s.dev/","kind":"mcp","bid":"%d.%02d"}`, slug, slug, cents/100, cents%100), cents: 100 + cents}
	}
	return &purchase{path: "/api/bid", body: fmt.Sprintf(`{"member":%q,"amount":"%d.%02d"}`, b.slugs[b.random.IntN(len(b.slugs))], cents/100, cents%100), cents: cents}
}

// ask asks for an offer until there is one.
func (b *buyer) ask(ctx context.Context, p *purchase) (reply, error) {
	for {
		r, _, err := b.send(ctx, p, "")
		switch {
		case ctx.Err() != nil:
			return r, ctx.Err()
		case err == nil && r.Status == http.StatusPaymentRequired:
			// While its network does not answer, a method is not offered.
			if c, err := readChallenge(r); err != nil || c.Method == b.accept {
				return r, err
			}
			pause(ctx, 50*time.Millisecond)
		case err == nil && r.Status != http.StatusServiceUnavailable:
			return r, fmt.Errorf("unpaid: %d %s", r.Status, r.Body)
		}
	}
}

// present presents a credential until it is told what became of it. again says that
// nothing was charged and another may be signed.
func (b *buyer) present(ctx context.Context, p *purchase) (again bool, err error) {
	for ctx.Err() == nil {
		r, node, err := b.send(ctx, p, p.credential)
		if err != nil {
			continue
		}
		a := answerAbout(p, node, r)
		b.seen.with(func() {
			b.seen.Answers = append(b.seen.Answers, a)
			if r.Status/100 == 2 {
				b.seen.granted = append(b.seen.granted, time.Now())
			}
		})
		switch {
		case r.Status/100 == 2, a.Outcome == "applied":
			return false, nil
		case r.Status == http.StatusPaymentRequired, a.Outcome == "failed":
			return true, nil
		case r.Status == http.StatusServiceUnavailable, a.Outcome == "pending":
			if wait, _ := strconv.Atoi(r.Header.Get("Retry-After")); wait > 99 { // barred for minutes: one of its payments failed
				return false, nil
			}
		default:
			return false, fmt.Errorf("presented: %d %s", r.Status, r.Body)
		}
	}
	return false, errUnsettled
}

// answerAbout is an answer as the history has it.
func answerAbout(p *purchase, node string, r reply) ledgertest.Answer {
	a := ledgertest.Answer{Node: node, Payment: p.id, Transaction: p.transaction, Cents: p.cents, Status: r.Status, Body: r.Body}
	if r.Status >= 300 {
		var doc struct{ Code, Outcome string }
		if json.Unmarshal(r.Body, &doc) == nil {
			a.Code, a.Outcome = doc.Code, doc.Outcome
		}
	} else {
		a.Position, _ = strconv.ParseUint(r.Header.Get("Webring-Seq"), 10, 64)
	}
	return a
}

// send sends a request to any node, and waits a little after what is no answer.
func (b *buyer) send(ctx context.Context, p *purchase, credential string) (r reply, node string, err error) {
	n := b.at[b.random.IntN(len(b.at))]
	defer func() {
		if err != nil || r.Status == http.StatusServiceUnavailable {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(50+b.random.IntN(200)) * time.Millisecond):
			}
		}
	}()
	b.tries.Add(1)
	limited, cancel := context.WithTimeout(ctx, hasty)
	defer cancel()
	req, err := http.NewRequestWithContext(limited, http.MethodPost, n.base+p.path, bytes.NewReader([]byte(p.body)))
	if err != nil {
		return r, n.name, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept-Payment", b.accept+"/charge")
	if credential != "" {
		req.Header.Set("Authorization", credential)
	}
	res, err := b.client.Do(req)
	if err != nil {
		return r, n.name, err
	}
	defer res.Body.Close()
	r = reply{Status: res.StatusCode, Header: res.Header}
	if r.Body, err = io.ReadAll(res.Body); err == nil {
		held(n.t, http.MethodPost, p.path, r)
		sentField(receiptField, strings.Join(res.Header.Values(receiptField), ""))
	}
	return r, n.name, err
}
