package abi_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"webring/core"
	"webring/core/abi"
	"webring/core/api"
	"webring/core/coretest"
)

func targets(t testing.TB, all ...string) (in []byte, list [][]byte) {
	for _, target := range all {
		var ok bool
		if in, ok = abi.AppendTarget(in, []byte(target)); !ok {
			t.Fatalf("%d bytes are too long a target", len(target))
		}
		list = append(list, []byte(target))
	}
	return in, list
}

// Several targets in one call get what each gets in a call of its own, spelt as responses are.
func TestSeveralTargetsAreAnsweredLikeEach(t *testing.T) {
	c := opened(t)
	in, list := targets(t, "/api", "", "/api/ring?limit=1", "/next", "/api/ring?limit=2&offset=1", "/random", "/nothing",
		"/api/leaderboard", "/api/ring/random", "/"+strings.Repeat("x", 5000), "/api/widget?from=nobody", "/api")
	reply := do(t, c, abi.OpServeAll, 7, in)
	through, direct := make([]api.Response, len(list)), make([]api.Response, len(list))
	if !abi.DecodeResponses(reply.Rest, through) {
		t.Fatalf("%d bytes are no responses", len(reply.Rest))
	}
	c.ServeAll(list, 7, direct)
	var want []byte
	for i, target := range list {
		var one api.Response
		c.Serve(target, 7, &one)
		want = binary.LittleEndian.AppendUint32(want, uint32(len(encoded(&one))))
		want = append(want, encoded(&one)...)
		if got, ok := abi.DecodeReply(c.Call(abi.OpServe, 7, target)); !ok || got.Seq != one.Seq || !bytes.Equal(got.Rest, encoded(&one)) {
			t.Errorf("%.40q is answered by %x, and its response is %x", target, got.Rest, encoded(&one))
		}
		through[i].Seq = reply.Seq
		if !reflect.DeepEqual(shown(&through[i]), shown(&one)) || !reflect.DeepEqual(shown(&direct[i]), shown(&one)) {
			t.Errorf("%.40q: %v by a call, %v directly, %v alone", target, shown(&through[i]), shown(&direct[i]), shown(&one))
		}
	}
	if !bytes.Equal(reply.Rest, want) {
		t.Errorf("%d bytes are not the %d wanted", len(reply.Rest), len(want))
	}
	if r := do(t, c, abi.OpServeAll, 7, nil); len(r.Rest) != 0 || !abi.DecodeResponses(r.Rest, nil) {
		t.Errorf("no target gets %x", r.Rest)
	}
}

// Records that were applied show in what is answered next, ranks included.
func TestSeveralTargetsAreAnsweredAtTheHead(t *testing.T) {
	calls, direct := abi.New(0, 1), abi.New(10, 1)
	do(t, calls, abi.OpOpen, 10, nil)
	in, list := targets(t, "/api/leaderboard", "/api/ring")
	for _, s := range coretest.Generate(3, 40) {
		if s.Event == nil {
			continue
		}
		calls.Call(abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: s.EventBytes, Texts: s.TextBytes}))
		_ = direct.Apply(s.EventBytes, s.TextBytes)
		direct.Advance(0)
		got, want := make([]api.Response, len(list)), make([]api.Response, len(list))
		if !abi.DecodeResponses(do(t, calls, abi.OpServeAll, 0, in).Rest, got) {
			t.Fatal("no responses")
		}
		direct.ServeAll(list, 0, want)
		for i := range got {
			if !bytes.Equal(got[i].Body, want[i].Body) {
				t.Fatalf("at %d, %s: %s, want %s", direct.Seq(), list[i], got[i].Body, want[i].Body)
			}
		}
	}
}

func TestSeveralTargetsAreBounded(t *testing.T) {
	if _, ok := abi.AppendTarget(nil, make([]byte, 1<<16)); ok {
		t.Error("a target of 64 KiB was taken")
	}
	const members = 500
	c := abi.New(0, 1)
	do(t, c, abi.OpOpen, members, nil)
	r := coretest.NewRing(t)
	for i := range members {
		r.Join(fmt.Sprintf("m-%d", i), fmt.Sprintf("https://m%d.example/", i), func(e *core.Joined, texts *core.Texts) {
			texts.Description.Value = strings.Repeat("\x7f", core.MaxDescription)
		})
	}
	for _, step := range r.Steps {
		do(t, c, abi.OpApply, 0, abi.AppendRecord(nil, abi.Record{Event: step.EventBytes, Texts: step.TextBytes}))
	}
	in, _ := targets(t, slices.Repeat([]string{"/api/ring?limit=500"}, abi.MaxTargets)...)
	reply, ok := abi.DecodeReply(c.Call(abi.OpServeAll, 0, in))
	if !ok || !reply.Refused || string(reply.Rest) != "abi: the answers are too long" {
		t.Errorf("%d documents of 500 members: refused %t, %d bytes", abi.MaxTargets, reply.Refused, len(reply.Rest))
	}
	some := in[:10*(len(in)/abi.MaxTargets)]
	if r := do(t, c, abi.OpServeAll, 0, some); !abi.DecodeResponses(r.Rest, make([]api.Response, 10)) {
		t.Error("ten of them are no responses")
	}
}

// What is read as responses is their one spelling.
func FuzzDecodeResponses(f *testing.F) {
	c := opened(f)
	in, list := targets(f, "/api/ring?limit=2", "/next", "/nothing")
	b := do(f, c, abi.OpServeAll, 1, in).Rest
	f.Add(b, uint8(len(list)))
	f.Add(b, uint8(2))
	f.Add(b[:len(b)-1], uint8(len(list)))
	f.Add([]byte{255, 255, 255, 255}, uint8(1))
	f.Add([]byte(nil), uint8(0))
	one := func(b []byte) { f.Add(append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...), uint8(1)) }
	r := api.Response{Status: 200, Body: []byte("body"), Next: []byte("next")}
	elsewhere := encoded(&r)
	one(encoded(&r))
	elsewhere[24] = 1 // an empty location
	one(elsewhere)
	r.Location = r.Body[1:3]
	one(encoded(&r))
	r.Location = []byte("location")
	one(encoded(&r))
	one(binary.LittleEndian.AppendUint32(make([]byte, 40), 1<<31))
	f.Fuzz(func(t *testing.T, b []byte, n uint8) {
		all := make([]api.Response, n)
		if !abi.DecodeResponses(b, all) {
			return
		}
		var back []byte
		for i := range all {
			one := encoded(&all[i])
			back = append(binary.LittleEndian.AppendUint32(back, uint32(len(one))), one...)
		}
		if !bytes.Equal(back, b) {
			t.Errorf("%x is read as %d responses and written as %x", b, n, back)
		}
	})
}
