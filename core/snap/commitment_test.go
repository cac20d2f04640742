package snap

import (
	"crypto/sha256"
	"errors"
	"testing"

	"webring/core"
)

func registration() (*core.Joined, *core.Texts) {
	e := &core.Joined{Stamp: 1, Slug: "ada", Kind: core.Website, Category: "general", Fee: 100}
	t := &core.Texts{
		Name: core.Text{Salt: [16]byte{1}, Value: "Ada"},
		URL:  core.Text{Salt: [16]byte{2}, Value: "https://ada.org"},
	}
	return e, t
}

func encode(t *testing.T, e core.Event) []byte {
	t.Helper()
	b, err := core.AppendEvent(nil, e)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCommitmentIsHashOfSaltThenText(t *testing.T) {
	salt := [16]byte{15: 7}
	want := sha256.Sum256([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07Ada"))
	if got := Commit(salt, "Ada"); got != want {
		t.Errorf("Commit = %x, want %x", got, want)
	}
	if salt != ([16]byte{15: 7}) {
		t.Error("Commit changed the salt")
	}
}

func TestVerify(t *testing.T) {
	e, texts := registration()
	Seal(e, texts)
	if e.Description.Given() || e.Report.Given() {
		t.Fatal("a text that was not given has a commitment")
	}
	event, right := encode(t, e), core.AppendTexts(nil, texts)

	change := func(f func(*core.Texts)) []byte {
		other := *texts
		f(&other)
		return core.AppendTexts(nil, &other)
	}
	changed := &core.Changed{Stamp: 1, Member: "ada", Kind: core.Agent}
	words := &core.Texts{Description: core.Text{Salt: [16]byte{3}, Value: "Of the engine"}}
	Seal(changed, words)
	if changed.Name.Given() || !changed.Description.Given() {
		t.Fatal("another text of a change has a commitment")
	}
	named := *words
	named.Name = texts.Name
	bare := encode(t, &core.Changed{Stamp: 1, Member: "ada", Kind: core.Agent})
	moved := &core.Moved{Stamp: 1, Member: "ada"}
	Seal(moved, &core.Texts{URL: texts.URL})
	bid := encode(t, &core.Bid{Stamp: 1, Member: "ada", Amount: 100})
	for _, c := range []struct {
		name         string
		event, texts []byte
		want         error
	}{
		{"as committed", event, right, nil},
		{"redacted", event, nil, nil},
		{"other name", event, change(func(t *core.Texts) { t.Name.Value = "Bob" }), ErrCommitment},
		{"other salt", event, change(func(t *core.Texts) { t.URL.Salt[0]++ }), ErrCommitment},
		{"text never given", event, change(func(t *core.Texts) { t.Report.Value = "https://r.org" }), ErrCommitment},
		{"text missing", event, change(func(t *core.Texts) { t.URL.Value = "" }), ErrCommitment},
		{"malformed texts", event, right[:len(right)-1], core.ErrTexts},
		{"a change", encode(t, changed), core.AppendTexts(nil, words), nil},
		{"a change that was redacted", encode(t, changed), nil, nil},
		{"a change with a name never given", encode(t, changed), core.AppendTexts(nil, &named), ErrCommitment},
		{"a change of no words with words", bare, core.AppendTexts(nil, words), ErrCommitment},
		{"a change of no words with empty ones", bare, core.AppendTexts(nil, &core.Texts{}), ErrCommitment},
		{"a move", encode(t, moved), core.AppendTexts(nil, &core.Texts{URL: texts.URL}), nil},
		{"a move with a name", encode(t, moved), core.AppendTexts(nil, &core.Texts{URL: texts.URL, Name: texts.Name}), ErrCommitment},
		{"bid without texts", bid, nil, nil},
		{"bid with texts", bid, right, ErrCommitment},
		{"malformed event", event[:5], right, core.ErrEvent},
	} {
		if err := Verify(c.event, c.texts); !errors.Is(err, c.want) {
			t.Errorf("%s: Verify = %v, want %v", c.name, err, c.want)
		}
	}
}

// Whatever the bytes, Verify answers, and it accepts no texts but the ones
// committed to.
func FuzzVerify(f *testing.F) {
	e, texts := registration()
	Seal(e, texts)
	event, err := core.AppendEvent(nil, e)
	if err != nil {
		f.Fatal(err)
	}
	right := core.AppendTexts(nil, texts)
	f.Add(event, right)
	f.Add(event, []byte(nil))
	f.Fuzz(func(t *testing.T, ev, tx []byte) {
		if Verify(ev, tx) == nil && string(ev) == string(event) && len(tx) > 0 && string(tx) != string(right) {
			t.Fatalf("accepted other texts: %x", tx)
		}
	})
}
