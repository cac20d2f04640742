package card

import (
	"image/color"
	"math"
	"strconv"
)

// Ring is what a picture shows of the ring: some of its members, each with a ray that is
// the longer the more was paid.
type Ring struct {
	Members int
	Marks   []Mark // at most mostMarks are drawn
}

// Mark is one member in the picture.
type Mark struct {
	Position int   // in the ring, from 1
	Total    int64 // cents paid in all
	Kind     string
	Faded    bool // nothing of its bids stands any more
}

// mostMarks bounds the work of a picture.
const mostMarks = 200

// The ring's sizes in units of the card.
const (
	middleX, middleY = 898.0, 315.0
	radius           = 152.0
	gap              = 13.0 // between a mark and its ray
	longest          = 96.0 // ray
)

func kindColour(kind string) color.RGBA {
	switch kind {
	case "mcp":
		return mcp
	case "website":
		return site
	}
	return seal
}

// direction gives the direction of a position of the ring. The first position is at the top.
func (r *Ring) direction(position int) (x, y float64) {
	y, x = math.Sincos(2*math.Pi*float64(position-1)/float64(max(r.Members, 1)) - math.Pi/2)
	return x, y
}

// length is that of a ray: the logarithm of what was paid, in relation to the most paid in
// the picture.
func (r *Ring) length(m Mark, most int64) float64 {
	if most <= 100 {
		return longest
	}
	return 10 + (longest-10)*min(1, math.Log(max(1, float64(m.Total)/100))/math.Log(float64(most)/100))
}

// most is the most paid for a member in the picture.
func (r *Ring) most(here *Mark) int64 {
	most := int64(2000)
	for _, m := range r.Marks {
		most = max(most, m.Total)
	}
	if here != nil {
		most = max(most, here.Total)
	}
	return most
}

// ray gives a line with round ends, from a distance from the middle to another.
func (r *Ring) ray(position int, from, to, breadth float64) *outline {
	const corners = 8 // of a round end
	x, y := r.direction(position)
	o := new(outline)
	half := math.Atan2(y, x)
	for i := range 2 * (corners + 1) {
		end, turn := to, -math.Pi/2+math.Pi*float64(i)/corners
		if i > corners {
			end, turn = from, math.Pi/2+math.Pi*float64(i-corners-1)/corners
		}
		sin, cos := math.Sincos(half + turn)
		p := at(middleX+float64(x*end)+float64(cos*breadth/2), middleY+float64(y*end)+float64(sin*breadth/2))
		if i == 0 {
			o.moveTo(p)
		} else {
			o.lineTo(p)
		}
	}
	return o
}

// dot gives a member's mark. Kinds differ in form, too: agents are round, MCP servers square,
// websites stand on a corner.
func (r *Ring) dot(m Mark, size float64) *outline {
	dx, dy := r.direction(m.Position)
	x, y, o := middleX+float64(dx*radius), middleY+float64(dy*radius), new(outline)
	switch m.Kind {
	case "mcp":
		o.rectangle(x-size*0.9, y-size*0.9, size*1.8, size*1.8)
	case "website":
		d := size * 1.2
		o.polygon(at(x, y-d), at(x+d, y), at(x, y+d), at(x-d, y))
	default:
		o.circle(x, y, size, false)
	}
	return o
}

// draw draws the ring. All marks are pale but here, or all bright when there is none.
func (r *Ring) draw(c *canvas, here *Mark) {
	orbit := new(outline)
	orbit.circle(middleX, middleY, radius+1, false)
	orbit.circle(middleX, middleY, radius-1, true)
	c.fill(orbit, hair)

	marks := r.Marks[:min(len(r.Marks), mostMarks)]
	count, most := float64(max(len(marks), 1)), r.most(here)
	breadth, size := min(7, max(3, 360/count)), min(8.5, max(3.2, 400/count))
	for _, m := range marks {
		if here != nil && m.Position == here.Position {
			continue
		}
		paint := kindColour(m.Kind)
		switch {
		case here != nil:
			paint = mix(paint, paper, 88)
		case m.Faded:
			paint = mix(paint, paper, 110)
		}
		c.fill(r.ray(m.Position, radius+gap, radius+gap+r.length(m, most), breadth), paint)
		c.fill(r.dot(m, size), paint)
	}
	if here == nil {
		return
	}
	size = max(13, size*1.5)
	c.fill(r.ray(here.Position, radius+gap, radius+gap+r.length(*here, most), max(11, breadth*1.6)), paper)
	c.fill(r.ray(here.Position, radius+size+6, radius+max(size+12, gap+r.length(*here, most)), max(9, breadth*1.4)), seal)
	c.fill(r.dot(*here, size+4), paper)
	c.fill(r.dot(*here, size), seal)
}

// grouped writes a number with its thousands apart.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u2009" + digits[i:]
	}
	return digits
}
