// Package siteproof finds what a site says of the ring: accounts that it names, by a token of a
// claim or, before it joins, by their addresses (token.go); links back to the ring
// (link.go); and the site's own feed (feed.go) and icon (icon.go). Sites are read through package
// fetch, and nothing is remembered.
package siteproof
