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
	maxEntries        = 64
	// maxICO is how wide and how high a picture in an ICO is at most.
	maxICO = 256
	// dibHead is how long the header of a bitmap is at least.
	dibHead = 40
)

// decodeICO reads the picture of an ICO file that comes closest to [Side] from above, or else the
// largest one. It is a PNG or a bitmap.
func decodeICO(file []byte) (image.Image, error) {
	if len(file) < icoHead {
		return nil, errICO
	}
	n := min(int(binary.LittleEndian.Uint16(file[4:])), maxEntries, (len(file)-icoHead)/icoEntry)
	var best []byte
	most := 0
	for i := range n {
		e := file[icoHead+i*icoEntry:][:icoEntry]
		side := int(e[0])
		if side == 0 {
			side = maxICO
		}
		worth := side
		if side >= Side {
			worth = 2*maxICO - side
		}
		worth = worth<<8 + int(min(binary.LittleEndian.Uint16(e[6:]), 32)) // of two alike, the one of more colours
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

// decodeDIB reads a bitmap as ICO has it: without a file header, from the bottom up, and with a
// mask of what is transparent behind its pixels.
func decodeDIB(b []byte) (image.Image, error) {
	if len(b) < dibHead {
		return nil, errICO
	}
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	head, w, h, bits, colors := u32(0), int(int32(u32(4))), int(int32(u32(8)))/2, int(binary.LittleEndian.Uint16(b[14:])), u32(32)
	if head < dibHead || uint64(head) > uint64(len(b)) || w < 1 || w > maxICO || h < 1 || h > maxICO || u32(16) != 0 {
		return nil, errICO
	}
	var palette []byte
	b = b[head:]
	switch bits {
	case 1, 4, 8:
		if colors == 0 || colors > 1<<bits {
			colors = 1 << bits
		}
		if len(b) < int(colors)*4 {
			return nil, errICO
		}
		palette, b = b[:colors*4], b[colors*4:]
	case 24, 32:
	default:
		return nil, errICO
	}
	stride, maskStride := (w*bits+31)/32*4, (w+31)/32*4
	if len(b) < stride*h {
		return nil, errICO
	}
	mask := b[stride*h:]
	masked := len(mask) >= maskStride*h
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	opaque := true // of 32 bits, if all alphas are 0
	for y := range h {
		row := b[(h-1-y)*stride:]
		for x := range w {
			c := color.NRGBA{A: math.MaxUint8}
			if bits <= 8 {
				shift := 8 - bits - x*bits%8
				i := int(row[x*bits/8]>>shift&(1<<bits-1)) * 4
				if i >= len(palette) {
					return nil, errICO
				}
				c.B, c.G, c.R = palette[i], palette[i+1], palette[i+2]
			} else {
				p := row[x*bits/8:]
				c.B, c.G, c.R = p[0], p[1], p[2]
				if bits == 32 {
					c.A = p[3]
					opaque = opaque && c.A == 0
				}
			}
			m.SetNRGBA(x, y, c)
		}
	}
	for i := range w * h {
		x, y := i%w, i/w
		if bits == 32 && opaque {
			m.Pix[4*i+3] = math.MaxUint8
		}
		if (bits < 32 || opaque) && masked && mask[(h-1-y)*maskStride+x/8]>>(7-x%8)&1 != 0 {
			m.Pix[4*i+3] = 0
		}
	}
	return m, nil
}
