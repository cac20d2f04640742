package card

import (
	"image/color"
	"math"
	"slices"
	"strconv"

	"golang.org/x/image/math/fixed"
)

// Ring is what a picture shows of the ring: the first by standing, each with a ray that is
// the longer the more counts, and dots where others are.
type Ring struct {
	Members int
	Marks   []Mark // of the first, the highest first; at most mostMarks are drawn
	Others  []int  // positions of some members; at most mostOthers are drawn
}

// Mark is one member in the picture. The inner part of its ray, which still counts, is
// bright, and the outer one, which has faded, is pale.
type Mark struct {
	Position int   // in the ring, from 1
	Total    int64 // cents paid in all
	Percent  int   // of Total that still counts
	Kind     string
}

// What bounds the work of a picture.
const (
	mostMarks  = 60
	mostOthers = 100
)

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
	return agent
}

// direction gives the direction of a position of the ring. The first position is at the top.
func (r *Ring) direction(position int) (x, y float64) {
	y, x = math.Sincos(2*math.Pi*float64(position-1)/float64(max(r.Members, 1)) - math.Pi/2)
	return x, y
}

// standing is what still counts of what was paid.
func (m Mark) standing() int64 { return m.Total * int64(min(max(m.Percent, 0), 100)) / 100 }

// length is that of a ray for an amount: its logarithm in relation to the most paid for a member in
// the picture.
func length(cents, most int64) float64 {
	return 10 + (longest-10)*math.Log(max(1, float64(cents)/100))/math.Log(float64(most)/100)
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
	var around [2 * (corners + 1)]fixed.Point26_6
	x, y := r.direction(position)
	half := math.Atan2(y, x)
	for i := range around {
		end, turn := to, -math.Pi/2+math.Pi*float64(i)/corners
		if i > corners {
			end, turn = from, math.Pi/2+math.Pi*float64(i-corners-1)/corners
		}
		sin, cos := math.Sincos(half + turn)
		around[i] = at(middleX+float64(x*end)+float64(cos*breadth/2), middleY+float64(y*end)+float64(sin*breadth/2))
	}
	return &outline{[][]fixed.Point26_6{around[:]}}
}

// dot gives a member's mark. Kinds differ in form, too: agents are round, MCP servers square,
// websites are on a corner.
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

// pen is how one member is drawn.
type pen struct {
	breadth float64 // of the ray
	foot    float64 // where it begins, from the middle
	bright  color.RGBA
	pale    color.RGBA
}

// rays draws the ray of a member: first the part that has faded, then over it the part that still
// counts.
func (r *Ring) rays(c *canvas, m Mark, p pen, most int64) {
	tip, stands := max(p.foot+6, radius+gap+length(m.Total, most)), p.foot
	if counts := m.standing(); counts > 0 {
		stands = max(p.foot+6, radius+gap+length(counts, most))
	}
	if stands < tip {
		c.fill(r.ray(m.Position, p.foot, tip, p.breadth), p.pale)
	}
	if stands > p.foot {
		c.fill(r.ray(m.Position, p.foot, stands, p.breadth), p.bright)
	}
}

// draw draws the ring. If here is given, the other marks are lighter.
func (r *Ring) draw(c *canvas, here *Mark) {
	orbit := new(outline)
	orbit.circle(middleX, middleY, radius+1, false)
	orbit.circle(middleX, middleY, radius-1, true)
	c.fill(orbit, mix(quiet, paper, 150))
	for _, position := range r.Others[:min(len(r.Others), mostOthers)] {
		c.fill(r.dot(Mark{Position: position}, 2.6), quiet)
	}

	marks := r.Marks[:min(len(r.Marks), mostMarks)]
	count, most := float64(max(len(marks), 1)), r.most(here)
	p := pen{breadth: min(7, max(3, 260/count)), foot: radius + gap, pale: pale}
	size := min(8.5, max(3.2, 270/count))
	for _, m := range slices.Backward(marks) { // the first lie over the others
		if here != nil && m.Position == here.Position {
			continue
		}
		p.bright = kindColour(m.Kind)
		if here != nil {
			p.bright, p.pale = mix(p.bright, paper, 150), mix(pale, paper, 150)
		}
		r.rays(c, m, p, most)
		c.fill(r.dot(m, size), p.bright)
	}
	if here == nil {
		return
	}
	size = max(13, size*1.5)
	c.fill(r.ray(here.Position, radius+gap, radius+gap+length(here.Total, most), p.breadth+6), paper)
	r.rays(c, *here, pen{breadth: p.breadth + 4, foot: radius + size + 6, bright: c.accent, pale: pale}, most)
	c.fill(r.dot(*here, size+4), paper)
	c.fill(r.dot(*here, size), c.accent)
}

// grouped writes a number with its thousands apart.
func grouped(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "\u2009" + digits[i:]
	}
	return digits
}
