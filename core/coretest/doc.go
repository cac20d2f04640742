// Package coretest holds the tools for testing the core and its hosts. Only tests
// may import it.
//
//   - [Model] is a second ring: a plain list of members, every answer found
//     from its definition by linear search, big integers and package net/url.
//     It shares no code with package core beyond the types of the events.
//   - [Generate] makes seeded histories of events and clock steps, in any order
//     that a writer and its hosts could meet. Some events apply and some must not.
//     A failing test prints its seed, which determines the whole history.
//   - [Ring] builds a small ring by hand, for tests that name a rule.
//
// Golden files under testdata hold the bytes of events, which never change, and
// digests of all that the histories serve. Run the tests with -update to write
// them anew, and read the difference before committing it.
package coretest
