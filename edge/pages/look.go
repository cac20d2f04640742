package pages

import (
	"github.com/valyala/fasthttp"

	"webring/core/api"
	"webring/edge/content"
	"webring/edge/describe"
	"webring/static"
)

// The colours of the ring in the style sheet, on light paper and on dark.
const sealLight, sealDark = "#a8321a", "#ff8f6b"

// lookAge is for how many seconds a style sheet may be kept: its name says all that is in it.
const lookAge = 31536000

// Look gives a file that is drawn for the look of the ring: its style sheet, if it has an
// accent, or its logo as an icon.
func (s *Pages) Look(c Core, path string) (*Page, *api.Response) {
	age := lookAge
	if path == static.LogoPath {
		age = 0
	}
	return s.get(c, drawLook, path, path, &noQuery, age)
}

func drawLook(r *reader, path string, _ *fasthttp.Args) *content.Content {
	var about describe.Ring
	if !r.document("/api", &about) {
		return nil
	}
	look := about.Look
	light, dark := sealLight, sealDark
	if look.Accent != "" {
		light, dark = look.Accent, look.AccentDark
	}
	switch {
	case look.Accent != "" && path == static.StylePath(light, dark):
		return content.New(static.Style.Type, []byte(static.Accented(light, dark)))
	case look.Logo != "" && path == static.LogoPath:
		box, drawing := look.Drawing()
		return content.New(static.Icon.Type, []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="`+box+`"><style>path{fill:`+light+
			`}@media(prefers-color-scheme:dark){path{fill:`+dark+`}}</style><path d="`+drawing+`"/></svg>`))
	}
	return r.fail(api.NotFound, noSuchPath)
}
