// Package static holds the files that pages need, as [Asset] values: the display face, the
// style sheet, the script that refreshes numbers and copies commands (page.js), the one that
// asks wallets (pay.js), the one that verifies the leaderboard (verify.js, bundled from
// edge/worker by make verify), the icons, and the widget for members' pages (widget.src.js, which
// make verify makes small). The path of a file holds a hash of its content, so clients may cache
// it for ever; the icons that browsers ask for by fixed names are the exception. README.md says
// what each file keeps to, and face.py makes the face.
package static
