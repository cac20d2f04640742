package mpp

import (
	"bytes"
	"testing"
)

func TestMarksBindTheirWords(t *testing.T) {
	now, before := bytes.Repeat([]byte{1}, MinKey), bytes.Repeat([]byte{2}, MinKey)
	old := Keys{Current: before}.Mark("slug", "host")
	keys := Keys{Current: now, Previous: before, Retired: [][]byte{bytes.Repeat([]byte{3}, MinKey)}}
	good := keys.Mark("slug", "host")
	if len(good) != MarkSize || !keys.Marked(good, "slug", "host") || !keys.Marked(old, "slug", "host") {
		t.Error("a mark does not hold")
	}
	for name, c := range map[string]struct {
		mark  []byte
		words []string
	}{
		"other words":     {good, []string{"slug", "hosts"}},
		"other cuts":      {good, []string{"slugh", "ost"}},
		"fewer words":     {good, []string{"slug"}},
		"a shorter mark":  {good[:MarkSize-1], []string{"slug", "host"}},
		"no mark":         {nil, []string{"slug", "host"}},
		"a retired key's": {Keys{Current: keys.Retired[0]}.Mark("slug", "host"), []string{"slug", "host"}},
	} {
		if keys.Marked(c.mark, c.words...) {
			t.Errorf("%s: the mark holds", name)
		}
	}
	if (Keys{}).Marked(nil, "slug") {
		t.Error("a mark holds without a key")
	}
}
