package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// ownID is the id under which the SDK answers a call. It reads numbers as float64 and cuts
// them to int64, so it never sees the id of a client.
const ownID = "1"

// takeID takes the id out of a message and puts ownID in its place. It fails for what is no
// object, and for an object that names an id twice. Without an id that is a string or a
// number the message stays as it is.
func takeID(message []byte) (id, rest []byte, err error) {
	at, end, err := findID(message)
	if err != nil || at == end {
		return nil, message, err
	}
	switch id = message[at:end]; {
	case id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9':
		return id, slices.Concat(message[:at], []byte(ownID), message[end:]), nil
	}
	return nil, message, nil
}

// giveID puts the id of a call, if it has one, into the answer to it, byte for byte.
func giveID(answer, id []byte) []byte {
	const begins = `{"jsonrpc":"2.0","id":`
	rest, ok := bytes.CutPrefix(answer, []byte(begins+ownID))
	if !ok || id == nil {
		return answer
	}
	return slices.Concat([]byte(begins), id, rest)
}

// findID gives where the value of the member id is in an object, an empty place if there is
// none.
func findID(object []byte) (at, end int, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if brace, err := d.Token(); err != nil || brace != json.Delim('{') {
		return 0, 0, errors.New("mcp: no object")
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err == nil {
			err = d.Decode(&value)
		}
		switch {
		case err != nil:
			return 0, 0, err
		case name == "id" && end > 0:
			return 0, 0, errors.New("mcp: two ids")
		case name == "id":
			end = int(d.InputOffset())
			at = end - len(value)
		}
	}
	return at, end, nil
}

// decodeName decodes the field Mcp-Name from the form for words that a field cannot carry.
//
// Document: SEP-2243 of the Model Context Protocol.
func decodeName(fields http.Header) {
	word, coded := strings.CutPrefix(fields.Get("Mcp-Name"), "=?base64?")
	word, ended := strings.CutSuffix(word, "?=")
	if name, err := base64.StdEncoding.DecodeString(word); coded && ended && err == nil {
		fields.Set("Mcp-Name", string(name))
	}
}

// A batch has at most so many messages, and so many bytes of answers: what then comes is
// refused, and can be sent by itself.
const (
	maxBatch        = 16
	maxBatchAnswers = 1 << 20
)

// noBatches is the revision of the protocol since which there are no batches.
const noBatches = "2025-06-18"

// IsBatch says that a body is a batch.
func IsBatch(body []byte) bool {
	text := bytes.TrimLeft(body, " \t\r\n")
	return len(text) > 0 && text[0] == '['
}

// Messages says how many messages a body has, each of which costs as much as a request. A
// batch that will be refused counts as one.
func Messages(body []byte) int {
	var all []json.RawMessage
	if !IsBatch(body) || json.Unmarshal(body, &all) != nil || len(all) > maxBatch {
		return 1
	}
	return max(len(all), 1)
}

// batch answers the messages of a batch one after the other, by an array of what the calls in
// it are answered.
//
// Documents: JSON-RPC 2.0, "Batch"; the Model Context Protocol, revision 2025-03-26.
func (s *Server) batch(ctx context.Context, fields http.Header, body []byte, from Sender) (Answer, error) {
	if fields.Get("Mcp-Protocol-Version") >= noBatches {
		return Answer{}, &MessageError{"Batches are not supported since revision " + noBatches + ". Send one message."}
	}
	var all []json.RawMessage
	if json.Unmarshal(body, &all) != nil || len(all) == 0 || len(all) > maxBatch {
		return Answer{}, &MessageError{"A batch is an array of 1 to 16 JSON-RPC messages."}
	}
	answers := []byte("[")
	for _, one := range all {
		answer := s.inBatch(ctx, fields.Clone(), one, len(answers) > maxBatchAnswers, from)
		if len(answer) > 0 && len(answers) > 1 {
			answers = append(answers, ',')
		}
		answers = append(answers, answer...)
	}
	if len(answers) == 1 {
		return Answer{Status: http.StatusAccepted}, nil
	}
	return Answer{http.StatusOK, "application/json", append(answers, ']')}, nil
}

// inBatch answers one message of a batch. What is refused as a whole elsewhere is a JSON-RPC
// error here, and so is a fault: what was paid before it in the batch must be told.
func (s *Server) inBatch(ctx context.Context, fields http.Header, message []byte, full bool, from Sender) []byte {
	var call struct{ Method string }
	_ = json.Unmarshal(message, &call)
	var refused *MessageError
	code := jsonrpc.CodeInvalidRequest
	switch {
	case call.Method == "initialize":
		refused = &MessageError{"initialize is not sent in a batch."}
	case full:
		refused = &MessageError{"The answers of this batch are too long. Send this message alone."}
	default:
		a, err := s.one(ctx, fields, message, from)
		if err == nil {
			return a.Body
		}
		if !errors.As(err, &refused) {
			s.log.Error("mcp: a message of a batch", "err", err)
			refused, code = &MessageError{"The message failed here. It is not your fault. Try again later."}, jsonrpc.CodeInternalError
		}
	}
	id, _, err := takeID(message)
	if err == nil && id == nil && call.Method != "" {
		return nil // a notification has no answer
	}
	why, err := json.Marshal(refused.Detail)
	if err != nil {
		panic(err) // a string can be encoded
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, cmp.Or(string(id), "null"), code, why)
}
