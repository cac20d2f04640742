// Package static holds the files that pages need: the display face, the style sheet, the
// Package static holds the files that pages need: the display face, the style sheet, the
// script that refreshes numbers, the one that asks wallets, the one that verifies the
// leaderboard (bundled from edge/worker by make verify), the icon, and the widget for
// members' pages. The path of a file holds a hash of its content, so clients may cache it
// for ever.
package static
