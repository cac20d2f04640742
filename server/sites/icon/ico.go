package icon

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/color"
	"math"
)

var errICO = errors.New("malformed ICO")

const (
	icoHead, icoEntry = 6, 16 // bytes
	// bmpHead is how long the header of a BMP file is, which no ICO has, and dibHead how long the
	// header of a bitmap is at least.
	bmpHead, dibHead = 14, 40
)

// decodeICO reads the largest picture of an ICO file: a PNG or a bitmap.
func decodeICO(file []byte) (image.Image, error) {
	if len(file) < icoHead {
		return nil, errICO
	}
	n := min(int(binary.LittleEndian.Uint16(file[4:])), (len(file)-icoHead)/icoEntry)
	var best []byte
	most := 0
	for i := range n {
		e := file[icoHead+i*icoEntry:][:icoEntry]
		side := int(e[0]-1) + 1                                                       // 0 stands for 256
		worth := side<<8 + int(min(binary.LittleEndian.Uint16(e[6:]), math.MaxUint8)) // of two alike, the one of more colours
		size, at := uint64(binary.LittleEndian.Uint32(e[8:])), uint64(binary.LittleEndian.Uint32(e[12:]))
		if worth > most && at+size <= uint64(len(file)) {
			most, best = worth, file[at:at+size]
		}
	}
	if bytes.HasPrefix(best, []byte("\x89PNG")) {
		return decode("image/png", best)
	}
	return decodeDIB(best)
}

// decodeDIB reads a bitmap as ICO has it: a BMP without the header of its file, which says that it is
// twice as high, because a mask of what is transparent follows its pixels.
func decodeDIB(dib []byte) (image.Image, error) {
	if len(dib) < dibHead {
		return nil, errICO
	}
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(dib[at:]) }
	bits, start := int(binary.LittleEndian.Uint16(dib[14:])), uint64(u32(0))
	if colors := u32(32); bits <= 8 && colors > 0 {
		start += 4 * uint64(colors)
	} else if bits <= 8 {
		start += 4 << bits
	}
	if int32(u32(8)) < 0 || start > uint64(len(dib)) {
		return nil, errICO
	}
	file := append([]byte("BM"), make([]byte, bmpHead-2)...)
	binary.LittleEndian.PutUint32(file[10:], bmpHead+uint32(start))
	file = append(file, dib...)
	binary.LittleEndian.PutUint32(file[bmpHead+8:], u32(8)/2)
	m, err := decode("image/bmp", file)
	if err != nil {
		return nil, err
	}

	w, h := m.Bounds().Dx(), m.Bounds().Dy()
	pixels := dib[start:]
	mask, stride := pixels[(w*bits+31)/32*4*h:], (w+31)/32*4
	opaque := true // no pixel has an alpha of its own
	for i := 3; bits == 32 && i < 4*w*h; i += 4 {
		opaque = opaque && pixels[i] == 0
	}
	drawn := image.NewNRGBA(m.Bounds())
	for i := range w * h {
		x, y, up := i%w, i/w, h-1-i/w // rows go up
		c := color.NRGBAModel.Convert(m.At(x, y)).(color.NRGBA)
		c.A = math.MaxUint8
		if !opaque {
			c.A = pixels[(up*w+x)*4+3]
		} else if len(mask) >= stride*h && mask[up*stride+x/8]>>(7-x%8)&1 != 0 {
			c.A = 0
		}
		drawn.SetNRGBA(x, y, c)
	}
	return drawn, nil
}
