package main

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"webring/core"
	"webring/edge/card"
)

// lookFlags say how the ring looks. It is part of the rules, so that every edge shows the same.
type lookFlags struct {
	core.Look
	logo string // file
}

func (f *lookFlags) define(fs *flag.FlagSet) {
	fs.StringVar(&f.Welcome, "welcome", "", fileOnly+"`words` at the top of the front page, up to 300 characters")
	fs.StringVar(&f.Accent, "accent", "", fileOnly+"`colour` of the ring on light paper, as #a8321a")
	fs.StringVar(&f.AccentDark, "accent-dark", "", fileOnly+"`colour` of the ring on dark paper (default: accent, made as light as needed)")
	fs.StringVar(&f.logo, "logo", "", fileOnly+"SVG `file` with the logo of the ring: outlines of one colour in a square, up to 2 KB")
}

// validate checks the settings, and reads the logo.
func (f *lookFlags) validate() error {
	var wrong mistakes
	bad := !utf8.ValidString(f.Welcome) || utf8.RuneCountInString(f.Welcome) > core.MaxDescription || strings.ContainsFunc(f.Welcome, unicode.IsControl)
	wrong.when(bad || strings.TrimSpace(f.Welcome) != f.Welcome,
		"welcome must be one line of up to %d characters, without spaces around it", core.MaxDescription)
	err := f.colours()
	if f.logo != "" {
		var text []byte
		if text, err = os.ReadFile(f.logo); err == nil {
			f.Logo, err = logoOf(text)
		}
		if err != nil {
			err = fmt.Errorf("logo %s: %w", f.logo, err)
		}
		err = errors.Join(f.colours(), err)
	}
	return errors.Join(append(wrong, err)...)
}

// colours checks the accent, and finds the one on dark paper if it is not given.
func (f *lookFlags) colours() error {
	f.Accent, f.AccentDark = strings.ToLower(f.Accent), strings.ToLower(f.AccentDark)
	if f.Accent == "" {
		if f.AccentDark != "" {
			return errors.New("accent-dark needs accent, the colour on light paper")
		}
		return nil
	}
	on, err := onPaper("accent", f.Accent, lightPaper)
	if err != nil {
		return err
	}
	if f.AccentDark == "" {
		f.AccentDark = nearest(on, darkPaper).String()
		return nil
	}
	_, err = onPaper("accent-dark", f.AccentDark, darkPaper)
	return err
}

// rgb is a colour.
type rgb [3]uint8

func (c rgb) String() string { return fmt.Sprintf("#%02x%02x%02x", c[0], c[1], c[2]) }

// paper is a scheme of the pages: of its two grounds, the one on which an accent is harder to
// read, and to where an accent moves to be read better.
type paper struct {
	name   string
	ground rgb
	ink    uint8
}

// The grounds are --paper of light and --sheet of dark in style.css.
var (
	lightPaper = paper{"light", rgb{0xfa, 0xf7, 0xf0}, 0}
	darkPaper  = paper{"dark", rgb{0x1d, 0x1b, 0x15}, 255}
)

// enough is the contrast that words need (WCAG 2.2, 1.4.3).
const enough = 4.5

var hexColour = regexp.MustCompile(`^#[0-9a-f]{6}$`)

// onPaper reads an accent, and says what holds if it cannot be read on a paper.
func onPaper(setting, s string, p paper) (c rgb, err error) {
	if !hexColour.MatchString(s) {
		return c, fmt.Errorf("%s %q is no colour such as #a8321a", setting, s)
	}
	for i := range c {
		v, _ := strconv.ParseUint(s[1+2*i:3+2*i], 16, 8) // the pattern has seen to it
		c[i] = uint8(v)
	}
	if has := contrast(c, p.ground); has < enough {
		return c, fmt.Errorf("%s %s has a contrast of %.2f:1 on the %s paper %s, and words need %.1f:1; the nearest colour that holds is %s",
			setting, s, math.Floor(has*100)/100, p.name, p.ground, enough, nearest(c, p))
	}
	return c, nil
}

// nearest is the first colour on the way from c to the ink of a paper that can be read there.
func nearest(c rgb, p paper) rgb {
	for part := 0; ; part++ {
		var moved rgb
		for i := range moved {
			moved[i] = uint8((int(c[i])*(255-part) + int(p.ink)*part + 127) / 255)
		}
		if part == 255 || contrast(moved, p.ground) >= enough {
			return moved
		}
	}
}

// contrast is that of two colours (WCAG 2.2).
func contrast(a, b rgb) float64 {
	light := func(c rgb) (sum float64) {
		for i, weight := range [...]float64{0.2126, 0.7152, 0.0722} {
			v := float64(c[i]) / 255
			if v <= 0.04045 {
				sum += weight * v / 12.92
			} else {
				sum += weight * math.Pow((v+0.055)/1.055, 2.4)
			}
		}
		return sum + 0.05
	}
	return max(light(a), light(b)) / min(light(a), light(b))
}

// notFollowed are attributes with which a path would look otherwise than its outline.
var notFollowed = []string{"opacity", "fill-opacity", "display", "visibility", "transform", "style", "clip-path", "mask"}

// logoOf takes the outlines from an SVG file. What would look otherwise in one colour is refused.
func logoOf(text []byte) (string, error) {
	if len(text) > maxConfig {
		return "", errors.New("the file is too long")
	}
	read := xml.NewDecoder(bytes.NewReader(text))
	box, outlines := "", []string(nil)
	ground, colour := "black", "" // of paths that have no colour of their own, and of the paths before
	for {
		token, err := read.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", fmt.Errorf("it is no SVG: %w", err)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		given := map[string]string{}
		for _, a := range element.Attr {
			given[a.Name.Local] = a.Value
		}
		switch element.Name.Local {
		case "title", "desc", "metadata":
			if err := read.Skip(); err != nil {
				return "", fmt.Errorf("it is no SVG: %w", err)
			}
			continue
		case "svg":
			box = cmp.Or(box, strings.Join(strings.Fields(strings.ReplaceAll(given["viewBox"], ",", " ")), " "))
			ground = cmp.Or(given["fill"], ground)
		case "g":
			ground = cmp.Or(given["fill"], ground)
		case "path":
			fill := cmp.Or(given["fill"], ground)
			switch {
			case fill == "none":
				return "", errors.New("a path draws lines; convert strokes to outlines")
			case colour != "" && fill != colour:
				return "", fmt.Errorf("it has the colours %s and %s; save the logo in one colour", colour, fill)
			}
			colour = fill
			outlines = append(outlines, strings.Join(strings.Fields(given["d"]), " "))
		default:
			return "", fmt.Errorf("it has an element %q; convert all shapes to paths", element.Name.Local)
		}
		for name, value := range given {
			if slices.Contains(notFollowed, name) || name == "fill-rule" && value != "nonzero" || name == "stroke" && value != "none" {
				return "", fmt.Errorf("it has the attribute %s=%q, which is not followed; save the logo as plain filled paths", name, value)
			}
		}
	}
	for i, d := range outlines[min(1, len(outlines)):] {
		if strings.HasPrefix(d, "m") { // the first point of a path is no relative one
			outlines[i+1] = "M0 0" + d
		}
	}
	logo := box + " " + strings.Join(outlines, "")
	if len(logo) > core.MaxLogo {
		return "", fmt.Errorf("its outlines take %d bytes, and %d are allowed; simplify it", len(logo), core.MaxLogo)
	}
	return logo, card.Logo{Box: box, Path: strings.Join(outlines, "")}.Check()
}
