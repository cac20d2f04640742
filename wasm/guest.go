//go:build wasip1

package main

import (
	"math/rand/v2"
	"runtime"
	"runtime/debug"

	"webring/core/abi"
	"webring/core/flat"
)

var (
	core = abi.New(0, rand.Uint64())

	// small takes nearly every input. It is never moved.
	small [64 << 10]byte
	// large is what one bigger input lies in.
	large []byte
	// reply is what the host has still to read.
	reply []byte
)

// Go's collector runs at the same time as the program, but a guest runs only during calls: a collection
// that one call began would go on in the calls that follow, and slow down every store of a
// pointer. So the collector is off, and calls that allocate collect at their end. Answers
// allocate nothing.
const (
	collectorOff = -1
	// growth is how much the heap may grow between two collections, in percent
	// of what was in use, and leastGrowth in bytes.
	growth      = 25
	leastGrowth = 4 << 20

	// askEach is after how many bytes of records or rows to measure the heap.
	askEach = 1 << 20
)

var (
	// collectAt is the size of the heap at which to collect.
	collectAt uint64 = leastGrowth
	// unasked is how many bytes of these were taken since it was measured.
	unasked uint32
)

func init() { debug.SetGCPercent(collectorOff) }

//go:wasmexport input
func input(size uint32) uint32 {
	if size <= uint32(len(small)) {
		return address(small[:])
	}
	large = make([]byte, size)
	return address(large)
}

//go:wasmexport call
func call(op uint32, arg uint64, size uint32) uint64 {
	if op == abi.OpServe && size <= uint32(len(small)) {
		reply := core.Answer(arg, small[:size])
		return where(reply)
	}
	return perform(op, arg, size)
}

// where says where a reply lies.
func where(reply []byte) uint64 {
	return uint64(address(reply))<<32 | uint64(len(reply))
}

// address is where b lies in the memory of the module.
func address(b []byte) uint32 { return uint32(flat.Address(b)) }

// perform is call for all other operations. It is apart, because its variables on the stack
// would slow answers down.
//
//go:noinline
func perform(op uint32, arg uint64, size uint32) uint64 {
	in := small[:]
	if size > uint32(len(small)) {
		in = large
	}
	reply = core.Call(op, arg, in[:size])
	large = nil
	switch op {
	case abi.OpOpen, abi.OpLoaded, abi.OpAttach:
		// The state before is garbage. What lies in the region holds no pointers: the
		// collector neither reads nor writes it, and so it stays shared with other
		// instances.
		collect()
	case abi.OpApply, abi.OpPiece, abi.OpSnapshot, abi.OpServeAll:
		// To measure the heap takes as long as to apply ten records, so it is not done
		// each time: most records and rows leave no garbage, and others a few times their
		// length.
		if unasked += size; (op == abi.OpApply || op == abi.OpPiece) && unasked < askEach {
			break
		}
		unasked = 0
		var m runtime.MemStats
		if runtime.ReadMemStats(&m); m.HeapAlloc >= collectAt {
			collect()
		}
	}
	return where(reply)
}

// collect collects to the end, and sets when to do it again.
func collect() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	collectAt = m.HeapAlloc + max(m.HeapAlloc/100*growth, leastGrowth)
}
