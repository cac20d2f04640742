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
		{"what is never drawn goes", "A\u034fc\u3164m\ufe0fe\u115f\u1160\uffa0\u17b4\u180b\u2065\ufff0\U000e0100", "Acme"},
		{"and what it kept apart composes", "u\u034f\u0308", "ü"},
		{"nothing left but that", "\u3164 \u115f", ""},
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

// ignorable are the ranges of Default_Ignorable_Code_Point in DerivedCoreProperties.txt,
// from Unicode 9 to 17 the same but for U+180F, which came with 14.
var ignorable = [][2]rune{{0xad, 0xad}, {0x34f, 0x34f}, {0x61c, 0x61c}, {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f},
	{0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0},
	{0xfff0, 0xfff8}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}}

func TestAllDefaultIgnorableCodePointsAreDropped(t *testing.T) {
	dropped := map[rune]bool{}
	for _, of := range ignorable {
		for r := of[0]; r <= of[1]; r++ {
			dropped[r] = true
			if got, _ := cleanText("A" + string(r) + "b"); got != "Ab" {
				t.Errorf("%U is kept: %+q", r, got)
			}
		}
	}
	for r := rune(0x21); r <= unicode.MaxRune; r++ {
		if dropped[r] || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs, unicode.Z) {
			continue
		}
		if got, _ := cleanText("A" + string(r) + "b"); got != norm.NFC.String("A"+string(r)+"b") {
			t.Fatalf("%U is dropped: %+q", r, got)
		}
	}
}

func TestBlankTextsAreNotVisible(t *testing.T) {
	for _, s := range []string{"", " ", "\u2800 \u2800", "\u0301", "\u00a0\u3000", "\U0001d159", "\U00013441\U00013442", "\ue000"} {
		if visible(s) {
			t.Errorf("visible(%+q)", s)
		}
	}
	for _, s := range []string{"a", "7", ".", "\u00e9", "e\u0301", "\U0001f600", "\u2764", "\u2801", "\ud55c", "\u0e01\u0e34", "\u2211"} {
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
			if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
				t.Fatalf("cleanText(%q) = %q has %U", s, once, r)
			}
		}
	})
}
