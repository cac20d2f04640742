package card

import (
	"bytes"
	"encoding/binary"
	"image"
	"os"
	"testing"

	"webring/static"
)

// The icons of the site are files of package static, drawn by the functions below.
func TestTheIconsAreTheseFiles(t *testing.T) {
	drawn := map[string][]byte{"/favicon.ico": favicon(), "/apple-touch-icon.png": touchIcon()}
	for _, icon := range static.Icons {
		if *update {
			if err := os.WriteFile("../../static"+icon.Path, drawn[icon.Path], 0o644); err != nil {
				t.Fatal(err)
			}
		} else if !bytes.Equal(icon.Body, drawn[icon.Path]) {
			t.Errorf("static%s is not what is drawn; run with -update", icon.Path)
		}
	}
}

// faviconSizes are the sizes in an icon file, in pixels.
var faviconSizes = [...]int{16, 32, 48}

// favicon draws the mark of the site as an icon file: a table of pictures, each a PNG.
func favicon() []byte {
	var table, pictures bytes.Buffer
	write := func(values ...any) {
		for _, v := range values {
			_ = binary.Write(&table, binary.LittleEndian, v) // a buffer takes all
		}
	}
	write(uint16(0), uint16(1), uint16(len(faviconSizes)))
	for _, size := range faviconSizes {
		c := &canvas{RGBA: image.NewRGBA(image.Rect(0, 0, size, size)), scale: 1, accent: seal}
		unit := float64(size) / 32
		o := new(outline)
		o.circle(16*unit, 18.5*unit, 12*unit, false)
		o.circle(16*unit, 18.5*unit, 8*unit, true)
		c.fill(o, seal)
		c.disc(16*unit, 7*unit, 6.5*unit, seal)
		file := encode(c.RGBA)
		write(uint8(size), uint8(size), uint16(0), uint16(1), uint16(32), uint32(len(file)), uint32(6+16*len(faviconSizes)+pictures.Len()))
		pictures.Write(file)
	}
	return append(table.Bytes(), pictures.Bytes()...)
}

// touchSize is the side of the icon that telephones put on their home screens.
const touchSize = 180

// touchIcon draws that icon.
func touchIcon() []byte {
	c := newCanvas(touchSize, touchSize, 1, paper, seal)
	c.mark(90, 94, 2.6)
	return c.png()
}
