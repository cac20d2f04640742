package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"webring/edge/follow"
	"webring/edge/front"
	"webring/edge/voucher"
	"webring/server/ledger/badgerstore"
)

// checkEdge checks what `webring edge` needs with these arguments.
func checkEdge(args []string, out io.Writer) error {
	o, c := new(edgeOptions), &checks{out: out}
	if !c.configuration(o.flags(), args) {
		return c.end()
	}
	if !c.fail("flags", o.validate()) {
		c.ok("flags", "they agree")
	}
	running := false
	if o.data != "" {
		c.folder(o.data, writeFloor)
		running = c.held(o.data)
	}
	c.edgeSecrets(o.edgeSecretFile)
	c.front(&o.shell, o.data, "", running)
	c.core(&o.core)
	if len(o.origins) > 0 && len(o.originKeys) > 0 {
		c.origins(o)
	}
	return c.end()
}

// held reports whether an edge has this folder.
func (c *checks) held(data string) bool {
	lock, err := badgerstore.Lock(data)
	if err == nil {
		lock.Close()
		return false
	}
	if !errors.Is(err, badgerstore.ErrLocked) {
		return false
	}
	c.note("data", "an edge runs on %s", data)
	return true
}

// origins checks each origin. One that cannot be reached is no mistake if another answers.
func (c *checks) origins(o *edgeOptions) {
	var away []string
	for _, url := range o.origins {
		if err := c.origin(o, url); err != nil {
			away = append(away, fmt.Sprintf("--origin %s, --origin-key: %v: correct these, or have the origin answer", url, err))
		}
	}
	for _, why := range away {
		if len(away) < len(o.origins) {
			c.note("origin", "%s", why)
		} else {
			c.fail("origin", errors.New(why))
		}
	}
}

// origin checks that an origin signs with the pinned key and knows the secret. The error is
// of one that cannot be reached.
func (c *checks) origin(o *edgeOptions, url string) error {
	ctx, cancel := waiting()
	defer cancel()
	events, signed, err := follow.Probe(ctx, follow.Config{Origins: []string{url}, Keys: o.originKeys, Dir: replicaPath(o.data)})
	if _, away := errors.AsType[*net.OpError](err); away || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err != nil {
		c.fail("origin", fmt.Errorf("--origin %s, --origin-key: %w: correct these, or have the origin answer", url, err))
		return nil
	}
	c.ok("origin", "%s signs with the pinned key, at %d events", url, events)
	if age := time.Since(signed).Round(time.Second); age > follow.StaleAfter {
		c.note("origin", "its checkpoint is %s old: clocks differ, or the origin stands still", age)
	}
	q := questioner{origin: url, client: &http.Client{Timeout: patience}}
	_, apart, err := q.ask(ctx, nil)
	if c.fail("origin", err) {
		return nil
	}
	const tolerated = voucher.Life - 5*time.Second
	if apart.Abs() > tolerated {
		c.fail("clock", fmt.Errorf("this clock is %s from the origin's, and vouchers count for %s: set the clock", apart.Abs(), voucher.Life))
	} else {
		c.ok("clock", "within %s of the origin's", max(apart.Abs(), time.Second))
	}
	secrets, err := openEdgeSecrets(o.edgeSecretFile)
	if secrets == nil || err != nil {
		return nil // told of before
	}
	switch known, told, err := q.knows(ctx, secrets); {
	case c.fail("edge secret", err):
	case !told:
		c.note("edge secret", "whether the origin knows it cannot be told: its answers name no rate limit")
	case !known:
		c.fail("edge secret", errors.New("the origin does not know the first line of --edge-secret-file: give both the same, the origin first"))
	default:
		c.ok("edge secret", "the origin knows it")
	}
	return nil
}

// questioner asks an origin what its rate limit leaves.
type questioner struct {
	origin string
	client *http.Client
}

// allowance is how many requests an origin takes from a client, and how many of them are
// left: -1 where an answer does not say.
type allowance struct{ limit, left int }

// ask gives what is left, and how far the origin's clock is from this one. vouch adds to
// the request.
func (q *questioner) ask(ctx context.Context, vouch func(*http.Request)) (a allowance, apart time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, q.origin+"/api", nil)
	if err != nil {
		return a, 0, err
	}
	req.Header.Set("Cache-Control", "no-cache")
	if vouch != nil {
		vouch(req)
	}
	res, err := q.client.Do(req)
	if err != nil {
		return a, 0, err
	}
	defer res.Body.Close()
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		apart = time.Since(at).Truncate(time.Second)
	}
	for name, number := range map[string]*int{"RateLimit-Limit": &a.limit, "RateLimit-Remaining": &a.left} {
		if *number, err = strconv.Atoi(res.Header.Get(name)); err != nil {
			*number = -1
		}
	}
	return a, apart, nil
}

// knows reports whether the origin accepts a secret, and whether its answers tell. A
// voucher for a client that never sent a request leaves that client the limit less one. If
// the origin does not accept the voucher, it counts the request for this machine, which
// has sent two before and has less left, of a limit that is higher if it is a proxy that
// the origin trusts.
func (q *questioner) knows(ctx context.Context, secrets *voucher.Secrets) (known, told bool, err error) {
	var own allowance
	for range 2 {
		if own, _, err = q.ask(ctx, nil); err != nil || own.left < 0 {
			return false, false, err
		}
	}
	vouched, _, err := q.ask(ctx, func(r *http.Request) {
		about := voucher.Request{Method: []byte(r.Method), Target: []byte(r.URL.RequestURI())}
		r.Header.Set(voucher.Field, voucher.New(secrets.Current(), time.Now(), nobody().String(), r.URL.Scheme == "https", about))
	})
	return vouched.limit != own.limit || vouched.left > own.left, vouched.left >= 0 && own.left > 0, err
}

// nobody gives a client that sends no requests: an address for documentation (RFC 3849).
func nobody() front.Client {
	at := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	rand.Read(at[4:8]) // never fails
	return front.ClientOf(netip.AddrFrom16(at))
}
