// Package templates draws the pages from plain view structs. The structs are filled
// from the published documents, so a page shows nothing that an agent could not read. A member, a
// forecast and the ring's rules are the structs of [webring/edge/describe], as documents have them.
//
//   - view.go: what each page shows, and how a view is drawn; problems.json: what pages say of each
//     problem code; each other .go file, such as leaderboard.go and picture.go: the same for the part
//     in the .templ file of its name
//   - layout.templ: the frame of all pages; picture, readiness, pay, share and hops: parts
//     of several pages; the other .templ files: one page each
//   - words.go, share.go: the snippets and command lines that readers copy, and the badge
//
// Every page keeps these rules: it is complete without script, and nothing in it is
// inline but the line of script that applies the theme. Members' words are text in bdi elements. Links to members are marked as
// sponsored. Every number that ages is said in words, too.
//
// make generate makes the *_templ.go files from the .templ files.
package templates
