// Package content holds what header fields say of a body, and the bodies that are made of
// it: its content codings, the best of which a client gets, its entity tag, and for how
// long it may be kept. It knows of no routes and no documents.
package content
