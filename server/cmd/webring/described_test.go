package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/edge/describe"
)

// Every answer that the tests of this package get, from whichever layer, is held
// to the OpenAPI document: its status, header fields, media type and body, and
// that the body has no member that the document does not know. The document is
// built here from an empty ring, so that asking for it counts as nobody's
// request; [TestOpenAPIIsThatOfTheBinary] holds the two to be the same.

// described counts the answers that were held to the document.
var described struct {
	operations, problems atomic.Int64
}

var specification = sync.OnceValues(func() (*openapi3.T, error) {
	text, err := specificationText()
	if err != nil {
		return nil, err
	}
	return loadSpecification(text)
})

func specificationText() ([]byte, error) {
	st := core.NewState(10, 1)
	step := coretest.NewStep(&core.Rules{Stamp: 1, Name: "Test", BaseURL: "http://ring.dev", Fee: 100, MinBid: 100, Grace: 1, Decay: 1,
		Networks: []core.Network{{Name: "tempo:42431", Method: "tempo", Currency: "0x20c0000000000000000000000000000000000000"}}, RequiredScore: 40}, nil)
	if err := st.Apply(step.EventBytes, step.TextBytes); err != nil {
		return nil, err
	}
	st.Advance(1)
	for _, d := range describe.Documents() {
		if d.Path == "/openapi.json" {
			return d.Build(describe.NewSource(coreReader{st}, describe.Site{Contact: "mailto:x@ring.dev"}, time.Now()))
		}
	}
	return nil, errors.New("there is no OpenAPI document")
}

type coreReader struct{ st *core.State }

func (r coreReader) Serve(target []byte, a *api.Response) { api.Serve(r.st, target, 0, a) }

// Bodies that are no JSON are held to be what their type says by other tests.
func init() {
	for _, media := range []string{"text/html", "text/javascript", "application/xml", "application/atom+xml", "text/x-opml"} {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.FileBodyDecoder)
	}
	for _, media := range []string{"application/linkset+json", "application/mcp-server-card+json", "application/feed+json"} {
		openapi3filter.RegisterBodyDecoder(media, openapi3filter.JSONBodyDecoder)
	}
}

func loadSpecification(text []byte) (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
}

// held holds an answer to the document.
func held(t *testing.T, method, target string, r reply) {
	t.Helper()
	if r.Header.Get("Content-Encoding") != "" {
		return // a form of what is described
	}
	doc, err := specification()
	if err != nil {
		t.Fatal(err)
	}
	if err := holds(doc, method, target, r); err != nil {
		t.Errorf("%s %.100s: status %d is not as described: %v\n%.300s", method, target, r.Status, err, r.Body)
	}
}

// pageOfAnError reports whether an answer is what people see in place of a problem, where
// the document says that they do.
func pageOfAnError(target, accept string, r reply) bool {
	for _, folder := range []string{"/api", "/mcp", "/log", "/sync"} {
		if rest, ok := strings.CutPrefix(target, folder); ok && (rest == "" || rest[0] == '/' || rest[0] == '?') {
			return false
		}
	}
	return r.Status >= 400 && strings.HasPrefix(accept, "text/html") && r.Header.Get("Content-Type") == "text/html; charset=utf-8" &&
		slices.Contains(r.Header.Values("Vary"), "Accept")
}

func holds(doc *openapi3.T, method, target string, r reply) error {
	asked := method
	if method == http.MethodHead {
		asked = http.MethodGet
	}
	path, item := describedPath(doc, target)
	if item == nil || item.GetOperation(asked) == nil {
		if r.Status < 400 || method == http.MethodHead {
			return nil // a page, or what no operation is
		}
		described.problems.Add(1)
		return holdsProblem(doc, r)
	}
	operation := item.GetOperation(asked)
	if method == http.MethodHead {
		if responseTo(operation, r.Status) == nil || r.Status < 400 && operation.Responses.Status(r.Status) == nil {
			return errors.New("no such status")
		}
		return nil
	}
	if operation.Responses.Default() == nil && operation.Responses.Status(r.Status) == nil {
		// Of published documents the document as a whole says so.
		if r.Status == http.StatusNotModified && r.Header.Get("ETag") != "" {
			return nil
		}
		return holdsProblem(doc, r)
	}
	described.operations.Add(1)
	req, err := http.NewRequest(method, "http://ring.dev"+path, nil)
	if err != nil {
		return err
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req,
			Route: &routers.Route{Spec: doc, Path: path, PathItem: item, Method: method, Operation: operation}},
		Status: r.Status, Header: r.Header, Body: io.NopCloser(bytes.NewReader(r.Body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
	if err != nil {
		return err
	}
	// What all answers of a kind have, the document says once.
	if again := operation.Responses.Status(http.StatusNotModified) != nil || operation.Responses.Default() == nil; again && (r.Status < 300 || r.Status == http.StatusNotModified) && r.Header.Get("ETag") == "" {
		return errors.New("no ETag")
	}
	response := responseTo(operation, r.Status).Value
	media := response.Content.Get(r.Header.Get("Content-Type"))
	if media == nil || media.Schema == nil {
		return nil
	}
	if r.Status >= 400 && r.Header.Get("Content-Type") == "application/problem+json" {
		if err := namesCode(operation.OperationID, r.Body); err != nil {
			return err
		}
	}
	return knows(media.Schema.Value, r.Body)
}

// responseTo is what an operation says of a status, by itself or with all others.
func responseTo(operation *openapi3.Operation, status int) *openapi3.ResponseRef {
	if response := operation.Responses.Status(status); response != nil {
		return response
	}
	return operation.Responses.Default()
}

// codes are those of each operation, by its id.
var codes = sync.OnceValue(func() map[string][]api.Code {
	by := map[string][]api.Code{}
	for _, r := range describe.References(describe.Ring{}, "") {
		by[r.ID] = r.Codes
	}
	return by
})

// namesCode says whether a problem has a code of its operation, or one that any request can
// meet.
func namesCode(operation string, body []byte) error {
	var problem struct{ Code api.Code }
	if err := json.Unmarshal(body, &problem); err != nil {
		return err
	}
	if named := codes()[operation]; !slices.Contains(named, problem.Code) && !slices.Contains(describe.AnyRequest(), problem.Code) {
		return fmt.Errorf("the code %q is not among %v", problem.Code, named)
	}
	return nil
}

// describedPath finds the path of a target, as the document spells it.
func describedPath(doc *openapi3.T, target string) (string, *openapi3.PathItem) {
	u, err := url.Parse(target)
	if err != nil || strings.Contains(strings.ToLower(u.EscapedPath()), "%2f") { // which is no slash
		return "", nil
	}
	if item := doc.Paths.Value(u.Path); item != nil {
		return u.Path, item
	}
	if below, ok := strings.CutPrefix(u.Path, "/api/ring/"); ok {
		slug, rest, deeper := strings.Cut(below, "/")
		path := "/api/ring/{slug}"
		if deeper {
			path += "/" + rest
		}
		if item := doc.Paths.Value(path); item != nil && slug != "" {
			return path, item
		}
	}
	return "", nil
}

// holdsProblem holds an answer that belongs to no operation.
func holdsProblem(doc *openapi3.T, r reply) error {
	if media := r.Header.Get("Content-Type"); media != "application/problem+json" {
		return fmt.Errorf("type %q", media)
	}
	problem := doc.Components.Schemas["Problem"].Value
	var body map[string]any
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return err
	}
	if err := problem.VisitJSON(body, openapi3.EnableJSONSchema2020()); err != nil {
		return err
	}
	if code, _ := body["code"].(string); api.Code(code).Status() != r.Status {
		return fmt.Errorf("%s has another status", code)
	}
	return knows(problem, r.Body)
}

// knows finds members of a JSON body that its schema does not name.
func knows(s *openapi3.Schema, body []byte) error {
	if !json.Valid(body) {
		return nil
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	return unknownMember([]*openapi3.Schema{s}, v, "")
}

func unknownMember(schemas []*openapi3.Schema, v any, at string) error {
	for i := 0; i < len(schemas); i++ { // it grows
		for _, part := range append(append(openapi3.SchemaRefs{}, schemas[i].AllOf...), schemas[i].AnyOf...) {
			schemas = append(schemas, part.Value)
		}
	}
	switch v := v.(type) {
	case []any:
		var items []*openapi3.Schema
		for _, s := range schemas {
			if s.Items != nil {
				items = append(items, s.Items.Value)
			}
		}
		for i, item := range v {
			if err := unknownMember(items, item, fmt.Sprintf("%s/%d", at, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for name, value := range v {
			var known []*openapi3.Schema
			open := false
			for _, s := range schemas {
				if p := s.Properties[name]; p != nil {
					known = append(known, p.Value)
				}
				open = open || s.AdditionalProperties.Schema != nil || len(s.Properties)+len(s.AllOf)+len(s.AnyOf) == 0 && s.Type.Is("object")
			}
			if len(known) == 0 && !open {
				return fmt.Errorf("the member %s/%s is not described", at, name)
			}
			if len(known) == 0 {
				continue // anything may stand there
			}
			if err := unknownMember(known, value, at+"/"+name); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestDescriptionsAreHeld makes sure that answers which are not as described
// are found: everything else rests on it.
func TestDescriptionsAreHeld(t *testing.T) {
	doc, err := specification()
	if err != nil {
		t.Fatal(err)
	}
	header := func(media string) http.Header {
		return http.Header{"Content-Type": {media}, "Api-Version": {"1"}, "X-Request-Id": {"12345678"}, "Etag": {`"x"`}}
	}
	list := `{"count":0,"categories":[]}`
	if err := holds(doc, "GET", "/api/categories", reply{200, header("application/json"), []byte(list)}); err != nil {
		t.Fatal(err)
	}
	bare := header("application/json")
	bare.Del("ETag")
	problem := `{"type":"http://ring.dev/problems/x","title":"T","status":404,"detail":"D","code":"%s"}`
	for name, c := range map[string]struct {
		target string
		r      reply
	}{
		"a status":             {"/api/categories", reply{418, header("application/json"), []byte(list)}},
		"a type":               {"/api/categories", reply{200, header("text/plain"), []byte(list)}},
		"a missing member":     {"/api/categories", reply{200, header("application/json"), []byte(`{"count":0}`)}},
		"a wrong type":         {"/api/categories", reply{200, header("application/json"), []byte(`{"count":"0","categories":[]}`)}},
		"a member too many":    {"/api/categories", reply{200, header("application/json"), []byte(`{"count":0,"categories":[],"more":1}`)}},
		"one inside":           {"/api/widget", reply{200, header("application/json"), []byte(`{"ring":{"name":"","url":"http://a.dev","count":0,"more":1},"member":null,"prev":null,"next":null,"links":{}}`)}},
		"a missing field":      {"/api/categories", reply{200, bare, []byte(list)}},
		"a code elsewhere":     {"/api/ring/x", reply{404, header("application/problem+json"), fmt.Appendf(nil, problem, "empty_ring")}},
		"a code of no status":  {"/nowhere", reply{404, header("application/problem+json"), fmt.Appendf(nil, problem, "internal")}},
		"an unknown code":      {"/nowhere", reply{404, header("application/problem+json"), fmt.Appendf(nil, problem, "oops")}},
		"a page for a problem": {"/nowhere", reply{404, header("text/html"), []byte("no")}},
	} {
		if holds(doc, "GET", c.target, c.r) == nil {
			t.Errorf("%s that is not described is not found", name)
		}
	}
}

// TestOpenAPIIsThatOfTheBinary holds that the document to which answers are held
// is the one that the binary publishes.
func TestOpenAPIIsThatOfTheBinary(t *testing.T) {
	t.Parallel()
	o := start(t, "--contact", "mailto:x@ring.dev")
	r := o.get("/openapi.json")
	if _, err := loadSpecification(r.Body); err != nil {
		t.Fatal(err)
	}
	if len(r.Body) > 64<<10 {
		t.Errorf("%d bytes", len(r.Body))
	}
	o.fields(r, "Content-Type", "application/json", "Cache-Control", "public, max-age=300")
	// The program has one version, for every caller.
	said, err := invoke(t, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	hello := o.send("POST", "/mcp", []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`), "Content-Type", "application/json")
	for by, version := range map[string]any{"OpenAPI": at(t, value(t, r.Body), "info", "version"), "the MCP server": at(t, value(t, hello.Body), "result", "serverInfo", "version"),
		"its card": at(t, o.get("/mcp/server-card").document(t), "version")} {
		if !strings.HasPrefix(string(said), fmt.Sprintf("webring %s, ", version)) {
			t.Errorf("%s says %v, and the program %s", by, version, said)
		}
	}
	built, err := specificationText()
	if err != nil {
		t.Fatal(err)
	}
	var theirs, ours map[string]any
	if err := json.Unmarshal(r.Body, &theirs); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(built, &ours); err != nil {
		t.Fatal(err)
	}
	for path, item := range at(t, theirs, "paths").(map[string]any) {
		for method, operation := range item.(map[string]any) {
			for _, part := range []string{"responses", "parameters"} {
				want, _ := json.Marshal(at(t, ours, "paths", path, method).(map[string]any)[part])
				if got, _ := json.Marshal(operation.(map[string]any)[part]); !bytes.Equal(got, want) {
					t.Errorf("%s %s: %s differ:\n%s\n%s", method, path, part, got, want)
				}
			}
		}
	}
	if got, want := len(at(t, theirs, "paths").(map[string]any)), len(at(t, ours, "paths").(map[string]any)); got != want {
		t.Errorf("%d paths, want %d", got, want)
	}
	for _, part := range []string{"schemas", "responses", "headers", "parameters"} {
		want, _ := json.Marshal(at(t, ours, "components", part))
		if got, _ := json.Marshal(at(t, theirs, "components", part)); !bytes.Equal(got, want) {
			t.Errorf("the %s differ", part)
		}
	}
}
