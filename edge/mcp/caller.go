package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"webring/edge/describe"
)

// Ask sends a request that only the origin answers, with the values of its Authorization
// fields, and gives the answer. It bounds how long that takes.
type Ask func(r describe.Request, authorization []string) *Reply

// Reply is an answer over HTTP to a request of an [Ask].
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

// caller is what a message says to a tool besides its arguments.
type caller struct {
	ask         Ask
	sends       bool // the message calls a tool that sends
	modern      bool // it follows the revision 2026-07-28 or a later one
	credentials []json.RawMessage
}

type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	c, _ := ctx.Value(callerKey{}).(*caller)
	return c
}

// stateless is the revision of the protocol since which there are no sessions.
const stateless = "2026-07-28"

var sending = func() (names []string) {
	for _, t := range describe.Tools() {
		if t.Sends() {
			names = append(names, t.Name)
		}
	}
	return names
}()

// newCaller reads the metadata of a message as it was sent: the SDK does not keep what
// is next to params, nor the spelling of a credential.
func newCaller(fields http.Header, body []byte, ask Ask) *caller {
	c := &caller{ask: ask, modern: fields.Get("Mcp-Protocol-Version") >= stateless}
	params := member(body, "params")
	var method, name string
	_ = json.Unmarshal(member(body, "method"), &method)
	_ = json.Unmarshal(member(params, "name"), &name)
	if c.sends = method == "tools/call" && slices.Contains(sending, name); !c.sends {
		return c
	}
	// MPP has it in params for MCP, and next to params for any JSON-RPC.
	for _, at := range [...]json.RawMessage{params, body} {
		if found := member(member(at, "_meta"), credentialKey); len(found) > 0 {
			c.credentials = append(c.credentials, found)
		}
	}
	return c
}

// member gives a member of an object by its exact name, nil if there is none.
func member(object json.RawMessage, name string) json.RawMessage {
	var members map[string]json.RawMessage
	if json.Unmarshal(object, &members) != nil {
		return nil
	}
	return members[name]
}
