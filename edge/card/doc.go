// Package card draws the pictures that members share: the card of 1200 × 630 pixels that a
// link to the ring or to a member shows in a feed, and the button of 88 × 31 that is on
// a member's own page.
//
// A picture depends on its view struct alone. canvas.go fills outlines with colour and
// writes PNG, logo.go draws the logo of a ring, text.go sets words in the face of the pages, ring.go draws the ring, card.go
// lays the pictures out. The icons of the site are drawn by a test.
//
// All nodes of a ring draw the same bytes, whatever their processor: points are rounded to
// 1/64 of a pixel before they are filled, and filling reckons in fixed point. The work of
// one picture is bounded: names and the marks of the ring are cut to what fits.
package card
