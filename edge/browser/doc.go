// Package browser holds programs that check the pages and the widget in a real browser.
// The tests of server/cmd/webring run them. playwright-core drives the system's
// Chromium, and puppeteer-core its Firefox; axe-core and html-validate check what they show.
// package.json lists the npm packages. The wallet in pay.mjs is a signer of that program.
// Nothing here is part of the binary.
package browser
