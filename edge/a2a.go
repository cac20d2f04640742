package edge

import (
	"bytes"
	"encoding/json"

	"github.com/valyala/fasthttp"

	"webring/edge/describe"
)

// agentError is why the agent does not do what it is asked, as the protocol has it.
type agentError struct {
	Code    int         `json:"code"`
	Message string      `json:"message"`
	Data    []agentInfo `json:"data,omitempty"`
}

type agentInfo struct {
	Type   string `json:"@type"`
	Reason string `json:"reason"`
	Domain string `json:"domain"`
}

func agentRefusal(code int, reason, message string) *agentError {
	return &agentError{code, message, []agentInfo{{"type.googleapis.com/google.rpc.ErrorInfo", reason, "a2a-protocol.org"}}}
}

var (
	noTask        = agentRefusal(-32001, "TASK_NOT_FOUND", "There is no such task: this agent answers each message at once.")
	noPush        = agentRefusal(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", "This agent sends no notifications.")
	noOperation   = agentRefusal(-32004, "UNSUPPORTED_OPERATION", "This agent answers each message at once, and has one card.")
	noSuchVersion = agentRefusal(-32009, "VERSION_NOT_SUPPORTED", "Send the field A2A-Version: "+describe.AgentVersion+".")
	noCall        = &agentError{Code: -32600, Message: "The body is not one JSON-RPC 2.0 call."}
	noMethod      = &agentError{Code: -32601, Message: "There is no such method."}
	noMessage     = &agentError{Code: -32602, Message: "params.message must have messageId, role, which is ROLE_USER, and parts."}
)

// agentMethods are the methods that have no more to say: tasks and notifications there are none.
var agentMethods = map[string]*agentError{
	"GetTask": noTask, "CancelTask": noTask, "SubscribeToTask": noOperation, "SendStreamingMessage": noOperation, "GetExtendedAgentCard": noOperation,
	"CreateTaskPushNotificationConfig": noPush, "GetTaskPushNotificationConfig": noPush, "ListTaskPushNotificationConfigs": noPush, "DeleteTaskPushNotificationConfig": noPush,
}

// agentCall is one call of the agent.
type agentCall struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  struct {
		Message struct {
			MessageID string `json:"messageId"`
			ContextID string `json:"contextId"`
			TaskID    string `json:"taskId"`
			Role      string `json:"role"`
			Parts     []struct {
				Data json.RawMessage `json:"data"`
			} `json:"parts"`
		} `json:"message"`
	} `json:"params"`
}

// callAgent answers a call of a client of the A2A protocol: a message that names a tool which reads the
// ring gets its document, and any other one gets words about how to name one. Nothing is kept of
// clients.
//
// Document: the Agent2Agent protocol, version 1.0, "JSON-RPC Protocol Binding".
func (s *Shell) callAgent(ctx *fasthttp.RequestCtx) {
	if !s.mayCall(ctx) {
		return
	}
	end, ok := s.turn(ctx, s.tools)
	if !ok {
		return
	}
	defer end()
	id, result, failed := s.askAgent(ctx)
	answer := map[string]any{"jsonrpc": "2.0", "id": id, "result": result}
	if failed != nil {
		answer = map[string]any{"jsonrpc": "2.0", "id": id, "error": failed}
	}
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false)                   // a document stays as it is
	if err := e.Encode(answer); err != nil { // a document of the core that does not have its form
		s.log.Error("edge: agent", "err", err)
		s.problem(ctx, internal)
		return
	}
	setHeader(ctx, "Cache-Control", "no-store")
	s.countBytes(ctx, body.Len())
	ctx.Response.Header.SetContentType("application/json")
	ctx.Response.SetBodyRaw(body.Bytes())
}

// askAgent gives the result of a call, or why there is none, and its id.
func (s *Shell) askAgent(ctx *fasthttp.RequestCtx) (id json.RawMessage, result any, failed *agentError) {
	var c agentCall
	if err := json.Unmarshal(Body(ctx), &c); err != nil {
		if !json.Valid(Body(ctx)) {
			return nil, nil, &agentError{Code: -32700, Message: "The body is no JSON."}
		}
		return nil, nil, noCall
	}
	if c.JSONRPC != "2.0" || len(c.ID) == 0 || c.ID[0] != '"' && c.ID[0] != '-' && (c.ID[0] < '0' || c.ID[0] > '9') {
		return nil, nil, noCall
	}
	version := string(ctx.Request.Header.Peek("A2A-Version"))
	if version == "" {
		version = string(ctx.QueryArgs().Peek("A2A-Version"))
	}
	m := &c.Params.Message
	refused, known := agentMethods[c.Method]
	switch {
	case version != describe.AgentVersion:
		return c.ID, nil, noSuchVersion
	case known:
		return c.ID, nil, refused
	case c.Method == "ListTasks":
		return c.ID, map[string]any{"tasks": []any{}, "nextPageToken": "", "pageSize": 50, "totalSize": 0}, nil
	case c.Method != "SendMessage":
		return c.ID, nil, noMethod
	case m.MessageID == "" || m.Role != "ROLE_USER" || len(m.Parts) == 0:
		return c.ID, nil, noMessage
	case m.TaskID != "":
		return c.ID, nil, noTask
	}
	part := map[string]any{"text": describe.AgentHelp, "mediaType": "text/plain"}
	for _, p := range m.Parts {
		var call struct {
			Tool      string
			Arguments json.RawMessage
		}
		if p.Data == nil || json.Unmarshal(p.Data, &call) != nil {
			continue
		}
		if doc, reads := s.mcp.Read(ctx, call.Tool, call.Arguments); reads {
			part = map[string]any{"data": json.RawMessage(doc), "mediaType": "application/json"}
			break
		}
	}
	own := string(RequestID(ctx))
	if m.ContextID == "" {
		m.ContextID = own
	}
	return c.ID, map[string]any{"message": map[string]any{"messageId": own, "contextId": m.ContextID, "role": "ROLE_AGENT", "parts": []any{part}}}, nil
}
