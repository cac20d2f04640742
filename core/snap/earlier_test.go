package snap_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	neturl "net/url"
	"os"
	"path/filepath"
	"testing"

	"webring/core"
	"webring/core/api"
	"webring/core/coretest"
	"webring/core/snap"
)

// earlierHistory is [history] without the events that version 3 did not know.
func earlierHistory(seed uint64) (before *core.State, after []coretest.Step) {
	steps := coretest.Generate(seed, 120)
	before = core.NewState(1000, 1)
	for i, s := range steps {
		switch s.Event.(type) {
		case nil, *core.Claimed, *core.Changed, *core.Moved, *core.Left, *core.Verified, *core.Unverified, *core.Asleep, *core.Awake, *core.Departed, *core.Returned, *core.Lapsed:
			continue
		}
		if i >= len(steps)/2 {
			return before, steps[i:]
		}
		_ = before.Apply(s.EventBytes, s.TextBytes)
	}
	return before, nil
}

// file is a snapshot with a tree of as many events.
func file(st *core.State, snapshot []byte) []byte {
	var tree snap.Tree
	for range st.Seq() {
		tree.Add([]byte("event"))
	}
	return tree.Append(snapshot)
}

// A state from a snapshot of version 3 answers as the one that it was taken of, but for
// members' owners, which are unknown, and goes on to the same digests with any events.
func TestAStateGoesOnFromASnapshotOfTheVersionBefore(t *testing.T) {
	owned := 0
	for seed := range uint64(40) {
		st, after := earlierHistory(seed)
		b := file(st, coretest.Earlier(st))
		if _, _, err := snap.CutFile(b); !errors.Is(err, snap.ErrVersion) {
			t.Fatalf("seed %d: a snapshot of the version before is taken for one of this: %v", seed, err)
		}
		rows, tree, err := snap.CutEarlier(b)
		if err != nil || tree.Size() != st.Seq() {
			t.Fatalf("seed %d: %d events, %v", seed, tree.Size(), err)
		}
		earlier, err := snap.Open(1000, 1, rows, core.Means{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		compare := func(when int) {
			if earlier.Digest() != st.Digest() || earlier.Rows() != st.Rows() {
				t.Fatalf("seed %d, event %d: it has another digest", seed, when)
			}
			for o := range core.Ordinal(st.Rows()) {
				got, want := earlier.Member(o), st.Member(o)
				if got.Owner != want.Owner && got.Owner != (core.Account{}) {
					t.Fatalf("seed %d, event %d: half an owner is shown: %s of %s", seed, when, got.Owner, want.Owner)
				}
				if got.Owner = want.Owner; got != want {
					t.Fatalf("seed %d, event %d: %+v, want %+v", seed, when, got, want)
				}
			}
		}
		compare(-1)
		for o := range core.Ordinal(st.Rows()) {
			if st.Owner(o) != (core.Account{}) {
				owned++
				if earlier.Owner(o) != (core.Account{}) {
					t.Errorf("seed %d: an owner is known as %s", seed, earlier.Owner(o))
				}
			}
		}
		for i, s := range after {
			if s.Event == nil {
				continue
			}
			if got, want := earlier.Apply(s.EventBytes, s.TextBytes), st.Apply(s.EventBytes, s.TextBytes); !errors.Is(got, want) {
				t.Fatalf("seed %d, event %d: %v, want %v", seed, i, got, want)
			}
			compare(i)
		}
		// Who answers for a page goes by the owners.
		var got, want api.Response
		earlier.Advance(st.Base().Stamp/1000 + 1)
		st.Advance(st.Base().Stamp/1000 + 1)
		for o := range core.Ordinal(st.Rows()) {
			if url := st.Member(o).URL; url != "" {
				target := []byte("/api/ring/next?from=" + neturl.QueryEscape(url+"/page"))
				api.Serve(earlier, target, 1, &got)
				api.Serve(st, target, 1, &want)
				if got.Status != want.Status || !bytes.Equal(got.Body, want.Body) {
					t.Errorf("seed %d: %s is answered by %s, not %s", seed, target, got.Body, want.Body)
				}
			}
		}
	}
	if owned == 0 {
		t.Error("no member has an owner")
	}
}

// The bytes are what the version before wrote.
func TestASnapshotOfTheVersionBeforeOpens(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "snapshot3.txt"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil {
		t.Fatal(err)
	}
	r := registered(t)
	if !bytes.Equal(coretest.Earlier(r.State), b) {
		t.Error("tests think of other snapshots of the version before")
	}
	rows, _, err := snap.CutEarlier(file(r.State, b))
	if err != nil {
		t.Fatal(err)
	}
	st, err := snap.Open(10, 1, rows, core.Means{})
	if err != nil || st.Digest() != r.Digest() {
		t.Fatalf("it opens as another state: %v", err)
	}
	for at := range b {
		altered := bytes.Clone(b)
		altered[at] ^= 1
		if rows, _, err := snap.CutEarlier(file(r.State, altered)); err == nil {
			_, err = snap.Open(10, 1, rows, core.Means{})
			if !errors.Is(err, snap.ErrSnapshot) {
				t.Fatalf("altered at %d: %v", at, err)
			}
		}
	}
}

// Whatever the bytes, CutEarlier answers, and what opens of it has the digest that stood in
// the snapshot.
func FuzzCutEarlier(f *testing.F) {
	for seed := range uint64(4) {
		st, _ := earlierHistory(seed)
		f.Add(file(st, coretest.Earlier(st)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rows, _, err := snap.CutEarlier(b)
		if err != nil {
			if !errors.Is(err, snap.ErrSnapshot) {
				t.Fatal(err)
			}
			return
		}
		st, err := snap.Open(100, 1, rows, core.Means{})
		if err != nil {
			return
		}
		if digest := st.Digest(); !bytes.HasPrefix(b[len("webring snapshot 3\n"):], digest[:]) {
			t.Fatalf("it opens with the digest %x", digest)
		}
		if again := snap.Append(nil, st); !bytes.Equal(again, rows) {
			t.Fatalf("two snapshots of one state: %x and %x", rows, again)
		}
		for o := range core.Ordinal(st.Rows()) {
			if owner := st.Owner(o); owner != (core.Account{}) {
				t.Fatalf("an owner is known: %s", owner)
			}
		}
	})
}
