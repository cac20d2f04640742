package templates

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Picture is the ring, drawn: members stand around it in ring order, and a ray
// shows what was paid for each. Of a large ring it shows a sample.
type Picture struct {
	Members  int    // in the ring
	Marks    []Mark // in ring order
	First    *Mark  // the member at rank 1, sampled or not
	Here     *Mark  // the member of the page, or nil
	From, To int    // the part of the ring that a page lists; 0 for none
}

// Mark is one member in the picture.
type Mark struct {
	Slug     string
	Name     string
	URL      string
	Kind     string
	Position int   // in the ring, from 1
	Total    int64 // cents paid in all
}

// Sizes in the picture's own units; it is 400 wide and high.
const (
	middle  = 200.0
	radius  = 122.0
	longest = 66.0 // ray
	// Up to this number of marks, each is a link of its own. More would be too small
	// to hit, and are drawn together.
	linked = 60
)

// point gives the point at a distance from the middle, in the direction of a position
// of the ring. The first position is at the top.
func (p Picture) point(position int, distance float64) (x, y string) {
	angle := 2*math.Pi*float64(position-1)/float64(max(p.Members, 1)) - math.Pi/2
	return unit(middle + distance*math.Cos(angle)), unit(middle + distance*math.Sin(angle))
}

func unit(f float64) string { return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64) }

// length is the length of a ray: the logarithm of what was paid for the member, in
// relation to the most paid in the picture. It is never negative, also where the fee
// is less than a dollar.
func (p Picture) length(m Mark) float64 {
	most := int64(2000)
	for _, other := range p.Marks {
		most = max(most, other.Total)
	}
	if p.First != nil {
		most = max(most, p.First.Total)
	}
	return 5 + (longest-5)*math.Log(max(1, float64(m.Total)/100))/math.Log(float64(most)/100)
}

// ray is the path of one member's ray.
func (p Picture) ray(m Mark) string {
	x, y := p.point(m.Position, radius+7)
	tipX, tipY := p.point(m.Position, radius+7+p.length(m))
	return "M" + x + " " + y + "L" + tipX + " " + tipY
}

// rays are the rays of all members of one kind.
func (p Picture) rays(kind string) string {
	var b strings.Builder
	for _, m := range p.Marks {
		if m.Kind == kind {
			b.WriteString(p.ray(m))
		}
	}
	return b.String()
}

// dots are the marks of all members of one kind: lines of length 0 with round ends,
// which show as dots.
func (p Picture) dots(kind string) string {
	var b strings.Builder
	for _, m := range p.Marks {
		if m.Kind == kind {
			x, y := p.point(m.Position, radius)
			b.WriteString("M" + x + " " + y + "h0")
		}
	}
	return b.String()
}

// shape is the outline of one member's mark. Kinds differ in form, too: agents
// are round, MCP servers square, websites stand on a corner.
func (p Picture) shape(m Mark) string {
	x, y := p.point(m.Position, radius)
	return outline(m.Kind, x, y, 5.2)
}

func outline(kind, x, y string, size float64) string {
	switch s := unit(size); kind {
	case "mcp":
		e := unit(size * 0.9)
		return "M" + x + " " + y + "m-" + e + "-" + e + "h" + unit(size*1.8) + "v" + unit(size*1.8) + "h-" + unit(size*1.8) + "z"
	case "website":
		d := unit(size * 1.2)
		return "M" + x + " " + y + "m0-" + d + "l" + d + " " + d + "l-" + d + " " + d + "l-" + d + "-" + d + "z"
	default:
		return "M" + x + " " + y + "m-" + s + " 0a" + s + " " + s + " 0 1 0 " + unit(2*size) + " 0a" + s + " " + s + " 0 1 0-" + unit(2*size) + " 0z"
	}
}

// x and y are where a mark stands.
func (p Picture) x(m Mark) string {
	x, _ := p.point(m.Position, radius)
	return x
}

func (p Picture) y(m Mark) string {
	_, y := p.point(m.Position, radius)
	return y
}

// thread leads from the middle to a mark.
func (p Picture) thread(m Mark) string {
	x, y := p.point(m.Position, radius-10)
	fromX, fromY := p.point(m.Position, radius*0.6)
	return "M" + fromX + " " + fromY + "L" + x + " " + y
}

// stretch is the arc of the part of the ring that a page lists, or "" when that
// is nothing or everything. In a large ring it is as long as can be seen.
func (p Picture) stretch() string {
	if p.From == 0 || p.To-p.From+1 >= p.Members {
		return ""
	}
	to := max(p.To, p.From+p.Members/linked)
	x, y := p.point(p.From, radius-12)
	endX, endY := p.point(to, radius-12)
	wide := "0"
	if 2*(to-p.From) > p.Members {
		wide = "1"
	}
	r := unit(radius - 12)
	return "M" + x + " " + y + "A" + r + " " + r + " 0 " + wide + " 1 " + endX + " " + endY
}

// rayBreadth and dotBreadth are how thick rays and marks are when they are
// drawn together.
func (p Picture) rayBreadth() string { return unit(min(4, max(1.4, 150/float64(len(p.Marks))))) }

func (p Picture) dotBreadth() string { return unit(min(9, max(3.2, 420/float64(len(p.Marks))))) }

// words say what the picture shows.
func (p Picture) words() string {
	var b strings.Builder
	switch {
	case p.Members == 0:
		return "The ring has no members at present."
	case p.Members == 1:
		b.WriteString("The ring, with its only member")
	case len(p.Marks) < p.Members:
		fmt.Fprintf(&b, "The ring of %s members; %d of them, evenly spread, are drawn", grouped(p.Members), len(p.Marks))
	default:
		fmt.Fprintf(&b, "The ring of %s members", grouped(p.Members))
	}
	b.WriteString(" in the order of joining, from the top. The longer a ray, the more was paid.")
	return b.String()
}

// placed says where the member of the page, or the listed part, stands.
func (p Picture) placed() string {
	switch {
	case p.Here != nil:
		return " The large dot is this member, number " + grouped(p.Here.Position) + "."
	case p.stretch() != "":
		return " The arc inside is what this page lists."
	}
	return ""
}
