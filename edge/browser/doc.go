// Package browser holds the programs that look at the pages and the widget in a
// real browser, driven by the tests of the binary: playwright-core drives the
// system's Chromium, axe-core and html-validate judge what it shows. package.json
// lists them; nothing here is part of the binary.
package browser
