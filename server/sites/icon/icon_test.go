package icon

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
)

var red, blue = color.NRGBA{200, 0, 0, 255}, color.NRGBA{0, 0, 200, 255}

// filled is a picture in one colour.
func filled(w, h int, c color.Color) *image.NRGBA {
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for i := range w * h {
		m.Set(i%w, i/w, c)
	}
	return m
}

func asGIF(frames ...image.Image) []byte {
	g := &gif.GIF{}
	for _, m := range frames {
		p := image.NewPaletted(m.Bounds(), color.Palette{red, blue})
		for i := range p.Rect.Dx() * p.Rect.Dy() {
			p.Set(i%p.Rect.Dx(), i/p.Rect.Dx(), m.At(i%p.Rect.Dx(), i/p.Rect.Dx()))
		}
		g.Image, g.Delay = append(g.Image, p), append(g.Delay, 1)
	}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, g); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func asJPEG(m image.Image) []byte {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// entry is a picture in an ICO.
type entry struct {
	side, bits int
	file       []byte
}

func asICO(entries ...entry) []byte {
	b := []byte{0, 0, 1, 0, byte(len(entries)), 0}
	at := len(b) + len(entries)*icoEntry
	for _, e := range entries {
		b = append(b, byte(e.side), byte(e.side), 0, 0, 1, 0, byte(e.bits), 0)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(e.file)))
		b = binary.LittleEndian.AppendUint32(b, uint32(at))
		at += len(e.file)
	}
	for _, e := range entries {
		b = append(b, e.file...)
	}
	return b
}

// dib is a bitmap in an ICO: red, but blue in its lowest row, and transparent in the highest one by its
// mask.
func dib(side, bits int, alpha byte) entry {
	var b []byte
	for _, x := range []int{dibHead, side, 2 * side, 1 | bits<<16, 0, 0, 0, 0, 0, 0} {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	if bits <= 8 {
		b = append(append(b, 0, 0, 200, 0, 200, 0, 0, 0), make([]byte, 4<<bits-8)...)
	}
	stride := (side*bits + 31) / 32 * 4
	for y := range side {
		row := make([]byte, stride)
		for x := range side {
			switch {
			case bits <= 8 && y == 0:
				row[x*bits/8] |= 1 << (8 - bits - x*bits%8)
			case bits <= 8:
			case y == 0:
				row[x*bits/8] = 200
			default:
				row[x*bits/8+2] = 200
			}
			if bits == 32 {
				row[x*4+3] = alpha
			}
		}
		b = append(b, row...)
	}
	mask := make([]byte, (side+31)/32*4*side)
	for i := range (side + 31) / 32 * 4 {
		mask[len(mask)-1-i] = 0xff
	}
	return entry{side, bits, append(b, mask...)}
}

// webp8L is a WebP of so many pixels in one colour, lossless: five Huffman codes of one symbol each.
func webp8L(w, h int, c color.NRGBA) []byte {
	var bits []byte
	n := 0
	put := func(value, size int) {
		for i := range size {
			if n%8 == 0 {
				bits = append(bits, 0)
			}
			bits[n/8] |= byte(value>>i&1) << (n % 8)
			n++
		}
	}
	put(0x2f, 8)
	put(w-1, 14)
	put(h-1, 14)
	put(1, 1) // alpha
	put(0, 3) // version
	put(0, 3) // no transform, no cache, no groups
	for _, symbol := range []uint8{c.G, c.R, c.B, c.A, 0} {
		put(1, 1) // simple
		put(0, 1) // of one symbol
		put(1, 1) // of 8 bits
		put(int(symbol), 8)
	}
	b := append([]byte("RIFF\x00\x00\x00\x00WEBPVP8L"), byte(len(bits)), 0, 0, 0)
	b = append(b, bits...)
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-8))
	return b
}

// hugePNG is a PNG that says it has so many pixels.
func hugePNG(w, h uint32) []byte {
	b := encode(filled(1, 1, red))
	binary.BigEndian.PutUint32(b[16:], w)
	binary.BigEndian.PutUint32(b[20:], h)
	return b
}

func TestIconsAreDrawnSmall(t *testing.T) {
	onPNG := func(side int, c color.Color) entry { return entry{side, 32, encode(filled(side, side, c))} }
	for _, c := range []struct {
		about       string
		file        []byte
		middle, top color.NRGBA // the pixel in the middle, and the one above it on the edge
	}{
		{"PNG", encode(filled(512, 512, red)), red, red},
		{"PNG of one pixel", encode(filled(1, 1, blue)), blue, blue},
		{"PNG, translucent", encode(filled(64, 64, color.NRGBA{0, 0, 200, 100})), color.NRGBA{0, 0, 200, 100}, color.NRGBA{0, 0, 200, 100}},
		{"PNG, wide", encode(filled(64, 16, red)), red, color.NRGBA{}},
		{"PNG, high", encode(filled(48, 512, red)), red, red},
		{"PNG, a line", encode(filled(512, 1, red)), color.NRGBA{}, color.NRGBA{}},
		{"GIF", asGIF(filled(16, 16, red)), red, red},
		{"GIF, animated", asGIF(filled(48, 48, blue), filled(48, 48, red)), blue, blue},
		{"WebP", webp8L(40, 40, blue), blue, blue},
		{"ICO, the largest", asICO(onPNG(16, red), onPNG(48, blue), onPNG(24, red)), blue, blue},
		{"ICO of 256", asICO(entry{0, 32, encode(filled(256, 256, blue))}), blue, blue},
		{"ICO, the one of more colours", asICO(dib(32, 1, 0), onPNG(32, blue), dib(32, 8, 0)), blue, blue},
		{"ICO of 1 bit", asICO(dib(32, 1, 0)), red, color.NRGBA{}},
		{"ICO of 4 bits", asICO(dib(32, 4, 0)), red, color.NRGBA{}},
		{"ICO of 8 bits", asICO(dib(32, 8, 0)), red, color.NRGBA{}},
		{"ICO of 24 bits", asICO(dib(32, 24, 0)), red, color.NRGBA{}},
		{"ICO of 32 bits", asICO(dib(32, 32, 255)), red, red},
		{"ICO of 32 bits without alpha", asICO(dib(32, 32, 0)), red, color.NRGBA{}},
		{"none", None, color.NRGBA{}, color.NRGBA{}},
	} {
		small, err := Small(c.file)
		if err != nil {
			t.Errorf("%s: %v", c.about, err)
			continue
		}
		m, err := png.Decode(bytes.NewReader(small))
		if err != nil || m.Bounds() != image.Rect(0, 0, Side, Side) {
			t.Errorf("%s: %v", c.about, err)
			continue
		}
		at := func(x, y int) color.NRGBA { return color.NRGBAModel.Convert(m.At(x, y)).(color.NRGBA) }
		if middle, top := at(16, 16), at(16, 0); middle != c.middle || top != c.top {
			t.Errorf("%s: %v in the middle, %v above, want %v and %v", c.about, middle, top, c.middle, c.top)
		}
	}
	// The rows of a bitmap go up.
	small, _ := Small(asICO(dib(32, 8, 0)))
	if m, err := png.Decode(bytes.NewReader(small)); err != nil || color.NRGBAModel.Convert(m.At(16, 31)) != blue {
		t.Errorf("%v: the lowest row is not at the bottom", err)
	}
	if small, err := Small(asJPEG(filled(100, 100, red))); err != nil || len(small) == 0 {
		t.Errorf("JPEG: %v", err)
	}
	// Nothing is larger than noise.
	noise := filled(Side, Side, red)
	for i, x := 0, uint32(1); i < len(noise.Pix); i++ {
		x = x*1664525 + 1013904223
		noise.Pix[i] = byte(x >> 24)
	}
	if small, err := Small(encode(noise)); err != nil || len(small) > MaxSmall {
		t.Errorf("%v: noise takes %d bytes", err, len(small))
	}
}

func TestWhatIsNoIconIsRefused(t *testing.T) {
	whole := encode(filled(64, 64, red))
	ico := asICO(dib(32, 8, 0))
	changed := func(file []byte, at int, to ...byte) []byte {
		b := bytes.Clone(file)
		copy(b[at:], to)
		return b
	}
	const bitmap = icoHead + icoEntry
	emptyGIF := changed(asGIF(filled(1, 1, red)), 6, 0, 0, 0, 0)
	for about, file := range map[string][]byte{
		"nothing": nil, "text": []byte("Not found"), "HTML": []byte("<!doctype html><title>Hello</title>"), "SVG": []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`),
		"XML and SVG": []byte(`<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>`), "half a BMP": []byte("BM" + strings.Repeat("\x00", 100)),
		"half a PNG": whole[:len(whole)/2], "its head": whole[:8], "half an ICO": ico[:len(ico)/2], "an ICO's head": ico[:4], "an ICO of nothing": asICO(),
		"a wide PNG": encode(filled(MaxSide+1, 1, red)), "a high one": encode(filled(1, MaxSide+1, red)), "a huge one": hugePNG(1<<31-1, 1<<31-1), "a flat one": hugePNG(0, 10),
		"a huge PNG in an ICO": asICO(entry{32, 32, hugePNG(1<<15, 1<<15)}), "a huge WebP": webp8L(1<<14, 1<<14, red), "a GIF without pixels": emptyGIF,
		"a JPEG of many scans": append(asJPEG(filled(8, 8, red)), strings.Repeat("\xff\xda", maxScans)...),
		"an ICO in an ICO":     asICO(entry{32, 32, ico}), "a JPEG in an ICO": asICO(entry{32, 32, asJPEG(filled(8, 8, red))}),
		"an entry beyond the file": changed(ico, icoHead+8, 0xff, 0xff, 0xff, 0xff), "one behind it": changed(ico, icoHead+12, 0xff, 0xff, 0xff, 0xff),
		"a long bitmap head": changed(ico, bitmap, 0xff, 0xff, 0xff, 0xff), "a short one": changed(ico, bitmap, 12), "a wide bitmap": changed(ico, bitmap+4, 0, 0, 1), "a negative width": changed(ico, bitmap+4, 0xff, 0xff, 0xff, 0xff),
		"a high bitmap": changed(ico, bitmap+8, 0, 0, 1), "one from the top down": changed(ico, bitmap+8, 0xc0, 0xff, 0xff, 0xff), "16 bits": changed(ico, bitmap+14, 16), "compressed": changed(ico, bitmap+16, 1),
		"a colour beyond the palette": changed(changed(ico, bitmap+32, 1), bitmap+dibHead+4, 9),
	} {
		if small, err := Small(file); !errors.Is(err, ErrIcon) || small != nil {
			t.Errorf("%s: %v, %d bytes", about, err, len(small))
		}
	}
}

func FuzzSmall(f *testing.F) {
	for _, file := range [][]byte{encode(filled(40, 8, red)), asGIF(filled(9, 9, red), filled(9, 9, blue)), asJPEG(filled(9, 9, red)), webp8L(9, 9, red),
		asICO(dib(32, 1, 0)), asICO(dib(16, 32, 0), dib(16, 8, 0)), asICO(entry{16, 32, encode(filled(16, 16, red))})} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		small, err := Small(file)
		if err != nil {
			if !errors.Is(err, ErrIcon) {
				t.Error(err)
			}
			return
		}
		if c, err := png.DecodeConfig(bytes.NewReader(small)); err != nil || c.Width != Side || c.Height != Side || len(small) > MaxSmall {
			t.Errorf("%v: %v, %d bytes", err, c, len(small))
		}
	})
}
