// Package templates draws the pages from plain view structs. It knows nothing
// of the ring but what these hold: whoever fills them decodes the published
// documents, so a page can show nothing that an agent could not read.
//
// The *_templ.go files are generated from the .templ files beside them.
package templates

//go:generate go run github.com/a-h/templ/cmd/templ generate
