package static

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
)

// Asset is one file. Its fields are not to be changed.
type Asset struct {
	Path string // with a leading slash; changes whenever Body does
	Type string // media type
	ETag string // strong entity tag, quotes included
	Body []byte
}

//go:embed style.css
var styleSheet []byte

// Style is the one style sheet of the pages.
var Style = named("style", "css", "text/css; charset=utf-8", styleSheet)

// Assets lists every file there is.
func Assets() []Asset { return []Asset{Style} }

func named(name, extension, media string, body []byte) Asset {
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:8])
	return Asset{
		Path: "/static/" + name + "-" + hash + "." + extension,
		Type: media,
		ETag: `"` + hash + `"`,
		Body: body,
	}
}
