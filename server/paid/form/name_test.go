package form

import (
	"errors"
	"strings"
	"testing"
)

func TestNamesThatReadAsIfTheRingSaidSoAreRefused(t *testing.T) {
	for _, c := range []struct{ ring, refused, taken string }{
		{"Northern Lights", "Official Acme|ACME (official)|The-Official_Site|Ｏｆｆｉｃｉａｌ Acme|Ófficial|o f f i c i a l|Acme: off icial", "Officially late|Unofficial Acme|Office|Offici"},
		{"Northern Lights", "Verified|Acme, verified!|veri fied|v\u0435rifi\u0435d|VERIFIED\u2714|\u24e5erified", "Verify me|Unverified claims"},
		{"Northern Lights", "Admin|admin's desk|adm1n|\u0430dmin|\u0410\u0434\u043c\u0438\u043d|ADMIN|ad-min|adm\u0131n", "Administration|Badminton|Ad Astra"},
		{"Northern Lights", "Rank 1|rank #1|1st in rank|rank1|R\u00e4nk \u2460|Rank No. 12|\u0440\u0430\u043d\u043a 1|7: rank", "Rank and File|Frank 1|PageRank 2|Ranking 4|1 Acme"},
		{"Northern Lights", "Northern Lights|The NORTHERN lights team|NorthernLights|n\u043erthern-l1ghts|Northern Llghts", "Northern Light|Southern Lights|Lights, Northern"},
		{"Webring", "Webring|my webring page|Web Ring", "Webrings|My ring"},
		{"\u6c34\u6ce2\u73af", "\u6c34\u6ce2\u73af|A \u6c34\u6ce2 \u73af", "\u6c34\u6ce2"},
		{"\u2605", "", "\u2605|Star"},
		{"Basics", "Ba\u017fi\u03f2s|BA\u017fI\u03f9S|B\u2c80SICS", "Ba\u017fe|Basic"},
	} {
		var p NamePolicy
		for name := range strings.SplitSeq(c.refused, "|") {
			if name != "" && p.check(name, c.ring) == nil {
				t.Errorf("%q is taken in the ring %q", name, c.ring)
			}
		}
		for name := range strings.SplitSeq(c.taken, "|") {
			if err := p.check(name, c.ring); err != nil {
				t.Errorf("%q is refused in the ring %q: it %v", name, c.ring, err)
			}
		}
	}
}

// Reserved words are refused in every disguise in which a reader still reads them.
func TestDisguisedReservedWordsAreRefused(t *testing.T) {
	var p NamePolicy
	for what, names := range map[string]string{
		"small capitals":      "ᴏꜰꜰɪᴄɪᴀʟ|ᴠᴇʀɪꜰɪᴇᴅ|ᴀᴅᴍɪɴ|ʀᴀɴᴋ 1|ᴡᴇʙʀɪɴɢ",
		"Canadian syllabics":  "Oᖴᖴicial|ᐯEᖇIᖴIEᗪ|ᗩᗪᗰIᑎ|ᖇᗩᑎK 1|ᗯEᗷᖇIᑎG",
		"Cherokee and Lisu":   "ᎾᏞ Ꭰdmin|ꓮꓓꓟꓲꓠ|ꓪꓰꓐꓣꓲꓠꓖ|ᎡᎪᎠ Ꮃebring",
		"Cyrillic and Greek":  "ОFFІСІАL|аdмiн|ΑDΜΙΝ|VЕRІFІЕD|Wеbrіng|ѡebring",
		"Armenian":            "օfficial|աebring|аdmiո|աebriոց",
		"two letters for one": "VVebring|vvebring|V Vebring|adrnin|AdRnin|\u0475\u0475ebring",
		"digits":              "0fficial|0FF1C1AL|adm1n|ver1fied",
		"full width":          "ＯＦＦＩＣＩＡＬ|ｗｅｂｒｉｎｇ",
		"mathematical":        "𝐎𝐟𝐟𝐢𝐜𝐢𝐚𝐥|𝓌𝑒𝒷𝓇𝒾𝓃𝑔|𝔸𝕕𝕞𝕚𝕟|𝚟𝚎𝚛𝚒𝚏𝚒𝚎𝚍",
		"in boxes and discs":  "ⓐⓓⓜⓘⓝ|🄰🄳🄼🄸🄽|🅐🅓🅜🅘🅝|🅰🅳🅼🅸🅽|🇦🇩🇲🇮🇳|⒜⒟⒨⒤⒩",
		"superscripts":        "ᵒᶠᶠⁱᶜⁱᵃˡ|ᴬᴰᴹᴵᴺ",
		"strokes and hooks":   "øfficial|vɛrified admin|ađmin|adмıɴ",
		"marks":               "a\u0336d\u0336m\u0336i\u0336n|Öffïcïàl",
		"check marks":         "Acme \u2713|\u2714 Acme|Acme\u2705|\u2611\ufe0f Acme|Ac\u2714\ufe0fme|\U0001f5f8 Acme",
		"joiners":             "ad\u200dmin|o\u200cfficial",
		"no space":            "Admin公式|Officialサイト|管理admin|관리admin",
		"marks like letters":  "\u0d82fficial",
		"rare check marks":    "Acme \U0001fbb1|Acme \U00010102",
		// Fold and skeleton say different things of these letters, or only both together say anything.
		"lunate sigma":     "OFFI\u03f9IAL|offi\u03f2ial|OFFI\u03f9I\u0391L|o\u017f\u017fi\u03f2ial",
		"Coptic":           "OFFIC\u2c80L|offici\u2c81l|OFF\u2c92CI\u2c80L|\u2c9effici\u2c81l|\u2c80DMIN|adm\u2c93\u2c9b|r\u2c81n\u2c95 1|v\u2c89rifi\u2c89d|W\u2c88bring",
		"more of Cherokee": "OFF\u13c6CIAL|off\uab96cial|ADM\u13c6N|VER\u13c6F\u13c6ED",
		"long s":           "o\u017f\u017ficial|veri\u017fied|O\u017f\u017fIC\u13c6AL|o\u017ffi\u03f2i\u2c81l|of\u1e9dicial",
		"letters reversed": "ADMI\u0418|admi\u0438|\u042fANK 1|\u044fank 1|WEB\u042fI\u0418G|VE\u042fIFIED|webri\u1d0eg",
		"letters barred":   "O\u0492\u0492ICIAL|o\u0493\u0493icial|VERI\u0492IED|R\u0410N\u049c 1|ran\u049d 1",
		"without its bar":  "OFFICI\u039bL|\u039bDMIN|offici\u0245l|R\u039bNK 1",
		"letters modified": "o\ua799\ua799icial|O\u0191\u0191ICIAL|o\u0192\u0192icial",
	} {
		for name := range strings.SplitSeq(names, "|") {
			if p.check(name, "Webring") == nil {
				t.Errorf("%s: %q is taken", what, name)
			}
		}
	}
	for _, name := range []string{"Modern Corner", "Savvy Agents", "Officina", "Adminton", "Ранний старт", "Новини дня", "ご案内", "Αθήνα", "دفتر رسمی", "می\u200cخواهم", "ශ්\u200dරී ලංකා",
		"Veritas", "Ring of Webs", "Webbing", "Ranked Choice", "Acme 🇩🇪 2", "★ Acme", "Ödland", "C++ & Co", "Ärzte 1", "हिन्दी", "한국어", "שלום", "ᏣᎳᎩ", "ᏩᏏᏓᏂ", "ᏆᎳ", "Привет, мир", "Фирма «Наш Яр»", "Яндекс И Ғылым", "Қазақ әні", "Ғарыш", "ΛΟΓΟΣ", "Σοφία", "Ευρώπη 1", "Ⲁⲗⲫⲁ Ⲱⲙⲉⲅⲁ", "Ϲοφία",
		"Ընկեր", "Հայաստան", "სახლი", "Weiſsbier", "Ꮖ", "И", "ſ", "Ранг 1", "Ирина 7", "ᐃᓄᒃᑎᑐᑦ", "Square \u221a2", "Rankin 株式会社 3", "オフィス Office", "サーバー"} {
		if err := p.check(name, "Webring"); err != nil {
			t.Errorf("%q is refused: it %v", name, err)
		}
	}
	if err := (NamePolicy{Allow: []string{check}}).check("Acme \u2705", "Webring"); err != nil {
		t.Errorf("check marks are allowed, and it %v", err)
	}
}

func TestCategoriesAreReadLikeNames(t *testing.T) {
	for _, c := range []struct{ ring, refused, taken string }{
		{"Example Ring", "official|0fficial|off1c1al|of-ficial|verified|ver1fied-agents|admin|adm1n|adrnin|rank-1|1st-rank|example-ring|examplering|exarnple-r1ng",
			"general|agents|tools|administration|rank|ranking|top-10|unofficial|office|example|rings|modern-art|news-24|c0de"},
		{"Agents", "official", "agents|agent-tools"},
		{"Webring", "ver1fied", "webring"},
	} {
		body := func(category string) []byte { return []byte(register("category", `"`+category+`"`)) }
		first := func(category string, allow ...string) (RegisterRequest, error) {
			return ParseRegister(body(category), SitePolicy{}.Canonical, NamePolicy{Allow: allow}.In(c.ring), minimumBid)
		}
		for category := range strings.SplitSeq(c.refused, "|") {
			_, err := first(category)
			var input *Problem
			if !errors.As(err, &input) || input.Code != "invalid_request" || input.Fields[0].Pointer != "/category" {
				t.Errorf("category %q in the ring %q: %v", category, c.ring, err)
			}
		}
		for category := range strings.SplitSeq(c.taken, "|") {
			if r, err := first(category); err != nil || r.Category != category {
				t.Errorf("category %q in the ring %q: %v", category, c.ring, err)
			}
		}
		if _, err := first("official", "official"); err != nil {
			t.Errorf("an allowed category: %v", err)
		}
	}
}

func TestTheOperatorAllowsNamesThatAreReserved(t *testing.T) {
	for _, c := range []struct {
		allow, name string
		ok          bool
	}{
		{"official", "The Official Acme", true},
		{"official", "Official and verified", false},
		{"Official Gazette", "The official gazette of Acme", true},
		{"Official Gazette", "Official Acme", false},
		{"Official Gazette", "Official Gazette, official", false},
		{"rank", "Rank 1", true},
		{"Rank 9 Records", "rank 9 records", true},
		{"Rank 9 Records", "Rank 1", false},
		{"Webring", "Webring Directory", true},
	} {
		if err := (NamePolicy{Allow: []string{"Nobody", c.allow}}).check(c.name, "Webring"); (err == nil) != c.ok {
			t.Errorf("%q where %q is allowed: %v", c.name, c.allow, err)
		}
	}
	if (NamePolicy{Allow: []string{"official", "!?"}}).Validate() == nil || (NamePolicy{Allow: []string{"official"}}).Validate() != nil {
		t.Error("an entry that allows nothing is taken, or one that allows something is not")
	}
}

// A name is refused before there is a challenge, and never after one: what was
// promised under other rules is kept.
func TestReservedNamesAreRefusedBeforeTheChallengeAlone(t *testing.T) {
	body := []byte(register("name", `"Official Acme"`))
	first := func(allow ...string) (RegisterRequest, error) {
		return ParseRegister(body, SitePolicy{}.Canonical, NamePolicy{Allow: allow}.In("Northern Lights"), minimumBid)
	}
	r, err := first()
	var input *Problem
	if !errors.As(err, &input) || input.Code != "invalid_request" || len(input.Fields) != 1 || input.Fields[0].Pointer != "/name" ||
		input.Detail != `The field name must not hold the word "official": it would read as if the ring said so.` {
		t.Errorf("a new registration: %+v, %v", input, err)
	}
	if r != (RegisterRequest{}) {
		t.Errorf("taken: %+v", r)
	}
	if r, err = first("official"); err != nil || r.Name != "Official Acme" {
		t.Errorf("allowed: %+v, %v", r, err)
	}
	if r, err = ParseRegister(body, Spell, nil, 1); err != nil || r.Name != "Official Acme" {
		t.Errorf("one that was promised: %+v, %v", r, err)
	}
}

func FuzzReservedNames(f *testing.F) {
	f.Add("Official Acme", "Webring", "official")
	f.Add("ra\u0308nk \u2460", "\u6c34\u6ce2\u73af", "")
	f.Fuzz(func(t *testing.T, name, ring, allowed string) {
		name, ok := cleanText(name)
		if !ok || len(name) > 400 || len(ring) > 400 || len(allowed) > 400 {
			return
		}
		err := NamePolicy{}.check(name, ring)
		if err == nil && (NamePolicy{Allow: []string{allowed}}).check(name, ring) != nil {
			t.Fatalf("%q is refused because %q is allowed", name, allowed)
		}
		// Whole names are allowed by themselves.
		if p := (NamePolicy{Allow: []string{name, Slugify(name)}}); p.check(name, ring) != nil {
			t.Fatalf("%q is allowed and refused", name)
		}
	})
}
