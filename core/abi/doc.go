// Package abi is the single entry to the core for every host: the native host calls it,
// and so do the exports of the WASM guest. A host can do nothing with a core but what is
// here, so both builds can only differ in how bytes get in and out.
//
// [Core] has the functions themselves, for hosts that share its memory.
// [Core.Call] in call.go is the same with bytes in and bytes out, for hosts that
// do not; response.go has the encoding of an answer. [Version] numbers both.
//
// The core takes time and randomness as arguments and performs no I/O.
package abi
