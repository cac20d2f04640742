package templates

import (
	"bytes"
	"context"

	"github.com/a-h/templ"
)

// HTML draws the front page.
func (v Home) HTML() []byte { return render(homePage(v)) }

// HTML draws a page of the leaderboard.
func (v Leaderboard) HTML() []byte { return render(leaderboardPage(v)) }

// HTML draws a page of the ring, or of a category.
func (v Ring) HTML() []byte { return render(ringPage(v)) }

// HTML draws the page of a member.
func (v Member) HTML() []byte { return render(memberPage(v)) }

// HTML draws the page on which a draft is checked.
func (v Join) HTML() []byte { return render(joinPage(v.titled())) }

// HTML draws the page of snippets.
func (v Embed) HTML() []byte { return render(embedPage(v)) }

// HTML draws the page about the ring.
func (v About) HTML() []byte { return render(aboutPage(v)) }

// HTML draws the page on which a reader recomputes the leaderboard.
func (v Verify) HTML() []byte { return render(verifyPage(v)) }

// HTML draws the page about the API.
func (v Docs) HTML() []byte { return render(docsPage(v)) }

// HTML draws the page that a problem's type leads to.
func (v Problem) HTML() []byte { return render(problemPage(v)) }

// HTML draws the page of an error.
func (v Error) HTML() []byte { return render(errorPage(v)) }

// HTML draws the page of all problem codes.
func (v Problems) HTML() []byte { return render(problemsPage(v)) }

// HTML draws a report.
func (v Report) HTML() []byte { return render(reportPage(v)) }

// SVG draws the badge. It is the one template that is read as XML.
func (v Badge) SVG() []byte {
	v.Ring, v.Name = inXML(v.Ring), inXML(v.Name)
	return render(badgeImage(v))
}

// render draws a component. One that fails is a broken invariant: nothing in it
// can but the writer, and that is a buffer.
func render(c templ.Component) []byte {
	var b bytes.Buffer
	if err := c.Render(context.Background(), &b); err != nil {
		panic(err)
	}
	return b.Bytes()
}
