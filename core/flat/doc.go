// Package flat is memory as the core uses it where speed counts: bytes at
// offsets, without pointers. It is the only package of the core that imports
// unsafe, so that what the compiler does not check lies in few lines.
//
//   - region.go: [Region], one piece of memory in sections, which grow; views of
//     sections as numbers
//   - hash.go: [Seed], a keyed hash
//   - digest.go: [Digest], a hash without a key
//   - ascii.go: [ASCII], whether a text has no other characters; [Unhex]
//   - index.go: [Index], a hash table of numbers that grows bucket by bucket
//   - tree.go: [Tree], a counted B+-tree of numbers
//   - heap.go: [Heap], a priority queue of numbers by time
//   - marks.go: [Marks], a set of small numbers that knows the place of each
//   - reader.go: [Reader], which reads fields that were checked when they were written
//   - pen.go: [Pen], which writes a document piece by piece into memory that was
//     reserved before
//
// Nothing here knows what the numbers mean. The structures lie in memory that they are
// given, and never ask for more: their owner makes sure that there is room before it
// changes one, and gives them their memory again after it moved. Each is for one writer, or
// any number of readers. Words are little-endian, as on all processors that this runs on.
package flat
