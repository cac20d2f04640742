package fair

import (
	"context"
	"net/netip"
)

// levels is how many names an asker has: of itself, and of three networks around it, each
// wider than the one before.
const levels = 4

// weights says for each level as how many clients all of its askers together weigh.
var weights = [levels]int{1, 2, 4, 8}

// bits4 and bits6 are how long the prefixes of the networks are.
var bits4, bits6 = [levels - 1]int{24, 20, 16}, [levels - 1]int{48, 40, 32}

// Asker names the client that uses up a resource. The zero value is this process
// itself.
type Asker struct {
	client string
	around [levels - 1]string // networks; empty where there are none
}

// AskerOf gives the asker for a client as the limiter of requests names it: an IPv4
// address, an IPv6 /64, or any other name.
func AskerOf(client string) Asker {
	a := Asker{client: client}
	address, err := netip.ParseAddr(client)
	if err != nil {
		prefix, err := netip.ParsePrefix(client)
		if err != nil {
			return a
		}
		address = prefix.Addr()
	}
	bits := &bits6
	if address.Is4() {
		bits = &bits4
	}
	for i := range a.around {
		network, err := address.Prefix(bits[i])
		if err != nil {
			return Asker{client: client} // an address with a zone
		}
		a.around[i] = network.String()
	}
	return a
}

// Client is the name that [AskerOf] was given.
func (a Asker) Client() string { return a.client }

// Network is the /24 or /48 around the client, or the client's name if it is no
// address.
func (a Asker) Network() string { return a.name(1) }

// Wide is the /16 or /32 around the client, or the client's name if it is no address.
func (a Asker) Wide() string { return a.name(levels - 1) }

// levels is how many names there are.
func (a Asker) levels() int {
	if a.around[0] == "" {
		return 1
	}
	return levels
}

func (a Asker) name(level int) string {
	if level == 0 || a.around[level-1] == "" {
		return a.client
	}
	return a.around[level-1]
}

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
