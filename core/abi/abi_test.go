package abi_test

import (
	"bytes"
	"testing"

	"webring/core"
	"webring/core/abi"
	"webring/core/api"
	"webring/core/coretest"
)

// The entry adds nothing of its own: through it, a history gives the answers
// that it gives without it.
func TestTheEntryIsTransparent(t *testing.T) {
	for seed := range uint64(20) {
		through, direct := abi.New(1000, 1), core.NewState(1000, 1)
		for _, s := range coretest.Generate(seed, 60) {
			if s.Event == nil {
				through.Advance(s.Now)
				direct.Advance(s.Now)
				continue
			}
			a, b := through.Apply(s.EventBytes, s.TextBytes), direct.Apply(s.EventBytes, s.TextBytes)
			if (a == nil) != (b == nil) {
				t.Fatalf("seed %d: %v, %v", seed, a, b)
			}
		}
		through.Rewind(direct.LastStamp() / 1000)
		direct.Rewind(direct.LastStamp() / 1000)
		if through.Seq() != direct.Seq() || through.Second() != direct.Clock() || through.BaseURL() != direct.Rules().BaseURL {
			t.Errorf("seed %d: %d at %d, %q", seed, through.Seq(), through.Second(), through.BaseURL())
		}
		for _, target := range []string{"/api", "/api/ring", "/api/leaderboard", "/random", "/api/widget", "/nowhere"} {
			var a, b api.Response
			through.Serve([]byte(target), 1<<63|seed, &a)
			api.Serve(direct, []byte(target), 1<<63|seed, &b)
			if a.Status != b.Status || !bytes.Equal(a.Body, b.Body) || !bytes.Equal(a.Location, b.Location) || a.Since != b.Since || a.Until != b.Until {
				t.Errorf("seed %d: %s: %d %.80s, %d %.80s", seed, target, a.Status, a.Body, b.Status, b.Body)
			}
		}
	}
}

func TestAnEmptyLedgerHasNoBaseURL(t *testing.T) {
	if base := abi.New(1, 1).BaseURL(); base != "" {
		t.Errorf("%q", base)
	}
}
