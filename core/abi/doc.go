// Package abi is the single entry to the core that every host calls: the
// native one at the origin, and the exports of the WASM guest at the edges.
// What is not here, a host cannot do, so both builds can only differ in how
// bytes get in and out.
//
// The core takes time and randomness as arguments and performs no I/O.
package abi
