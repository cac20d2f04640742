package static

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"path"
	"regexp"
	"strings"
)

// Asset is one file. Its fields are not to be changed.
type Asset struct {
	Path   string // with a leading slash; changes whenever Body does
	Type   string // media type
	Body   []byte
	Shared bool // meant for pages of other sites
}

// Integrity is what a page that loads the asset from another site states, so
// that the browser refuses any other bytes (W3C Subresource Integrity).
func (a Asset) Integrity() string {
	sum := sha512.Sum384(a.Body)
	return "sha384-" + base64.StdEncoding.EncodeToString(sum[:])
}

var (
	//go:embed style.css
	styleSheet []byte
	//go:embed page.js
	pageScript []byte
	//go:embed pay.js
	payScript []byte
	//go:embed ring.js
	ringScript []byte
	//go:embed verify.js
	verifyScript []byte
	//go:embed icon.svg
	icon []byte
	//go:embed widget.js
	widget []byte
	//go:embed face.woff2
	face []byte
)

// FaceTTF is the display face as TrueType, for pictures that are drawn without a
// browser. It has the characters of [Face] and no others.
//
//go:embed face.ttf
var FaceTTF []byte

const javaScript = "text/javascript; charset=utf-8"

// comments are what a style sheet has for its readers: comments and indentation.
var comments = regexp.MustCompile(`(?s)/\*.*?\*/|\n\s+`)

// remarks are the lines of a script that are comments alone.
var remarks = regexp.MustCompile(`(?m)^\s*//.*\n`)

// The files of the pages: the display face, their one style sheet, which names the face by
// its path, the script that refreshes numbers, the one that asks wallets, the
// one that draws what changes in the ring, the one that verifies the leaderboard, and the icon.
var (
	styles = bytes.Replace(comments.ReplaceAll(styleSheet, nil), []byte("face.woff2"), []byte(path.Base(Face.Path)), 1)
	Face   = Asset{Path: named("/static/face", "woff2", face), Type: "font/woff2", Body: face}
	Style  = Asset{Path: named("/static/style", "css", styles), Type: "text/css; charset=utf-8", Body: styles}
	Script = Asset{Path: named("/static/page", "js", pageScript), Type: javaScript, Body: pageScript}
	pay    = remarks.ReplaceAll(payScript, nil)
	Pay    = Asset{Path: named("/static/pay", "js", pay), Type: javaScript, Body: pay}
	ring   = remarks.ReplaceAll(ringScript, nil)
	Ring   = Asset{Path: named("/static/ring", "js", ring), Type: javaScript, Body: ring}
	Verify = Asset{Path: named("/static/verify", "js", verifyScript), Type: javaScript, Body: verifyScript}
	Icon   = Asset{Path: named("/static/icon", "svg", icon), Type: "image/svg+xml", Body: icon}
)

// The files of the look of a ring, which are drawn for it, are in this folder: its style sheet and
// its logo as an icon.
const (
	LookFolder = "/look/"
	LogoPath   = LookFolder + "icon.svg"
)

// StylePath is the path of the style sheet of a ring with an accent on light paper and on dark, or
// without one.
func StylePath(light, dark string) string {
	if light == "" {
		return Style.Path
	}
	return LookFolder + strings.TrimSuffix(path.Base(Style.Path), ".css") + strings.ReplaceAll(light+dark, "#", "-") + ".css"
}

// Accented is the style sheet with such an accent. It is in another folder than the face.
func Accented(light, dark string) string {
	colours := strings.Replace(string(styles), "--seal: light-dark(#a8321a, #ff8f6b)", "--seal: light-dark("+light+", "+dark+")", 1)
	return strings.Replace(colours, "url(face", "url(../static/face", 1)
}

//go:embed favicon.ico
var favicon []byte

//go:embed apple-touch-icon.png
var touchIcon []byte

// Icons are the icons that browsers ask for at paths of their own choice, whatever a page
// says.
var Icons = []Asset{
	{Path: "/favicon.ico", Type: "image/x-icon", Body: favicon},
	{Path: "/apple-touch-icon.png", Type: "image/png", Body: touchIcon},
}

// Widget is the script that members put on their pages, at the path that is
// its own for ever. At /widget.js the same bytes are served until they change.
// Each byte of it is sent to every visitor of every member, so this is said
// here: it begins with the author's links, or three of its own where there are
// none, and replaces them when the ring has answered with the neighbours' names.
// The dot of its mark is turned to where the member stands in the ring. A name is
// cut at its own end, because it has its own direction. Its labels are numbered so
// that no two landmarks of a page have one name. The colours of a theme are custom
// properties of the element that begin with an underscore; without a theme they are
// not set, and what surrounds the element is inherited.
var Widget = Asset{Path: named("/widget", "js", widget), Type: javaScript, Body: widget, Shared: true}

// Assets lists every file there is.
func Assets() []Asset { return []Asset{Face, Style, Script, Pay, Ring, Verify, Icon, Widget} }

// Core gives the core as WebAssembly, which is no part of this package, as a file.
func Core(module []byte) Asset {
	return Asset{Path: named("/static/core", "wasm", module), Type: "application/wasm", Body: module}
}

// named gives a file the path that its content decides.
func named(path, extension string, body []byte) string {
	sum := sha256.Sum256(body)
	return path + "-" + hex.EncodeToString(sum[:8]) + "." + extension
}
