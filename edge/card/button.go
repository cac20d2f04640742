package card

import (
	"image/color"
	"strings"
)

// The size of a button, that of the buttons which sites of the early web link to each other
// by.
const (
	ButtonWidth  = 88
	ButtonHeight = 31
)

// Button is the small picture by which a member's page shows that it is in the ring.
type Button struct {
	Ring     string // name of the ring
	Position int    // of the member
	Members  int
}

// PNG draws the button. Each unit is scale pixels wide.
func (v *Button) PNG(scale int) []byte {
	c, s := newCanvas(ButtonWidth, ButtonHeight, scale, ink), new(setter)
	c.fill(rule(1, 1, 28, 29), paper)
	o := new(outline)
	o.circle(15, 17.5, 8, false)
	o.circle(15, 17.5, 5.5, true)
	c.fill(o, seal)
	c.disc(15, 9.5, 5.2, paper)
	c.disc(15, 9.5, 4, seal)

	name, ok := s.spelled(v.Ring)
	if !ok {
		name = "Webring"
	}
	const from, width = 33.0, ButtonWidth - 33.0 - 4
	place := grouped(v.Position) + " of " + grouped(v.Members)
	first, second := halves(s, name, width)
	if second == "" {
		c.fill(s.line(c.cut(s, first, 11, width), 11, from, 14, start), paper)
		c.fill(s.line(place, c.shrunk(s, place, 9.5, width), from, 25, start), onInk)
		return c.png()
	}
	c.fill(s.line(c.cut(s, first, 8.5, width), 8.5, from, 10, start), paper)
	c.fill(s.line(c.cut(s, second, 8.5, width), 8.5, from, 18.5, start), paper)
	c.fill(s.line(place, c.shrunk(s, place, 8, width), from, 27, start), onInk)
	return c.png()
}

// onInk is the colour of lesser words on the dark ground of a button.
var onInk = color.RGBA{0xe0, 0xb4, 0x55, 0xff}

// halves gives a name as one line, or as two when it is too wide for one.
func halves(s *setter, name string, width float64) (first, second string) {
	if _, _, whole := s.wrap(name, 11, width, 1); whole {
		return name, ""
	}
	lines, _, _ := s.wrap(name, 8.5, width, 2)
	if len(lines) < 2 {
		return strings.Join(lines, ""), " "
	}
	return lines[0], lines[1]
}
