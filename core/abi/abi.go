package abi

import (
	"webring/core"
	"webring/core/api"
	"webring/core/snap"
)

// Response is what [Core.Serve] writes; see [api.Response].
type Response = api.Response

// Validity is part of a [Response]; see [api.Validity].
type Validity = api.Validity

// Timed is [api.Timed].
const Timed = api.Timed

// Record is one entry of the ledger; see [snap.Record].
type Record = snap.Record

// Core is a state and the functions by which a host drives it. It has one
// owner: any number of calls to Serve may run at a time, but none during a call
// that changes the state.
//
// The functions below are for hosts that share its memory; [Core.Call] is the
// same for hosts that do not.
type Core struct {
	state *core.State

	settled bool // ranks are up to date after what Call did

	// Of Call alone: its buffers.
	records []Record
	loader  *snap.Loader // nil while no snapshot is being loaded
	room    []byte       // for the memory of an image
	reply   []byte
	each    Response // of OpServeAll

	// Of Answer alone: the reply to OpServe, in which the body of response lies, and
	// whether the header of that reply is up to date.
	ready    bool
	response Response
	answer   []byte
}

// New gives the core of an empty ledger, in which no more than capacity members
// can ever join. secret are 64 random bits that strangers do not know; see
// [core.NewState].
func New(capacity int, secret uint64) *Core {
	return &Core{state: core.NewState(capacity, secret)}
}

// Apply folds the next record of the ledger into the state. On an error, which
// says why, the state is as it was; see [core.State.Apply]. Nothing may be
// served until the next Advance or Rewind.
func (c *Core) Apply(event, texts []byte) error { return c.state.Apply(event, texts) }

// Advance brings the clock to second, in whole seconds since 1970, UTC, unless
// it is there already, and all that depends on the clock with it.
func (c *Core) Advance(second int64) { c.state.Advance(second) }

// Rewind sets the clock back to second, but not before the last event.
func (c *Core) Rewind(second int64) { c.state.Rewind(second) }

// Serve answers a GET for target, the request target as it was sent; random are 64
// uniformly random bits. See [api.Serve].
func (c *Core) Serve(target []byte, random uint64, r *Response) {
	api.Serve(c.state, target, random, r)
}

// ServeAll answers a GET for each of the targets, at one position and second, into
// the response in the same place; random are 64 uniformly random bits for all. It may
// run at the same time as Serve.
func (c *Core) ServeAll(targets [][]byte, random uint64, all []Response) {
	for i, target := range targets {
		c.Serve(target, random, &all[i])
	}
}

// Digest gives 128 bits over all that the records applied determine, and their
// number; see [core.State.Digest]. Nothing else may run at the same time.
func (c *Core) Digest() (seq uint64, digest [16]byte) { return c.state.Seq(), c.state.Digest() }

// Seq is the number of records applied.
func (c *Core) Seq() uint64 { return c.state.Seq() }

// Second is the clock: what Serve answers for.
func (c *Core) Second() int64 { return c.state.Clock() }

// Last is the second of the last event; the clock is never before it.
func (c *Core) Last() int64 { return c.state.LastStamp() / 1000 }

// BaseURL is what every link in a document begins with, without a slash at its
// end. It is empty before the first record.
func (c *Core) BaseURL() string {
	if r := c.state.Rules(); r != nil {
		return r.BaseURL
	}
	return ""
}
