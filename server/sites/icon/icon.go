// Package icon makes small pictures of the icons that strangers' sites have.
//
//   - icon.go: [Small] reads PNG, GIF, JPEG, WebP or ICO, and draws a PNG of 32 by 32 pixels
//   - ico.go reads ICO
package icon

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"math"
	"net/http"
	"sync"

	"golang.org/x/image/bmp"
	"golang.org/x/image/draw"
	"golang.org/x/image/webp"
)

const (
	// Side is the width and the height of a small picture.
	Side = 32
	// MaxSide is how wide and how high an icon may be, in pixels.
	MaxSide = 512
	// MaxSmall is how many bytes a small picture has at most.
	MaxSmall = 2 << 10
	// maxScans is how many passes a JPEG may take over its pixels. Common ones take ten.
	maxScans = 32
	// Media is the media type of a small picture.
	Media = "image/png"
)

// ErrIcon says that what was read is no icon, or that it is too large.
var ErrIcon = errors.New("icon: unreadable")

// format reads pictures of one format.
type format struct {
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
}

// formats are by the media types of [http.DetectContentType], which looks at the bytes alone.
var formats = map[string]format{
	"image/png":  {png.DecodeConfig, png.Decode},
	"image/gif":  {gif.DecodeConfig, gif.Decode}, // the first picture
	"image/jpeg": {jpeg.DecodeConfig, jpeg.Decode},
	"image/webp": {webp.DecodeConfig, webp.Decode},
	"image/bmp":  {bmp.DecodeConfig, bmp.Decode},
}

// drawing has one icon drawn at a time: the processor is for readers.
var drawing sync.Mutex

// Small draws an icon as a PNG of [Side] by [Side] pixels and at most [MaxSmall] bytes, without
// anything else that its file has. It fails with [ErrIcon].
func Small(file []byte) ([]byte, error) {
	drawing.Lock()
	defer drawing.Unlock()
	var m image.Image
	var err error
	if media := http.DetectContentType(file); media == "image/x-icon" {
		m, err = decodeICO(file)
	} else {
		m, err = decode(media, file)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIcon, err)
	}
	from := m.Bounds()
	if from.Empty() { // a GIF may have such a picture
		return nil, fmt.Errorf("%w: no pixels", ErrIcon)
	}
	long := max(from.Dx(), from.Dy())
	w, h := max(1, Side*from.Dx()/long), max(1, Side*from.Dy()/long)
	small := image.NewNRGBA(image.Rect(0, 0, Side, Side))
	draw.CatmullRom.Scale(small, image.Rect(0, 0, w, h).Add(image.Pt((Side-w)/2, (Side-h)/2)), m, from, draw.Src, nil)
	file = encode(small)
	// With fewer colours it takes fewer bytes: with two of each kind, it takes a quarter of the bound.
	for most := 1 << 5; len(file) > MaxSmall; most >>= 1 {
		for i, v := range small.Pix {
			small.Pix[i] = uint8((int(v)*(most-1) + math.MaxUint8/2) / math.MaxUint8 * math.MaxUint8 / (most - 1))
		}
		file = encode(small)
	}
	return file, nil
}

// decode reads a picture whose size is within bounds before any of it is made.
func decode(media string, file []byte) (image.Image, error) {
	f, known := formats[media]
	if !known {
		return nil, errors.New("its format is not one of icons")
	}
	c, err := f.config(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	if c.Width < 1 || c.Height < 1 || c.Width > MaxSide || c.Height > MaxSide {
		return nil, fmt.Errorf("%d by %d pixels", c.Width, c.Height)
	}
	if media == "image/jpeg" && bytes.Count(file, []byte("\xff\xda")) > maxScans {
		return nil, fmt.Errorf("more than %d scans", maxScans)
	}
	return f.decode(bytes.NewReader(file))
}

// encode writes a picture. It does not fail: nothing in it can but the writer, and that is a buffer.
func encode(m image.Image) []byte {
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&b, m); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// None is shown of a site that has no icon: nothing.
var None = encode(image.NewNRGBA(image.Rect(0, 0, Side, Side)))
