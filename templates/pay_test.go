package templates

import (
	"fmt"
	"image"
	"image/color"
	"strings"
	"testing"

	qr "github.com/piglig/go-qr"
)

// The drawn QR code leads to the address that stands below it.
func TestAQRCodeIsRead(t *testing.T) {
	const address, scale = "https://ring.example/members/a-member-with-a-longer-slug", 4
	path, side := code(address)
	img := image.NewGray(image.Rect(0, 0, side*scale, side*scale))
	for i := range img.Pix {
		img.Pix[i] = 255
	}
	for _, run := range strings.Split(path, "M")[1:] {
		var x, y, n int
		if _, err := fmt.Sscanf(run, "%d %d.5h%d", &x, &y, &n); err != nil {
			t.Fatalf("%s: %v", run, err)
		}
		for px := x * scale; px < (x+n)*scale; px++ {
			for py := y * scale; py < (y+1)*scale; py++ {
				img.SetGray(px, py, color.Gray{})
			}
		}
	}
	if text, err := qr.Decode(img); err != nil || text != address {
		t.Errorf("%q, %v", text, err)
	}
	if _, side := code(strings.Repeat("x", 5000)); side != 0 {
		t.Error("a text that is too long has a code")
	}
}
