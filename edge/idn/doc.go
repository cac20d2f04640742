// Package idn converts host names into A-labels, the ASCII form in the domain name
// system. One conversion serves URLs that join, URLs that are fetched, and
// references to members. The core sees only the result.
package idn
