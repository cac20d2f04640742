// Package content has bodies in their content codings, of which a client gets the best
// that it accepts, and the header fields about them: entity tag, caching, content coding.
// It knows no routes and no documents.
package content
