package templates

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// Picture is the ring, drawn: members are around it in ring order, and the first forty by standing
// have rays. The bright part of a ray is the standing, so that rank 1 has the longest; a pale tail
// has faded. Of a large ring a sample of the others is drawn, as dots.
type Picture struct {
	Members  int    // in the ring
	Top      []Mark // the first by standing, the highest first
	Marks    []Mark // of all members, in ring order or evenly spread; some may be in Top
	Here     *Mark  // the member of the page, or nil
	From, To int    // the part of the ring that a page lists; 0 for none
	Kinds    []Kind // how many there are of each, for the key; nil to leave it out
	Category string // that all marks are of, or ""
	Matching int    // how many members it has

	Script string // that draws what changes in the ring while the page is open, "" for none
	Seq    uint64 // the position that the picture shows, for it

	Replays bool // readers can see how the ring grew
	Past    bool // it shows a moment of the past, and only the first forty members

	turned map[int]float64 // by position: the angles of rays that would lie over each other
}

// Mark is one member in the picture.
type Mark struct {
	Slug     string
	Name     string
	URL      string
	Kind     string
	Position int   // in the ring, from 1
	Total    int64 // cents paid in all
	Standing int64 // cents that still count, of Total
}

// Sizes in the picture's own units; the ring's middle is at 200, 200.
const (
	middle  = 200.0
	radius  = 128.0
	gap     = 7.0  // between the ring and a ray
	longest = 52.0 // ray
	beyond  = 15.0 // from the end of a ray to the middle of its numeral
	// apart is how far numerals are from each other at least, as an angle where the shortest ray
	// ends, and raysApart how far rays are.
	apart     = 27 / (foot + shortest + beyond)
	raysApart = 5 / foot
	shortest  = 5.0 // ray
	// Up to this number of members, each is a link of its own. In a larger ring only some of
	// the first are, since the others are too small to hit.
	linked      = 40
	linkedOfTop = 10
	// firstRanks is how many of the first have rays.
	firstRanks = 40
	// numbered is how many of the first have a numeral, and are listed below the picture.
	numbered = 3
)

// angle is the direction of a position of the ring. The first position is at the top. A ray that
// would lie over another is turned aside.
func (p Picture) angle(position int) float64 {
	if angle, turned := p.turned[position]; turned {
		return angle
	}
	return 2*math.Pi*float64(position-1)/float64(max(p.Members, 1)) - math.Pi/2
}

// spread turns the rays of a large ring aside that would lie over each other, and leaves out the
// dots that would then lie below one.
func (p Picture) spread() Picture {
	if p.Members <= linked {
		return p
	}
	rays := p.single()
	if p.many() > linked {
		rays = p.Top
	}
	if p.Here != nil && !p.top(*p.Here) {
		rays = append(slices.Clone(rays), *p.Here)
	}
	angles := make([]float64, len(rays))
	for i, m := range rays {
		angles[i] = p.angle(m.Position)
	}
	spreadOut(angles, raysApart)
	p.turned = map[int]float64{}
	for i, m := range rays {
		p.turned[m.Position] = angles[i]
	}
	p.Marks = slices.DeleteFunc(slices.Clone(p.Marks), func(m Mark) bool {
		return p.many() > linked && !p.top(m) && slices.ContainsFunc(angles, func(a float64) bool { return math.Abs(math.Remainder(a-p.angle(m.Position), 2*math.Pi)) < raysApart })
	})
	return p
}

// many is how many members the picture is about.
func (p Picture) many() int {
	if p.Category != "" {
		return p.Matching
	}
	return p.Members
}

// spreadOut moves angles aside until no two are nearer than apart, if there is room. Their order
// stays.
func spreadOut(angles []float64, apart float64) {
	order := make([]int, len(angles))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(angles[a], angles[b]) })
	for range 40 * max(1, len(order)) { // each halves what lies over each other
		moved := false
		for i, one := range order {
			other := order[(i+1)%len(order)]
			d := angles[other] - angles[one]
			if i == len(order)-1 {
				d += 2 * math.Pi
			}
			if one != other && d < apart-1e-6 {
				angles[one] -= (apart - d) / 2
				angles[other] += (apart - d) / 2
				moved = true
			}
		}
		if !moved {
			return
		}
	}
}

// at gives the point at a distance from the middle, in the direction of a position, as paths have it.
func (p Picture) at(position int, distance float64) string {
	x, y := spot(p.angle(position), distance)
	return unit(x) + " " + unit(y)
}

func spot(angle, distance float64) (x, y float64) {
	return middle + distance*math.Cos(angle), middle + distance*math.Sin(angle)
}

func unit(f float64) string { return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64) }

// length is how long a ray is for an amount in cents: its logarithm in relation to the highest
// standing, which is the longest.
func (p Picture) length(cents int64) float64 {
	most := int64(100)
	for _, marks := range [...][]Mark{p.Marks, p.Top} {
		for _, other := range marks {
			most = max(most, other.Standing)
		}
	}
	if p.Here != nil {
		most = max(most, p.Here.Standing)
	}
	return shortest + (longest-shortest)*min(1, math.Log1p(float64(cents)/100)/math.Log1p(float64(most)/100))
}

// line is the part of the direction of a position between two distances from the middle.
func (p Picture) line(position int, from, to float64) string {
	return "M" + p.at(position, from) + "L" + p.at(position, to)
}

// foot is where rays begin, from the middle.
const foot = radius + gap

// bright is how much of a ray counts, and end where its tail ends.
func (p Picture) bright(m Mark) float64 {
	if m.Standing <= 0 {
		return 0
	}
	return p.length(m.Standing)
}

func (p Picture) end(m Mark) float64 { return foot + max(p.bright(m), p.length(m.Total)) }

// ray is the path of the part of one member's ray that still counts, "" for none, and
// faded that of the rest, "" for none.
func (p Picture) ray(m Mark) string {
	if b := p.bright(m); b > 0 {
		return p.line(m.Position, foot, foot+b)
	}
	return ""
}

func (p Picture) faded(m Mark) string {
	if from := foot + p.bright(m); m.Total > m.Standing && p.end(m)-from >= 0.5 {
		return p.line(m.Position, from, p.end(m))
	}
	return ""
}

// single are the members that are links of their own.
func (p Picture) single() []Mark {
	if p.many() > linked {
		return p.Top[:min(len(p.Top), linkedOfTop)]
	}
	all := slices.Clone(p.Top)
	for _, m := range p.Marks {
		if !p.top(m) {
			all = append(all, m)
		}
	}
	return all
}

// together are the members of one kind that are drawn as one: of the first those that are
// no links of their own, and of the others all.
func (p Picture) together(kind string) (top, others []Mark) {
	if p.many() <= linked {
		return nil, nil
	}
	for _, m := range p.Top[min(len(p.Top), linkedOfTop):] {
		if m.Kind == kind {
			top = append(top, m)
		}
	}
	for _, m := range p.Marks {
		if m.Kind == kind && !p.top(m) {
			others = append(others, m)
		}
	}
	return top, others
}

// top says whether a member is among the first.
func (p Picture) top(m Mark) bool {
	return slices.ContainsFunc(p.Top, func(t Mark) bool { return t.Position == m.Position })
}

// dot is the path of one member's mark on the ring: a line of length 0 with round ends.
func (p Picture) dot(m Mark) string { return "M" + p.at(m.Position, radius) + "h0" }

// joined is one path for several members.
func joined(marks []Mark, path func(Mark) string) (all string) {
	for _, m := range marks {
		all += path(m)
	}
	return all
}

// shape is the outline of one member's mark.
func (p Picture) shape(m Mark) string {
	size := 5.2
	if p.many() > linked {
		size = 3
	}
	return outline(m.Kind, p.at(m.Position, radius), size)
}

// outline is the outline of a mark. Kinds differ in form, too: agents are round, MCP servers
// square, websites are on a corner.
func outline(kind, middle string, size float64) string {
	switch s := unit(size); kind {
	case "mcp":
		e, w := unit(size*0.9), unit(size*1.8)
		return "M" + middle + "m-" + e + "-" + e + "h" + w + "v" + w + "h-" + w + "z"
	case "website":
		d := unit(size * 1.2)
		return "M" + middle + "m0-" + d + "l" + d + " " + d + "l-" + d + " " + d + "l-" + d + "-" + d + "z"
	default:
		return "M" + middle + "m-" + s + " 0a" + s + " " + s + " 0 1 0 " + unit(2*size) + " 0a" + s + " " + s + " 0 1 0-" + unit(2*size) + " 0z"
	}
}

// numeral is the rank of one of the first, at the end of its ray.
type numeral struct {
	Rank     int
	X, Y     string // of its middle
	Baseline string
	Lead     string // a line from its ray, if it had to move aside, or ""
}

// numerals are those of the first three. Where they would lie over each other, they move
// aside.
func (p Picture) numerals() (all []numeral) {
	first := p.Top[:min(len(p.Top), numbered)]
	angles := make([]float64, len(first))
	for i, m := range first {
		angles[i] = p.angle(m.Position)
	}
	spreadOut(angles, apart)
	for i, m := range first {
		x, y := spot(angles[i], p.end(m)+beyond)
		n := numeral{Rank: i + 1, X: unit(x), Y: unit(y), Baseline: unit(y + 5.6)}
		if math.Abs(angles[i]-p.angle(m.Position)) > 0.02 {
			n.Lead = "M" + p.at(m.Position, p.end(m)+2) + "L" + n.X + " " + n.Y
		}
		all = append(all, n)
	}
	return all
}

// stretch is the arc of the part of the ring that a page lists, or "" when that
// is nothing or everything. In a large ring it is as long as can be seen.
func (p Picture) stretch() string {
	if p.From == 0 || p.To-p.From+1 >= p.Members {
		return ""
	}
	to := max(p.To, p.From+p.Members/60)
	wide := "0"
	if 2*(to-p.From) > p.Members {
		wide = "1"
	}
	r := unit(radius - 12)
	return "M" + p.at(p.From, radius-12) + "A" + r + " " + r + " 0 " + wide + " 1 " + p.at(to, radius-12)
}

// longestTitle is how many characters of a name, and of a host, appear where a pointer
// rests.
const longestTitle = 28

// path is that of the page of the mark's member. One of an earlier moment may not be named any more.
func (m Mark) path() string {
	if m.Slug == "" {
		return "/ring"
	}
	return "/members/" + m.Slug
}

// title names the member of the mark.
func (m Mark) title() string {
	if m.URL == "" {
		return m.Name
	}
	return clipped(m.Name, longestTitle) + ", " + clipped(Where(m.URL), longestTitle)
}

func clipped(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// words say what the picture shows.
func (p Picture) words() string {
	const key = " The longer the ray, the more counts now."
	switch {
	case p.Past && p.Members <= firstRanks:
		return "In order of joining, from the top. The longer the ray, the more counted."
	case p.Past:
		return "The top " + strconv.Itoa(firstRanks) + " then, in order of joining. The longer the ray, the more counted."
	case p.Members == 0:
		return "The ring is empty. First place is open."
	case p.Members == 1:
		return "The ring with its only member." + key
	case p.Category != "":
		return "Where the members of " + p.Category + " are in the ring." + key
	case p.Members <= linked || len(p.Marks) == p.Members:
		return "In order of joining, from the top." + key
	default:
		return "The top " + strconv.Itoa(len(p.Top)) + " and some others, in order of joining." + key
	}
}

// placed says where the member of the page, or the listed part, is.
func (p Picture) placed() string {
	switch {
	case p.Here != nil:
		return " The large dot is this member, number " + grouped(p.Here.Position) + "."
	case p.stretch() != "":
		return " The inner arc marks what this page lists."
	}
	return ""
}
