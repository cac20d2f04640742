//go:build wasip1

package main

import (
	"runtime/debug"
	"unsafe"

	"webring/core/abi"
)

var (
	core = abi.New(0)

	// small takes nearly every input. It is never moved.
	small [64 << 10]byte
	// large is what one bigger input, records or a snapshot, lies in.
	large []byte
	// reply keeps what the host has still to read.
	reply []byte
)

func init() {
	// Only events allocate, so collecting often costs little, and memory that
	// an instance has taken it never gives back.
	debug.SetGCPercent(25)
}

//go:wasmexport input
func input(size uint32) unsafe.Pointer {
	if size <= uint32(len(small)) {
		return unsafe.Pointer(&small)
	}
	large = make([]byte, size)
	return unsafe.Pointer(&large[0])
}

//go:wasmexport call
func call(op uint32, arg uint64, size uint32) uint64 {
	in := small[:]
	if size > uint32(len(small)) {
		in = large
	}
	reply = core.Call(op, arg, in[:size])
	large = nil
	return uint64(uintptr(unsafe.Pointer(&reply[0])))<<32 | uint64(len(reply))
}
