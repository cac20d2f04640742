// Package siteproof finds what the site of a member says of the ring: a token by which it
// names an account, and the accounts that it names before they join (token.go), and links back to the ring (link.go). Sites are read through
// package fetch, and nothing is remembered.
package siteproof
