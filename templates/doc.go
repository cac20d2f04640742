// Package templates draws the pages from plain view structs. It knows nothing
// of the ring but what these hold: whoever fills them decodes the published
// documents, so a page can show nothing that an agent could not read.
//
// layout.templ is what all pages have around them; view.go says what each shows, and
// picture.go, report.go and badge.go do so of the drawing of the ring, of reports on
// sites and of badges; render.go draws them; words.go and links.go write the snippets
// and command lines that readers copy. The rules that every page keeps: it is complete without
// script, nothing is inline, members' words are text, set apart with bdi, which the
// style sheet keeps to its place, links to members are marked as sponsored, and every
// number that ages is said in words too.
//
// The *_templ.go files are generated from the .templ files beside them, by make generate.
package templates
