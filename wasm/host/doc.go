// Package host runs the core for a process that serves it. The process has one head, a
// ledger position and a second. It never decreases, unless the wall clock turns out to
// have been wrong.
//
// [Native], in native.go and verified.go, is the core as it was compiled into the process.
// [Pool] is a number of instances of the core as WebAssembly under wazero, with the same
// functions. Both answer several requests in one call in several.go, and clock.go has the
// wall clock as both read it.
//
// To read the pool, begin with pool.go: what it is made of, and how a request gets an
// instance. Then:
//
//   - move.go moves the head: one instance applies records or a second, the head is
//     published, and the other instances follow. The native core decides about records that
//     an instance does not fold
//   - base.go is what instances are built from: the image, which is the ring in memory
//     (image.go), and the records since. When there are many records, it makes a new image
//   - keep.go builds the instances that are missing or began from an old image, in the
//     background. Its takeOver has the native core answer when no instance is left
//   - build.go starts the module, engine.go compiles it, and instance.go is one guest: how
//     bytes get in and out of it
//
// Package sharedmem has instances share the image's memory. Without it, each has a copy,
// which answers the same; but eight instances of a ring of a million members then take
// 3.3 GiB instead of 0.7, and three times as long to begin. An instance takes as much
// memory as it has written to, and at most [PoolConfig.MemoryPages].
//
// The differential test compares the two builds: whole scripts of calls, damage included,
// must give the same bytes in every engine. A tenth of the scripts are also answered by Node,
// Deno, workerd and Chromium, with what the Worker gives the module.
package host
