package fair

import (
	"context"
	"net/netip"
)

// Asker names the client that uses up a resource. The zero value is this process
// itself.
type Asker struct {
	client  string
	network string // around the client; the client itself where there is none
}

// AskerOf gives the asker for a client as the limiter of requests names it: an IPv4
// address, an IPv6 /64, or any other name.
func AskerOf(client string) Asker {
	address, err := netip.ParseAddr(client)
	if err != nil {
		prefix, err := netip.ParsePrefix(client)
		if err != nil {
			return Asker{client, client}
		}
		address = prefix.Addr()
	}
	bits := 48
	if address.Is4() {
		bits = 24
	}
	network, err := address.Prefix(bits)
	if err != nil {
		return Asker{client, client}
	}
	return Asker{client, network.String()}
}

// Client is the name that [AskerOf] was given.
func (a Asker) Client() string { return a.client }

// Network is the /24 or /48 around the client, or the client's name if it is no
// address.
func (a Asker) Network() string { return a.network }

type contextKey struct{}

// NewContext gives a context for work that is done for an asker.
func NewContext(ctx context.Context, a Asker) context.Context {
	return context.WithValue(ctx, contextKey{}, a)
}

// FromContext gives the asker of [NewContext], or the zero value.
func FromContext(ctx context.Context) Asker {
	a, _ := ctx.Value(contextKey{}).(Asker)
	return a
}
