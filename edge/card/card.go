package card

import (
	"image/color"
	"strconv"
	"strings"
)

// The size of a card, as Open Graph recommends it.
const (
	Width  = 1200
	Height = 630
)

// Site is what all cards show of the ring: its name, and how it looks.
type Site struct {
	Name    string
	Address string // without a scheme
	Accent  string // its colour, as #rrggbb, or ""
	Logo
}

// accent is the ring's colour.
func (v Site) accent() color.RGBA {
	n, err := strconv.ParseUint(strings.TrimPrefix(v.Accent, "#"), 16, 24)
	if err != nil {
		return seal
	}
	return color.RGBA{uint8(n >> 16), uint8(n >> 8), uint8(n), 0xff}
}

// Home is the card of the ring itself, or of one of its pages. Words that the face cannot set
// are left out.
type Home struct {
	Ring
	Site
	Title string // of the page, "" for the ring itself
	Words string // what the ring is, or the page
	First string // name of the member at rank 1, "" in an empty ring
	Host  string // of that member
}

// Member is the card of one member.
type Member struct {
	Ring
	Site
	Here     Mark
	Name     string
	Host     string
	Rank     int
	Standing string // what counts now, as a short sentence
	Words    string // how the standing ages
	Did      string // what the last bid on it did, or ""
}

const (
	left   = 64.0
	column = 560.0 // width of the words
	foot   = 566.0 // base line of the last line
)

// PNG draws the card.
func (v *Member) PNG() []byte {
	c, s := newCanvas(Width, Height, 1, paper, v.accent()), new(setter)
	v.Ring.draw(c, &v.Here)
	c.head(s, v.Site)

	name, below := v.words(s)
	y := c.title(s, name, 176)
	if below != "" {
		c.fill(s.line(c.cut(s, below, 30, column), 30, left, y+50, start), quiet)
	}
	c.fill(s.line(c.cut(s, v.Did, 26, column), 26, left, foot-104, start), c.accent)
	c.fill(rule(left, foot-84, 84, 4), c.accent)
	c.fill(s.line(c.cut(s, v.Standing, 34, column), 34, left, foot-30, start), ink)
	c.fill(s.line(c.cut(s, v.Words, 26, column), 26, left, foot+8, start), quiet)

	rank, word, paint := grouped(v.Rank), "rank", ink
	if v.Rank == 1 {
		word, paint = "first place", c.accent
	}
	size := c.shrunk(s, rank, 132, 1.62*radius)
	c.fill(s.line(word, 26, middleX, middleY-68, centre), quiet)
	c.fill(s.line(rank, size, middleX, middleY+0.36*size, centre), paint)
	c.fill(s.line("of "+grouped(v.Members), 28, middleX, middleY+94, centre), quiet)
	return c.png()
}

// words returns the title and the line below it: the name as the face can set it, and the host. If
// the face cannot set the name, the title is the host, and the line says what the name is written in.
func (v *Member) words(s *setter) (title, below string) {
	name, ok := s.spelled(v.Name)
	switch {
	case !ok:
		return v.Host, "Its name is in " + s.writtenIn(v.Name)
	case strings.EqualFold(name, v.Host):
		return v.Host, ""
	}
	return name, v.Host
}

// PNG draws the card.
func (v *Home) PNG() []byte {
	c, s := newCanvas(Width, Height, 1, paper, v.accent()), new(setter)
	v.Ring.draw(c, nil)
	title, ok := s.spelled(v.Name)
	switch {
	case v.Title != "":
		title = v.Title
		c.head(s, v.Site)
	case !ok:
		title = v.Address
		fallthrough
	default:
		c.logo(v.Logo)
		c.fill(s.line(c.cut(s, v.Address, 28, column-64), 28, left+64, 98, start), quiet)
	}
	y := c.title(s, title, 164)
	lines, _, _ := s.wrap(v.Words, 27, column, 4)
	for i, line := range lines {
		c.fill(s.line(line, 27, left, y+52+float64(i)*37, start), quiet)
	}
	first, ok := s.spelled(v.First)
	switch {
	case v.First == "":
		first = "nobody yet"
	case !ok:
		first = v.Host
	}
	c.fill(rule(left, foot-70, 84, 4), c.accent)
	c.fill(s.line("In first place", 24, left, foot-30, start), quiet)
	c.fill(s.line(c.cut(s, first, 34, column), 34, left, foot+8, start), ink)
	count := grouped(v.Members)
	size := c.shrunk(s, count, 128, 1.62*radius)
	c.fill(s.line(count, size, middleX, middleY+0.27*size, centre), ink)
	word := "members"
	if v.Members == 1 {
		word = "member"
	}
	c.fill(s.line(word, 28, middleX, middleY+82, centre), quiet)
	return c.png()
}

// head draws the ring's logo and name above a card.
func (c *canvas) head(s *setter, v Site) {
	address := v.Address
	name, ok := s.spelled(v.Name)
	if !ok {
		name = address
	}
	c.logo(v.Logo)
	if name == address {
		c.fill(s.line(c.cut(s, name, 28, column-64), 28, left+64, 98, start), ink)
		return
	}
	c.fill(s.line(c.cut(s, name, 30, column-64), 30, left+64, 84, start), ink)
	c.fill(s.line(c.cut(s, address, 22, column-64), 22, left+64, 112, start), quiet)
}

// logo draws the logo of a ring in the upper corner, or the mark of the site.
func (c *canvas) logo(logo Logo) {
	if o, err := logo.outline(left, 60, 48); err == nil {
		c.fill(o, c.accent)
		return
	}
	c.mark(left+22, 86, 1.1)
}

// mark draws the mark of the site around a point: a ring with one large member at its top.
func (c *canvas) mark(x, y, size float64) {
	o := new(outline)
	o.circle(x, y+2.5*size, 20*size, false)
	o.circle(x, y+2.5*size, 14.5*size, true)
	c.fill(o, c.accent)
	c.disc(x, y-17*size, 12.5*size, paper)
	c.disc(x, y-17*size, 9.5*size, c.accent)
}

// disc draws a filled circle.
func (c *canvas) disc(x, y, radius float64, paint color.RGBA) {
	o := new(outline)
	o.circle(x, y, radius, false)
	c.fill(o, paint)
}

// titleSizes are the sizes of titles with the most lines of each, and the space between
// them.
var titleSizes = [...]struct {
	size  float64
	lines int
}{{96, 2}, {80, 2}, {68, 3}, {58, 3}, {48, 4}, {42, 5}}

// title sets a title from a height down, in the largest size in which it fits, and gives the
// base line of its last line.
func (c *canvas) title(s *setter, text string, top float64) float64 {
	var lines []string
	size := 0.0
	for i, t := range titleSizes {
		var broken, whole bool
		size = t.size
		lines, broken, whole = s.wrap(text, size, column, t.lines)
		if whole && !broken || i == len(titleSizes)-1 {
			break
		}
	}
	y := top + size*0.72
	for i, line := range lines {
		if i > 0 {
			y += size * 1.06
		}
		c.fill(s.line(line, size, left-size*0.04, y, start), ink)
	}
	return y
}

// cut shortens a line to a width.
func (c *canvas) cut(s *setter, text string, size, width float64) string {
	lines, _, whole := s.wrap(text, size, width, 1)
	if len(lines) == 0 || whole && len(lines) == 1 {
		return text
	}
	return lines[0]
}

// shrunk is a size in which a line is at most so wide.
func (c *canvas) shrunk(s *setter, text string, size, width float64) float64 {
	for float64(s.width(text, size))/64 > width {
		size *= 0.95
	}
	return size
}

func rule(x, y, width, height float64) *outline {
	o := new(outline)
	o.rectangle(x, y, width, height)
	return o
}

// The size of a button, that of the buttons which sites of the early web link to each other
// by.
const (
	ButtonWidth  = 88
	ButtonHeight = 31
)

// Button is the small picture by which a member's page shows that it is in the ring.
type Button struct {
	Site
	Position int // of the member
}

// PNG draws the button. Each unit is scale pixels wide.
func (v *Button) PNG(scale int) []byte {
	c, s := newCanvas(ButtonWidth, ButtonHeight, scale, ink, v.accent()), new(setter)
	c.fill(rule(1, 1, 28, 29), paper)
	o, err := v.outline(4, 4.5, 22)
	if err != nil {
		o = new(outline)
		o.circle(15, 17.5, 8, false)
		o.circle(15, 17.5, 5.5, true)
	}
	c.fill(o, c.accent)
	if err != nil {
		c.disc(15, 9.5, 5.2, paper)
		c.disc(15, 9.5, 4, c.accent)
	}

	name, ok := s.spelled(v.Name)
	if !ok {
		name = "Webring"
	}
	const from, width = 33.0, ButtonWidth - 33.0 - 4
	place := "No. " + grouped(v.Position)
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
