package templates

import (
	"bytes"
	"context"

	"github.com/a-h/templ"
)

// HTML draws the front page.
func (v Home) HTML() []byte { return render(homePage(v)) }

// HTML draws the page that a problem's type leads to.
func (v Problem) HTML() []byte { return render(problemPage(v)) }

// render draws a component. One that fails is a broken invariant: nothing in it
// can but the writer, and that is a buffer.
func render(c templ.Component) []byte {
	var b bytes.Buffer
	if err := c.Render(context.Background(), &b); err != nil {
		panic(err)
	}
	return b.Bytes()
}
