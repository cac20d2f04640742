package card

import (
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares the pixels of a picture with those of its file: the bytes of a PNG depend
// on how the release of Go packs it.
func golden(t *testing.T, name string, file []byte, width, height int) {
	t.Helper()
	path := filepath.Join("testdata", name+".png")
	if *update {
		if err := os.WriteFile(path, file, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	saved, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, want := pixels(t, file), pixels(t, saved)
	if got.Rect != image.Rect(0, 0, width, height) {
		t.Errorf("%s is of %v", name, got.Rect)
	}
	if got.Rect != want.Rect || !bytes.Equal(got.Pix, want.Pix) {
		t.Errorf("%s differs; look at the change, then run with -update", path)
	}
}

func pixels(t *testing.T, file []byte) *image.Paletted {
	t.Helper()
	m, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	return m.(*image.Paletted)
}

// ringOf gives a ring of so many members: the first forty in full, in part and faded, and a
// sample of where the others stand.
func ringOf(members int) Ring {
	r := Ring{Members: members}
	first, others := min(members, 40), min(members, 80)
	for i := range first {
		r.Marks = append(r.Marks, Mark{Position: 1 + i*37%first*members/first, Total: int64(100 + i*i*7919%9000),
			Kind: []string{"agent", "mcp", "website"}[i%3], Percent: []int{100, 100, 40, 0}[i%4]})
	}
	for i := range others {
		r.Others = append(r.Others, 1+i*members/others)
	}
	return r
}

func member(members int) *Member {
	return &Member{Ring: ringOf(members), Here: Mark{Position: 1 + members/3, Total: 2600, Percent: 100, Kind: "website"},
		Site: Site{Name: "Webring Online", Address: "ring.example.org"}, Name: "Weather for Gliders", Host: "gliders.example.net",
		Rank: 1 + members/9, Standing: "$26 counts now", Words: "starts fading on 12 March 2027"}
}

func TestTheCardsOfMembers(t *testing.T) {
	golden(t, "member", member(17).PNG(), Width, Height)

	first := member(1)
	first.Name, first.Words = "Ada", "no bids yet"
	golden(t, "member-first", first.PNG(), Width, Height)

	long := member(100_000)
	long.Name = "A name of eighty characters that goes on and on until nobody reads it any more !"
	long.Did = "$1 lifted it 18 places on 28 November 2026"
	golden(t, "member-long", long.PNG(), Width, Height)

	fading := member(45)
	fading.Here.Percent, fading.Standing, fading.Words = 20, "$5.20 counts now", "fading, gone by 12 March 2027"
	golden(t, "member-fading", fading.PNG(), Width, Height)

	fading.Here.Percent, fading.Standing, fading.Words = 0, "A bid restores $26", "faded away on 12 March 2027"
	golden(t, "member-faded", fading.PNG(), Width, Height)

	strange := member(3)
	strange.Name, strange.Site.Name = "שלום <b>&amp;", "Кольцо"
	golden(t, "member-host", strange.PNG(), Width, Height)
}

func TestTheCardOfTheRing(t *testing.T) {
	words := "A ring of agents, MCP servers and websites. Places are paid for by machines; walking around is free."
	golden(t, "home", (&Home{Ring: ringOf(2000), Site: Site{Name: "Webring Online", Address: "ring.example.org"}, Words: words,
		First: "Weather for Gliders", Host: "gliders.example.net"}).PNG(), Width, Height)
	golden(t, "home-empty", (&Home{Site: Site{Name: "Webring Online", Address: "ring.example.org"}, Words: words}).PNG(), Width, Height)
}

func TestTheButtons(t *testing.T) {
	b := &Button{Site: Site{Name: "Webring Online"}, Position: 12}
	golden(t, "button", b.PNG(1), ButtonWidth, ButtonHeight)
	golden(t, "button-2x", b.PNG(2), 2*ButtonWidth, 2*ButtonHeight)
	golden(t, "button-long", (&Button{Site: Site{Name: "The Guild of Very Small Machines"}, Position: 99_999}).PNG(2), 2*ButtonWidth, 2*ButtonHeight)
}

// Nothing that a member calls itself makes a card fail, or keeps others waiting.
func TestNamesThatAreNotMadeForCards(t *testing.T) {
	for _, name := range []string{"", " ", "…", strings.Repeat("W", 80), strings.Repeat("i.", 40), strings.Repeat("ẞ-", 40), strings.Repeat("a\u0335\u0489", 26),
		"\u202eevil\u202c", "\x00\x1b[31m", "\xff\xfe", "👩‍👩‍👧‍👦", "日本語の名前", strings.Repeat("a ", 40), strings.Repeat("\u00a0", 80)} {
		v := member(5)
		v.Name, v.Host, v.Site.Name = name, strings.Repeat("sub.", 60)+"example", name
		v.Rank, v.Members, v.Here.Position, v.Here.Total = 99_999_999, 100_000_000, 100_000_000, 1<<62
		if got := pixels(t, v.PNG()); got.Rect != image.Rect(0, 0, Width, Height) {
			t.Errorf("%q: %v", name, got.Rect)
		}
		b := &Button{Site: Site{Name: name}, Position: 100_000_000}
		if got := pixels(t, b.PNG(1)); got.Rect != image.Rect(0, 0, ButtonWidth, ButtonHeight) {
			t.Errorf("%q: %v", name, got.Rect)
		}
	}
}

func TestWhatTheFaceCanSpell(t *testing.T) {
	for name, want := range map[string]string{
		"Plain": "Plain", " two\twords ": "two words", "Łódź & Čáp": "Łódź & Čáp", "Rocket 🚀": "Rocket", "a\u200db": "ab", "heart ❤\ufe0f 2": "heart 2",
		"Привет": "", "mixed имя": "", "a\u0301": "", "🚀": "", "": "", "٣": "",
	} {
		got, ok := new(setter).spelled(name)
		if !ok {
			got = ""
		}
		if got != want {
			t.Errorf("%q is spelled %q, want %q", name, got, want)
		}
	}
}

// A name that the face cannot set gives its place to the host, and the card says so.
func TestANameThatTheFaceLacks(t *testing.T) {
	for name, want := range map[string]string{
		"مكتبة المدينة": "Arabic letters", "ספריית Atlas": "Hebrew letters", "हिन्दी पुस्तकालय": "Devanagari letters", "四季の天文台": "Chinese or Japanese",
		"さくら": "Japanese", "서울": "Korean letters", "Кольцо": "Cyrillic letters", "🐝 🌻": "symbols or emoji", "a\u0301\u0316": "letters with marks", "٣": "symbols or emoji",
	} {
		v := member(3)
		v.Name = name
		if title, below := v.words(new(setter)); title != v.Host || below != "Its name is in "+want {
			t.Errorf("%s: %q, %q", name, title, below)
		}
	}
	v := member(3)
	v.Name = "🐝 Beehive"
	if title, below := v.words(new(setter)); title != "Beehive" || below != v.Host {
		t.Errorf("%q, %q", title, below)
	}
}

// What stands of a ray is bright, and what has faded is pale: on the ring's card in the
// colour of the kind, on a member's its own ray in that of the seal.
func TestWhatHasFadedIsPale(t *testing.T) {
	// The ray at the top, which is the longest: its inner quarter, and its outer one.
	colours := func(file []byte) (inner, outer color.RGBA) {
		m := pixels(t, file)
		at := func(part float64) color.RGBA {
			return color.RGBAModel.Convert(m.At(middleX, int(middleY-radius-gap-part*longest))).(color.RGBA)
		}
		return at(0.3), at(0.75)
	}
	r := Ring{Members: 4, Marks: []Mark{{Position: 1, Total: 9000, Kind: "mcp"}, {Position: 3, Total: 9000, Kind: "agent", Percent: 100}}}
	for percent, bright := range map[int][2]bool{0: {false, false}, 5: {true, false}, 100: {true, true}} {
		r.Marks[0].Percent = percent
		for paint, file := range map[color.RGBA][]byte{mcp: (&Home{Ring: r}).PNG(), seal: (&Member{Ring: r, Here: r.Marks[0]}).PNG()} {
			inner, outer := colours(file)
			for i, got := range [...]color.RGBA{inner, outer} {
				if bright[i] && got != paint || !bright[i] && got != pale {
					t.Errorf("%d %% stand: part %d is %v; bright is %v", percent, i, got, paint)
				}
			}
		}
	}
	// The ray of a member that is not among the first is drawn, too.
	if inner, _ := colours((&Member{Ring: Ring{Members: 4, Marks: r.Marks[1:]}, Here: Mark{Position: 1, Total: 9000, Percent: 100}}).PNG()); inner != seal {
		t.Errorf("the member's own ray is %v", inner)
	}
}

// What counts in full has no pale tip, whatever cents were paid, and what has faded by a percent has.
func TestNoCentFadesOnItsOwn(t *testing.T) {
	for _, total := range []int64{1, 99, 100, 101, 199, 350, 1999, 2000, 2050, 123456, 99999999999} {
		for percent, faded := range map[int]bool{-1: true, 0: true, 1: true, 50: true, 99: true, 100: false, 101: false} {
			m := Mark{Position: 1, Total: total, Percent: percent}
			stands, exactly := m.standing(), float64(total)*float64(min(max(percent, 0), 100))/100
			if (stands < total) != faded || float64(stands) > exactly || float64(stands) <= exactly-1 {
				t.Errorf("%d cents at %d %%: %d stand", total, percent, stands)
			}
		}
		full := pixels(t, (&Member{Ring: Ring{Members: 4}, Here: Mark{Position: 1, Total: total, Percent: 100}}).PNG())
		for y := range int(middleY - radius) {
			if got := color.RGBAModel.Convert(full.At(middleX, y)).(color.RGBA); got == pale {
				t.Errorf("%d cents in full: pale at %d", total, y)
				break
			}
		}
	}
}

// However many marks there are, so many are drawn.
func TestTheWorkIsBounded(t *testing.T) {
	v := member(100_000)
	for i := range 50_000 {
		v.Marks, v.Others = append(v.Marks, Mark{Position: i, Total: 100, Kind: "agent"}), append(v.Others, i)
	}
	many := v.PNG()
	v.Marks, v.Others = v.Marks[:mostMarks], v.Others[:mostOthers]
	if !bytes.Equal(many, v.PNG()) {
		t.Error("marks beyond the bound are drawn")
	}
}

// BenchmarkCard is what a card of a large ring costs.
func BenchmarkCard(b *testing.B) {
	v := member(100_000)
	for b.Loop() {
		v.PNG()
	}
}

// BenchmarkButton is what a button costs.
func BenchmarkButton(b *testing.B) {
	v := &Button{Site: Site{Name: "Webring Online"}, Position: 12}
	for b.Loop() {
		v.PNG(2)
	}
}

// The card of a page says what the page is, and a ring looks as its operator has it look.
func TestTheCardOfAPage(t *testing.T) {
	golden(t, "page", (&Home{Ring: ringOf(300), Site: Site{Name: "Harbour", Address: "ring.example.org", Accent: "#1f6a62",
		Logo: Logo{Box: "0 0 24 24", Path: "M12 2a10 10 0 110 20 10 10 0 010-20zm0 4a6 6 0 100 12 6 6 0 000-12z"}},
		Title: "Leaderboard", Words: "All members by rank, what a bid on each would do, and the price of first place.", First: "Weather for Gliders"}).PNG(), Width, Height)
}

// Any data of a path is drawn, or refused.
func FuzzLogo(f *testing.F) {
	for _, path := range []string{"M1 1h2v2z", "m1 1 2 0 0 2zl1 1", "M1 1c1 0 2 1 2 2s-1 2-2 2q-1 0-1-1t1-1", "M12 2a10 10 30 11.5.5a0 0 0 000 0z", "M0 0e9", "z", "M-.5.5-1-1", "M1e5,1"} {
		f.Add("0 0 24 24", path)
	}
	f.Fuzz(func(t *testing.T, box, path string) {
		o, err := Logo{box, path}.outline(0, 0, 48)
		if (o == nil) != (err != nil) {
			t.Fatalf("%v, %v", o, err)
		}
		if err != nil {
			return
		}
		c := newCanvas(64, 64, 1, paper, seal)
		c.fill(o, seal)
	})
}
