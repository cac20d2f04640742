package share

import (
	"context"

	"webring/edge/front"
)

// levels is how many networks an asker is in: itself, and three around it, each wider than
// the one before.
const levels = front.Widths

// weights says for each level as how many clients all of its askers together weigh.
var weights = [levels]int{1, 2, 4, 8}

// Asker is the client that uses up a resource, or a network around it. The zero value is this
// process itself.
type Asker struct {
	client front.Client
	name   string // of one that is no address: it has no networks
}

// AskerOf gives the asker for a client as [front.Client.String] names it, or for any other
// name.
func AskerOf(client string) Asker {
	if c, ok := front.ParseClient(client); ok && c.IsOne() {
		return Asker{client: c}
	}
	return Asker{name: client}
}

// Client is the name that [AskerOf] was given.
func (a Asker) Client() string {
	if a.client.IsOne() {
		return a.client.String()
	}
	return a.name
}

// Network is the /24 or /48 around the client, or the client if it is no address.
func (a Asker) Network() Asker { return a.at(1) }

// Wide is the /16 or /32 around the client, or the client if it is no address.
func (a Asker) Wide() Asker { return a.at(levels - 1) }

func (a Asker) at(level int) Asker { return Asker{a.client.Within(level), a.name} }

// levels is how many networks there are.
func (a Asker) levels() int {
	if a.client.IsOne() {
		return levels
	}
	return 1
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
