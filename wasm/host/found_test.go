package host

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	"webring/core/abi"
	"webring/core/coretest"
)

// found gives every text and byte string in the corpora of the core's fuzz
// targets: what fuzzing once failed with, and what took it somewhere new.
func found(t *testing.T) (inputs [][]byte) {
	t.Helper()
	core := os.DirFS("../../core")
	err := fs.WalkDir(core, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || !strings.Contains(path.Dir(name), "testdata/fuzz/") {
			return err
		}
		text, err := fs.ReadFile(core, name)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		if lines[0] != "go test fuzz v1" {
			t.Fatalf("%s is no input of a fuzz target", name)
		}
		for _, line := range lines[1:] {
			value, err := parser.ParseExpr(line)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			// A conversion: []byte("…"), string("…"), or one of a number.
			literal, ok := value.(*ast.CallExpr).Args[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				continue
			}
			input, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			inputs = append(inputs, []byte(input))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return inputs
}

// foundCalls gives each input to everything that takes bytes, whichever target
// it was found for: as a target and as a part of one, as records, as an event,
// as the texts beside one, and as a snapshot.
func foundCalls(inputs [][]byte) (calls []call) {
	s := &script{Asker: coretest.Asker{Rand: rand.New(rand.NewPCG(1, 1))}}
	s.call(abi.OpOpen, capacity, nil)
	var joining []byte // the next registration, which is not applied
	for _, step := range coretest.Generate(0, scriptLength) {
		if step.Event == nil {
			s.call(abi.OpAdvance, uint64(step.Now), nil)
		} else if step.Texts != nil && len(s.calls) > scriptLength/2 {
			joining = step.EventBytes
			break
		} else {
			s.call(abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: step.EventBytes, Texts: step.TextBytes}))
		}
	}
	for i, in := range inputs {
		s.call(abi.OpServe, uint64(i), in)
		s.call(abi.OpServe, uint64(i), []byte("/api/ring/"+string(in)))
		s.call(abi.OpServe, uint64(i), []byte("/api/ring/next?from="+url.QueryEscape(string(in))))
		s.call(abi.OpApply, 0, in)
		s.call(abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: in}))
		s.call(abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: joining, Texts: in}))
		s.call(abi.OpDigest, 0, nil)
	}
	for _, in := range inputs {
		s.load(in)
		s.call(abi.OpServe, 0, []byte("/api/ring"))
	}
	return s.calls
}
