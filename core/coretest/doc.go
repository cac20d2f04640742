// Package coretest holds what the tests of the core and of its hosts stand on.
// Nothing that ships may import it.
//
//   - [Model] is a second ring: a plain list of members, every answer found
//     from its definition by linear search, big integers and package net/url.
//     It shares no code with package core beyond the types of the events.
//   - [Generate] makes seeded histories: events that apply and events that
//     must not, and the clock, in any order that a writer and its hosts could
//     meet. A failing test prints the seed; the seed is the whole history.
//   - [Ring] builds a small ring by hand, for tests that name a rule.
//
// What was right once is kept under testdata: the bytes of events, a format
// for ever, and a digest of all that the histories serve. Run the tests with
// -update to write them anew, and read the difference before committing it.
package coretest
