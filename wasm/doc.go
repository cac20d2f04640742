// Command wasm is the core as a WebAssembly guest. In a sandbox it gives the same answers,
// byte for byte, as the native core. It is built for wasip1 as a reactor (`make wasm`), and
// exports two functions that move bytes to and from [webring/core/abi.Core.Call].
//
//	input(size u32) pointer     memory for the size bytes of the next call
//	call(op u32, arg u64, size u32) u64
//	                            the reply: pointer << 32 | length
//
// A host calls _initialize once, and then one function at a time. What input
// points to may be written until call; the reply may be read until the next
// call of either. Its pointer for sizes up to 64 KiB never changes.
//
// In WebAssembly a call costs more than most functions do. default.pgo is a profile by
// which the compiler inlines the functions that answers use (`make profile`). It changes no
// answer.
//
// The folder module carries the built guest in every binary; host drives a
// core on either side.
package main

// main is never called: a reactor has exports instead. It is here so that the
// package builds everywhere.
func main() {}
