// Package static holds the files that pages need, named by their content, so
// that whoever has fetched one may keep it for ever.
package static
