// Package browser holds programs that check the pages and the widget in real browsers. The
// tests of server/cmd/webring run all of them but the last two:
//
//   - pages.mjs: each page at every width, in both colour schemes, with and without script;
//     axe-core and html-validate look at it; in Firefox it says the same, and its policy
//     refuses nothing
//   - widget.mjs: the widget on pages of other sites, in Chromium and in Firefox
//   - pay.mjs: a person who joins, bids and changes a member with a wallet, which is a signer
//     of this program
//   - verify.mjs: the page that verifies the leaderboard
//   - lighthouse.mjs: measures five pages with Lighthouse, which npx fetches: with 185 MB it is
//     too heavy for package.json (make lighthouse)
//   - shots.mjs: takes pictures of pages, to be looked at
//
// ring.mjs starts a synthetic ring for the last two.
// chromium.mjs drives the system's Chromium by playwright-core, firefox.mjs its Firefox by
// puppeteer-core, and pay.mjs both by the latter. package.json lists the npm packages. Nothing
// here is part of the binary.
package browser
