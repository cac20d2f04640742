package card

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"golang.org/x/image/math/fixed"
)

// Logo is a drawing in SVG: its view box, and the data of its path.
type Logo struct{ Box, Path string }

// Check says whether the logo can be drawn.
func (l Logo) Check() error {
	_, err := l.outline(0, 0, 1)
	return err
}

// outline draws the logo into a square. Its box is square, too.
func (l Logo) outline(x, y, side float64) (*outline, error) {
	frame := logoPen{rest: l.Box}
	left, top, width, height := frame.number(), frame.number(), frame.number(), frame.number()
	if frame.failed || frame.rest != "" || width <= 0 || width != height {
		return nil, errors.New("its view box is not square")
	}
	p := logoPen{rest: l.Path, left: left, top: top, scale: side / width, x: x, y: y, side: side, outline: new(outline)}
	for p.more() && !p.failed {
		p.command()
	}
	if p.failed || len(p.polygons) == 0 {
		return nil, errors.New("its path has an error, or leaves the view box")
	}
	return p.outline, nil
}

// logoPen draws the data of a path (SVG 2, chapter 9). Points are those of the drawing.
type logoPen struct {
	rest   string
	failed bool

	left, top, scale, x, y, side float64 // where the drawing lies, and where it is drawn
	*outline

	here, start, turn [2]float64 // turn is the last control point
	last              byte       // the command before
}

func (p *logoPen) more() bool {
	p.rest = strings.TrimLeft(p.rest, " ,")
	return p.rest != ""
}

// number reads a number. Two of them need nothing between them where a sign or a point begins the second.
func (p *logoPen) number() float64 {
	p.more()
	end, point, exponent := 0, false, false
	for ; end < len(p.rest); end++ {
		c := p.rest[end]
		switch {
		case c >= '0' && c <= '9':
			continue
		case (c == '-' || c == '+') && (end == 0 || p.rest[end-1]|0x20 == 'e'):
			continue
		case c == '.' && !point && !exponent:
			point = true
			continue
		case c|0x20 == 'e' && end > 0 && !exponent:
			exponent = true
			continue
		}
		break
	}
	v, err := strconv.ParseFloat(p.rest[:end], 64)
	if p.rest = p.rest[end:]; err != nil || math.Abs(v) > 1e6 {
		p.failed = true
		return 0
	}
	return v
}

// flag reads a flag of an arc, which is one digit.
func (p *logoPen) flag() bool {
	if !p.more() || p.rest[0] != '0' && p.rest[0] != '1' {
		p.failed = true
		return false
	}
	on := p.rest[0] == '1'
	p.rest = p.rest[1:]
	return on
}

// point reads a point.
func (p *logoPen) point(relative bool) [2]float64 {
	x, y := p.number(), p.number()
	if relative {
		x, y = x+p.here[0], y+p.here[1]
	}
	return [2]float64{x, y}
}

// placed is a point where it is drawn. None lies far outside.
func (p *logoPen) placed(to [2]float64) fixed.Point26_6 {
	x, y := float64((to[0]-p.left)*p.scale), float64((to[1]-p.top)*p.scale)
	if !(math.Abs(x) <= 2*p.side && math.Abs(y) <= 2*p.side) {
		p.failed = true
		return fixed.Point26_6{}
	}
	return at(p.x+x, p.y+y)
}

func (p *logoPen) line(to [2]float64) {
	p.lineTo(p.placed(to))
	p.here = to
}

func (p *logoPen) cubic(a, b, to [2]float64) {
	p.curveTo(p.placed(a), p.placed(b), p.placed(to))
	p.here, p.turn = to, b
}

func (p *logoPen) quadratic(a, to [2]float64) {
	p.curveTo(p.placed(a), p.placed(to))
	p.here, p.turn = to, a
}

// mirrored is the control point that goes on from a curve by one of these commands.
func (p *logoPen) mirrored(after string) [2]float64 {
	if strings.IndexByte(after, p.last) < 0 {
		return p.here
	}
	return [2]float64{2*p.here[0] - p.turn[0], 2*p.here[1] - p.turn[1]}
}

// command draws one command. Without its letter it is the one before again.
func (p *logoPen) command() {
	c := p.rest[0]
	switch {
	case strings.IndexByte("MmZzLlHhVvCcSsQqTtAa", c) >= 0:
		p.rest = p.rest[1:]
	case p.last == 'M':
		c = 'L'
	case p.last == 'm':
		c = 'l'
	default:
		c = p.last
	}
	relative := c >= 'a'
	if len(p.polygons) == 0 && c|0x20 != 'm' {
		p.failed = true
		return
	}
	if p.last|0x20 == 'z' && c|0x20 != 'm' && c|0x20 != 'z' {
		p.moveTo(p.placed(p.start))
	}
	switch c | 0x20 {
	case 'm':
		p.here = p.point(relative)
		p.start = p.here
		p.moveTo(p.placed(p.here))
	case 'z':
		if p.last|0x20 == 'z' {
			p.failed = true // or a path of z alone would have no end
		}
		p.here = p.start
	case 'l':
		p.line(p.point(relative))
	case 'h':
		x := p.number()
		if relative {
			x += p.here[0]
		}
		p.line([2]float64{x, p.here[1]})
	case 'v':
		y := p.number()
		if relative {
			y += p.here[1]
		}
		p.line([2]float64{p.here[0], y})
	case 'c':
		p.cubic(p.point(relative), p.point(relative), p.point(relative))
	case 's':
		p.cubic(p.mirrored("CcSs"), p.point(relative), p.point(relative))
	case 'q':
		p.quadratic(p.point(relative), p.point(relative))
	case 't':
		p.quadratic(p.mirrored("QqTt"), p.point(relative))
	case 'a':
		rx, ry, turned := p.number(), p.number(), p.number()
		large, sweep := p.flag(), p.flag()
		p.arc(math.Abs(rx), math.Abs(ry), turned*math.Pi/180, large, sweep, p.point(relative))
	}
	p.last = c
}

// arc draws a part of an ellipse as curves of at most a quarter turn each (SVG 2, B.2.4).
func (p *logoPen) arc(rx, ry, turned float64, large, sweep bool, to [2]float64) {
	if p.failed || rx == 0 || ry == 0 || to == p.here {
		p.line(to)
		return
	}
	sin, cos := math.Sincos(turned)
	dx, dy := (p.here[0]-to[0])/2, (p.here[1]-to[1])/2
	x, y := float64(cos*dx)+float64(sin*dy), float64(cos*dy)-float64(sin*dx)
	if over := float64(x*x)/float64(rx*rx) + float64(y*y)/float64(ry*ry); over > 1 {
		rx, ry = rx*math.Sqrt(over), ry*math.Sqrt(over)
	}
	below := float64(rx*rx)*float64(y*y) + float64(float64(ry*ry)*float64(x*x))
	k := math.Sqrt(max(0, float64(rx*rx)*float64(ry*ry)/below-1))
	if large == sweep {
		k = -k
	}
	cx, cy := k*rx*y/ry, -k*ry*x/rx
	from := math.Atan2((y-cy)/ry, (x-cx)/rx)
	swept := math.Atan2((-y-cy)/ry, (-x-cx)/rx) - from
	if sweep && swept < 0 {
		swept += 2 * math.Pi
	} else if !sweep && swept > 0 {
		swept -= 2 * math.Pi
	}
	mx, my := (p.here[0]+to[0])/2, (p.here[1]+to[1])/2
	at := func(u, v float64) [2]float64 {
		u, v = cx+float64(u*rx), cy+float64(v*ry)
		return [2]float64{mx + float64(cos*u) - float64(sin*v), my + float64(sin*u) + float64(cos*v)}
	}
	parts := max(1, math.Ceil(math.Abs(swept)/(math.Pi/2)-1e-9))
	step := swept / parts
	bend := 4.0 / 3 * math.Tan(step/4)
	for i := range int(parts) {
		s0, c0 := math.Sincos(from + float64(i)*step)
		s1, c1 := math.Sincos(from + float64(i+1)*step)
		end := at(c1, s1)
		if i == int(parts)-1 {
			end = to
		}
		p.cubic(at(c0-float64(bend*s0), s0+float64(bend*c0)), at(c1+float64(bend*s1), s1-float64(bend*c1)), end)
	}
}
