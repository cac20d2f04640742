package paid

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

func TestTextsAreCleaned(t *testing.T) {
	for _, c := range []struct{ rule, in, want string }{
		{"unchanged", "Acme Agents", "Acme Agents"},
		{"trimmed", " \t\u00a0Acme\u3000\r\n", "Acme"},
		{"NFC", "u\u0308", "ü"},
		{"NFC keeps compatibility characters", "ﬁ①", "ﬁ①"},
		{"control characters go", "A\x00c\x1bm\x7fe\u009f", "Acme"},
		{"format characters go", "\ufeffA\u200bc\u00adm\u202ee\u2066", "Acme"},
		{"what they kept apart composes", "u\u200d\u0308", "ü"},
		{"line break becomes a space", "Acme\nAgents", "Acme Agents"},
		{"one line break is one space", "Acme\r\nAgents \n Co", "Acme Agents  Co"},
		{"line separators too", "Acme\u2028Agents\u2029Co\u0085X", "Acme Agents Co X"},
		{"spaces inside stay", "Acme  Agents\u00a0Co", "Acme  Agents\u00a0Co"},
		{"nothing left", "\u200b \x00\n", ""},
		{"empty", "", ""},
	} {
		if got, ok := cleanText(c.in); !ok || got != c.want {
			t.Errorf("%s: cleanText(%q) = %q, %v, want %q", c.rule, c.in, got, ok, c.want)
		}
	}
	for _, in := range []string{"\xff", "a\xc3", "\xed\xa0\x80"} {
		if got, ok := cleanText(in); ok {
			t.Errorf("cleanText(%q) = %q", in, got)
		}
	}
}

func TestBlankTextsAreNotVisible(t *testing.T) {
	for _, s := range []string{"", " ", "\u3164", "\u115f\u1160", "\uffa0", "\u2800 \u2800", "\ufe0f", "\U000e0100", "\u034f", "\u180b",
		"\u17b4\u17b5", "\u0301", "\u00a0\u3000", "\u2065", "\U0001d159", "\U00013441\U00013442", "\ue000", "\u3164\ufe0f\u2800"} {
		if visible(s) {
			t.Errorf("visible(%+q)", s)
		}
	}
	for _, s := range []string{"a", "7", ".", "\u00e9", "e\u0301", "\U0001f600", "\u2764\ufe0f", "\u3164a", "\u2801", "\ud55c", "\u0e01\u0e34", "\u2211"} {
		if !visible(s) {
			t.Errorf("not visible(%+q)", s)
		}
	}
}

func FuzzCleanText(f *testing.F) {
	for _, s := range []string{" A\u200d\n\u0308 ", "\u2028\u2000\u0344", "\x85\xff", "\u0085 x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once, ok := cleanText(s)
		if ok != utf8.ValidString(s) {
			t.Fatalf("cleanText(%q) = %q, %v", s, once, ok)
		}
		if twice, _ := cleanText(once); twice != once {
			t.Fatalf("cleanText(%q) = %q, then %q", s, once, twice)
		}
		if !norm.NFC.IsNormalString(once) {
			t.Fatalf("cleanText(%q) = %q, not NFC", s, once)
		}
		for _, r := range once {
			if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
				t.Fatalf("cleanText(%q) = %q has %U", s, once, r)
			}
		}
	})
}
