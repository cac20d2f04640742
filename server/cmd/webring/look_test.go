package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"webring/core"
)

func TestAnAccentCanBeReadOnItsPaper(t *testing.T) {
	for _, c := range []struct{ accent, dark, wrong, want string }{
		{"", "", "", ""},
		{"#A8321A", "", "", "#a8321a"},
		{"#1f6a62", "#63c7b8", "", "#1f6a62"},
		{"", "#63c7b8", "accent-dark needs accent", ""},
		{"red", "", `accent "red" is no colour`, ""},
		{"#ff0", "", "is no colour", ""},
		{"#ffcc00", "", "accent #ffcc00 has a contrast of 1.41:1 on the light paper #faf7f0, and words need 4.5:1; the nearest colour that holds is #8a6e00", ""},
		{"#a8321a", "#a8321a", "accent-dark #a8321a has a contrast of 2.57:1 on the dark paper #1d1b15", ""},
	} {
		f := lookFlags{Look: core.Look{Accent: c.accent, AccentDark: c.dark}}
		err := f.validate()
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) || err == nil && f.Accent != c.want {
			t.Errorf("%s, %s: %v, %+v", c.accent, c.dark, err, f.Look)
		}
	}
	// Whatever the accent is, what is proposed holds, and so does what is found for dark paper.
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		c := rgb{uint8(random.Uint32()), uint8(random.Uint32()), uint8(random.Uint32())}
		f := lookFlags{Look: core.Look{Accent: nearest(c, lightPaper).String()}}
		if err := f.validate(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if _, err := onPaper("accent-dark", f.AccentDark, darkPaper); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// The grounds are those of the style sheet: of the two of each scheme the one with less contrast.
func TestTheGroundsAreThoseOfThePages(t *testing.T) {
	sheet, err := os.ReadFile("../../../static/style.css")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"--paper: light-dark(" + lightPaper.ground.String() + ", #15140f)", "--sheet: light-dark(#fffdf8, " + darkPaper.ground.String() + ")"} {
		if !strings.Contains(string(sheet), line) {
			t.Errorf("style.css has no %s", line)
		}
	}
}

func TestALogoIsOutlinesOfOneColour(t *testing.T) {
	for _, c := range []struct{ svg, want string }{
		{`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0,0 24 24"><title>T</title><g><path d="M2 2h20v20z"/></g></svg>`, "0 0 24 24 M2 2h20v20z"},
		{`<svg viewBox="0 0 9 9"><path d="m1 1h2v2z"/><path d="m5
			5h2v2z"/></svg>`, "0 0 9 9 m1 1h2v2zM0 0m5 5h2v2z"},
		{`<svg viewBox="0 0 24 24"><path d="M12 2a10 10 0 110 20 10 10 0 010-20zm0 5q5 0 5 5t-5 5-5-5c0-2 1-4 3-4S9 9 12 7z"/></svg>`, "0 0 24 24 M12 2a10"},
		{`<svg viewBox="0 0 24 12"><path d="M2 2h20v20z"/></svg>`, "! square"},
		{`<svg><path d="M2 2h20v20z"/></svg>`, "! square"},
		{`<svg viewBox="0 0 24 24"><circle r="3"/></svg>`, `! element "circle"`},
		{`<svg viewBox="0 0 24 24"></svg>`, "! path"},
		{`<svg viewBox="0 0 24 24"><path d="M2 2h200v20z"/></svg>`, "! leaves"},
		{`<svg viewBox="0 0 24 24"><path d="h2"/></svg>`, "! error"},
		{`<svg viewBox="0 0 24 24"><path d="M2 2zzzz 5"/></svg>`, "! error"},
		{`<svg viewBox="0 0 24 24"><path fill="none" d="M2 2h20"/></svg>`, "! strokes"},
		{`<svg viewBox="0 0 24 24"><path d="M2 2h20v20z"/><path fill="#fff" d="M4 4h2v2z"/></svg>`, "! one colour"},
		{`<svg viewBox="0 0 24 24" fill="none"><path d="M2 2h20v20z"/></svg>`, "! strokes"},
		{`<svg viewBox="0 0 24 24"><path opacity="0" d="M2 2h20v20z"/></svg>`, "! opacity"},
		{`<svg viewBox="0 0 24 24"><path transform="scale(2)" d="M2 2h20"/></svg>`, "! transform"},
		{`<svg viewBox="0 0 24 24"><path d="M2 2` + strings.Repeat("h1h-1", 500) + `"/></svg>`, "! simplify"},
		{`<svg viewBox="0 0 24 24"><path d="M2 2h1e999v2"/></svg>`, "! error"},
		{`<svg viewBox="0 0 24 24"><g>`, "! no SVG"}, {``, "! square"}, {`<html>`, `! element "html"`},
	} {
		path := filepath.Join(t.TempDir(), "logo.svg")
		if err := os.WriteFile(path, []byte(c.svg), 0o600); err != nil {
			t.Fatal(err)
		}
		f := lookFlags{logo: path}
		err := f.validate()
		got := f.Logo
		if err != nil {
			got = "! " + err.Error()
		}
		if first, rest, wrong := strings.Cut(c.want, "! "); wrong && (err == nil || !strings.Contains(got, rest)) || !wrong && !strings.HasPrefix(got, first) {
			t.Errorf("%.60s: %s, want %s", c.svg, got, c.want)
		}
		if err == nil { // what is taken can be written into the ledger
			rules := &core.Rules{Name: "R", BaseURL: "https://r.example", MinBid: 1, Decay: 1, Look: f.Look}
			if _, err := core.AppendEvent(nil, rules); err != nil {
				t.Errorf("%s: %v", f.Logo, err)
			}
		}
	}
}

func TestWordsOfWelcome(t *testing.T) {
	for words, ok := range map[string]bool{"": true, "Kom in! 👋": true, " x": false, "a\nb": false, "\xff": false, strings.Repeat("ä", 300): true, strings.Repeat("ä", 301): false} {
		f := lookFlags{Look: core.Look{Welcome: words}}
		if err := f.validate(); (err == nil) != ok {
			t.Errorf("%s: %v", fmt.Sprintf("%.20q", words), err)
		}
	}
}
