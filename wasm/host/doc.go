// Package host runs the core for a process that serves it. The process has one head, a
// ledger position and a second. It never decreases, unless the wall clock turns out to
// have been wrong.
//
// [Native], in native.go, holds the core as it was compiled into the process. [Pool] holds
// a number of instances of the core as WebAssembly under wazero, behind the same
// functions. clock.go has the wall clock as both read it.
//
// To read the pool, begin with instance.go: one guest, and how bytes get in and out of
// it; several.go is several answers in one call. Then pool.go: what a pool is made of, and
// how a request is served. The rest is five jobs:
//
//   - freelist.go: the free instances, each in a slot, and the callers that wait for one
//   - build.go makes an instance. It begins from the image (image.go), which is the ring in
//     memory as the native core has verified it once, and applies the records since, which
//     cache.go has
//   - catchup.go acquires an instance for a caller and brings it to the head
//   - advance.go moves the head: one instance applies records and seconds, and then the new
//     head is published. verified.go is the native core's ApplyTo
//   - replace.go builds another instance for one that trapped, in the background; fallback.go
//     has the native core answer while there is none; renew.go has instances begin anew
//     from a newer image
//
// engine.go compiles the module, and host.go names what both builds share. Package sharedmem
// has instances share the image's memory. Without it, each has a copy, which answers the
// same; but eight instances of a ring of a million members then take 3.3 GiB instead of 0.7,
// and three times as long to begin.
//
// An instance takes as much memory as it has written to, and at most
// [PoolConfig.MemoryPages].
//
// An instance that is far behind the head catches up in the background, while others
// answer. Far means more than half a millisecond of work, as measured in the instance that
// went ahead.
//
// The differential test holds the two builds together: whole scripts of calls, damage
// included, must give the same bytes in every engine. The first scripts are also answered by
// Node, Deno, workerd and Chromium, with what the Worker gives the module.
package host
