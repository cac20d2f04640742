package form

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

// neverDrawn are the ranges of Default_Ignorable_Code_Point in DerivedCoreProperties.txt,
// from Unicode 9 to 17 the same but for U+180F, which came with 14.
var neverDrawn = [][2]rune{{0xad, 0xad}, {0x34f, 0x34f}, {0x61c, 0x61c}, {0x115f, 0x1160}, {0x17b4, 0x17b5}, {0x180b, 0x180f},
	{0x200b, 0x200f}, {0x202a, 0x202e}, {0x2060, 0x206f}, {0x3164, 0x3164}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xffa0, 0xffa0},
	{0xfff0, 0xfff8}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}}

// Joiners stay where they spell a word or an emoji, and go where they only hide.
func TestInvisibleCharactersStayWhereTheyChangeWhatIsDrawn(t *testing.T) {
	for _, c := range []struct{ what, in, want string }{
		{"Persian prefix", "می\u200cخواهم", "="},
		{"Persian plural, twice", "خانه\u200cهای کتاب\u200cخانه", "="},
		{"Persian with a mark before the joiner", "مِ\u200cخ", "="},
		{"Arabic letters that do not join", "دا\u200cر", "دار"},
		{"at the end of a Persian word", "می\u200c کتاب\u200c", "می کتاب"},
		{"twice in a row", "می\u200c\u200cخواهم", "می\u200cخواهم"},
		{"Sinhala", "ශ්\u200dරී ලංකා", "="},
		{"Sinhala, two conjuncts", "ක්\u200dෂ්\u200dය", "="},
		{"Malayalam chillu", "അവന്\u200d", "="},
		{"Marathi eyelash", "दर्\u200dया", "="},
		{"Hindi half form apart", "क्\u200cष", "="},
		{"Hindi half form", "क्\u200dष", "="},
		{"Kannada ra", "ರ\u200d್ಯಾ", "="},
		{"Bengali ya-phala", "র\u200d্যাম", "="},
		{"before a vowel sign", "ම\u200dා", "මා"},
		{"between letters without a virama", "क\u200dष", "कष"},
		{"between Latin letters", "Ac\u200dme A\u200cB", "Acme AB"},
		{"between Han", "日\u200d本\u200c語", "日本語"},
		{"between Cyrillic letters and digits", "а\u200dд1\u200c2", "ад12"},
		{"alone", "\u200c\u200d", ""},
		{"at the beginning", "\u200dක්", "ක්"},
		{"beside spaces", "a \u200d b", "a  b"},

		{"family", "👨\u200d👩\u200d👧\u200d👦", "="},
		{"skin tone", "👩🏽\u200d🚀", "="},
		{"burning heart", "❤\ufe0f\u200d🔥", "="},
		{"rainbow flag", "🏳\ufe0f\u200d🌈", "="},
		{"pirate flag", "🏴\u200d☠\ufe0f", "="},
		{"head shaking", "🙂\u200d↔\ufe0f", "="},
		{"flag of a country", "🇮🇷", "="},
		{"keycap", "1\ufe0f⃣ #\ufe0f⃣", "="},
		{"flag of Scotland", "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "="},
		{"tags that spell no flag", "🏴\U000e0068\U000e0069\U000e007f", "🏴"},
		{"tags without an end", "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074", "🏴"},
		{"tags behind a letter", "A\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "A"},
		{"an emoji and a letter", "🙂\u200da", "🙂a"},
		{"a letter and an emoji", "a\u200d🙂", "a🙂"},
		{"letters of flags", "🇩\u200d🇪", "🇩🇪"},
		{"selector behind a letter or digit", "a\ufe0f1\ufe0f", "a1"},
		{"selector twice", "❤\ufe0f\ufe0f", "❤\ufe0f"},
		{"the selector of text", "❤\ufe0e", "❤"},
		{"joiner at the end of an emoji", "🙂\u200d", "🙂"},
		{"direction", "می\u200f\u202eخ\u2067", "میخ"},
		{"what it kept apart composes", "ا\u200dٓ", "آ"},
	} {
		want := c.want
		if want == "=" {
			want = c.in
		}
		if got, ok := cleanText(c.in); !ok || got != want {
			t.Errorf("%s: cleanText(%+q) = %+q, %v, want %+q", c.what, c.in, got, ok, want)
		}
	}
}

func TestAllDefaultIgnorableCodePointsAreDropped(t *testing.T) {
	dropped := map[rune]bool{}
	for _, of := range neverDrawn {
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
			if unicode.In(r, unicode.Zl, unicode.Zp) || ignorable(r) && !unicode.Is(binders, r) {
				t.Fatalf("cleanText(%q) = %q has %U", s, once, r)
			}
		}
	})
}
