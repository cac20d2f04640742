package card

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"sync/atomic"

	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// The colours of the pages in their light scheme, as style.css has them.
var (
	paper = color.RGBA{0xfa, 0xf7, 0xf0, 0xff}
	ink   = color.RGBA{0x21, 0x1d, 0x16, 0xff}
	quiet = color.RGBA{0x6a, 0x62, 0x52, 0xff}
	hair  = color.RGBA{0xdd, 0xd5, 0xc4, 0xff}
	pale  = color.RGBA{0xcd, 0xc3, 0xae, 0xff}
	seal  = color.RGBA{0xa8, 0x32, 0x1a, 0xff}
	agent = color.RGBA{0x3b, 0x4a, 0x9e, 0xff}
	mcp   = color.RGBA{0x1f, 0x6a, 0x62, 0xff}
	site  = color.RGBA{0x8a, 0x64, 0x10, 0xff}
)

// mix gives a colour of which so many of 256 parts are c and the others are on.
func mix(c, on color.RGBA, parts int) color.RGBA {
	part := func(a, b uint8) uint8 { return uint8((int(a)*parts + int(b)*(256-parts) + 128) / 256) }
	return color.RGBA{part(c.R, on.R), part(c.G, on.G), part(c.B, on.B), 0xff}
}

// canvas is a picture being drawn.
type canvas struct {
	*image.RGBA
	scale  int // pixels for each unit of a layout
	accent color.RGBA
	raster vector.Rasterizer
}

func newCanvas(width, height, scale int, background, accent color.RGBA) *canvas {
	c := &canvas{RGBA: image.NewRGBA(image.Rect(0, 0, width*scale, height*scale)), scale: scale, accent: accent}
	draw.Draw(c.RGBA, c.Bounds(), image.NewUniform(background), image.Point{}, draw.Src)
	return c
}

// outline is a shape of polygons that are filled inside.
type outline struct{ polygons [][]fixed.Point26_6 }

// at is a point in 1/64 of a unit.
func at(x, y float64) fixed.Point26_6 {
	return fixed.Point26_6{X: fixed.Int26_6(math.Round(x * 64)), Y: fixed.Int26_6(math.Round(y * 64))}
}

func (o *outline) moveTo(p fixed.Point26_6) {
	o.polygons = append(o.polygons, []fixed.Point26_6{p})
}

func (o *outline) lineTo(p fixed.Point26_6) {
	last := &o.polygons[len(o.polygons)-1]
	*last = append(*last, p)
}

// smooth is of how many lines a curve of a glyph is made.
const smooth = 8

// curveTo adds a Bézier curve of two or three further control points, reckoned in whole
// numbers.
func (o *outline) curveTo(points ...fixed.Point26_6) {
	last := o.polygons[len(o.polygons)-1]
	points = append([]fixed.Point26_6{last[len(last)-1]}, points...)
	for i := 1; i <= smooth; i++ {
		o.lineTo(fixed.Point26_6{
			X: bezier(i, func(k int) fixed.Int26_6 { return points[k].X }, len(points)-1),
			Y: bezier(i, func(k int) fixed.Int26_6 { return points[k].Y }, len(points)-1),
		})
	}
}

// bezier gives one coordinate of a curve of a degree of 2 or 3 after i of its lines.
func bezier(i int, of func(k int) fixed.Int26_6, degree int) fixed.Int26_6 {
	a, b, whole, sum := int64(smooth-i), int64(i), int64(1), int64(0)
	for range degree {
		whole *= smooth
	}
	for k := range degree + 1 {
		term := int64(of(k))
		for range degree - k {
			term *= a
		}
		for range k {
			term *= b
		}
		if k > 0 && k < degree {
			term *= int64(degree)
		}
		sum += term
	}
	return fixed.Int26_6((sum + whole/2) / whole)
}

// circle adds a circle, as a hole when it is turned.
func (o *outline) circle(x, y, radius float64, hole bool) {
	corners := make([]fixed.Point26_6, max(16, int(radius)&^3))
	for i := range corners {
		angle := 2 * math.Pi * float64(i) / float64(len(corners))
		if hole {
			angle = -angle
		}
		sin, cos := math.Sincos(angle)
		corners[i] = at(x+float64(radius*cos), y+float64(radius*sin))
	}
	o.polygon(corners...)
}

// polygon adds corners.
func (o *outline) polygon(corners ...fixed.Point26_6) {
	o.polygons = append(o.polygons, corners)
}

// rectangle adds a rectangle.
func (o *outline) rectangle(x, y, width, height float64) {
	o.polygon(at(x, y), at(x+width, y), at(x+width, y+height), at(x, y+height))
}

// tile is the largest side of what is filled at once: up to it the rasterizer reckons in
// fixed point.
const tile = 512

// fill fills an outline. Each unit is scale pixels wide.
func (c *canvas) fill(o *outline, paint color.RGBA) {
	var bounds image.Rectangle
	for _, polygon := range o.polygons {
		for _, p := range polygon {
			x, y := int(p.X)*c.scale, int(p.Y)*c.scale
			bounds = bounds.Union(image.Rect(x>>6, y>>6, x>>6+2, y>>6+2))
		}
	}
	bounds = bounds.Intersect(c.Bounds())
	for top := bounds.Min.Y; top < bounds.Max.Y; top += tile {
		for left := bounds.Min.X; left < bounds.Max.X; left += tile {
			part := image.Rect(left, top, left+tile, top+tile).Intersect(bounds)
			c.raster.Reset(part.Dx(), part.Dy())
			for _, polygon := range o.polygons {
				for i, p := range polygon {
					x := float32(int(p.X)*c.scale-left*64) / 64
					y := float32(int(p.Y)*c.scale-top*64) / 64
					if i == 0 {
						c.raster.MoveTo(x, y)
					} else {
						c.raster.LineTo(x, y)
					}
				}
				c.raster.ClosePath()
			}
			c.raster.Draw(c.RGBA, part, image.NewUniform(paint), image.Point{})
		}
	}
}

// palette has the colours of all pictures of a ring: each of the inks on paper, in steps, as
// edges that lie between two colours show them.
type palette struct {
	accent  color.RGBA
	colours color.Palette
	nearest [1 << 15]uint8 // by the upper five bits of each channel
}

// lastPalette is the one that was made last: a ring has one, until its operator chooses
// another accent.
var lastPalette atomic.Pointer[palette]

func paletteOf(accent color.RGBA) *palette {
	if p := lastPalette.Load(); p != nil && p.accent == accent {
		return p
	}
	p := &palette{accent: accent}
	full := []color.RGBA{paper, ink, quiet, hair, pale, accent, agent, mcp, site, onInk}
	for _, c := range full {
		p.colours = append(p.colours, c)
	}
	const steps = 24
	for _, pair := range [...][2]color.RGBA{{ink, paper}, {accent, paper}, {agent, paper}, {mcp, paper}, {site, paper}, {hair, paper}, {pale, paper}, {quiet, paper}, {accent, ink}, {onInk, ink}} {
		for i := 1; i < steps; i++ {
			p.colours = append(p.colours, mix(pair[0], pair[1], 256*i/steps))
		}
	}
	for cell := range p.nearest {
		channel := func(shift int) uint8 { return uint8(cell>>shift&31)<<3 | 4 }
		p.nearest[cell] = uint8(p.colours.Index(color.RGBA{channel(10), channel(5), channel(0), 0xff}))
	}
	for i, c := range full {
		p.nearest[cellOf(c.R, c.G, c.B)] = uint8(i)
	}
	lastPalette.Store(p)
	return p
}

func cellOf(r, g, b uint8) int { return int(r>>3)<<10 | int(g>>3)<<5 | int(b>>3) }

// png gives the picture as a file.
func (c *canvas) png() []byte {
	all := paletteOf(c.accent)
	flat := image.NewPaletted(c.Bounds(), all.colours)
	for i := range flat.Pix {
		p := c.Pix[4*i : 4*i+3 : 4*i+3]
		flat.Pix[i] = all.nearest[cellOf(p[0], p[1], p[2])]
	}
	return encode(flat)
}

// encode writes a picture as PNG.
func encode(m image.Image) []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, m) // a buffer takes all that is written to it
	return b.Bytes()
}
