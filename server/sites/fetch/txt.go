package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// maxTXT bounds the records of a name that are looked at.
const maxTXT = 64

// TXT gives the texts that a host publishes in the domain name system under a label of its
// own, in TXT records of label.host; none if it has no such name. A question counts as a
// request to the host's site. Errors are those of [Client.Get].
func (c *Client) TXT(ctx context.Context, label, host string) ([]string, error) {
	u, err := c.target("https://" + host)
	if err != nil {
		return nil, err
	}
	if u.Port() != "" || u.Path != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("%w: more than a host", ErrTarget)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, firstByte, ErrTooSlow)
	defer cancel()
	leave, err := c.limits.enter(bounded, c.counted(u.Hostname()))
	if err != nil {
		return nil, c.public(ctx, err)
	}
	defer leave()
	if err := c.count(bounded, u.Hostname(), nil); err != nil {
		return nil, c.public(ctx, err)
	}
	resolver := c.cfg.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	// The dot at the end keeps the machine's search list out.
	texts, err := resolver.LookupTXT(bounded, label+"."+u.Hostname()+".")
	if none := new(net.DNSError); errors.As(err, &none) && none.IsNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, c.public(ctx, err)
	}
	return texts[:min(len(texts), maxTXT)], nil
}
