package card

import "golang.org/x/image/font/gofont/gomedium"

var ttf = gomedium.TTF
