package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"webring/edge/follow"
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
	events, signed, err := follow.Probe(ctx, follow.Config{LinkConfig: follow.LinkConfig{Origins: []string{url}}, Keys: o.originKeys, Dir: replicaPath(o.data)})
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
	secrets, err := openEdgeSecrets(o.edgeSecretFile)
	if err != nil {
		secrets = nil // reported already
	}
	known, apart, err := askOrigin(ctx, url, secrets)
	if c.fail("origin", err) {
		return nil
	}
	const tolerated = voucher.Life - 5*time.Second
	if apart.Abs() > tolerated {
		c.fail("clock", fmt.Errorf("this clock is %s from the origin's, and vouchers count for %s: set the clock", apart.Abs(), voucher.Life))
	} else {
		c.ok("clock", "within %s of the origin's", max(apart.Abs(), time.Second))
	}
	switch {
	case secrets == nil:
	case !known:
		c.fail("edge secret", errors.New("the origin does not know the first line of --edge-secret-file: give both the same, the origin first"))
	default:
		c.ok("edge secret", "the origin knows it")
	}
	return nil
}

// askOrigin reports an empty list of hops to an origin, which refuses it in one way if it knows
// the secret and in another if not. It also gives how far the origin's clock is from this one.
func askOrigin(ctx context.Context, url string, secrets *voucher.Secrets) (known bool, apart time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+hopsPath, nil)
	if err != nil {
		return false, 0, err
	}
	if secrets != nil {
		vouch, err := voucher.ForOwn(secrets)
		if err != nil {
			return false, 0, err
		}
		vouch(req)
	}
	res, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		return false, 0, err
	}
	defer res.Body.Close()
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		apart = time.Since(at).Truncate(time.Second)
	}
	return res.StatusCode == http.StatusUnprocessableEntity, apart, nil
}
