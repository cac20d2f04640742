// Package abi is the single entry to the core that every host calls: the
// native one at the origin, and the exports of the WASM guest at the edges.
// What is not here, a host cannot do, so both builds can only differ in how
// bytes get in and out.
//
// [Core] has the functions themselves, for hosts that share its memory.
// [Core.Call] in call.go is the same with bytes in and bytes out, for hosts that
// do not; response.go has the encoding of an answer. [Version] numbers both.
//
// The core takes time and randomness as arguments and performs no I/O.
package abi
