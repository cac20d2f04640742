package describe

import (
	"encoding/json"

	"github.com/gowebpki/jcs"
)

// Request is a call of a tool as a request over HTTP.
type Request struct {
	Method, Target string
	// Body is canonical JSON (RFC 8785): the same arguments are the same bytes, in
	// whichever order and spelling they come. A challenge binds the body, and an agent may
	// write its arguments anew before it pays.
	Body           []byte
	IdempotencyKey string // "" for none
}

// Request gives the request of a call of a tool that sends one. The values of the body are
// checked by who answers it, so that both ways refuse alike. It refuses with an
// *[ArgumentError] or [ErrNoMember].
func (t *Tool) Request(arguments json.RawMessage) (Request, error) {
	r := Request{Method: t.op.Method}
	given, err := readArguments(arguments)
	if err != nil {
		return r, err
	}
	if r.Target, err = t.target(given); err != nil {
		return r, err
	}
	if t.Changes() {
		if r.IdempotencyKey, err = take(given, keyArgument, "string"); err != nil {
			return r, err
		}
	}
	if t.op.body == "" {
		err = unknown(given)
	}
	if err != nil {
		return r, err
	}
	rest, err := json.Marshal(given)
	if err == nil {
		r.Body, err = jcs.Transform(rest)
	}
	return r, err
}
